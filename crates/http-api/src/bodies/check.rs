//! Shapes that `read`, `decision` and `reserve` handle by hand, because they come with every request. They are described by
//! these types and held to them by tests; nothing else makes use of them.
#![allow(dead_code, reason = "described, and used by tests")]

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing said of a request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    key: String,
    /// Empty when left out.
    value: Option<String>,
}

/// Entries from the general to the special, alone or with hits of their own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Descriptor {
    Entries(Vec<Entry>),
    WithHits {
        entries: Vec<Entry>,
        /// Permits asked for by this descriptor; the request's when left out.
        hits: Option<u64>,
    },
}

/// May this request pass?
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// Whose rules.
    domain: String,
    /// At least one.
    #[schema(min_items = 1)]
    descriptors: Vec<Descriptor>,
    /// Permits asked for, 0 to 2^63-1; 1 when left out. 0 looks and takes nothing.
    hits: Option<u64>,
}

/// Several requests, decided in their order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBatch {
    /// At most 1,000.
    requests: Vec<CheckRequest>,
}

/// One request or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum CheckBody {
    One(CheckRequest),
    Batch(CheckBatch),
}

/// May it pass?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Admit,
    Deny,
}

/// What a descriptor's limit says. Times are in milliseconds, rounded up.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescriptorDecision {
    pub(crate) outcome: Outcome,
    /// Permits per window; null when nothing limits it.
    #[schema(required)]
    pub(crate) limit: Option<u64>,
    /// Permits left; null when nothing limits it.
    #[schema(required)]
    pub(crate) remaining: Option<u64>,
    /// Act that much later (pacing rules).
    pub(crate) delay_ms: u64,
    /// Until it would pass: 0 when it passes, null when no wait helps.
    #[schema(required)]
    pub(crate) retry_after_ms: Option<u64>,
    /// Until the full quota is there again; null when that is never.
    #[schema(required)]
    pub(crate) reset_after_ms: Option<u64>,
    /// Path of the rule; null when there is none.
    #[schema(required)]
    pub(crate) rule: Option<String>,
    /// How it was decided while the store gave no answer: `deny`, `allow` or `local`; null when the store answered.
    #[schema(required)]
    pub(crate) degraded: Option<String>,
    /// It would have been denied, but the rule or the server is in shadow mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shadow: bool,
}

/// The answer: what the most restrictive descriptor says, and each of them. Times are in milliseconds, rounded up.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) outcome: Outcome,
    /// Permits per window; null when nothing limits it.
    #[schema(required)]
    pub(crate) limit: Option<u64>,
    /// Permits left; null when nothing limits it.
    #[schema(required)]
    pub(crate) remaining: Option<u64>,
    /// Act that much later (pacing rules).
    pub(crate) delay_ms: u64,
    /// Until it would pass: 0 when it passes, null when no wait helps.
    #[schema(required)]
    pub(crate) retry_after_ms: Option<u64>,
    /// Until the full quota is there again; null when that is never.
    #[schema(required)]
    pub(crate) reset_after_ms: Option<u64>,
    /// Path of the rule; null when there is none.
    #[schema(required)]
    pub(crate) rule: Option<String>,
    /// How it was decided while the store gave no answer: `deny`, `allow` or `local`; null when the store answered.
    #[schema(required)]
    pub(crate) degraded: Option<String>,
    /// It would have been denied, but the rule or the server is in shadow mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shadow: bool,
    /// One for each descriptor, in their order.
    pub(crate) descriptors: Vec<DescriptorDecision>,
}

/// The answers to a batch, in its order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    pub(crate) decisions: Vec<Decision>,
}

/// One or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum CheckAnswer {
    One(Decision),
    Batch(Decisions),
}

/// Permits to hold for a while.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveRequest {
    /// Whose rules.
    domain: String,
    /// At least one.
    #[schema(min_items = 1)]
    descriptors: Vec<Descriptor>,
    /// Permits to hold, an estimate; 1 when left out.
    hits: Option<u64>,
    /// How long the caller would wait for them; 0 when left out.
    max_wait_ms: Option<u64>,
    /// How long they are held before they count as used; 60,000 when left out.
    ttl_ms: Option<u64>,
}

/// What came of a wish to reserve.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Reservation {
    /// To commit or cancel by: whoever knows it can. Null when denied: nothing is held.
    #[schema(required)]
    pub(crate) id: Option<String>,
    /// How long until the permits may be used.
    pub(crate) wait_ms: u64,
    /// How long until they count as used, if nobody commits or cancels; 0 when nothing is held.
    pub(crate) expires_in_ms: u64,
    pub(crate) decision: Decision,
}
