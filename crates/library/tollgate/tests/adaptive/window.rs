//! Windows of calls.

use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate::adaptive::{Sample, Window};

use super::{call, ms, shed};

fn at(at_ms: u64) -> Timestamp {
    Timestamp::ZERO + ms(at_ms)
}

#[test]
fn a_window_has_a_second_and_ten_calls() {
    let mut window = Window::default();
    for number in 0..9 {
        assert_eq!(window.add(call(ms(10), number), at(number * 300)), None, "call {number}");
    }
    // The tenth call; those of a microsecond are not counted.
    assert_eq!(window.add(call(ms(1) / 1_000, 99), at(2_600)), None);
    assert_eq!(window.add(call(ms(110), 3), at(2_700)), Some(call(ms(20), 8)));
    // The next begins with its first call, not in the pause before.
    for number in 0..20 {
        assert_eq!(window.add(call(ms(10), 1), at(60_000 + number)), None);
    }
    assert_eq!(window.add(call(ms(10), 1), at(61_000)), Some(call(ms(10), 1)));
}

#[test]
fn failures_count_and_their_latencies_do_not() {
    let mut window = Window::default().min_samples(3);
    let fast_failure = Sample { rtt: ms(1), in_flight: 7, is_overload: true };
    assert_eq!(window.add(call(ms(10), 5), at(0)), None);
    assert_eq!(window.add(fast_failure, at(10)), None);
    assert_eq!(
        window.add(call(ms(20), 5), at(1_000)),
        Some(Sample { rtt: ms(15), in_flight: 7, is_overload: true })
    );
    // Where every call fails, the limit must still learn so.
    assert_eq!(window.add(shed(9), at(1_001)), None);
    assert_eq!(window.add(shed(8), at(1_002)), None);
    assert_eq!(window.add(shed(8), at(2_001)), Some(shed(9)));
}

#[test]
fn a_clock_that_goes_back_does_not_keep_a_window_open() {
    let mut window = Window::default().min_samples(1);
    assert_eq!(window.add(call(ms(10), 1), at(3_600_000)), None);
    assert_eq!(window.add(call(ms(10), 1), at(5_000)), None);
    assert_eq!(window.add(call(ms(10), 1), at(6_000)), Some(call(ms(10), 1)));
}

#[test]
fn settings_of_a_window_have_bounds() {
    let error = |window: Window| window.check().expect_err("out of bounds").to_string();
    assert_eq!(error(Window::default().min_samples(0)), "invalid min_samples 0: expected 1 or more");
    assert_eq!(error(Window::default().percentile(0.0)), "invalid percentile 0: expected above 0, up to 1");
    assert!(Window::default().percentile(1.0).check().is_ok());
}

#[test]
fn a_percentile_of_many_calls_is_near_that_of_all() {
    // 100,000 latencies, of which a window keeps a thousand.
    let mut window = Window::default().percentile(0.9);
    let found = (0..=100_000_u64).find_map(|number| {
        let rtt = ms(1 + number * 7_919 % 1_000);
        window.add(call(rtt, 1), at(number / 100))
    });
    let rtt = found.expect("a window").rtt;
    assert!((ms(880)..=ms(920)).contains(&rtt), "{rtt:?}");
}

proptest! {
    #[test]
    fn no_window_is_short_and_each_says_what_its_calls_did(
        calls in prop::collection::vec((0..400_u64, 0..50_u64, 0..100_u64, prop::bool::weighted(0.1)), 1..300),
        span_ms in 0..2_000_u64,
        min_samples in 1..30_u32,
        share in prop::option::of(0.01..1.0_f64),
    ) {
        let mut window = Window::default().span(ms(span_ms)).min_samples(min_samples);
        if let Some(share) = share {
            window = window.percentile(share);
        }
        let mut now_ms: u64 = 0;
        let mut seen: Vec<(u64, Sample)> = Vec::new();
        for (gap, rtt, in_flight, is_overload) in calls {
            now_ms += gap;
            let sample = Sample { rtt: ms(rtt), in_flight, is_overload };
            if is_overload || rtt > 0 {
                seen.push((now_ms, sample));
            }
            let said = window.add(sample, at(now_ms));
            let is_over = (is_overload || rtt > 0)
                && seen.len() >= min_samples as usize
                && seen.first().is_some_and(|(first, _)| now_ms - first >= span_ms);
            prop_assert_eq!(said.is_some(), is_over);
            let Some(said) = said else { continue };
            prop_assert_eq!(Some(said.in_flight), seen.iter().map(|(_, call)| call.in_flight).max());
            prop_assert_eq!(said.is_overload, seen.iter().any(|(_, call)| call.is_overload));
            let good = seen.iter().map(|(_, call)| *call).filter(|call| !call.is_overload);
            let mut rtts: Vec<_> = good.map(|call| call.rtt).collect();
            rtts.sort_unstable();
            if rtts.is_empty() {
                prop_assert!(said.rtt.is_zero());
            } else if let Some(share) = share {
                let at_most = rtts.iter().filter(|rtt| **rtt <= said.rtt).count();
                let below = rtts.iter().filter(|rtt| **rtt < said.rtt).count();
                prop_assert!(at_most as f64 >= share * rtts.len() as f64);
                prop_assert!((below as f64) < share * rtts.len() as f64);
            } else {
                let sum: std::time::Duration = rtts.iter().sum();
                prop_assert_eq!(said.rtt, sum / rtts.len() as u32);
            }
            seen.clear();
        }
    }
}
