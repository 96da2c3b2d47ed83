//! All surfaces. A new one is a file here, and a line in [`ALL`].

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod resp;

pub use self::grpc::GrpcSettings;
pub use self::http::HttpSettings;
pub use self::resp::RespSettings;
use crate::surface::Kind;

/// Every surface, in the order in which they are listed to people.
pub(crate) static ALL: [&Kind; 3] = [&grpc::KIND, &http::KIND, &resp::KIND];
