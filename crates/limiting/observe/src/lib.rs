//! Observation of decisions: metrics, top limited keys, the denial log, sampled spans.
//!
//! A limiter reports what happens to an [`Observer`]. [`Metrics`] is the usual one; `()` observes nothing,
//! and its calls vanish at compile time. Not here: deciding (`limiter`), serving the text of
//! [`Metrics::render_as`] and exporting spans (the server).
#![deny(missing_docs)] // it is published

mod denial_log;
mod exposition;
mod latency;
mod log_limit;
mod metrics;
mod observer;
mod peer;
mod rejections;
mod report;
mod rule_meters;
mod sampling;
mod settings;
mod sharded_counters;
mod shared;
mod status;
mod text_format;
mod throttled;
mod top_keys;
mod unknown_domains;
mod value_series;

pub use denial_log::DENIED;
pub use latency::Latency;
pub use metrics::Metrics;
pub use observer::{Decided, Observer, QUEUE_WAITS, QueueStats, ReservationStats, RulesLoaded, SlotStats};
pub use rejections::{Rejected, Rejections};
pub use report::{DomainReport, Report, RuleReport, Totals};
pub use rule_meters::RuleMeters;
pub use sampling::CALL;
pub use settings::{ObserveSettings, RuleSeries};
pub use shared::StoreStats;
pub use status::{Degraded, Intervened, Kind, LimitRef, Status, retry_after};
pub use text_format::Format;
pub use throttled::{THROTTLE, Throttle, Throttled};
pub use top_keys::TopKey;
