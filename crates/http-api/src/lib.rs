//! The HTTP API: may this request pass, and who is limited and why.
//!
//! [`HttpApi`] serves one connection at a time, on HTTP/1.1 by `hyper` driven directly; [`HttpSettings`] says what it bears
//! and how it tells of limits; a [`Node`] says whether the process is ready.
//! Not here: sockets and TLS (`net`), how a decision reads as fields (`headers`), deciding (`limiter`).

mod admin;
mod algorithm_table;
mod answer;
mod api;
mod bodies;
mod body;
mod buffers;
mod check;
mod connection;
mod decision;
mod denied;
mod explain;
mod json_body;
mod node;
mod openapi;
mod operations;
mod page;
mod parsed;
mod query;
mod reserve;
mod route;
mod scan;
mod settings;
mod status;
mod token;

pub use api::{HttpApi, PeerJson};
pub use explain::refusal_as_text;
pub use node::{Node, NodeState, StoreStatus, StoreView};
pub use settings::HttpSettings;
pub use token::Token;
