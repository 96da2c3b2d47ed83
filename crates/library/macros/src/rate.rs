//! Whether a text is a quota that `tollgate::Quota` will read at run time: the same bounds, and narrower ones
//! for rates that cannot be intended.

use std::time::Duration;

use tollgate_human_text::{NotARate, parse_rate, rate_meant_by};

const LARGEST: u64 = (1 << 53) - 2;
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Longest time that a bucket may take to fill.
const LONGEST_FILL: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The error in a quota such as `100/s burst 200`.
pub(crate) fn fault(text: &str) -> Option<String> {
    let rate = match parse_rate(text) {
        Ok(rate) => rate,
        Err(NotARate::Form) => {
            let meant = rate_meant_by(text).map(|meant| format!("write {meant}"));
            let hint =
                meant.unwrap_or_else(|| "expected something like 100/s or 5/minute burst 20".to_owned());
            return Some(format!("invalid quota {text:?}: {hint}"));
        }
        Err(_) => return Some(format!("invalid quota {text:?}: the largest number is {LARGEST}")),
    };
    let permits = rate.permits;
    let period = rate.per.length();
    let burst = rate.burst.unwrap_or(permits);
    let fault = if permits > LARGEST || burst > LARGEST {
        format!("the largest number is {LARGEST}")
    } else if permits == 0 || burst == 0 {
        "0 admits nothing; the smallest number is 1".to_owned()
    } else if period.is_zero() || period > LONGEST {
        "the period must be above zero, and at most ten years".to_owned()
    } else if u128::from(permits) > 100 * period.as_nanos() {
        "the fastest rate is 100 a nanosecond".to_owned()
    } else if u128::from(burst) * period.as_nanos() > u128::from(permits) * LONGEST_FILL.as_nanos() {
        "the burst would take more than thirty years to fill".to_owned()
    } else {
        return None;
    };
    Some(format!("invalid quota {text:?}: {fault}"))
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Algorithm, Period, Quota, Refill};

    use super::*;

    fn is_quota(text: &str) -> bool {
        let made = parse_rate(text).ok().and_then(|rate| {
            let burst = rate.burst;
            let refill = Refill::Continuous;
            let bucket = Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill };
            Quota::new(rate.permits, Period::Span(rate.per.length()), bucket).ok()
        });
        made.is_some()
    }

    #[test]
    fn what_passes_here_is_a_quota_at_run_time() {
        let numbers =
            ["0", "1", "7", "3000000000", "9007199254740990", "9007199254740991", "99999999999999999999"];
        let periods = ["ns", "1ns", "1us", "s", "minute", "year", "10y", "3650d", "3651d", "100y", "0s", "x"];
        let bursts =
            ["", " burst 0", " burst 1", " burst 1000", " burst 9007199254740990", " burst 9007199254740991"];
        let mut passed = 0;
        for number in numbers {
            for period in periods {
                for burst in bursts {
                    let text = format!("{number}/{period}{burst}");
                    if fault(&text).is_none() {
                        passed += 1;
                        assert!(is_quota(&text), "{text}");
                    }
                }
            }
        }
        assert!(passed > 50, "{passed}");
        for text in ["1/s", "100/s burst 200", "5/minute burst 20", "1000000000/s", "1/year", "300/3h"] {
            assert_eq!(fault(text), None);
        }
    }
}
