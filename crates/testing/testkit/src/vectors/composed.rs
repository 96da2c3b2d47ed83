//! Vectors that the library plays by two limiters, or by none.

use std::time::Duration;

use serde_json::Value;
use tollgate::{Algorithm, Align, ManualClock, Period, Quota, RateLimiter};

use super::case::{Fields, StepAnswer, Stop, Vector, lacks, skip};
use super::quotas::instant;
use crate::table::MIDNIGHT;

pub(super) enum Composed {
    /// A second window is asked where the first one denies.
    WindowAndBurst { clock: ManualClock, main: RateLimiter<ManualClock>, burst: RateLimiter<ManualClock> },
    /// A quota of one permit for each interval.
    Every,
}

impl Composed {
    /// The player of `vector`, if it is of this kind.
    pub(super) fn of(vector: &Vector) -> Option<Result<Self, Stop>> {
        match vector.algorithm.as_str() {
            "fixed_window_plus_burst" => Some(Self::window_and_burst(&vector.params)),
            "rate_from_interval" => Some(Ok(Self::Every)),
            _ => None,
        }
    }

    fn window_and_burst(params: &Fields) -> Result<Self, Stop> {
        let clock = ManualClock::at(MIDNIGHT);
        let window = |name: &str| {
            let of = Fields::of(params.get(name), name)?;
            let period = Period::Span(Duration::from_nanos(of.number("window_ns")?));
            let quota =
                Quota::new(of.number("points")?, period, Algorithm::FixedWindow { align: Align::FirstHit });
            of.all_seen(name)?;
            RateLimiter::direct_with_clock(quota, clock.clone())
                .map_err(|error| Stop::Skip(format!("rejected when made: {error}")))
        };
        let main = window("main")?;
        let burst = window("burst")?;
        Ok(Self::WindowAndBurst { clock, main, burst })
    }

    pub(super) fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        match self {
            Self::WindowAndBurst { clock, main, burst } if op == "consume" => {
                clock.set(instant(MIDNIGHT, step.number("t_ns")?)?);
                let n = step.number("n")?;
                let from = match (main.check_n(n), burst) {
                    (Ok(_), _) => Value::from("main"),
                    (Err(_), burst) if burst.check_n(n).is_ok() => "burst".into(),
                    (Err(_), _) => Value::Null,
                };
                Ok(StepAnswer::from([("ok", (!from.is_null()).into()), ("from_", from)]))
            }
            Self::Every if op == "every" => Self::every(step),
            _ => skip(format!("no such operation: {op}")),
        }
    }

    /// The rate of one permit per interval; null where there is no such quota.
    fn every(step: &Fields) -> Result<StepAnswer, Stop> {
        let interval = step.get("interval_ns").ok_or_else(|| lacks("interval_ns"))?;
        let Some(interval_ns) = interval.as_i64() else {
            return skip("`interval_ns` is not a whole number");
        };
        let interval = Duration::from_nanos(u64::try_from(interval_ns).unwrap_or(0));
        let rate = RateLimiter::direct(Quota::every(interval)).ok().and_then(|limiter| {
            let bounds = limiter.bounds();
            Some(bounds.limit as f64 * 1e9 / bounds.window?.as_nanos() as f64)
        });
        Ok(StepAnswer::from([("rate_per_s", rate.into())]))
    }
}
