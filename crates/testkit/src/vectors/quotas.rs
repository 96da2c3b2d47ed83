//! A vector's parameters as our quotas.

use std::time::Duration;

use serde_json::{Map, Value};
use tollgate_core::{Algorithm, Align, Period, Quota, Refill};

use super::case::{Stop, Vector};

const SLOW: &str = "a rate below one in ten years";

/// What a bucket has beside its rate.
#[derive(Clone, Copy)]
struct Bucket {
    burst: Option<u64>,
    initial: Option<u64>,
    refill: Refill,
}

/// The quotas of a vector: all of them must admit.
pub(super) fn of(vector: &Vector) -> Result<Vec<Quota>, Stop> {
    let params = &vector.params;
    let one = |quota: Result<Quota, Stop>| quota.map(|quota| vec![quota]);
    match vector.algorithm.as_str() {
        "token_bucket" | "token_bucket_multi" => match params.get("bandwidths").and_then(Value::as_array) {
            Some(bandwidths) => bandwidths.iter().map(bandwidth).collect(),
            None => one(rate_and_burst(params)),
        },
        "gcra" | "gcra_keyed" => {
            let burst = number(params, "burst")?;
            let initial = params.get("initial").and_then(Value::as_u64);
            let of = Bucket { burst: Some(burst), initial, refill: Refill::Continuous };
            one(bucket(1, number(params, "period_per_token_ns")?, of))
        }
        "fixed_window_first_hit" => one(window(params, Algorithm::FixedWindow { align: Align::FirstHit })),
        "fixed_window" => {
            let from_first = vector.notes.as_deref().is_some_and(|notes| notes.contains("first call"));
            let align = if from_first { Align::FirstHit } else { Align::Calendar };
            one(window(params, Algorithm::FixedWindow { align }))
        }
        "fixed_window_with_reservation" if params.get("timeout_ns") == Some(&Value::from(0)) => {
            let algorithm = Algorithm::FixedWindow { align: Align::Calendar };
            one(make(number(params, "limit")?, number(params, "period_ns")?, algorithm))
        }
        "fixed_window_with_reservation" | "fixed_window_with_debt" => {
            skip("a fixed window whose balance goes below zero")
        }
        "sliding_window_counter" => one(window(params, Algorithm::SlidingWindowCounter)),
        "sliding_window_log" => one(window(params, Algorithm::SlidingWindowLog { log_denied: false })),
        "sliding_window_log_multi" => {
            let rates = params.get("rates").and_then(Value::as_array).ok_or_else(|| lacks("rates"))?;
            let log = |rate: &Value| {
                let rate = rate.as_object().ok_or_else(|| lacks("rates"))?;
                window(rate, Algorithm::SlidingWindowLog { log_denied: false })
            };
            rates.iter().map(log).collect()
        }
        "interval_token_bucket_fifo" => {
            let of = Bucket {
                burst: params.get("max").and_then(Value::as_u64),
                initial: params.get("initial").and_then(Value::as_u64),
                refill: Refill::Interval,
            };
            one(bucket(number(params, "refill")?, number(params, "interval_ns")?, of))
        }
        "leaky_bucket_queue" => slotted(params),
        "leaky_bucket_queue_grid" => skip("a queue whose slots lie on the grid of its creation"),
        "guava_smooth_bursty" | "guava_smooth_warming_up" => one(guava(params, rate_of(params)?)),
        other => Err(Stop::Skip(format!("no such algorithm in the library: {other}"))),
    }
}

fn bandwidth(bandwidth: &Value) -> Result<Quota, Stop> {
    let fields = bandwidth.as_object().ok_or_else(|| lacks("bandwidths"))?;
    let refill = match fields.get("kind").and_then(Value::as_str) {
        Some("greedy") => Refill::Continuous,
        Some("interval") => Refill::Interval,
        _ => return skip("refill aligned to an instant of the wall clock"),
    };
    let (burst, initial) = (Some(number(fields, "capacity")?), Some(number(fields, "initial")?));
    let of = Bucket { burst, initial, refill };
    bucket(number(fields, "refill")?, number(fields, "period_ns")?, of)
}

/// `inf` is a rate too.
fn rate_of(fields: &Map<String, Value>) -> Result<f64, Stop> {
    let rate = fields.get("rate_per_s").or_else(|| fields.get("rate")).ok_or_else(|| lacks("rate"))?;
    let infinite = (rate.as_str() == Some("inf")).then_some(f64::INFINITY);
    rate.as_f64().or(infinite).ok_or_else(|| lacks("rate"))
}

/// A rate by which each call pays for the call before, with a warm-up if there is one.
fn guava(params: &Map<String, Value>, rate: f64) -> Result<Quota, Stop> {
    if rate.is_infinite() {
        return Ok(Quota::unlimited());
    }
    let (limit, seconds) = ratio(rate).ok_or_else(|| Stop::Skip(SLOW.to_owned()))?;
    let algorithm = match params.get("warmup_s") {
        None => Algorithm::SmoothBursty { burst: None },
        Some(warm_up) => {
            let warm_up = warm_up.as_f64().filter(|it| *it > 0.0).ok_or_else(|| lacks("warmup_s"))?;
            let cold_factor = params.get("cold_factor").and_then(Value::as_f64).unwrap_or(3.0);
            if cold_factor.fract() != 0.0 {
                return skip("a cold factor that is not a whole number");
            }
            Algorithm::WarmUp { warm_up: Duration::from_secs_f64(warm_up), cold_factor: cold_factor as u32 }
        }
    };
    make(limit, seconds * 1_000_000_000, algorithm)
}

/// The same for the library, whose builder checks it again.
pub(super) fn of_library(quota: &Quota) -> tollgate::Quota {
    tollgate::Quota::new(quota.limit(), quota.period().clone(), quota.algorithm().clone())
}

fn rate_and_burst(params: &Map<String, Value>) -> Result<Quota, Stop> {
    let rate = rate_of(params)?;
    if rate > 1e18 {
        return Ok(Quota::unlimited());
    }
    let burst =
        ["burst", "max", "capacity"].iter().find_map(|name| params.get(*name)).and_then(Value::as_u64);
    let initial = params.get("initial").and_then(Value::as_u64);
    let of = Bucket { burst, initial, refill: Refill::Continuous };
    let (limit, seconds) = ratio(rate).ok_or_else(|| Stop::Skip(SLOW.to_owned()))?;
    bucket(limit, seconds * 1_000_000_000, of)
}

/// `rate` a second as whole permits per whole seconds.
pub(super) fn ratio(rate: f64) -> Option<(u64, u64)> {
    let is_whole = |seconds: &u64| {
        let permits = rate * *seconds as f64;
        rate == 0.0 || (permits >= 0.5 && (permits - permits.round()).abs() < 1e-9 * permits)
    };
    let seconds = (1..=10_000).find(is_whole)?;
    Some(((rate * seconds as f64).round() as u64, seconds))
}

/// Slots that may stay unused up to `slack` are permits of a bucket that starts with one.
fn slotted(params: &Map<String, Value>) -> Result<Vec<Quota>, Stop> {
    let one = |rate: u64, per_ns: u64, slack: u64| {
        let of = Bucket { burst: Some(slack + 1), initial: Some(1), refill: Refill::Continuous };
        bucket(rate, per_ns, of)
    };
    if params.contains_key("slow_rate") {
        let slow = one(number(params, "slow_rate")?, 1_000_000_000, number(params, "slow_slack")?)?;
        let fast =
            one(number(params, "fast_rate")?, number(params, "fast_per_ns")?, number(params, "fast_slack")?)?;
        return Ok(vec![slow, fast]);
    }
    let slacks = match params.get("slack") {
        Some(Value::Array(slacks)) => slacks.iter().filter_map(Value::as_u64).collect(),
        Some(slack) => slack.as_u64().into_iter().collect(),
        None => Vec::new(),
    };
    let (rate, per_ns) = (number(params, "rate")?, number(params, "per_ns")?);
    slacks.into_iter().map(|slack| one(rate, per_ns, slack)).collect()
}

fn window(params: &Map<String, Value>, algorithm: Algorithm) -> Result<Quota, Stop> {
    make(number(params, "limit")?, number(params, "window_ns")?, algorithm)
}

fn bucket(limit: u64, period_ns: u64, of: Bucket) -> Result<Quota, Stop> {
    let Bucket { burst, initial, refill } = of;
    let algorithm = Algorithm::TokenBucket { burst, initial, overdraft: 0, refill };
    make(limit, period_ns, algorithm)
}

fn make(limit: u64, period_ns: u64, algorithm: Algorithm) -> Result<Quota, Stop> {
    let period = Period::Span(Duration::from_nanos(period_ns));
    Quota::new(limit, period, algorithm).map_err(|error| Stop::Skip(format!("rejected when made: {error}")))
}

/// The quota after a step that changes it: the same bucket with another rate, burst or bandwidth.
pub(super) fn changed(
    old: &Quota,
    params: &Map<String, Value>,
    step: &Map<String, Value>,
) -> Result<Quota, Stop> {
    if matches!(
        old.algorithm(),
        Algorithm::WarmUp { .. } | Algorithm::SmoothBursty { .. } | Algorithm::Unlimited
    ) {
        return guava(params, rate_of(step)?);
    }
    if let Some(bandwidths) = step.get("bandwidths").and_then(Value::as_array) {
        return match bandwidths.as_slice() {
            [only] => bandwidth(only),
            _ => skip("several bandwidths replaced at once"),
        };
    }
    let (Algorithm::TokenBucket { burst, refill, .. }, Period::Span(period)) =
        (old.algorithm(), old.period())
    else {
        return skip("a change of what is no bucket");
    };
    let period_ns = u64::try_from(period.as_nanos()).map_err(|_| lacks("period"))?;
    let burst = step.get("burst").and_then(Value::as_u64).or(*burst);
    let of = Bucket { burst, initial: None, refill: *refill };
    match step.get("rate_per_s").and_then(Value::as_f64) {
        Some(rate) => {
            let (limit, seconds) = ratio(rate).ok_or_else(|| lacks("rate_per_s"))?;
            bucket(limit, seconds * 1_000_000_000, of)
        }
        None => bucket(old.limit(), period_ns, of),
    }
}

pub(super) fn number(fields: &Map<String, Value>, name: &str) -> Result<u64, Stop> {
    fields.get(name).and_then(Value::as_u64).ok_or_else(|| lacks(name))
}

pub(super) fn lacks(name: &str) -> Stop {
    Stop::Broken(format!("`{name}` is missing or no whole number"))
}

pub(super) fn skip<T>(reason: &str) -> Result<T, Stop> {
    Err(Stop::Skip(reason.to_owned()))
}
