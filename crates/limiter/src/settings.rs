//! What holds for every request, whatever the rules say.

use std::time::Duration;

use tollgate_policy::OnStoreFailure;

/// What holds for every request, whatever the rules say.
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterSettings {
    /// Requests that would be denied pass; each descriptor still says that it is over.
    pub shadow_mode: bool,
    /// Every descriptor is a soft limit: a request is denied only when all its descriptors are over.
    pub quota_mode: bool,
    /// From this share of a limit on, hits count as near the limit (a figure for dashboards, not for decisions).
    pub near_limit_ratio: f32,
    /// Most rules that get metrics of their own; the rest are counted together.
    pub max_rule_series: usize,
    /// Most values of requests that get metrics of their own, for rules that ask for it (`detailed_metric`,
    /// `value_to_metric`); the rest are counted together.
    pub max_value_series: usize,
    /// What becomes of a quota that came with the question ([`Limiter::throttle`]) while the store gives no answer.
    pub throttle_on_store_failure: OnStoreFailure,
    /// Most reservations that may be open at a time.
    pub max_reservations: usize,
    /// Longest time that a reservation may be held from its start on, and longest that one may wait for its start.
    pub longest_reservation: Duration,
    /// Keys that are remembered of each rule that denies, the most denied ones; 0 remembers none. At most 1,024.
    pub top_keys: usize,
    /// Most bytes that these may take of all rules together; rules that first deny after that have none.
    pub top_keys_max_bytes: u64,
    /// The level of the log line about a denial; none is written where `None`.
    pub denial_log: Option<tracing::Level>,
    /// Most lines about denials a second; the first of the next second says how many were left out.
    pub denial_log_lines: u32,
    /// Share of the requests that get a span, from 0 (none; whatever callers say) to 1. [`Limiter::set_trace_ratio`] changes it.
    pub trace_ratio: f64,
}

impl Default for LimiterSettings {
    /// No mode; near is 0.8; metrics for 10,000 rules and 1,000 values; what came with the question passes while the store is silent;
    /// 100,000 reservations of up to an hour; 16 top keys a rule within 16 MiB; ten lines a second about denials, as errors; no spans.
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: 0.8,
            max_rule_series: 10_000,
            max_value_series: 1_000,
            throttle_on_store_failure: OnStoreFailure::default(),
            max_reservations: 100_000,
            longest_reservation: Duration::from_secs(3_600),
            top_keys: 16,
            top_keys_max_bytes: 16 << 20,
            denial_log: Some(tracing::Level::ERROR),
            denial_log_lines: 10,
            trace_ratio: 0.0,
        }
    }
}
