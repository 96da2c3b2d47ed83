//! Classes of priority by a rule: an entry of the request names the class.

use std::time::Duration;

use crate::common::{NOON, ask_at, limiter, of, policy};

const RULES: &str = "
domain: d
descriptors:
  - key: tenant
    descriptors:
      - key: priority
        rate_limit:
          rate: 100/s
          algorithm: priority_buckets
          classes: {high: 9, low: 1}
";

#[test]
fn a_high_priority_is_admitted_first_under_contention_and_a_low_one_gets_the_rest() {
    let limiter = limiter(RULES);
    let is_admitted = |entries: &str, now| ask_at(&limiter, "d", &[of(entries)], now).starts_with("OK");
    let mut high = 0;
    let mut low = 0;
    for tick in 0..300_u64 {
        let now = NOON + Duration::from_millis(10 * tick);
        // Low requests come first, and far too many of them.
        low += (0..5).filter(|_| is_admitted("tenant=a priority=low", now)).count();
        if tick % 10 != 0 {
            assert!(is_admitted("tenant=a priority=high", now), "a high request is denied at {tick}");
            high += 1;
        }
    }
    assert_eq!(high, 270);
    assert!((39..=41).contains(&low), "its burst of 10, and 10 a second: {low}");
}

#[test]
fn classes_share_a_counter_that_other_values_of_entries_before_do_not() {
    let limiter = limiter(RULES);
    let ask = |entries: &str, hits, ms| {
        ask_at(&limiter, "d", &[of(entries).hits(hits)], NOON + Duration::from_millis(ms))
    };
    assert_eq!(ask("tenant=a priority=low", 10, 0), "OK: ok 0/100");
    assert_eq!(ask("tenant=a priority=high", 0, 0), "OK: ok 90/100");
    // What flows to the high class, which is full, flows on to the low one.
    assert_eq!(ask("tenant=a priority=low", 0, 50), "OK: ok 5/100");
    // Any other value is of the last class, and so is an empty one.
    assert_eq!(ask("tenant=a priority=urgent", 0, 50), "OK: ok 5/100");
    assert_eq!(ask("tenant=a priority=", 0, 50), "OK: ok 5/100");
    assert_eq!(ask("tenant=b priority=low", 0, 50), "OK: ok 10/100");
    assert!(ask("tenant=a priority=low", 11, 60_000).ends_with("never"), "more than its burst");
}

#[test]
fn a_changed_rule_keeps_what_was_taken() {
    let limiter = limiter(RULES);
    let ask = |entries: &str, hits| ask_at(&limiter, "d", &[of(entries).hits(hits)], NOON);
    assert_eq!(ask("tenant=a priority=high", 80), "OK: ok 10/100");
    let changed = RULES.replace("high: 9, low: 1", "high: 1, low: 1").replace("100/s", "200/s burst 180");
    limiter.replace(policy(&changed), NOON);
    // 90 at once instead, of which 80 are taken still.
    assert_eq!(ask("tenant=a priority=high", 0), "OK: ok 10/200");
    assert_eq!(ask("tenant=a priority=low", 0), "OK: ok 90/200");
}
