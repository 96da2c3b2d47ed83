//! All surfaces. A new one is a file here, and a line in [`ALL`].

pub(crate) mod debug_pages;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod resp;

pub use self::debug_pages::DebugPagesSettings;
pub use self::grpc::GrpcSettings;
pub use self::http::HttpSettings;
pub use self::metrics::MetricsSettings;
pub use self::resp::RespSettings;
use crate::surface::Kind;

/// Every surface, in the order in which they are listed to people.
pub(crate) static ALL: [&Kind; 5] =
    [&grpc::KIND, &http::KIND, &resp::KIND, &debug_pages::KIND, &metrics::KIND];
