//! The HTTP API: may this request pass, and who is limited and why.
//!
//! [`HttpApi`] serves one connection at a time, on HTTP/1.1 by `hyper` driven directly; [`HttpSettings`] says what it bears
//! and how it tells of limits; a [`Node`] says whether the process is ready.
//! Not here: sockets and TLS (`net`), how a decision reads as fields (`headers`), deciding (`limiter`).

mod api;
mod node;
mod settings;
mod token;

pub use api::HttpApi;
pub use node::{Node, NodeState};
pub use settings::HttpSettings;
pub use token::Token;
