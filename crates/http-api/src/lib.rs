//! The HTTP API: may this request pass, and which clients are limited, and why.
//!
//! [`HttpApi`] is the table of operations and what answers them; a `tollgate_http_kit::HttpSurface` serves
//! it. [`HttpSettings`] says what it accepts and which header fields it sends; a [`Node`] says whether the
//! process is ready. Not here: connections and routing (`http_kit`), what a decision looks like (`answers`,
//! `headers`), deciding (`limiter`).

mod algorithm_table;
mod api;
mod bodies;
mod buffers;
mod check;
mod describe;
mod explain;
mod json_body;
mod keys;
mod metrics;
mod node;
mod openapi;
mod operations;
mod page;
mod parsed;
mod query;
mod reserve;
mod settings;
mod slots;
mod status;
mod throttle;
mod undecided;
mod usage;

pub use api::{HttpApi, PeerJson};
pub use node::{ControlView, Node, NodeState, StoreStatus, StoreView};
pub use operations::Route;
pub use settings::HttpSettings;
