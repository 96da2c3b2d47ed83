//! Policy, store and time together decide.
//!
//! A transport makes a [`Request`] of what it was sent, a [`Limiter`] finds the rule of each descriptor, takes from the
//! store's counters and answers; the transport writes its own reply from the [`Answer`].
//! Not here: any wire format (transports), the grammar of rules (`policy`), counting (`core`), keeping counters (stores).

mod answer;
mod decide;
pub mod explain;
mod limiter;
pub mod observe;
mod plan;
pub mod reload;
mod request;
mod scratch;
mod settle;

pub use answer::{Answer, Degraded, DescriptorAnswer};
pub use limiter::{Limiter, LimiterSettings, Rules};
pub use request::{Descriptor, LimitOverride, Request, RequestError};
pub use scratch::Scratch;
/// What transports need of the crates below, so that they know only `limiter`.
pub use tollgate_policy::{Domain, Entry, Limit, Policy, Rule, Unit};
