//! The bodies that come with every request. `usual_body` and `json_body` read them in place, and `answers`
//! writes them by hand; these types describe them in `/openapi.json`, whose tests hold both to the
//! description.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One attribute of a request.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    key: String,
    /// Empty when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// Entries from the general to the specific, alone or with hits of their own.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Descriptor {
    Entries(Vec<Entry>),
    WithHits {
        entries: Vec<Entry>,
        /// Permits requested by this descriptor; those of the request when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        hits: Option<u64>,
        /// Permits that this descriptor has used already, in place of `hits`.
        #[serde(skip_serializing_if = "Option::is_none")]
        consumed: Option<u64>,
    },
}

/// May this request pass?
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// The domain of the rules.
    domain: String,
    /// At least one.
    #[schema(min_items = 1)]
    descriptors: Vec<Descriptor>,
    /// Permits requested, 0 to 2^63-1; 1 when left out. 0 only reports the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
    /// Permits that are used already, in place of `hits`: they are counted in full, and no limit denies them.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed: Option<u64>,
    /// How long the request may wait for its turn, if its rule has `on_limit: queue`; as long as the rule
    /// allows when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait_ms: Option<u64>,
}

/// One request of several.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchedRequest {
    /// The domain of the rules.
    domain: String,
    /// At least one.
    #[schema(min_items = 1)]
    descriptors: Vec<Descriptor>,
    /// Permits requested, 0 to 2^63-1; 1 when left out. 0 only reports the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
    /// Permits that are used already, in place of `hits`: they are counted in full, and no limit denies them.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed: Option<u64>,
}

/// A slot to acquire, to renew or to release.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotRequest {
    /// The domain of the rules.
    pub(crate) domain: String,
    /// Exactly one descriptor.
    #[schema(min_items = 1, max_items = 1)]
    pub(crate) descriptors: Vec<Descriptor>,
    /// 1, which is meant when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1)]
    pub(crate) hits: Option<u64>,
    /// The holder: 32 hexadecimal digits. To acquire it may be left out: then the answer has a random one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9A-Fa-f]{32}$")]
    pub(crate) id: Option<String>,
}

/// Several requests, decided in their order.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBatch {
    /// At most 1,000.
    requests: Vec<BatchedRequest>,
}

/// One request or several.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum CheckBody {
    One(CheckRequest),
    Batch(CheckBatch),
}

/// Whether it may pass.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Admit,
    Deny,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Makes a type of a decision: the members that a request and each of its descriptors have, and more.
macro_rules! decision {
    ($(#[$about:meta])* $name:ident { $($more:tt)* }) => {
        $(#[$about])*
        #[derive(Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            outcome: Outcome,
            /// The most permits that can remain: the burst of a bucket, otherwise the permits per window;
            /// null when nothing limits it.
            #[schema(required)]
            limit: Option<u64>,
            /// Permits left; null when nothing limits it.
            #[schema(required)]
            remaining: Option<u64>,
            /// Act this much later than the request came (pacing rules), less `waited_ms`.
            delay_ms: u64,
            /// The part of `delay_ms` that the request has already waited at the service, of a rule with
            /// `on_limit: queue`.
            #[serde(default, skip_serializing_if = "is_zero")]
            waited_ms: u64,
            /// Until it would be admitted: 0 when it is, null when no wait helps.
            #[schema(required)]
            retry_after_ms: Option<u64>,
            /// Until the quota is fully restored; null when that is never.
            #[schema(required)]
            reset_after_ms: Option<u64>,
            /// Path of the rule; null when there is none.
            #[schema(required)]
            rule: Option<String>,
            /// How it was decided while the store was unavailable: `deny`, `allow` or `local`; else null.
            #[schema(required)]
            degraded: Option<String>,
            /// It would have been denied, but a rule or the server is in shadow mode.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            shadow: bool,
            /// Permits of the limit that each hit takes, if more than one; `remaining` counts permits.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            cost: Option<u64>,
            /// It passes above a limit, within the `excess` of that limit.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            excess: bool,
            /// Permits that were used beyond all that there were, of hits that are reported after they were
            /// used.
            #[serde(default, skip_serializing_if = "is_zero")]
            owed: u64,
            /// `block` or `allow`, where an operator has decided it, whatever the rule says.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            intervention: Option<String>,
            $($more)*
        }
    };
}

decision! {
    /// The decision on one descriptor. Times are in milliseconds, rounded up.
    DescriptorDecision {
        /// No rule matches it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unmatched: bool,
        /// Path of the rule that is nearest to it, where no rule matches.
        #[serde(skip_serializing_if = "Option::is_none")]
        nearest_rule: Option<String>,
    }
}

decision! {
    /// The decision: that of the most restrictive descriptor, and each of them. Times are in milliseconds,
    /// rounded up.
    Decision {
        /// No rule matches any of its descriptors.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unmatched: bool,
        /// Path of the rule that is nearest to its only descriptor, where no rule matches.
        #[serde(skip_serializing_if = "Option::is_none")]
        nearest_rule: Option<String>,
        /// One for each descriptor, in their order.
        descriptors: Vec<DescriptorDecision>,
    }
}

/// The decisions on a batch, in its order.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    decisions: Vec<Decision>,
}

/// One or several.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "it describes the answer; none is made of it")]
pub(crate) enum CheckAnswer {
    One(Decision),
    Batch(Decisions),
}

/// Permits to hold for a while.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveRequest {
    /// The domain of the rules.
    domain: String,
    /// At least one.
    #[schema(min_items = 1)]
    descriptors: Vec<Descriptor>,
    /// Permits to hold, an estimate; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
    /// How long the caller would wait for them; 0 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait_ms: Option<u64>,
    /// How long they are held before they count as used; 60,000 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

/// The outcome of a reservation.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Reservation {
    /// For commit or cancel; a secret of the caller. Null when denied: nothing is held.
    #[schema(required)]
    id: Option<String>,
    /// How long until the permits may be used.
    wait_ms: u64,
    /// How long until they count as used without a commit or a cancel; 0 when nothing is held.
    expires_in_ms: u64,
    decision: Decision,
}

impl CheckRequest {
    /// A request for one permit of a user.
    pub(crate) fn of_user(user: &str) -> Self {
        Self {
            domain: "shop".to_owned(),
            descriptors: vec![Descriptor::of_user(user)],
            hits: Some(1),
            consumed: None,
            max_wait_ms: None,
        }
    }
}

impl ReserveRequest {
    /// A request to hold one permit of a user for a second.
    pub(crate) fn of_user(user: &str) -> Self {
        let CheckRequest { domain, descriptors, hits, .. } = CheckRequest::of_user(user);
        Self { domain, descriptors, hits, max_wait_ms: None, ttl_ms: Some(1_000) }
    }
}

impl SlotRequest {
    /// A request for a slot of an export.
    pub(crate) fn of_export(of: &str) -> Self {
        let entry = Entry { key: "export".to_owned(), value: Some(of.to_owned()) };
        let descriptors = vec![Descriptor::Entries(vec![entry])];
        Self { domain: "shop".to_owned(), descriptors, hits: None, id: None }
    }
}

impl Descriptor {
    fn of_user(user: &str) -> Self {
        Self::Entries(vec![Entry { key: "user".to_owned(), value: Some(user.to_owned()) }])
    }
}
