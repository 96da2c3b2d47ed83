//! Callers who leave while limits are charged together: their charges are given back, at every moment.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::common::{Ask, NOON, Routed, ask_at, beside_memory, cut, entries, of, policy};
use tollgate_limiter::{Descriptor, Limiter, LimiterSettings, Request, ReserveTerms, Scratch};
use tollgate_store::block_on;
use tollgate_store::suite::{Down, OutageStore};

const RULES: &str = "
domain: d
charge: together
descriptors:
  - {key: own, rate_limit: {unit: hour, requests_per_unit: 5000, sharing: local}}
  - {key: all, rate_limit: {unit: hour, requests_per_unit: 5000}}
  - {key: few, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: shut, rate_limit: {unit: hour, requests_per_unit: 5000, on_store_failure: deny}}
  - {key: part, rate_limit: {unit: hour, requests_per_unit: 10, on_store_failure: local}}";

fn limiter() -> Limiter<Routed> {
    Limiter::new(
        policy(RULES),
        beside_memory(OutageStore::default().with_waits(2)),
        LimiterSettings::default(),
    )
}

/// Polls at most `most` times, and then drops it.
fn polled<T>(future: impl Future<Output = T>, most: u32) -> Option<T> {
    let mut future = pin!(future);
    (0..most).find_map(|_| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// Asks for `asks`, or reserves them, and leaves after `most` polls; returns whether it was admitted, if it
/// stayed.
fn left(limiter: &Limiter<Routed>, asks: &[Ask<'_>], reserves: bool, most: u32) -> Option<bool> {
    let lists: Vec<_> = asks.iter().map(|ask| entries(ask.entries)).collect();
    let descriptors: Vec<_> = asks
        .iter()
        .zip(&lists)
        .map(|(ask, entries)| Descriptor { hits: ask.hits, ..Descriptor::new(entries) })
        .collect();
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1_000 };
    let mut scratch = Scratch::new();
    if reserves {
        let reserved = limiter.reserve(&request, ReserveTerms::default(), NOON, &mut scratch);
        polled(reserved, most).map(|it| it.expect("room").id.is_some())
    } else {
        polled(limiter.decide(&request, NOON, &mut scratch), most)
            .map(|it| it.expect("an answer").is_admitted())
    }
}

fn used(limiter: &Limiter<Routed>, key: &str, limit: u64) -> u64 {
    cut(limiter, Down::Nothing);
    let seen = block_on(limiter.inspect("d", &entries(key), NOON)).expect("it answers");
    limit - seen[0].decision.remaining()
}

#[test]
fn a_caller_that_leaves_at_any_moment_leaves_nothing_half_charged() {
    let own = of("own=1");
    let all = of("all=1");
    let few = of("few=1");
    for (down, asks, is_admitted) in [
        (None, &[own, all][..], true),
        (None, &[all, own, few], false), // the store denies
        (Some("shut"), &[own, all, of("shut=1")], false),
        (Some("part"), &[own, all, of("part=1")], false), // the share denies
        (Some("part"), &[own, all, of("part=1").hits(1)], true),
        (Some("all"), &[own, all], true),
    ] {
        for reserves in [false, true] {
            for most in 0.. {
                let limiter = limiter();
                cut(&limiter, down.map_or(Down::Nothing, Down::Holding));
                let heard = left(&limiter, asks, reserves, most);
                let what = format!("{down:?}, {} asks, reserves: {reserves}, {most} polls", asks.len());
                let stands = heard == Some(true);
                let in_the_store = stands && down != Some("all");
                assert_eq!(used(&limiter, "own=1", 5_000), if stands { 1_000 } else { 0 }, "{what}");
                assert_eq!(used(&limiter, "all=1", 5_000), if in_the_store { 1_000 } else { 0 }, "{what}");
                assert_eq!(used(&limiter, "few=1", 10), 0, "{what}");
                if let Some(heard) = heard {
                    assert_eq!(heard, is_admitted, "{what}");
                    assert!(most > 2, "{what}: it waited for the store");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_limit_that_answers_holds_while_another_gives_no_answer() {
    for (down, asks, want, admitted) in [
        ("all", [of("few=1"), of("all=1")], "OK: ok 9/10, ok degraded:allow", 10),
        ("part", [of("few=1"), of("part=1").hits(2)], "OK: ok 9/10, ok 8/10 degraded:local", 5),
        ("shut", [of("few=1"), of("shut=1")], "OVER: ok 10/10, over 0/5000 degraded:deny in 1s", 0),
    ] {
        let limiter = limiter();
        cut(&limiter, Down::Holding(down));
        let said: Vec<_> = (0..200).map(|_| ask_at(&limiter, "d", &asks, NOON)).collect();
        assert_eq!(said[0], want);
        assert_eq!(said.iter().filter(|it| it.starts_with("OK")).count(), admitted, "{down}");
        assert!(said.iter().all(|it| it.matches("degraded").count() == 1), "{said:?}");
        assert_eq!(used(&limiter, "few=1", 10), admitted as u64, "{down}: what was denied went back");
    }
}
