//! Limits that share a bucket: several classes of requests, each with a cost of its own, on one counter.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Cost, Outcome, Timestamp};
use tollgate_limiter::{Descriptor, Ending, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, Store, block_on};
use tollgate_store_memory::MemoryStore;

use crate::common::desk::{Desk, NOW};
use crate::common::{NOON, ask, ask_at, beside_memory, cut, entries, limiter, of, policy};

const BUCKET: &str = "rate: 10/s, algorithm: token_bucket, burst: 20, bucket: backend";

fn rules(descriptors: &str) -> String {
    format!("domain: d\ndescriptors:\n{}", descriptors.replace("BUCKET", BUCKET))
}

/// Searches cost 1, bookings 5, and reports 10, of which 8 may be taken in advance.
fn classes() -> String {
    rules(
        "
  - {key: call, value: search, rate_limit: {BUCKET}}
  - {key: call, value: book, rate_limit: {BUCKET, cost: 5}}
  - {key: call, value: report, rate_limit: {BUCKET, cost: 10, overdraft: 8}}",
    )
}

#[test]
fn several_classes_take_from_one_bucket_each_at_its_cost() {
    let limiter = limiter(&classes());
    for (asked, at_ms, want) in [
        ("call=book", 0, "OK: ok 15/10"),
        ("call=search", 0, "OK: ok 14/10"),
        ("call=report", 0, "OK: ok 4/10"),
        ("call=book", 0, "OVER: over 0/10 in 0.1s"),
        ("call=search", 0, "OK: ok 3/10"),
        // Three are left: seven come in advance.
        ("call=report", 0, "OK: ok 0/10"),
        ("call=report", 0, "OVER: over 0/10 in 0.9s"), // of ten, eight in advance: two must be there
        ("call=search", 0, "OVER: over 0/10 in 0.8s"),
        ("call=book", 0, "OVER: over 0/10 in 1.2s"),
        ("call=search", 799, "OVER: over 0/10 in 0.001s"),
        ("call=search", 800, "OK: ok 0/10"),
        ("call=book", 1_299, "OVER: over 0/10 in 0.001s"),
        ("call=book", 1_300, "OK: ok 0/10"),
    ] {
        let at = NOON + Duration::from_millis(at_ms);
        assert_eq!(ask_at(&limiter, "d", &[of(asked)], at), want, "{asked} at {at_ms} ms");
    }
}

/// 7 a day, 10,000 at once: in so fine a unit that an overdraft of 5,000 has no room in it.
#[test]
fn a_class_without_an_overdraft_reads_what_one_with_a_large_one_took_also_when_it_is_new() {
    let class = |value: &str, overdraft: u64| {
        format!(
            "  - {{key: call, value: {value}, rate_limit: {{unit: day, requests_per_unit: 7, algorithm: \
             token_bucket, burst: 10000, overdraft: {overdraft}, bucket: backend}}}}\n"
        )
    };
    let limiter = limiter(&rules(&class("search", 0)));
    assert_eq!(ask(&limiter, &[of("call=search").hits(1_000)]), "OK: ok 9000/7");
    limiter.replace(policy(&rules(&(class("report", 5_000) + &class("search", 0)))), NOON);
    assert_eq!(ask(&limiter, &[of("call=report").hits(8_990)]), "OK: ok 10/7");
    assert_eq!(ask(&limiter, &[of("call=search").hits(8)]), "OK: ok 2/7");
    limiter.replace(policy(&rules(&class("other", 10))), NOON);
    assert_eq!(ask(&limiter, &[of("call=other").hits(11)]), "OK: ok 0/7");
    assert!(ask(&limiter, &[of("call=other")]).starts_with("OVER"));
}

/// The same counter twice in one request: each limit alone, or all of them or none.
#[test]
fn a_request_of_several_classes_takes_from_their_bucket_for_each() {
    let each = limiter(&classes());
    let asks = [of("call=book"), of("call=report"), of("call=book"), of("call=search")];
    assert_eq!(ask(&each, &asks), "OK: ok 15/10, ok 5/10, ok 0/10, over 0/10 in 0.1s".replace("OK", "OVER"));
    assert_eq!(ask(&each, &[of("call=search")]), "OVER: over 0/10 in 0.1s");

    let together = limiter(&format!("{}\ncharge: together", classes()));
    let answer = ask(&together, &asks);
    assert!(answer.starts_with("OVER: ") && answer.ends_with("over 0/10 in 0.1s"), "{answer}");
    assert_eq!(ask(&together, &asks[..3]), "OK: ok 15/10, ok 5/10, ok 0/10", "nothing was taken before");
}

#[test]
fn each_value_that_the_rules_leave_open_has_a_bucket_of_its_own() {
    let limiter = limiter(&rules(
        "
  - {key: call, value: search, descriptors: [{key: client, rate_limit: {BUCKET}}]}
  - {key: call, value: book, descriptors: [{key: client, rate_limit: {BUCKET, cost: 15}}]}",
    ));
    assert_eq!(ask(&limiter, &[of("call=book client=a")]), "OK: ok 5/10");
    assert_eq!(ask(&limiter, &[of("call=search client=a").hits(5)]), "OK: ok 0/10");
    assert_eq!(ask(&limiter, &[of("call=search client=b")]), "OK: ok 19/10");
}

#[test]
fn a_limit_in_shadow_takes_nothing_from_the_bucket_of_those_in_force() {
    let limiter = limiter(&rules(
        "
  - {key: call, value: search, rate_limit: {BUCKET}}
  - {key: call, value: book, shadow_mode: true, rate_limit: {BUCKET, cost: 15}}
  - key: call
    value: report
    limits:
      - {name: now, BUCKET, cost: 2}
      - {name: next, BUCKET, cost: 5, shadow: true}",
    ));
    assert_eq!(ask(&limiter, &[of("call=book")]), "OK: ok 5/10");
    assert_eq!(ask(&limiter, &[of("call=search")]), "OK: ok 19/10");
    // The candidate meets what the class in shadow has taken.
    assert_eq!(ask(&limiter, &[of("call=report")]), "OK: ok 17/10");
    assert_eq!(ask(&limiter, &[of("call=report")]), "OK: ok 15/10 shadow");
    assert_eq!(ask(&limiter, &[of("call=book")]), "OK: ok 0/10 shadow in 1.5s");
    assert_eq!(ask(&limiter, &[of("call=search")]), "OK: ok 14/10");
}

#[test]
fn a_rule_that_is_replaced_or_unlimited_takes_nothing_from_the_bucket() {
    let limiter = limiter(&rules(
        "
  - {key: call, rate_limit: {BUCKET, cost: 5, name: any}}
  - {key: call, value: search, rate_limit: {BUCKET, cost: 5, name: search}}
  - {key: vip, value: y, rate_limit: {BUCKET, cost: 2, replaces: [{name: search}]}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: search}]}}"
            .replace("  - {key: call, rate_limit: {BUCKET, cost: 5, name: any}}\n", "")
            .as_str(),
    ));
    let replaced = ask(&limiter, &[of("call=search"), of("vip=y")]);
    assert_eq!(replaced, "OK: ok replaced, ok 18/10");
    assert_eq!(ask(&limiter, &[of("call=search"), of("free=1")]), "OK: ok replaced, ok unlimited");
    assert_eq!(ask(&limiter, &[of("call=search")]), "OK: ok 13/10");
}

#[test]
fn a_bucket_is_inspected_and_reset_through_any_of_its_classes() {
    let limiter = limiter(&classes());
    ask(&limiter, &[of("call=report"), of("call=report"), of("call=search")]);
    let look = |asked: &str| {
        let report = block_on(limiter.inspect("d", &entries(asked), NOON)).expect("it is counted").remove(0);
        (report.key, report.tokens, report.limit)
    };
    let (key, tokens, limit) = look("call=book");
    assert_eq!((key.as_str(), tokens), ("d|token_bucket$backend", 0));
    assert_eq!(limit, "10 per second, token_bucket, burst 20, cost 5, bucket backend");
    assert_eq!((look("call=search").1, look("call=report").1), (0, 0));
    let reset = block_on(limiter.reset("d", &entries("call=search"), NOON)).expect("it is counted");
    assert!(reset[0].is_tracked);
    assert_eq!(ask(&limiter, &[of("call=report")]), "OK: ok 10/10");
}

#[test]
fn what_one_class_has_reserved_is_not_there_for_another_and_comes_back_also_after_its_rule_is_gone() {
    let desk = Desk(limiter(&classes()));
    let got = desk.reserve("call=book", 3, NOW, NOON);
    assert_eq!(desk.left("call=search", NOON), 5);
    let id = got.id.expect("it fits");
    assert_eq!(desk.commit(id, Some(1), NOON), Ok((Ending::Committed, 3, 1)));
    assert_eq!(desk.left("call=search", NOON), 15);
    let id = desk.reserve("call=book", 3, NOW, NOON).id.expect("it fits");
    assert_eq!(desk.left("call=report", NOON), 0);
    let without = classes().lines().filter(|line| !line.contains("book")).collect::<Vec<_>>().join("\n");
    desk.0.replace(policy(&without), NOON);
    assert_eq!(desk.cancel(id, NOON), Ok((Ending::Cancelled, 3, 0)));
    assert_eq!(desk.left("call=search", NOON), 15);
}

#[test]
fn without_the_store_a_node_counts_its_share_of_the_bucket_for_all_classes() {
    let text = classes().replace("bucket: backend", "bucket: backend, on_store_failure: local");
    let limiter =
        Limiter::new(policy(&text), beside_memory(OutageStore::default()), LimiterSettings::default());
    cut(&limiter, Down::All);
    let ask = |asked: &str| ask_at(&limiter, "d", &[of(asked)], NOON);
    assert_eq!(ask("call=book"), "OK: ok 15/10 degraded:local");
    assert_eq!(ask("call=report"), "OK: ok 5/10 degraded:local");
    assert_eq!(ask("call=search"), "OK: ok 4/10 degraded:local");
    assert_eq!(ask("call=report"), "OK: ok 0/10 degraded:local");
    assert_eq!(ask("call=search"), "OVER: over 0/10 degraded:local in 0.7s");
}

#[test]
fn classes_of_a_bucket_wait_in_one_line() {
    let text = classes().replace("bucket: backend", "bucket: backend, on_limit: queue, max_wait: 1s");
    let limiter = limiter(&text);
    assert_eq!(ask(&limiter, &[of("call=search").hits(20)]), "OK: ok 0/10");
    // Nobody waits here: what is denied says when its own cost is there.
    assert_eq!(ask(&limiter, &[of("call=book")]), "OVER: over 0/10 in 0.5s");
    assert_eq!(ask(&limiter, &[of("call=book"), of("call=search")]).matches("over").count(), 2);
}

/// A bucket as the rules of a reload say it.
#[derive(Clone, Debug)]
struct Spec {
    rate: u64,
    burst: u64,
    /// Cost and overdraft of each class.
    classes: Vec<(u64, u64)>,
}

fn spec() -> impl Strategy<Value = Spec> {
    (1_u64..30, 1_u64..40, prop::collection::vec((1_u64..9, prop_oneof![Just(0_u64), 0_u64..30]), 1..5))
        .prop_map(|(rate, burst, classes)| {
            let classes = classes.into_iter();
            let classes = classes.map(|(cost, overdraft)| (cost.min(burst + overdraft), overdraft)).collect();
            Spec { rate, burst, classes }
        })
}

impl Spec {
    fn policy(&self, is_together: bool) -> Policy {
        let mut text =
            format!("domain: d\ncharge: {}\ndescriptors:\n", if is_together { "together" } else { "each" });
        for (class, (cost, overdraft)) in self.classes.iter().enumerate() {
            let Self { rate, burst, .. } = self;
            text += &format!(
                "  - {{key: call, value: c{class}, descriptors: [{{key: client, rate_limit: {{unit: second, \
                 requests_per_unit: {rate}, algorithm: token_bucket, burst: {burst}, cost: {cost}, overdraft: \
                 {overdraft}, bucket: shared}}}}]}}\n"
            );
        }
        policy(&text)
    }
}

/// Permits in one client's bucket.
#[derive(Clone, Copy, Debug)]
struct BucketLevel {
    /// In thousandths of a permit.
    parts: i128,
    at: Timestamp,
    /// From then on its state may be forgotten, as one of a full bucket: what was owed is repaid by then at the
    /// rate at which it was taken.
    full_again: Timestamp,
    /// Changes of the rate since it was written.
    rates_ago: u32,
}

impl BucketLevel {
    fn pass(&mut self, spec: &Spec, now: Timestamp) {
        let full = i128::from(spec.burst) * PERMIT;
        let elapsed_ms = i128::try_from(now.since(self.at).as_millis()).expect("minutes");
        self.parts = (self.parts + elapsed_ms * i128::from(spec.rate)).min(full);
        self.at = now;
    }

    fn write(&mut self, spec: &Spec) {
        let missing = i128::from(spec.burst) * PERMIT - self.parts;
        let ms = u64::try_from(missing.max(0)).expect("small").div_ceil(spec.rate);
        let at = (self.at + Duration::from_millis(ms)).as_nanos().div_ceil(1_000_000_000);
        (self.full_again, self.rates_ago) = (Timestamp::from_unix_seconds(at), 0);
    }
}

/// One request: after how many ms, whose, and of which classes.
type Asked = (u64, usize, Vec<prop::sample::Index>);

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let gap = prop_oneof![Just(0_u64), 0_u64..400, 0_u64..4_000];
    prop::collection::vec((gap, 0..2_usize, prop::collection::vec(any::<prop::sample::Index>(), 1..4)), 1..12)
}

/// A permit. A ms brings `rate` of its thousandths: no reload rounds.
const PERMIT: i128 = 1_000;

/// The request's outcomes, by class.
fn outcomes<S: Store>(limiter: &Limiter<S>, client: usize, classes: &[usize], now: Timestamp) -> Vec<bool> {
    let client = client.to_string();
    let values: Vec<String> = classes.iter().map(|class| format!("c{class}")).collect();
    let lists: Vec<[Entry<'_>; 2]> =
        values.iter().map(|value| [Entry::new("call", value), Entry::new("client", &client)]).collect();
    let descriptors: Vec<_> = lists.iter().map(|entries| Descriptor::new(entries)).collect();
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.decide(&request, now, &mut scratch)).expect("it makes sense");
    answer.descriptors().map(|it| it.outcome == Outcome::Admit).collect()
}

/// Which of these classes a bucket with `parts` admits one after another, and what is left.
fn fitting(spec: &Spec, classes: &[usize], parts: i128) -> (Vec<bool>, i128) {
    let mut after = parts;
    let mut want = Vec::new();
    for class in classes {
        let (cost, overdraft) = spec.classes[*class];
        let cost = i128::from(cost) * PERMIT;
        let overdraft = i128::from(overdraft) * PERMIT;
        let fits = after >= 0 && after - cost >= -overdraft;
        after -= if fits { cost } else { 0 };
        want.push(fits);
    }
    (want, after)
}

fn law<S: Store>(store: S, is_together: bool, reloads: &[(Spec, Vec<Asked>)]) -> Result<(), TestCaseError> {
    let limiter: Limiter<S> =
        Limiter::new(reloads[0].0.policy(is_together), store, LimiterSettings::default());
    let mut levels = BTreeMap::<usize, BucketLevel>::new();
    let mut now = NOON;
    let mut before = &reloads[0].0;
    for (nth, (spec, requests)) in reloads.iter().enumerate() {
        if nth > 0 {
            limiter.replace(spec.policy(is_together), now);
        }
        for level in levels.values_mut() {
            level.pass(before, now);
            // What is missing stays missing.
            level.parts += (i128::from(spec.burst) - i128::from(before.burst)) * PERMIT;
            level.rates_ago += u32::from(spec.rate != before.rate);
        }
        before = spec;
        for (gap_ms, client, classes) in requests {
            now = now + Duration::from_millis(*gap_ms);
            let classes: Vec<usize> = classes.iter().map(|class| class.index(spec.classes.len())).collect();
            let full = i128::from(spec.burst) * PERMIT;
            let unseen = BucketLevel { parts: full, at: now, full_again: now, rates_ago: 0 };
            let level = levels.entry(*client).or_insert(unseen);
            level.pass(spec, now);
            if level.full_again <= now {
                level.parts = full;
            }
            let (want, after) = fitting(spec, &classes, level.parts);
            let got = outcomes(&limiter, *client, &classes, now);
            if nth == 0 {
                prop_assert_eq!(&got, &want, "classes {:?} of {:?} at {:?}", classes, spec, level);
            } else if got != want {
                // After a reload less than a unit of each is rounded up: at the very edge it may deny.
                for (got, want) in got.iter().zip(&want) {
                    prop_assert!(
                        *want || !got,
                        "too much: classes {:?} of {:?} at {:?}",
                        classes,
                        spec,
                        level
                    );
                }
                let is_edge = level.parts.rem_euclid(PERMIT) == 0;
                // After sixteen changes of the rate only its expiry says what it owes, up to five seconds late.
                let late = level.parts - 5_000 * i128::from(spec.rate);
                let is_forgotten = level.rates_ago > 15 && fitting(spec, &classes, late).0 != want;
                let is_allowed = is_edge || is_forgotten;
                prop_assert!(is_allowed, "needless: classes {:?} of {:?} at {:?}", classes, spec, level);
                return Ok(()); // from here on both count apart
            }
            let is_charged = !is_together || want.iter().all(|fits| *fits);
            if is_charged {
                level.parts = after;
            }
            if is_charged && (want.contains(&true) || level.rates_ago > 0) {
                level.write(spec);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against one exact bucket for each client: requests of several classes, each alone or together, never
    /// take more than it has, and are never denied what it has.
    #[test]
    fn a_bucket_of_several_classes_never_admits_more_than_its_rate(
        spec in spec(), requests in asked(), is_together: bool,
    ) {
        let reloads = [(spec, requests)];
        law(ModelStore::default(), is_together, &reloads)?;
        law(MemoryStore::default(), is_together, &reloads)?;
    }

    /// The same through reloads that change the rate, the burst, costs and overdrafts, and add and remove classes.
    #[test]
    fn a_reload_keeps_the_count_of_a_bucket_for_all_its_classes(
        reloads in prop::collection::vec((spec(), asked()), 2..6), is_together: bool,
    ) {
        law(ModelStore::default(), is_together, &reloads)?;
        law(MemoryStore::default(), is_together, &reloads)?;
    }
}

/// A class that new rules no longer have may still be asked once by a decision that began before: it reads
/// what the others wrote at the new rate.
#[test]
fn a_class_that_was_removed_meanwhile_reads_what_the_new_rate_wrote() {
    let slow = Spec { rate: 1, burst: 100, classes: vec![(1, 0), (2, 0)] }.policy(false);
    let fast =
        Spec { rate: 1_000, burst: 100, classes: vec![(1, 0)] }.policy(false).migrated_from(&slow, NOON);
    let quota = |policy: &Policy, class: usize| {
        policy.rules().nth(class).map(|rule| rule.limits[0].quota.clone()).expect("a class")
    };
    // At the new rate 99 permits are owed for a tenth of a second, which at the old one would be none.
    for class in 0..2 {
        let overtaken = quota(&slow, class);
        let kept = quota(&fast, 0);
        let mut state = kept.fresh();
        assert!(kept.take(&mut state, Cost(99), NOON).is_admitted());
        assert!(!overtaken.take(&mut state, Cost(2), NOON).is_admitted(), "one is left");
        assert!(overtaken.take(&mut state, Cost(1), NOON).is_admitted());
        assert!(!kept.take(&mut state, Cost(1), NOON).is_admitted(), "and now none");
    }
}

/// Threads ask for all classes while rules change under them: in all never more than the most generous rules
/// admit, and in the end exactly one bucket is empty.
#[test]
fn reloads_under_load_never_admit_more_than_the_more_generous_rule() {
    let specs = [
        Spec { rate: 7, burst: 300, classes: vec![(1, 0), (5, 0), (3, 40)] },
        Spec { rate: 9, burst: 400, classes: vec![(2, 0), (5, 100)] },
        Spec { rate: 3, burst: 200, classes: vec![(1, 0), (4, 0), (6, 60), (7, 0)] },
    ];
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.policy(false)).collect();
    let limiter: Limiter<MemoryStore> =
        Limiter::new(policies[0].clone(), MemoryStore::default(), LimiterSettings::default());
    let admitted = AtomicI64::new(0);
    let clock_ms = AtomicU64::new(0);
    let reload = AtomicU64::new(0);
    let now = || NOON + Duration::from_millis(clock_ms.fetch_add(1, Relaxed));
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let limiter = &limiter;
            let admitted = &admitted;
            let reload = &reload;
            let specs = &specs;
            let now = &now;
            scope.spawn(move || {
                for round in 0..1_500_usize {
                    // Costs may change between looking and asking: the smallest that any rules say is counted.
                    let class = (thread + round) % 4;
                    if outcomes(limiter, 0, &[class], now())[0] {
                        let known = specs.iter().filter_map(|spec| spec.classes.get(class));
                        let least = known.map(|(cost, _)| *cost).min().unwrap_or(0);
                        let is_limited = specs.iter().all(|spec| spec.classes.len() > class);
                        admitted.fetch_add(if is_limited { least.cast_signed() } else { 0 }, Relaxed);
                    }
                    if thread == 0 && round % 100 == 99 {
                        let next = reload.fetch_add(1, Relaxed) as usize + 1;
                        limiter.replace(specs[next % specs.len()].policy(false), now());
                    }
                }
            });
        }
    });
    let elapsed_ms = clock_ms.load(Relaxed).cast_signed();
    let most = 400 + 100 + elapsed_ms * 9 / 1_000;
    let admitted = admitted.load(Relaxed);
    assert!(admitted <= most, "{admitted} of {most}");
    assert!(admitted >= 200 / 2, "{admitted}");
}
