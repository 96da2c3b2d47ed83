//! Settings of every decision: modes, reservations, reports of denials, and the contents of replies to Envoy.

use std::time::Duration;

use tollgate_envoy_rls::{HeaderNames, ReplyOptions};
use tollgate_limiter::{LimiterSettings, ObserveSettings, OnStoreFailure, RuleSeries, Undecided, Unmatched};
use tracing::level_filters::LevelFilter;

use super::layers::Layers;
use super::parse;
use super::row::Heading::{Answers, Counters, Observe};
use super::row::{Row, rows};

rows! {
    /// The rows of this file.
    ROWS:
    SHADOW_MODE: Row<bool> = Row::switch("shadow-mode")
        .envoy_compat(&["SHADOW_MODE"])
        .help(Answers, "Count and report, but admit every request");
    QUOTA_MODE: Row<bool> = Row::switch("quota-mode")
        .envoy_compat(&["QUOTA_MODE"])
        .help(Answers, "Treat every rule as if it had `quota_mode: true`");
    UNMATCHED: Row<Unmatched> = Row::new("unmatched", "ANSWER", "admit", parse::unmatched)
        .one_of(&["admit", "deny"])
        .help(Answers, "What happens to a request for which no rule matches, also of an unknown domain: `admit` or \
                        `deny`. A rule file may say it for its domain");
    UNDECIDED: Row<Undecided> = Row::new("undecided", "ANSWER", "deny", parse::undecided)
        .alias("oversized") // by which people look for it
        .one_of(&["deny", "allow", "error"])
        .help(Answers, "What happens to a request that cannot be read, because it is too large or malformed, or for which \
                        there is no room: `deny`, `allow` or `error`. Proxies take an error for an outage, and may let \
                        the request pass");
    RESPONSE_HEADERS: Row<bool> = Row::switch("response-headers")
        .envoy_compat(&["LIMIT_RESPONSE_HEADERS_ENABLED"])
        .help(Answers, "Make Envoy add limit, remaining and reset to responses as headers");
    LIMIT_HEADER: Row<String> = Row::new("limit-header", "NAME", "RateLimit-Limit", parse::header_name)
        .envoy_compat(&["LIMIT_LIMIT_HEADER"])
        .help(Answers, "Name of the header with the limit");
    REMAINING_HEADER: Row<String> =
        Row::new("remaining-header", "NAME", "RateLimit-Remaining", parse::header_name)
            .envoy_compat(&["LIMIT_REMAINING_HEADER"])
            .help(Answers, "Name of the header with the remaining permits");
    RESET_HEADER: Row<String> = Row::new("reset-header", "NAME", "RateLimit-Reset", parse::header_name)
        .envoy_compat(&["LIMIT_RESET_HEADER"])
        .help(Answers, "Name of the header with the seconds until the window ends");
    RETRY_AFTER_HEADERS: Row<bool> = Row::new("retry-after-headers", "BOOL", "true", parse::switch)
        .one_of(&["true", "false"])
        .help(Answers, "Make Envoy add Retry-After and X-RateLimit-Retry-After to denials");
    DYNAMIC_METADATA: Row<bool> = Row::switch("dynamic-metadata")
        .envoy_compat(&["RESPONSE_DYNAMIC_METADATA"])
        .help(Answers, "Send the descriptors of the request to Envoy as dynamic metadata");
    NEAR_LIMIT_RATIO: Row<f32> = Row::new("near-limit-ratio", "RATIO", "0.8", parse::ratio)
        .envoy_compat(&["NEAR_LIMIT_RATIO"])
        .help(Answers, "Above this share of a limit, an admitted hit counts as near it in the metrics");
    MAX_RESERVATIONS: Row<usize> =
        Row::new("max-reservations", "N", "100000", |text| parse::number(text, 0, 10_000_000))
            .help(Counters, "Maximum open reservations; above it /v1/reserve fails. One domain and first entry gets at most \
                             half of them, one domain four fifths");
    LONGEST_RESERVATION: Row<Duration> = Row::new("longest-reservation", "DURATION", "5m", parse::duration)
        .help(Counters, "Maximum time that a reservation may be held");
    MAX_QUEUED: Row<usize> = Row::new("max-queued", "N", "10000", |text| parse::number(text, 0, 1_000_000))
        .help(Counters, "Maximum requests that wait for their turn at once, of rules with `on_limit: queue`; further ones \
                         are denied. One that waits for several counters counts as several");
    THROTTLE_ON_STORE_FAILURE: Row<OnStoreFailure> =
        Row::new("throttle-on-store-failure", "ANSWER", "allow", parse::on_store_failure)
            .one_of(&["allow", "deny", "local"])
            .help(Counters, "How limits that come with the request (CL.THROTTLE and such) decide while the store is \
                             unavailable: `allow`, `deny` or `local`");
    DENIAL_LOG_LEVEL: Row<LevelFilter> =
        Row::new("denial-log-level", "LEVEL", "info", parse::log_level)
            .one_of(parse::LOG_LEVELS)
            .help(Observe, "Level of the log line of a denial, or `off`; not logged in shadow mode");
    DENIAL_LOG_RATE: Row<u32> = Row::new("denial-log-rate", "N", "10", |text| parse::number(text, 1, 1_000_000))
        .help(Observe, "Maximum denial log lines per second; the next line reports how many were left out");
    METRICS_DETAIL: Row<RuleSeries> = Row::new("metrics-detail", "WHICH", "used", parse::rule_series)
        .one_of(&["used", "all"])
        .help(Observe, "Which rules have series in /metrics: those that were `used` since the start, or `all`, with zeros");
    METRICS_MAX_RULES: Row<usize> =
        Row::new("metrics-max-rules", "N", "10000", |text| parse::number(text, 0, 1_000_000))
            .help(Observe, "Rules that have series of their own, the first in the order of the files; all others are \
                            counted together as the rule `(others)`");
    TOP_KEYS: Row<usize> = Row::new("top-keys", "N", "64", |text| parse::number(text, 0, 1024))
        .help(Observe, "Keys tracked per rule to report the most limited ones, 96 bytes each; 0 tracks none");
}

/// Settings of every decision, and of replies to Envoy.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    /// Settings of the limiter.
    pub limiter: LimiterSettings,
    /// Options of replies to Envoy.
    pub replies: ReplyOptions,
}

impl Decisions {
    pub(super) fn read(layers: &mut Layers, trace_ratio: f64) -> Self {
        let headers = HeaderNames {
            limit: layers.one(&LIMIT_HEADER),
            remaining: layers.one(&REMAINING_HEADER),
            reset: layers.one(&RESET_HEADER),
        };
        let shadow_mode = layers.one(&SHADOW_MODE);
        let denial_log = layers.one_or(&DENIAL_LOG_LEVEL, LevelFilter::OFF).into_level();
        let limiter = LimiterSettings {
            shadow_mode,
            quota_mode: layers.one(&QUOTA_MODE),
            unmatched: layers.one(&UNMATCHED),
            undecided: layers.one(&UNDECIDED),
            throttle_on_store_failure: layers.one(&THROTTLE_ON_STORE_FAILURE),
            max_reservations: layers.one(&MAX_RESERVATIONS),
            longest_reservation: layers.one(&LONGEST_RESERVATION),
            max_queued: layers.one(&MAX_QUEUED),
            observe: ObserveSettings {
                near_limit_ratio: layers.one(&NEAR_LIMIT_RATIO),
                rule_series: layers.one(&METRICS_DETAIL),
                max_rule_series: layers.one(&METRICS_MAX_RULES),
                top_keys: layers.one(&TOP_KEYS),
                // In shadow mode nothing is denied.
                denial_log: denial_log.filter(|_| !shadow_mode),
                denial_log_lines: layers.one(&DENIAL_LOG_RATE),
                trace_ratio,
                ..ObserveSettings::default()
            },
        };
        let replies = ReplyOptions {
            headers: layers.one(&RESPONSE_HEADERS).then_some(headers),
            retry_after: layers.one(&RETRY_AFTER_HEADERS),
            dynamic_metadata: layers.one(&DYNAMIC_METADATA),
        };
        Self { limiter, replies }
    }
}
