//! Policy, store and time together decide.
//!
//! A transport makes a [`Request`] of what it was sent, a [`Limiter`] finds the rule of each descriptor, takes from the
//! store's counters and answers; the transport writes its own reply from the [`Answer`].
//! Not here: any wire format (transports), the grammar of rules (`policy`), counting (`core`), keeping counters (stores).

mod answer;
mod at_once;
mod decide;
mod denied;
pub mod explain;
pub mod follow;
mod keys;
mod limiter;
pub mod observe;
mod outage;
mod plan;
mod report;
mod request;
mod reserve;
mod scratch;
mod settle;
mod throttle;
mod together;
mod trace;

pub use answer::{Answer, Degraded, DescriptorAnswer};
pub use at_once::{AT_ONCE, at_once};
pub use denied::DENIED;
pub use keys::{KeyError, KeyReport};
pub use limiter::{Limiter, LimiterSettings, Rules};
pub use report::{DomainReport, Report, RuleReport, TopKey, Totals};
pub use request::{Descriptor, LimitOverride, Request, RequestError};
pub use reserve::{
    BadReservationId, Ending, ReservationId, ReserveError, ReserveTerms, Reserved, SettleError, Settled,
};
pub use scratch::Scratch;
pub use throttle::{Throttle, Throttled};
/// What transports need of the crates below, so that they know only `limiter`.
pub use tollgate_policy::{Domain, Entry, Limit, OnStoreFailure, Policy, Rule, Unit};
pub use trace::CALL;
