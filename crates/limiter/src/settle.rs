//! From the store's verdicts to the answer: the limit that binds each descriptor, and the overall outcome.

use tollgate_core::{Decision, Outcome, RetryAfter};
use tollgate_policy::OnStoreFailure;

use crate::answer::{Degraded, Status};
use crate::scratch::Item;

/// What one item's counter said, or what its rule says without.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    /// The counter answered.
    Decided(Decision),
    /// This node's memory answered for it.
    Locally(Decision),
    /// Nobody answered.
    Nothing(OnStoreFailure),
}

/// Lets what `item`'s counter said bind its descriptor, if it is tighter than what binds it so far.
///
/// `is_charged`: whether an admitted take was in fact taken.
#[inline(always)]
pub(crate) fn bind(status: &mut Status, item: &Item, said: Said, is_charged: bool) {
    let (decision, degraded) = match said {
        Said::Decided(decision) => (Some(decision), None),
        Said::Locally(decision) => (Some(decision), Some(Degraded::Local)),
        Said::Nothing(OnStoreFailure::Deny) => (None, Some(Degraded::Denied)),
        Said::Nothing(_) => (None, Some(Degraded::Allowed)),
    };
    status.degraded = status.degraded.or(degraded);
    if degraded == Some(Degraded::Allowed) {
        return; // it binds nothing
    }
    let outcome = decision.map_or(Outcome::Deny, |decision| decision.outcome());
    let is_admitted = outcome == Outcome::Admit;
    status.is_charged |= is_admitted && is_charged;
    let mut remaining = decision.map_or(0, |decision| decision.remaining());
    if is_admitted && !is_charged && !item.soft {
        // It was answered as if taken, and was not; a soft one was only peeked at.
        remaining = remaining.saturating_add(item.cost.permits());
    }
    let is_tighter = match (status.limit, status.outcome, outcome) {
        (None, ..) | (_, Outcome::Admit, Outcome::Deny) => true,
        (_, Outcome::Deny, Outcome::Admit) => false,
        (_, Outcome::Admit, Outcome::Admit) => remaining < status.remaining,
        (_, Outcome::Deny, Outcome::Deny) => wait(decision) > wait(status.decision),
    };
    if is_tighter {
        status.limit = Some(item.limit);
        status.decision = decision;
        status.remaining = if is_admitted { remaining } else { 0 };
        status.outcome = outcome;
    }
}

/// How long a denied caller waits; without an answer less than with any.
fn wait(decision: Option<Decision>) -> RetryAfter {
    decision.map_or(RetryAfter::Now, |decision| decision.retry_after())
}

/// The overall outcome: denied when a hard limit denies, or when there are soft limits and all of them deny. Shadow
/// rules stop to deny here.
#[inline(always)]
pub(crate) fn overall(statuses: &mut [Status]) -> Outcome {
    let (mut hard_denies, mut soft, mut soft_denies) = (false, 0_u32, 0_u32);
    for status in statuses {
        if status.outcome == Outcome::Deny && status.is_shadow_rule {
            status.outcome = Outcome::Admit;
            status.is_shadowed = true;
        }
        let denies = status.outcome == Outcome::Deny;
        hard_denies |= denies && !status.is_quota;
        soft += u32::from(status.is_quota);
        soft_denies += u32::from(denies && status.is_quota);
    }
    if hard_denies || (soft > 0 && soft == soft_denies) { Outcome::Deny } else { Outcome::Admit }
}
