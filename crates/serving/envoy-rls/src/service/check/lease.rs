//! The permits that a program may lease: those of a token bucket with `sharing: leased`, while more than half
//! of them are there.
//!
//! A leased permit is taken from the bucket like any other, and expires at the rate at which the whole bucket
//! refills. So valid leased permits decrease at least as fast as the bucket's deficit: both together never
//! exceed the burst, whatever the number of programs and whatever becomes of them. The price is that leases
//! are short, and that expired permits count as used. Half of the burst is never leased, so that this price
//! is paid only while permits are plenty. Not here: the accounts of a program (`tollgate-remote`).

use std::time::Duration;

use tollgate_core::{Algorithm, Period, Refill};
use tollgate_limiter::{Answer, DescriptorAnswer, Kind};
use tollgate_store::Sharing;

/// A lease is a sixteenth of the burst at most,
const SHARE_OF_BURST: u64 = 16;
/// and an eighth of what is there above half of it.
const SHARE_OF_PLENTY: u64 = 8;
/// The smallest lease: fewer permits are not worth two calls.
const FEWEST: u64 = 8;
/// The longest validity of a lease; the service forgets it then.
pub(super) const LIFE: Duration = Duration::from_secs(10);

/// The permits that may be leased after this answer, and the time in which the limit refills them.
pub(super) fn offer(answer: &Answer<'_>) -> Option<(u64, Duration)> {
    let (burst, left) = plenty(answer)?;
    let permits = (left.saturating_sub(burst / 2) / SHARE_OF_PLENTY).min(burst / SHARE_OF_BURST);
    if permits < FEWEST {
        return None;
    }
    let refill = refill(&answer.descriptor(0)?, permits)?;
    (refill <= LIFE).then_some((permits, refill))
}

/// Time in which the limit refills the `permits` of a lease that was just taken; `None` if the lease is not
/// allowed.
pub(super) fn granted(answer: &Answer<'_>, permits: u64) -> Option<Duration> {
    let (burst, left) = plenty(answer)?;
    if permits > burst / SHARE_OF_BURST || left < burst / 2 {
        return None;
    }
    refill(&answer.descriptor(0)?, permits).filter(|refill| *refill <= LIFE)
}

/// The burst of a rule that may be leased, and the permits left of it.
fn plenty(answer: &Answer<'_>) -> Option<(u64, u64)> {
    let only = answer.descriptor(0)?;
    let rule = only.rule?;
    let may_be = answer.is_admitted()
        && rule.sharing == Sharing::Leased
        && rule.limits.len() == 1
        && only.kind == Kind::Limited
        && only.is_charged
        && !(only.is_shadowed || answer.is_shadowed() || only.in_excess || only.degraded.is_some());
    let limit = only.limit.filter(|limit| may_be && limit.cost == 1 && !limit.post_paid)?;
    Some((limit.burst(), only.remaining()))
}

/// Time in which the limit refills `permits`, rounded down; `None` if it does not refill one by one.
fn refill(answer: &DescriptorAnswer<'_>, permits: u64) -> Option<Duration> {
    let quota = &answer.limit?.quota;
    let Algorithm::TokenBucket { overdraft: 0, refill: Refill::Continuous, .. } = quota.algorithm() else {
        return None;
    };
    let Period::Span(period) = quota.period() else { return None };
    let ns = period.as_nanos().checked_mul(u128::from(permits))? / u128::from(quota.limit().max(1));
    u64::try_from(ns).ok().map(Duration::from_nanos)
}
