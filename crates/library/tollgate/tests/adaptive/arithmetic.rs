//! Samples in, limits out. The numbers are those that the libraries which have these limits test themselves
//! with, and our own where those have none.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::adaptive::{AdaptiveLimit, Aimd, Average, Decrease, Gradient2, Sample, Vegas, log10_of};

use super::{call, ms, shed};

/// The limits after each of `samples`.
fn limits(mut limit: impl AdaptiveLimit, samples: &[Sample]) -> Vec<u64> {
    let after = |sample: &Sample| {
        limit.update(*sample);
        limit.limit()
    };
    samples.iter().map(after).collect()
}

#[test]
fn aimd_adds_one_and_takes_a_tenth() {
    let aimd = || Aimd::default().initial(30);
    assert_eq!(limits(Aimd::default(), &[call(ms(1), 10)]), [21]);
    assert_eq!(limits(Aimd::default().initial(21).min(1).max(21), &[call(ms(1), 11)]), [21]);
    assert_eq!(limits(aimd(), &[shed(0), shed(0)]), [27, 24]);
    assert_eq!(limits(aimd(), &[call(ms(5_000), 15), call(ms(5_001), 15)]), [31, 27]);
    assert_eq!(limits(aimd(), &[call(ms(1), 14)]), [30], "less than half of it is in use");
    assert_eq!(limits(Aimd::default(), &[shed(20)]), [20], "the minimum");
    assert_eq!(limits(aimd().min(1).backoff(0.1), &[shed(30), shed(30), shed(30)]), [3, 1, 1]);
}

fn vegas(initial: u64, max: u64) -> Vegas {
    Vegas::default().initial(initial).max(max).probe_every(0)
}

#[test]
fn vegas_follows_the_queue_that_latency_shows() {
    let small = || vegas(10, 20).alpha(3).beta(6);
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(14), 14)]), [10, 10]);
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(50), 11)]), [10, 9]);
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(10), 11)]), [10, 16]);
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(12), 11)]), [10, 11], "two wait: one more");
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(10), 4)]), [10, 10], "half is not in use");
    assert_eq!(limits(small(), &[call(ms(10), 10), call(ms(10), 5)]), [10, 16]);
    let large = [call(ms(10_000), 5_000), call(ms(10_000), 6_000)];
    assert_eq!(limits(vegas(10_000, 20_000), &large), [10_000, 10_024]);
    let half = vegas(100, 200).decrease(Decrease::To(0.5));
    let slow = call(ms(20), 100);
    assert_eq!(limits(half.clone(), &[call(ms(10), 100), slow, slow]), [100, 50, 25]);
    assert_eq!(limits(half.smoothing(0.5), &[call(ms(10), 100), slow, slow]), [100, 75, 56]);
}

#[test]
fn vegas_takes_no_failure_for_a_short_latency() {
    let fast_failure = Sample { rtt: Duration::from_nanos(1), in_flight: 100, is_overload: true };
    let samples = [call(ms(10), 100), fast_failure, call(ms(10), 100)];
    assert_eq!(limits(vegas(100, 200), &samples), [100, 98, 104]);
    assert_eq!(limits(vegas(2, 200), &[shed(1), shed(1), shed(1)]), [1, 1, 1], "never below one");
}

/// After how many calls, ten times slower than the first, the shortest latency is theirs.
fn first_probe(seed: u64) -> Option<u64> {
    let mut limit = Vegas::default().initial(10).seed(seed);
    limit.update(call(ms(1), 0));
    (1..1_000).find(|_| {
        limit.update(call(ms(10), 0));
        let mut looks = limit.clone();
        looks.update(call(ms(10), 10));
        looks.limit() > limit.limit()
    })
}

#[test]
fn vegas_measures_the_shortest_latency_anew_at_times_that_differ() {
    let all: BTreeSet<_> = (0..200).map(|seed| first_probe(seed).expect("a probe")).collect();
    assert!(all.iter().all(|calls| (149..300).contains(calls)), "{all:?}");
    assert!(all.len() > 50, "{all:?}");
    assert_eq!(first_probe(7), first_probe(7));
}

#[test]
fn gradient2_follows_the_ratio_of_now_to_before() {
    let steady = [call(ms(10), 20); 4];
    assert_eq!(limits(Gradient2::default(), &steady), [20, 21, 22, 23]); // 0.8 more with each
    assert_eq!(limits(Gradient2::default().min(1), &[call(ms(10), 9); 3]), [20, 20, 20]);
    // Three times as slow as ten calls before, of which the mean is 10 ms: long is 10.07 ms, the gradient
    // 0.503, and a fifth of 0.503 · 100 + 4 is taken over.
    let mut limit = Gradient2::default().initial(100).max(100);
    (0..10).for_each(|_| limit.update(call(ms(10), 100)));
    assert_eq!(limit.limit(), 100);
    limit.update(call(ms(30), 100));
    assert_eq!(limit.limit(), 90); // 80 + 0.2 · 54.3
    limit.update(call(Duration::ZERO, 100));
    assert_eq!(limit.limit(), 90, "a latency that is not known shows nothing");
    assert_eq!(limits(Gradient2::default().initial(40), &[shed(40)]), [40], "failures are ignored");
    assert_eq!(limits(Gradient2::default().initial(40).on_overload(0.9), &[shed(40)]), [36]);
}

#[test]
fn gradient2_forgets_a_slow_time_once_it_is_over() {
    let mut limit = Gradient2::default();
    (0..2_000).for_each(|_| limit.update(call(ms(1_000), 200)));
    // Fast again: the long average must come down, or a service that then gets slower goes unnoticed.
    (0..150).for_each(|_| limit.update(call(ms(10), 200)));
    assert_eq!(limit.limit(), 200);
    (0..20).for_each(|_| limit.update(call(ms(100), 200)));
    assert!(limit.limit() < 60, "{}", limit.limit());
}

#[test]
fn an_average_is_the_mean_at_first_and_follows_the_newest_then() {
    let mut average = Average::new(100, 10);
    for (value, mean) in (10..20).zip([10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 13.0, 13.5, 14.0, 14.5]) {
        average.add(f64::from(value));
        assert!((average.value() - mean).abs() < 1e-9);
    }
    average.add(100.0);
    assert!((average.value() - 16.193).abs() < 0.001);
    let logs = [(0, 1), (2, 1), (99, 1), (100, 2), (1_000, 3), (10_000, 4), (u64::MAX, 19)];
    logs.iter().for_each(|(limit, log)| assert_eq!(log10_of(*limit), *log));
}

#[test]
fn settings_out_of_bounds_are_errors_that_name_them() {
    let error = |limit: &dyn AdaptiveLimit| limit.check().expect_err("out of bounds").to_string();
    assert_eq!(error(&Aimd::default().max(0)), "invalid max 0: expected 1 to 1,000,000,000");
    assert_eq!(error(&Aimd::default().min(0)), "invalid min 0: expected 1 to max");
    assert_eq!(error(&Aimd::default().initial(201)), "invalid initial 201: expected min to max");
    assert_eq!(error(&Aimd::default().backoff(1.0)), "invalid backoff 1: expected above 0 and below 1");
    assert_eq!(
        error(&Vegas::default().smoothing(f64::NAN)),
        "invalid smoothing NaN: expected above 0, up to 1"
    );
    assert!(error(&Vegas::default().decrease(Decrease::To(1.5))).starts_with("invalid decrease 1.5"));
    assert!(error(&Vegas::default().beta(u64::MAX)).starts_with("invalid beta"));
    assert!(error(&Gradient2::default().tolerance(f64::INFINITY)).starts_with("invalid tolerance inf"));
    assert!(error(&Gradient2::default().long_window(0)).starts_with("invalid long_window 0"));
    assert!(error(&Gradient2::default().on_overload(0.0)).starts_with("invalid on_overload 0"));
    assert!(error(&Gradient2::default().queue(u64::MAX)).starts_with("invalid queue"));
    let all: [&dyn AdaptiveLimit; 3] = [&Aimd::default(), &Vegas::default(), &Gradient2::default()];
    all.iter().for_each(|limit| assert!(limit.check().is_ok()));
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let nanos = prop_oneof![Just(0_u64), 1..1_000_000_u64, 1_000_000..10_000_000_000_u64, Just(u64::MAX)];
    let in_flight = prop_oneof![0..300_u64, Just(u64::MAX)];
    (nanos, in_flight, prop::bool::weighted(0.1)).prop_map(|(nanos, in_flight, is_overload)| Sample {
        rtt: Duration::from_nanos(nanos),
        in_flight,
        is_overload,
    })
}

proptest! {
    #[test]
    fn no_sample_brings_a_limit_out_of_its_bounds(
        samples in prop::collection::vec(any_sample(), 1..300),
        (min, initial, max) in (1..50_u64, 0..50_u64, 0..1_000_u64)
            .prop_map(|(min, more, most)| (min, min + more, min + more + most)),
        seed: u64,
    ) {
        let mut all: [Box<dyn AdaptiveLimit>; 3] = [
            Box::new(Aimd::default().min(min).initial(initial).max(max)),
            Box::new(Vegas::default().initial(initial).max(max).smoothing(0.7).seed(seed)),
            Box::new(Gradient2::default().min(min).initial(initial).max(max).on_overload(0.5)),
        ];
        for (limit, min) in all.iter_mut().zip([min, 1, min]) {
            prop_assert_eq!(limit.check(), Ok(()));
            for sample in &samples {
                let before = limit.limit();
                limit.update(*sample);
                let after = limit.limit();
                prop_assert!((min..=max).contains(&after), "{:?} after {:?}", limit, sample);
                prop_assert!(!sample.is_overload || after <= before, "{:?} grew by {:?}", limit, sample);
            }
        }
    }
}
