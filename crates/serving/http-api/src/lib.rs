//! The HTTP API: may this request pass, and which clients are limited, and why.
//!
//! [`HttpApi`] is the table of operations and what answers them; a `tollgate_http_kit::HttpSurface` serves
//! it. [`HttpSettings`] says what it accepts and which header fields it sends; a [`NodeStatus`] says whether
//! the process is ready. [`DebugPages`] and [`MetricsPage`] are what envoyproxy/ratelimit has on ports of
//! their own. Not here: connections and routing (`http_kit`), what a decision looks like (`answers`,
//! `headers`), deciding (`limiter`).

mod algorithm_table;
mod api;
mod bodies;
mod buffers;
mod check;
mod debug_pages;
mod describe;
mod explain;
mod json_body;
mod keys;
mod metrics;
mod metrics_page;
mod node;
mod openapi;
mod operations;
mod page;
mod parsed;
mod query;
mod reserve;
mod settings;
mod slots;
mod slow;
mod status;
mod throttle;
mod undecided;
mod usage;
mod usual_body;

pub use api::{HttpApi, PeerJson};
pub use debug_pages::{DebugPages, DebugRoute};
pub use metrics_page::{MetricsPage, MetricsRoute};
pub use node::{ControlView, NodeState, NodeStatus, StoreStatus, StoreView};
pub use operations::Route;
pub use settings::HttpSettings;
