//! Settings of [`Metrics`](crate::Metrics).

/// Rules that have series in the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleSeries {
    /// The rules with requests since the process started.
    #[default]
    Used,
    /// All rules, also those with zeros only.
    All,
}

/// Settings of the usual observer.
#[derive(Clone, Debug, PartialEq)]
pub struct ObserveSettings {
    /// From this share of a limit on, hits count as near the limit (a figure for dashboards, not for
    /// decisions).
    pub near_limit_ratio: f32,
    /// Rules that have series.
    pub rule_series: RuleSeries,
    /// Most rules that get metrics of their own; the rest are counted together.
    pub max_rule_series: usize,
    /// Most values of requests that get metrics of their own, for rules that ask for it (`detailed_metric`,
    /// `value_to_metric`); the rest are counted together.
    pub max_value_series: usize,
    /// Most denied keys that are remembered per rule; 0 remembers none. At most 1,024.
    pub top_keys: usize,
    /// Most bytes that these may take for all rules together; rules that first deny after that have none.
    pub top_keys_max_bytes: u64,
    /// The level of the log line about a denial; none is written where `None`.
    pub denial_log: Option<tracing::Level>,
    /// Most lines about denials per second; the first of the next second says how many were left out.
    pub denial_log_lines: u32,
    /// Share of the requests that get a span, from 0 (none, whatever callers say) to 1.
    /// [`Metrics::set_trace_ratio`](crate::Metrics::set_trace_ratio) changes it.
    pub trace_ratio: f64,
}

impl Default for ObserveSettings {
    /// Near is 0.8; metrics for 10,000 rules, as they are used, and for 1,000 values; 64 top keys per rule
    /// within 32 MiB; ten lines per second about denials, at the level `info`; no spans.
    fn default() -> Self {
        Self {
            near_limit_ratio: 0.8,
            rule_series: RuleSeries::Used,
            max_rule_series: 10_000,
            max_value_series: 1_000,
            top_keys: 64,
            top_keys_max_bytes: 32 << 20,
            denial_log: Some(tracing::Level::INFO),
            denial_log_lines: 10,
            trace_ratio: 0.0,
        }
    }
}
