//! The fast path, which stores inline, answers as the slow path does, or not at all.

use proptest::prelude::*;
use tollgate_core::{Align, Cost, Expiry, Quota, Timestamp, Word, WordAlgorithm, WordStep};

use crate::any::{self, Plain, Visit};

/// True when the fast path had an answer.
fn agrees(algorithm: &WordAlgorithm, word: Word, cost: Cost, now: Timestamp) -> Result<bool, TestCaseError> {
    let Some(fast) = algorithm.take_fast(word, cost, now) else { return Ok(false) };
    let fast = WordStep { word: fast.write.unwrap_or(word), decision: fast.decision };
    prop_assert_eq!(fast, algorithm.take_slow(word, cost, now), "{:?} of {:?} at {:?}", cost, word, now);
    Ok(true)
}

/// Along a history, after a denial, for other costs, at a clock that stepped, and for words that are somewhat
/// off.
fn agrees_along(
    plain: &Plain,
    visits: &[Visit],
    start: u64,
    off: &[(i64, i32)],
) -> Result<(), TestCaseError> {
    agrees_of(&plain.quota(), plain, visits, start, off)?;
    agrees_of(&plain.quota().keeping_instants(), plain, visits, start, off)
}

fn agrees_of(
    quota: &Quota,
    plain: &Plain,
    visits: &[Visit],
    start: u64,
    off: &[(i64, i32)],
) -> Result<(), TestCaseError> {
    let algorithm = any::word_algorithm(quota);
    let mut word = Word::FRESH;
    for (now, cost) in any::times(plain, visits, start) {
        for cost in [cost, 0, 1, 2, u64::MAX] {
            agrees(algorithm, word, Cost(cost), any::at(now))?;
            agrees(algorithm, word, Cost(cost), any::at(now.saturating_sub(plain.period_ns)))?;
            agrees(algorithm, word, Cost(cost), any::at(now / 2))?;
            agrees(algorithm, word, Cost(cost), any::at(u64::MAX))?;
            for &(value, seconds) in off {
                let bits = word.expires.to_bits().wrapping_add_signed(seconds);
                let odd =
                    Word { value: word.value.wrapping_add_signed(value), expires: Expiry::from_bits(bits) };
                agrees(algorithm, odd, Cost(cost), any::at(now))?;
            }
        }
        word = algorithm.take(word, Cost(cost), any::at(now)).word;
    }
    Ok(())
}

fn off() -> impl Strategy<Value = Vec<(i64, i32)>> {
    let value = prop_oneof![Just(0_i64), -8_i64..8, any::<i64>()];
    let seconds = prop_oneof![Just(0_i32), -8_i32..8, any::<i32>()];
    prop::collection::vec((value, seconds), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_fast_path_of_a_token_bucket_answers_as_the_slow_one(plain in any::token_bucket(), visits in any::visits(20), start in any::start(), off in off()) {
        agrees_along(&plain, &visits, start, &off)?;
    }

    #[test]
    fn the_fast_path_of_a_leaky_meter_answers_as_the_slow_one(plain in any::leaky(false), visits in any::visits(20), start in any::start(), off in off()) {
        agrees_along(&plain, &visits, start, &off)?;
    }

    #[test]
    fn the_fast_path_of_a_fixed_window_answers_as_the_slow_one(
        plain in prop_oneof![any::fixed_window(Align::Calendar), any::fixed_window(Align::FirstHit)],
        visits in any::visits(20), start in any::start(), off in off(),
    ) {
        agrees_along(&plain, &visits, start, &off)?;
    }

    /// Rates and bursts of any size, so that a debt reaches from nanoseconds to decades.
    #[test]
    fn the_fast_path_answers_as_the_slow_one_at_any_rate(
        limit in 1_u64..1 << 34, period_s in 1_u64..1 << 20, seconds in 0_u64..1 << 20,
        cost in prop_oneof![Just(1_u64), 1_u64..1 << 34], debt in 0.0..1.1_f64,
    ) {
        let Ok(quota) = Quota::token_bucket(limit, std::time::Duration::from_secs(period_s)) else { return Ok(()) };
        let now = Timestamp::from_nanos(any::NOON + seconds);
        let later = Timestamp::from_nanos(any::NOON + seconds * 1_000_003);
        for quota in [quota.clone(), quota.keeping_instants()] {
            let algorithm = any::word_algorithm(&quota);
            let word = algorithm.charge(Word::FRESH, Cost((debt * limit as f64) as u64), now).word;
            agrees(algorithm, word, Cost(cost), later)?;
            let is_fast = agrees(algorithm, word, Cost(cost), now)?;
            if quota.keeps_instants() {
                prop_assert!(!is_fast, "{:?}: the fast path reads no instants", word);
            } else if cost <= limit {
                prop_assert!(is_fast || debt > 1.0, "{:?} takes the fast path", word);
            }
        }
    }
}
