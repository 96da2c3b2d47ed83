//! The shapes of bodies, as they are served and as `/openapi.json` describes them.

mod check;

pub(crate) use check::*;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a reservation really used.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitRequest {
    pub(crate) id: String,
    /// Permits used; as many as were reserved when left out. Fewer: the rest comes back. More: a debt that later permits repay.
    pub(crate) actual: Option<u64>,
}

/// A reservation that is not needed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    pub(crate) id: String,
}

/// How a reservation ended.
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

/// What came of a reservation; the same each time it is asked for.
#[derive(Serialize, ToSchema)]
pub(crate) struct Settlement {
    pub(crate) ending: Ending,
    /// Permits that were reserved.
    pub(crate) reserved: u64,
    /// Permits that count as used.
    pub(crate) used: u64,
    /// Permits given back.
    pub(crate) returned: u64,
    /// Permits used above what was reserved, a debt that later permits repay.
    pub(crate) owed: u64,
    /// The store gave no answer for some counters: there, what was to be given back counts as used.
    pub(crate) degraded: bool,
}

/// What is kept for a descriptor.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counters {
    /// One for each limit of its rule.
    pub(crate) counters: Vec<Counter>,
}

/// What is kept for one limit. Times are in milliseconds, rounded up.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counter {
    /// The rule's path.
    pub(crate) rule: String,
    /// The limit in words.
    pub(crate) limit: String,
    /// The counter's key; what is not printable is escaped.
    pub(crate) key: String,
    /// Something is kept. After a reset: something was forgotten.
    pub(crate) is_tracked: bool,
    /// Permits that an immediate take could get.
    pub(crate) remaining: u64,
    /// Until the full quota is there again; null when that is never.
    #[schema(required)]
    pub(crate) reset_after_ms: Option<u64>,
    /// `local` while the store gives no answer and this node decides by its own share of the limit, which the numbers are then about;
    /// else null.
    #[schema(required)]
    pub(crate) degraded: Option<&'static str>,
}

/// The rules in force, and what came of them since the process began.
#[derive(Serialize, ToSchema)]
pub(crate) struct Rules {
    /// Changes with what the files say.
    pub(crate) version: String,
    /// When they were put into force (RFC 3339); null when the process began with them.
    #[schema(required)]
    pub(crate) loaded_at: Option<String>,
    /// Why the files as they are now are not in force; null when they are.
    #[schema(required)]
    pub(crate) last_error: Option<String>,
    /// Where the counters are, and how that is.
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

/// One rule, and what came of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleTotals {
    /// Its path.
    pub(crate) rule: String,
    /// Its name; empty where the file gives none.
    pub(crate) name: String,
    /// Its limits in words.
    pub(crate) limits: Vec<String>,
    /// Decisions that let pass.
    pub(crate) admitted: u64,
    /// Decisions that denied.
    pub(crate) denied: u64,
    /// Decisions that only shadow mode let pass.
    pub(crate) shadow_denied: u64,
    /// Decisions made while the store gave no answer.
    pub(crate) degraded: u64,
    /// The totals are those of all rules above the cap on series together.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shared: bool,
    /// Who is denied most, most first.
    pub(crate) top_limited: Vec<TopLimited>,
}

/// A key that is denied often.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopLimited {
    /// The descriptor's values.
    pub(crate) key: String,
    /// How often lately: what is older than five minutes counts half, and so on.
    pub(crate) denied: u64,
    /// By how much that may be too high.
    pub(crate) at_most_over: u64,
}

/// Whether clients should be sent here.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// It was told to go.
    pub(crate) draining: bool,
    pub(crate) rules: ReadyRules,
    pub(crate) store: StoreState,
}

/// Where the counters are, and how that is.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoreState {
    pub(crate) name: String,
    /// `up`, `down` (each rule decides as its `on_store_failure` says), or `trying` while nothing has been heard of it.
    pub(crate) state: &'static str,
    /// For how long it has given no answer; null when it does.
    #[schema(required)]
    pub(crate) down_for_ms: Option<u64>,
    /// What was the matter when it was last tried, or what makes it too slow while it is up; null when nothing is.
    #[schema(required)]
    pub(crate) why: Option<String>,
}

/// The rules in force, in short.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReadyRules {
    /// There are some.
    pub(crate) loaded: bool,
    pub(crate) version: String,
    /// How many domains.
    pub(crate) domains: usize,
    /// How many rules.
    pub(crate) rules: usize,
    /// Why the files as they are now are not in force; null when they are.
    #[schema(required)]
    pub(crate) last_error: Option<String>,
}

/// Which rule a descriptor falls under, why, and what would be charged. Nothing is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explained {
    pub(crate) domain: String,
    /// The entries, each as `key=value`.
    pub(crate) asked: Vec<String>,
    /// How each entry was taken, up to the first that was not: `exact`, `network`, `pattern` or `default`.
    pub(crate) steps: Vec<&'static str>,
    /// Why nothing limits it: `unknown_domain`, `no_rule_begins`, `untaken` or `no_rule_ends`; null when a rule does.
    #[schema(required)]
    pub(crate) why_none: Option<&'static str>,
    /// The rule that applies; null when nothing limits it.
    #[schema(required)]
    pub(crate) rule: Option<ExplainedRule>,
    /// Domains or rules that there are, where none was found; at most ten.
    pub(crate) known: Vec<String>,
    /// Rules that begin with the same key and do not apply; at most ten.
    pub(crate) others: Vec<OtherRule>,
    /// How a refusal would read; null when nothing can refuse.
    #[schema(required)]
    pub(crate) denied: Option<DeniedPreview>,
    /// All of it as text, as `tollgate explain` prints it.
    pub(crate) text: String,
}

/// The rule that applies.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExplainedRule {
    pub(crate) path: String,
    pub(crate) name: String,
    /// File, line and column.
    pub(crate) place: String,
    /// Nothing is counted and everything passes.
    pub(crate) unlimited: bool,
    /// It counts, but never denies.
    pub(crate) shadow: bool,
    /// It denies only when all quota rules of the request do.
    pub(crate) quota: bool,
    /// Names of rules that it takes the place of.
    pub(crate) replaces: Vec<String>,
    /// `each` or `together`.
    pub(crate) charge: &'static str,
    /// Where it is counted beside other nodes: `exact` (each decision asks the store), `leased` or `local`.
    pub(crate) sharing: &'static str,
    /// What it does while the store gives no answer: `deny`, `allow` or `local`.
    pub(crate) on_store_failure: &'static str,
    /// Each would be charged.
    pub(crate) limits: Vec<ChargedLimit>,
}

/// A limit that would be charged.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChargedLimit {
    /// In words.
    pub(crate) limit: String,
    /// The counter's key; what is not printable is escaped.
    pub(crate) key: String,
}

/// A rule that does not apply.
#[derive(Serialize, ToSchema)]
pub(crate) struct OtherRule {
    pub(crate) path: String,
    pub(crate) place: String,
    pub(crate) why: String,
}

/// A refusal as `/v1/check?status=rule` would answer it, just after the last permit.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeniedPreview {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}
