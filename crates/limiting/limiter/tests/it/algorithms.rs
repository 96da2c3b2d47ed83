//! A rule chooses its algorithm by name and its period freely, and is decided accordingly.
#![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::{NOON, ask_at, limiter, of, seconds};
use tollgate_core::{
    Algorithm, Align, Cost, Decision, LeakyForm, Outcome, Period, Quota, Refill, RetryAfter, Timestamp,
};
use tollgate_limiter::{Descriptor, Entry, Request, Scratch};
use tollgate_store::block_on;

const fn bucket(refill: Refill) -> Algorithm {
    Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill }
}

const fn leaky(form: LeakyForm) -> Algorithm {
    Algorithm::LeakyBucket { capacity: None, form }
}

const WARM_UP: Algorithm = Algorithm::WarmUp { warm_up: Duration::from_secs(12), cold_factor: 2 };

/// Text of a rule file behind `algorithm:`, and its meaning.
static CHOICES: [(&str, Algorithm); 11] = [
    ("fixed_window", Algorithm::FixedWindow { align: Align::Calendar }),
    ("fixed_window, align: first_hit", Algorithm::FixedWindow { align: Align::FirstHit }),
    ("sliding_window, cells: 5", Algorithm::sliding_window(5)),
    ("sliding_window_counter", Algorithm::SlidingWindowCounter),
    ("sliding_window_log", Algorithm::SlidingWindowLog { log_denied: false }),
    ("token_bucket", bucket(Refill::Continuous)),
    ("token_bucket, refill: interval", bucket(Refill::Interval)),
    ("leaky_bucket", leaky(LeakyForm::Meter)),
    ("leaky_bucket, form: queue", leaky(LeakyForm::Queue { delay_after: 0 })),
    ("total", Algorithm::Total),
    ("warm_up, warm_up: 12s, cold_factor: 2", WARM_UP),
];

/// When a client takes how many: three, two of which one is left, that one, and then one every 700 ms.
fn trace() -> impl Iterator<Item = (Timestamp, u64)> {
    let first = [(5_000, 3), (8_000, 2), (8_200, 1)];
    let all = first.into_iter().chain((8_500..60_000).step_by(700).map(|ms| (ms, 1)));
    all.map(|(ms, hits)| (NOON + Duration::from_millis(ms), hits))
}

/// The parts of a decision that a client notices.
type Noticed = (bool, u64, Duration, RetryAfter);

fn noticed(decision: &Decision) -> Noticed {
    (decision.is_admitted(), decision.remaining(), decision.delay(), decision.retry_after())
}

#[test]
fn each_algorithm_is_chosen_by_its_name_and_decides_in_its_own_way() {
    let rules = CHOICES.iter().enumerate().map(|(nth, (name, algorithm))| {
        let number = match algorithm {
            Algorithm::Total => "limit: 4",
            _ => "requests_per_unit: 4, period: 10s",
        };
        format!("  - {{key: k{nth}, rate_limit: {{{number}, algorithm: {name}}}}}\n")
    });
    let limiter = limiter(&format!("domain: d\ndescriptors:\n{}", rules.collect::<String>()));
    let stories = CHOICES.iter().enumerate().map(|(nth, (name, algorithm))| {
        let key = format!("k{nth}");
        let quota = Quota::new(4, Period::Span(seconds(10)), algorithm.clone()).expect(name);
        let mut state = quota.fresh();
        let mut scratch = Scratch::new();
        let story: Vec<Noticed> = trace()
            .map(|(now, hits)| {
                let entries = [Entry::new(&key, "x")];
                let descriptors = [Descriptor { entries: &entries, hits: None, limit: None }];
                let request = Request { domain: "d", descriptors: &descriptors, hits };
                let answer = block_on(limiter.decide(&request, now, &mut scratch)).expect("a request");
                let decision = answer.descriptor(0).and_then(|it| it.decision).expect("a limit");
                let want = quota.take(&mut state, Cost(hits), now);
                assert_eq!(decision, want, "{name} at {:?}", now.since(NOON));
                assert_eq!(answer.is_admitted(), want.outcome() == Outcome::Admit);
                noticed(&decision)
            })
            .collect();
        (*name, story)
    });
    let stories: Vec<_> = stories.collect();
    for (nth, (name, story)) in stories.iter().enumerate() {
        for (other, other_story) in &stories[..nth] {
            let are_mirror_images = (*other, *name) == ("token_bucket", "leaky_bucket");
            assert_eq!(story == other_story, are_mirror_images, "{other} and {name}");
        }
    }
}

#[test]
fn a_window_of_any_period_is_decided_on_both_sides_of_its_end() {
    // NOON begins a window of each period on the grid of the Unix epoch, except of the week: that begins on
    // Thursdays, and NOON is a Tuesday.
    let day = 86_400;
    for (period, length, to_the_end) in [
        ("unit: second", 1, 1),
        ("unit: minute", 60, 60),
        ("unit: hour", 3_600, 3_600),
        ("unit: day", day, day),
        ("unit: week", 7 * day, 2 * day),
        ("period: 90s", 90, 90),
        ("period: 3h", 3 * 3_600, 3 * 3_600),
    ] {
        for (align, end) in [("calendar", to_the_end), ("first_hit", length)] {
            let limiter = limiter(&format!(
                "{{domain: d, descriptors: [{{key: k, rate_limit: {{{period}, requests_per_unit: 300, align: {align}}}}}]}}"
            ));
            let end = NOON + seconds(end);
            let just_before = NOON + (end.since(NOON) - Duration::from_nanos(1));
            for (at, hits, want) in [
                (NOON, 299, "OK: ok 1/300".to_owned()),
                (just_before, 1, "OK: ok 0/300".to_owned()),
                (just_before, 1, "OVER: over 0/300 in 0.000000001s".to_owned()),
                (end, 300, "OK: ok 0/300".to_owned()),
                (end, 1, format!("OVER: over 0/300 in {length}s")),
            ] {
                let answer = ask_at(&limiter, "d", &[of("k=x").hits(hits)], at);
                assert_eq!(answer, want, "{period}, {align}");
            }
        }
    }
}
