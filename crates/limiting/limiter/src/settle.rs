//! From the store's verdicts to the answer: the limit that binds each descriptor, and the overall outcome.

use tollgate_core::{Decision, Outcome};
use tollgate_policy::OnStoreFailure;

use crate::scratch::{Item, Settled};
use tollgate_observe::{Degraded, Status};

/// Result of one item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemResult {
    /// The store answered.
    Decided(Decision),
    /// This node decided by its share, as one of `nodes`.
    ByShare { decision: Decision, nodes: u32 },
    /// No counter counted it; its rule decides.
    Unanswered(OnStoreFailure),
}

/// Lets `result` bind the descriptor of `item`, if it is tighter than the present binding limit.
///
/// `is_charged`: whether an admitted take was in fact taken.
#[inline(always)]
pub(crate) fn bind(status: &mut Status, item: &Item, result: ItemResult, is_charged: bool) {
    if item.shadow {
        return try_in_shadow(status, item.alone, result);
    }
    let (decision, degraded) = match result {
        ItemResult::Decided(decision) => (Some(decision), None),
        ItemResult::ByShare { decision, .. } => (Some(decision), Some(Degraded::Local)),
        ItemResult::Unanswered(OnStoreFailure::Deny) => (None, Some(Degraded::Denied)),
        ItemResult::Unanswered(_) => (None, Some(Degraded::Allowed)),
    };
    status.degraded = status.degraded.or(degraded);
    if degraded == Some(Degraded::Allowed) {
        return; // it binds nothing
    }
    let outcome = decision.map_or(Outcome::Deny, |decision| decision.outcome());
    let is_admitted = outcome == Outcome::Admit;
    // Hits that were used already are counted in any case.
    let is_after = item.payment.is_after();
    let is_charged = is_charged || is_after;
    status.is_charged |= is_charged && (is_admitted || (is_after && decision.is_some()));
    let mut remaining = decision.map_or(0, |decision| decision.remaining());
    if is_admitted && !is_charged {
        // The answer assumes a take that was not made. (The cost of an item that was only peeked at is zero
        // by now.)
        remaining = remaining.saturating_add(item.cost.permits());
    }
    let mut excess = 0;
    if item.excess > 0 {
        excess = match result {
            ItemResult::ByShare { nodes, .. } => item.excess / u64::from(nodes.max(1)),
            _ => item.excess,
        };
        let is_taken = is_admitted && is_charged && !item.cost.is_peek();
        status.in_excess |= is_taken && remaining < excess;
        remaining = remaining.saturating_sub(excess);
    }
    let is_tighter = match (status.limit, status.outcome, outcome) {
        (None, ..) | (_, Outcome::Admit, Outcome::Deny) => true,
        (_, Outcome::Deny, Outcome::Admit) => false,
        (_, Outcome::Admit, Outcome::Admit) if remaining != status.remaining => remaining < status.remaining,
        _ => is_later(decision, status.decision),
    };
    if is_tighter {
        status.limit = Some(item.limit);
        status.decision = decision;
        status.excess = excess;
        status.remaining = if is_admitted { remaining } else { 0 };
        status.outcome = outcome;
    }
}

/// The effect of `result` on one of several limits of a descriptor; `None` if it binds nothing. Apart from
/// [`bind`], whose usual descriptor has one limit.
#[cold]
pub(crate) fn settle(item: &Item, result: ItemResult, is_charged: bool) -> Option<Settled> {
    let mut alone = Status::free(0);
    bind(&mut alone, item, result, is_charged);
    let Status { outcome, decision, remaining, degraded, .. } = alone;
    let limit = alone.limit?;
    Some(Settled { descriptor: item.descriptor, limit, outcome, decision, remaining, degraded })
}

/// Notes whether a limit in shadow, or the counter of a version alone, would have denied.
#[cold]
fn try_in_shadow(status: &mut Status, is_alone: bool, result: ItemResult) {
    if let ItemResult::Decided(decision) | ItemResult::ByShare { decision, .. } = result {
        if is_alone {
            status.is_denied_alone |= !decision.is_admitted();
            return;
        }
        status.is_denied_in_trial |= !decision.is_admitted();
        status.is_shadowed |= status.is_denied_in_trial;
    }
}

/// Whether the first limit has the longer wait or, if the waits are equal, is full later. No decision is less
/// than any decision.
#[cold]
fn is_later(decision: Option<Decision>, other: Option<Decision>) -> bool {
    let spans = |it: Decision| (it.retry_after(), it.reset_after());
    decision.map(spans) > other.map(spans)
}

/// The overall outcome: denied when a hard limit denies, or when there are soft limits and all of them deny.
/// Shadow rules stop denying here.
#[inline(always)]
pub(crate) fn overall(statuses: &mut [Status]) -> Outcome {
    let mut hard_denies = false;
    let mut soft = 0_u32;
    let mut soft_denies = 0_u32;
    for status in statuses {
        if status.outcome == Outcome::Deny && status.is_shadow_rule {
            status.outcome = Outcome::Admit;
            status.is_shadowed = true;
        }
        let denies = status.outcome == Outcome::Deny;
        status.is_shadowed &= !denies; // a limit denies it that is in force
        hard_denies |= denies && !status.is_quota;
        soft += u32::from(status.is_quota);
        soft_denies += u32::from(denies && status.is_quota);
    }
    if hard_denies || (soft > 0 && soft == soft_denies) { Outcome::Deny } else { Outcome::Admit }
}
