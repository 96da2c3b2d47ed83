//! Counts of nodes: from their reports to time series in four resolutions, and the keys that were denied
//! most.
//!
//! Reports wait in [`Ingest`] and are written in groups: one transaction adds them to the rows of every
//! resolution and records which reports it contains, so that each counts once. Not here: the stream that
//! brings them (`fleet-hub`), charts (`console`).

mod advice;
mod counts;
mod group;
mod ingest;
mod names;
mod query;
mod resolution;
mod retention;
mod series;
mod top;
pub mod trials;

pub use advice::{Suggestion, suggest, suggestion};
pub use counts::Counts;
pub use ingest::{Ingest, IngestError};
pub(crate) use names::KnownNames;
pub use names::Names;
pub use query::{History, HistoryQuery, Last, Point, Scope, Unlimited, as_of, history, last_used, unlimited};
pub use resolution::Resolution;
pub use retention::{Sweep, sweep};
pub use top::{TopKey, TopQuery, top_keys};

/// The rule of all counts that have no series of their own; its domain is empty.
pub const OTHERS: &str = "(others)";
/// The rule of requests of a domain that no rule matched.
pub const UNMATCHED: &str = "(unmatched)";
/// The rule of requests for domains without rules; its domain is empty.
pub const UNKNOWN_DOMAIN: &str = "(unknown domain)";
