//! Permits held for a while: promises are kept, and returns mint nothing (I1, I2, I7, I8).

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Align, Cost, Decision, Quota, Refill, RetryAfter, State};

use crate::any::{self, Plain};

/// Two worlds are alike only when their buckets begin to fill at the same time.
fn full_at_first(mut plain: Plain) -> Plain {
    if let Algorithm::TokenBucket { initial, .. } = &mut plain.algorithm {
        *initial = None;
    }
    plain
}

/// Only a take at once may overdraw.
fn never_overdrawn(mut plain: Plain) -> Plain {
    if let Algorithm::TokenBucket { overdraft, .. } = &mut plain.algorithm {
        *overdraft = 0;
    }
    plain
}

fn any_quota() -> impl Strategy<Value = Plain> {
    any::any_quota().prop_map(full_at_first)
}

/// The use of the permits of one call.
#[derive(Clone, Copy, Debug)]
struct Use {
    reserved: u64,
    used: u64,
    /// Number of the others' takes after which it is settled.
    settled_after: usize,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// I7, for reservations.
    #[test]
    fn a_denied_reservation_is_granted_after_its_wait_and_one_nanosecond_earlier_is_not(
        plain in any::any_quota(), visits in any::visits(30), patience in prop::collection::vec(0.0..2.0, 80),
    ) {
        let (quota, mut state) = (plain.quota(), plain.quota().fresh());
        for ((now, cost), patience) in any::times(&plain, &visits, any::NOON).into_iter().zip(patience) {
            let max_wait = Duration::from_nanos((patience * plain.period_ns as f64) as u64);
            let mut before = state.clone();
            if cost > 0 {
                quota.start_refill(&mut before, any::at(now));
            }
            let decision = quota.reserve(&mut state, Cost(cost), max_wait, any::at(now));
            match decision.retry_after() {
                RetryAfter::Now => prop_assert!(decision.delay() <= max_wait),
                RetryAfter::Never => prop_assert_eq!(&state, &before),
                RetryAfter::After(wait) => {
                    prop_assert_eq!(&state, &before, "denied, it changes nothing");
                    let retry = any::at(now) + wait;
                    let at = |ns| quota.reserve(&mut state.clone(), Cost(cost), max_wait, any::at(ns));
                    prop_assert!(at(retry.as_nanos()).is_admitted(), "{decision:?} after its wait");
                    let early = retry.as_nanos() - 1;
                    // A log of denied takes answers as after logging this one, which a reservation does not
                    // do.
                    let logs = matches!(plain.algorithm, Algorithm::SlidingWindowLog { log_denied: true });
                    prop_assert!(logs || early < now || !at(early).is_admitted(), "{decision:?} early");
                }
            }
        }
    }

    #[test]
    fn a_reservation_without_patience_grants_what_a_take_admits_at_once_and_no_more(
        plain in any_quota(), visits in any::visits(30),
    ) {
        let (quota, mut state) = (plain.quota(), plain.quota().fresh());
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            let held = quota.reserve(&mut state.clone(), Cost(cost), Duration::ZERO, any::at(now));
            let taken = quota.take(&mut state, Cost(cost), any::at(now));
            let at_once = taken.is_admitted() && taken.delay().is_zero();
            prop_assert_eq!(held.is_admitted(), at_once, "{:?} and {:?}", held, taken);
            if at_once {
                prop_assert_eq!(held, taken);
            }
        }
    }

    /// I8 and the bounds of all algorithms: a world in which the call took only the permits that it used
    /// would have let every later request pass that passes here.
    #[test]
    fn what_is_given_back_never_lets_more_pass_than_if_it_had_never_been_taken(
        plain in any_quota(), visits in any::visits(20), before in any::visits(5),
        (reserved, used, settled_after) in (1_u64..40, 0_u64..40, 0_usize..20),
    ) {
        // A log of denied takes charges the other world for other ones; a grid that begins anew with a full
        // bucket, or with the first hit, begins at another time there. Whatever warms up is warmer here.
        let is_like = !matches!(
            plain.algorithm,
            Algorithm::SlidingWindowLog { log_denied: true }
                | Algorithm::WarmUp { .. }
                | Algorithm::TokenBucket { refill: Refill::Interval, .. }
                | Algorithm::FixedWindow { align: Align::FirstHit }
        );
        prop_assume!(is_like);
        // A decision states times to the nanosecond, which is several permits of a rate above 10^9 a second.
        prop_assume!(plain.limit <= plain.period_ns);
        let call = Use { reserved, used: used.min(reserved), settled_after };
        let quota = plain.quota();
        let mut start = any::NOON;
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &before, any::NOON) {
            let _ = quota.take(&mut state, Cost(cost), any::at(now));
            start = now;
        }
        let mut other = state.clone();
        let said = quota.take(&mut state, Cost(call.reserved), any::at(start));
        if !said.is_admitted() {
            return Ok(());
        }
        let _ = quota.take(&mut other, Cost(call.used), any::at(start));
        let counts_refusals = matches!(plain.algorithm, Algorithm::FixedWindow { .. });
        for (index, (now, cost)) in any::times(&plain, &visits, start).into_iter().enumerate() {
            if index == call.settled_after {
                settle(&quota, &mut state, call, &said, start, now);
            }
            let here = quota.take(&mut state, Cost(cost), any::at(now)).is_admitted();
            if here || counts_refusals {
                let there = quota.take(&mut other, Cost(cost), any::at(now)).is_admitted();
                prop_assert!(there || !here, "at +{} ns: {} passes here and not there", now - start, cost);
            }
        }
    }

    /// And nothing is lost while no other caller comes: a bucket ends where it would have been, except for
    /// the part of a permit.
    #[test]
    fn what_is_given_back_to_a_bucket_that_nobody_else_uses_leaves_it_as_if_it_had_never_been_taken(
        plain in prop_oneof![any::token_bucket(), any::leaky(false), any::leaky(true), any::warm_up()].prop_map(full_at_first),
        (reserved, used, elapsed) in (1_u64..40, 0_u64..40, 0.0..3.0),
    ) {
        let call = Use { reserved, used: used.min(reserved), settled_after: 0 };
        let quota = plain.quota();
        let mut state = quota.fresh();
        let mut other = quota.fresh();
        let said = quota.take(&mut state, Cost(call.reserved), any::at(any::NOON));
        if said.is_admitted() {
            let _ = quota.take(&mut other, Cost(call.used), any::at(any::NOON));
            let now = any::NOON + (elapsed * plain.period_ns as f64) as u64;
            settle(&quota, &mut state, call, &said, any::NOON, now);
            let [here, there] = [&mut state, &mut other].map(|it| quota.take(it, Cost::PEEK, any::at(now)).remaining());
            prop_assert!(here <= there && there - here <= 1, "{here} are left, {there} would be");
        }
    }

    /// A reservation keeps its place: it may be used when it was promised, and earlier by exactly the time
    /// that reservations before it gave back, as if they had never been made. Later calls change nothing.
    #[test]
    fn a_reservation_waits_as_if_those_given_back_before_it_had_never_been_made(
        plain in prop_oneof![any::token_bucket(), any::leaky(true), any::warm_up(), any::smooth_bursty()]
            .prop_map(full_at_first).prop_map(never_overdrawn),
        costs in prop::collection::vec((1_u64..12, prop::bool::ANY), 1..20),
    ) {
        let quota = plain.quota();
        let now = any::at(any::NOON);
        let forever = Duration::from_secs(1 << 30);
        let mut state = quota.fresh();
        let mut without = quota.fresh();
        let mut made = Vec::new();
        for (cost, is_given_back) in costs {
            let promised = quota.reserve(&mut state, Cost(cost), forever, now);
            if promised.is_admitted() {
                let alone = (!is_given_back).then(|| quota.reserve(&mut without, Cost(cost), forever, now));
                made.push((cost, promised.delay(), alone));
            }
        }
        let waits = |state: &State, made: &[(u64, Duration, Option<Decision>)]| {
            let mut behind = made.iter().map(|(cost, ..)| cost).sum::<u64>();
            let wait = |(cost, ..): &(u64, Duration, Option<Decision>)| {
                behind -= cost;
                quota.wait_of_reserved(state, Cost(*cost), Cost(behind), now)
            };
            made.iter().map(wait).collect::<Option<Vec<_>>>()
        };
        let promised: Vec<_> = made.iter().map(|(_, delay, _)| *delay).collect();
        prop_assert_eq!(waits(&state, &made), Some(promised));
        for (cost, ..) in made.extract_if(.., |(.., alone)| alone.is_none()) {
            let _ = quota.give_back(&mut state, Cost(cost), now);
        }
        let alone: Vec<_> = made.iter().map(|(.., alone)| alone.map_or(forever, |it| it.delay())).collect();
        prop_assert_eq!(waits(&state, &made), Some(alone));
    }
}

fn settle(quota: &Quota, state: &mut State, call: Use, said: &Decision, taken: u64, now: u64) {
    let back = quota.refundable(Cost(call.reserved - call.used), said, any::at(taken), any::at(now));
    assert!(back.permits() <= call.reserved - call.used, "never more than was reserved");
    if !back.is_peek() {
        let _ = quota.give_back(state, back, any::at(now));
    }
}
