//! Policy, store and time together decide.
//!
//! A transport makes a [`Request`] of its input, a [`Limiter`] finds the rule of each descriptor, takes from
//! the store's counters and answers; the transport writes its own reply from the [`Answer`]. Not here: any
//! wire format (transports), the grammar of rules (`policy`), counting (`core`), keeping counters (stores).
#![deny(missing_docs)] // it is published

mod admin;
mod answer;
mod candidates;
mod charge;
mod decide;
pub mod explain;
pub mod follow;
mod intervene;
mod interventions;
mod keys;
mod limiter;
mod outage;
mod plan;
mod queue;
mod request;
mod reserve;
mod rules;
mod scratch;
mod settings;
mod settle;
mod shares;
mod slots;
mod throttle;
mod trace;

pub use admin::{KeyError, KeyReport};
pub use answer::{Answer, DescriptorAnswer, LimitAnswer};
pub use interventions::{
    InForce, Intervening, Intervention, LONGEST_INTERVENTION, MAX_INTERVENTION_BYTES,
    MAX_INTERVENTION_ENTRIES, MAX_INTERVENTIONS,
};
pub use limiter::{Limiter, MAX_IN_FLIGHT};
pub use queue::{Patience, PollLeft};
pub use request::{Descriptor, LimitOverride, MAX_HITS, Request, RequestError};
pub use reserve::{
    BadReservationId, Ending, ReservationId, ReserveError, ReserveTerms, Reserved, SettleError, Settled,
};
pub use rules::Rules;
pub use scratch::Scratch;
pub use settings::{LimiterSettings, Undecided};
pub use shares::ReservationShare;
pub use slots::{BadSlotId, SlotAnswer, SlotError, SlotId};
/// Items that transports need of the crates below, so that they know only `limiter`.
pub use tollgate_observe::{
    CALL, DENIED, Degraded, DomainReport, Format, Intervened, Kind, Latency, Metrics, ObserveSettings,
    Observer, Rejected, Rejections, Report, RuleReport, RuleSeries, StoreStats, THROTTLE, Throttle,
    Throttled, TopKey, Totals,
};
pub use tollgate_policy::{Domain, Entry, Limit, OnStoreFailure, Policy, Rule, Unit, Unmatched};
