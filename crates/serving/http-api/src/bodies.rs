//! The bodies of the API, as they are served and as `/openapi.json` describes them.

mod check;

pub(crate) use check::*;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json_body::Hits;

/// The actual use of a reservation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitRequest {
    pub(crate) id: String,
    /// Permits used; as many as were reserved when left out. Fewer: the rest is returned. More: a debt that
    /// later permits repay.
    pub(crate) actual: Option<u64>,
}

/// A reservation that is no longer needed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    pub(crate) id: String,
}

/// The end of a reservation.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// By a commit.
    Committed,
    /// By a cancel in time.
    Cancelled,
    /// By a cancel after the permits could be used: they count as used.
    CancelledLate,
}

/// The outcome of a reservation; the same each time it is requested.
#[derive(Serialize, ToSchema)]
pub(crate) struct Settlement {
    pub(crate) ending: Ending,
    /// Permits that were reserved.
    pub(crate) reserved: u64,
    /// Permits that count as used.
    pub(crate) used: u64,
    /// Permits returned.
    pub(crate) returned: u64,
    /// Permits used beyond those reserved: a debt that later permits repay.
    pub(crate) owed: u64,
    /// The store was unavailable for some counters: there, the permits to return count as used.
    pub(crate) degraded: bool,
}

/// Whether a holder has a slot. Times are in milliseconds, rounded up.
#[derive(Serialize, ToSchema)]
pub(crate) struct Slot {
    pub(crate) outcome: Outcome,
    /// The holder, by which the slot is renewed and released; null when denied.
    #[schema(required)]
    pub(crate) id: Option<String>,
    /// Slots in all; null when no slot was taken: no rule, an unlimited one, or the store was unavailable.
    #[schema(required)]
    pub(crate) limit: Option<u64>,
    /// Slots that are free; null when no slot was taken.
    #[schema(required)]
    pub(crate) remaining: Option<u64>,
    /// Until the first slot expires: 0 when admitted, null when no wait helps. One may be released earlier.
    #[schema(required)]
    pub(crate) retry_after_ms: Option<u64>,
    /// Until the slot is free unless it is renewed or released; null without a slot.
    #[schema(required)]
    pub(crate) expires_in_ms: Option<u64>,
    /// The holder had the slot already; its time began anew.
    pub(crate) renewed: bool,
    /// Path of the rule; null when no rule matches.
    #[schema(required)]
    pub(crate) rule: Option<String>,
    /// How it was decided while the store was unavailable: `deny`, `allow` or `local`; else null.
    #[schema(required)]
    pub(crate) degraded: Option<&'static str>,
    /// It would have been denied, but a rule or the server is in shadow mode. It holds no slot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shadow: bool,
}

/// The outcome of a release.
#[derive(Serialize, ToSchema)]
pub(crate) struct Release {
    /// The slot was held until now. False when it was released before, or has expired.
    pub(crate) released: bool,
}

/// A request with its own limit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThrottleRequest {
    /// Key of the counter. Requests with the same key share a counter, also those of the Redis protocol.
    #[schema(value_type = String)]
    #[serde(deserialize_with = "crate::json_body::bytes")]
    pub(crate) key: Vec<u8>,
    /// Permits that are refilled per period, evenly.
    #[schema(minimum = 1)]
    pub(crate) limit: u64,
    #[schema(minimum = 1)]
    pub(crate) period_ms: u64,
    /// Permits that can be taken at once; as many as `limit` when left out.
    #[schema(minimum = 1)]
    pub(crate) burst: Option<u64>,
    /// Permits requested; 1 when left out. 0 only reports the state; more than 2^63-1 count as that.
    #[schema(value_type = Option<u64>)]
    pub(crate) hits: Option<Hits>,
}

/// The decision on a request with its own limit. Times are in milliseconds, rounded up.
#[derive(Serialize, ToSchema)]
pub(crate) struct Throttled {
    pub(crate) outcome: Outcome,
    /// Permits that can be taken at once when the quota is full.
    pub(crate) burst: u64,
    /// Permits left of these; null when the store was unavailable and nothing was counted.
    #[schema(required)]
    pub(crate) remaining: Option<u64>,
    /// Until it would be admitted: 0 when it is, null when no wait helps.
    #[schema(required)]
    pub(crate) retry_after_ms: Option<u64>,
    /// Until the quota is fully restored.
    #[schema(required)]
    pub(crate) reset_after_ms: Option<u64>,
    /// How it was decided while the store was unavailable: `deny`, `allow` or `local`; else null.
    #[schema(required)]
    pub(crate) degraded: Option<&'static str>,
    /// It would have been denied, but the server is in shadow mode.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shadow: bool,
}

/// The counters of a descriptor.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counters {
    /// One for each limit of its rule.
    pub(crate) counters: Vec<Counter>,
    /// The counters that cannot be listed, and where else to look.
    pub(crate) note: &'static str,
}

/// The counter of one limit. Times are in milliseconds, rounded up.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counter {
    /// The rule's path.
    pub(crate) rule: String,
    /// The limit in words.
    pub(crate) limit: String,
    /// The counter's key; unprintable bytes are escaped.
    pub(crate) key: String,
    /// The counter exists. After a reset: it existed before.
    pub(crate) is_tracked: bool,
    /// Permits available now.
    pub(crate) remaining: u64,
    /// Until the quota is fully restored; null when that is never.
    #[schema(required)]
    pub(crate) reset_after_ms: Option<u64>,
    /// `local` while the store is unavailable and this node decides by its own share of the limit, which the
    /// numbers then describe; else null.
    #[schema(required)]
    pub(crate) degraded: Option<&'static str>,
}

/// The rules in force, with their counts since the process started.
#[derive(Serialize, ToSchema)]
pub(crate) struct Rules {
    /// Changes with the content of the files.
    pub(crate) version: String,
    /// When they were loaded (RFC 3339); null when the process started with them.
    #[schema(required)]
    pub(crate) loaded_at: Option<String>,
    /// Why the current files are not in force; null when they are.
    #[schema(required)]
    pub(crate) last_error: Option<String>,
    /// The store of the counters, and its state.
    pub(crate) store: StoreState,
    /// In the order of the files.
    pub(crate) domains: Vec<DomainRules>,
}

/// The rules of one domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainRules {
    pub(crate) name: String,
    pub(crate) rules: Vec<RuleTotals>,
}

/// One rule, with its counts.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleTotals {
    /// Path of the rule.
    pub(crate) rule: String,
    /// Its name; empty where the file gives none.
    pub(crate) name: String,
    /// Its limits in words.
    pub(crate) limits: Vec<String>,
    /// Admissions.
    pub(crate) admitted: u64,
    /// Denials.
    pub(crate) denied: u64,
    /// Admissions that would have been denials without shadow mode.
    pub(crate) shadow_denied: u64,
    /// Decisions made while the store was unavailable.
    pub(crate) degraded: u64,
    /// The counts are shared by all rules above the cap on metric series.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shared: bool,
    /// The keys denied most often, most first.
    pub(crate) top_limited: Vec<TopLimited>,
}

/// A key that is denied often.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopLimited {
    /// The descriptor's values.
    pub(crate) key: String,
    /// Recent denials: those older than five minutes count half, and so on.
    pub(crate) denied: u64,
    /// By how much `denied` may be too high.
    pub(crate) at_most_over: u64,
    /// By how much `denied` may be too low; above 0 only for rules that deny thousands of times a second.
    pub(crate) at_most_under: u64,
}

/// Whether clients should be sent here.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// It is shutting down.
    pub(crate) draining: bool,
    pub(crate) rules: ReadyRules,
    pub(crate) store: StoreState,
    /// The control plane that sends rules; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) control: Option<ControlState>,
}

/// The stream to the control plane. While it is closed, the rules in force stay.
#[derive(Serialize, ToSchema)]
pub(crate) struct ControlState {
    pub(crate) connected: bool,
    /// The number of apps whose rules are in force.
    pub(crate) apps: usize,
    /// Since when it is away, as RFC 3339; null while it is connected.
    #[schema(required)]
    pub(crate) away_since: Option<String>,
    /// Why the last attempt to connect failed, for callers on this machine and holders of the admin token;
    /// else null.
    #[schema(required)]
    pub(crate) why: Option<String>,
}

/// The store of the counters, and its state.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoreState {
    pub(crate) name: String,
    /// `up`, `down` (each rule decides by its `on_store_failure`), or `trying` before its first answer.
    pub(crate) state: &'static str,
    /// For how long it has been unavailable; null while it is up.
    #[schema(required)]
    pub(crate) down_for_ms: Option<u64>,
    /// Why the last attempt failed, or what makes it slow while it is up; else null.
    #[schema(required)]
    pub(crate) why: Option<String>,
}

/// A summary of the rules in force.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReadyRules {
    /// Whether there are any.
    pub(crate) loaded: bool,
    pub(crate) version: String,
    /// The number of domains.
    pub(crate) domains: usize,
    /// The number of rules.
    pub(crate) rules: usize,
    /// Why the current files are not in force; null when they are.
    #[schema(required)]
    pub(crate) last_error: Option<String>,
}

/// Which rule matches a descriptor, why, and what would be charged. Nothing is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explained {
    pub(crate) domain: String,
    /// The entries, each as `key=value`.
    pub(crate) asked: Vec<String>,
    /// How each entry matched, up to the first that did not: `exact`, `network`, `pattern` or `default`.
    pub(crate) steps: Vec<&'static str>,
    /// An operator's block or allowance, which overrides the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) intervention: Option<ExplainedIntervention>,
    /// Why no rule applies: `unknown_domain`, `no_rule_begins`, `untaken`, `no_rule_ends`, or `exception`
    /// (the rules name it without a limit); null when a rule does.
    #[schema(required)]
    pub(crate) why_none: Option<&'static str>,
    /// Decision for a request that no rule matches: `admit` or `deny`, as its domain or the setting
    /// `--unmatched` says; null when a rule applies, and for an exception.
    #[schema(required)]
    pub(crate) unmatched: Option<&'static str>,
    /// The rule that applies; null when there is none.
    #[schema(required)]
    pub(crate) rule: Option<ExplainedRule>,
    /// Existing domains or rules, where none matched; at most ten.
    pub(crate) known: Vec<String>,
    /// Rules that begin with the same key and do not apply; at most ten.
    pub(crate) others: Vec<OtherRule>,
    /// The reply to a denied client; null when such a request is always admitted.
    #[schema(required)]
    pub(crate) denied: Option<DeniedPreview>,
    /// All of it as text, as `tollgate explain` prints it.
    pub(crate) text: String,
}

/// A block or an allowance by an operator.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExplainedIntervention {
    /// `block` or `allow`.
    pub(crate) action: &'static str,
    /// Number of entries that it names; 0 for the whole domain.
    pub(crate) entries: usize,
    /// Milliseconds until it ends, rounded up.
    pub(crate) left_ms: u64,
}

/// The rule that applies.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExplainedRule {
    pub(crate) path: String,
    pub(crate) name: String,
    /// File, line and column.
    pub(crate) place: String,
    /// Nothing is counted and every request is admitted.
    pub(crate) unlimited: bool,
    /// Nothing is counted and every request is denied.
    pub(crate) denies: bool,
    /// It counts, but never denies.
    pub(crate) shadow: bool,
    /// It denies only when all quota rules of the request do.
    pub(crate) quota: bool,
    /// Names of the rules that it replaces.
    pub(crate) replaces: Vec<String>,
    /// `each` or `together`.
    pub(crate) charge: &'static str,
    /// Where its counters are: `exact` (each decision asks the store), `leased` or `local`.
    pub(crate) sharing: &'static str,
    /// How it decides while the store is unavailable: `deny`, `allow` or `local`.
    pub(crate) on_store_failure: &'static str,
    /// How long a request that is over a limit waits for its turn, at most (`on_limit: queue`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_wait_ms: Option<u64>,
    /// The limits that would be charged.
    pub(crate) limits: Vec<ChargedLimit>,
}

/// A limit that would be charged.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChargedLimit {
    /// The limit in words.
    pub(crate) limit: String,
    /// The counter's key; unprintable bytes are escaped.
    pub(crate) key: String,
}

/// A rule that does not apply.
#[derive(Serialize, ToSchema)]
pub(crate) struct OtherRule {
    pub(crate) path: String,
    pub(crate) place: String,
    pub(crate) why: String,
}

/// The reply of `/v1/check?status=rule` to a denied client, just after the last permit was taken.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeniedPreview {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}
