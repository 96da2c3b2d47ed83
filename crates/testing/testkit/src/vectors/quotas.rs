//! A vector's parameters as our quotas.

use std::time::Duration;

use serde_json::Value;
use tollgate::Timestamp;
use tollgate_core::{Algorithm, Align, Period, Quota, Refill};

use super::case::{Fields, Stop, Vector, lacks, skip};

/// Settings of a bucket besides its rate.
#[derive(Clone, Copy)]
struct BucketSettings {
    burst: Option<u64>,
    initial: Option<u64>,
    refill: Refill,
}

/// The instant so long after the beginning of a vector.
pub(super) fn instant(began: Timestamp, ns: u64) -> Result<Timestamp, Stop> {
    let at = began + Duration::from_nanos(ns);
    if at >= Timestamp::NEVER { skip(format!("an instant after the year 2554: {ns} ns")) } else { Ok(at) }
}

/// The quotas of a vector: all of them must admit.
pub(super) fn of(vector: &Vector) -> Result<Vec<Quota>, Stop> {
    let params = &vector.params;
    let one = |quota: Result<Quota, Stop>| quota.map(|quota| vec![quota]);
    match vector.algorithm.as_str() {
        "token_bucket" | "token_bucket_multi" => match params.list("bandwidths")? {
            Some(bandwidths) => bandwidths.iter().map(bandwidth).collect(),
            None => {
                params.is("refill", "continuous")?;
                one(rate_and_burst(params))
            }
        },
        "gcra" | "gcra_keyed" => {
            let burst = params.number("burst")?;
            let initial = params.maybe_number("initial")?;
            let of = BucketSettings { burst: Some(burst), initial, refill: Refill::Continuous };
            one(bucket(1, params.number("period_per_token_ns")?, of))
        }
        "fixed_window_first_hit" => one(window(params, Algorithm::FixedWindow { align: Align::FirstHit })),
        "fixed_window" => {
            let from_first = vector.notes.contains("first call");
            let align = if from_first { Align::FirstHit } else { Align::Calendar };
            one(window(params, Algorithm::FixedWindow { align }))
        }
        "fixed_window_with_reservation" | "fixed_window_with_debt" => {
            params.is("window_origin", "creation")?;
            let algorithm = Algorithm::FixedWindow { align: Align::Calendar };
            one(make(params.number("limit")?, params.number("period_ns")?, algorithm))
        }
        "leaky_bucket_queue_grid" => {
            let algorithm = Algorithm::FixedWindow { align: Align::Calendar };
            one(make(1, params.number("interval_ns")?, algorithm))
        }
        "sliding_window_counter" => {
            params.is("weight", "floor(previous*time_left/window)")?;
            one(window(params, Algorithm::SlidingWindowCounter))
        }
        "sliding_window_log" => one(window(params, Algorithm::SlidingWindowLog { log_denied: false })),
        "sliding_window_log_multi" => {
            let log = |rate: &Value| {
                let rate = Fields::of(Some(rate), "a rate")?;
                let quota = window(&rate, Algorithm::SlidingWindowLog { log_denied: false })?;
                rate.all_seen("a rate")?;
                Ok(quota)
            };
            params.list("rates")?.ok_or_else(|| lacks("rates"))?.iter().map(log).collect()
        }
        "interval_token_bucket_fifo" => {
            for (name, only) in [("fair", Value::from(true)), ("refill_kind", "interval".into())] {
                params.is(name, only)?;
            }
            params.is("initial_default", 0)?; // what it would be if `initial` did not say otherwise
            let of = BucketSettings {
                burst: params.maybe_number("max")?,
                initial: params.maybe_number("initial")?,
                refill: Refill::Interval,
            };
            one(bucket(params.number("refill")?, params.number("interval_ns")?, of))
        }
        "leaky_bucket_queue" => slotted(params),
        "guava_smooth_bursty" | "guava_smooth_warming_up" => one(guava(params, rate_of(params)?)),
        "http_headers" => skip("header fields, which the crate tollgate-tower writes"),
        other => skip(format!("no such algorithm in the library: {other}")),
    }
}

/// A length at whose multiples the windows of a vector begin, in ns: 1 where they begin with a hit.
pub(super) fn grid(quotas: &[Quota]) -> u64 {
    let of = |quota: &Quota| match (quota.algorithm(), quota.period()) {
        (
            Algorithm::FixedWindow { align: Align::Calendar } | Algorithm::SlidingWindowCounter,
            Period::Span(span),
        ) => u64::try_from(span.as_nanos()).unwrap_or(1),
        _ => 1,
    };
    quotas.iter().map(of).max().unwrap_or(1).max(1)
}

fn bandwidth(bandwidth: &Value) -> Result<Quota, Stop> {
    let fields = Fields::of(Some(bandwidth), "a bandwidth")?;
    let refill = match fields.text("kind")? {
        "greedy" => Refill::Continuous,
        "interval" => Refill::Interval,
        "aligned" => return skip("refill aligned to an instant of the wall clock"),
        other => return skip(format!("refill of the kind `{other}`")),
    };
    let burst = Some(fields.number("capacity")?);
    let initial = Some(fields.number("initial")?);
    let of = BucketSettings { burst, initial, refill };
    let quota = bucket(fields.number("refill")?, fields.number("period_ns")?, of)?;
    fields.all_seen("a bandwidth")?;
    Ok(quota)
}

/// `inf` is a rate too.
fn rate_of(fields: &Fields) -> Result<f64, Stop> {
    let names = ["rate_per_s", "rate"].into_iter().filter(|name| fields.has(name)).collect::<Vec<_>>();
    let [name] = names[..] else { return skip("a rate that is missing or stated twice") };
    match fields.get(name).and_then(Value::as_str) {
        Some("inf") => Ok(f64::INFINITY),
        Some(other) => skip(format!("`{name}` of {other:?}")),
        None => match fields.share(name)? {
            rate if rate < 0.0 => skip(format!("a rate below zero: {rate}")),
            rate => Ok(rate),
        },
    }
}

/// A rate by which each call pays for the call before, with a warm-up if there is one.
fn guava(params: &Fields, rate: f64) -> Result<Quota, Stop> {
    let warm_up = params.maybe_share("warmup_s")?;
    let cold_factor = params.maybe_share("cold_factor")?;
    if rate.is_infinite() {
        return Ok(Quota::unlimited());
    }
    let (limit, period_ns) = ratio(rate)?;
    let algorithm = match warm_up {
        None if cold_factor.is_some() => return skip("a cold factor without a warm-up"),
        None => Algorithm::SmoothBursty { burst: None },
        Some(warm_up) => {
            let Ok(warm_up) = Duration::try_from_secs_f64(warm_up) else {
                return skip(format!("a warm-up of {warm_up} s"));
            };
            let cold_factor = cold_factor.unwrap_or(3.0);
            if cold_factor.fract() != 0.0 || !(0.0..=1e9).contains(&cold_factor) {
                return skip("a cold factor that is not a whole number");
            }
            Algorithm::WarmUp { warm_up, cold_factor: cold_factor as u32 }
        }
    };
    make(limit, period_ns, algorithm)
}

/// The same for the library, whose builder checks it again.
pub(super) fn of_library(quota: &Quota) -> tollgate::Quota {
    tollgate::Quota::new(quota.limit(), quota.period().clone(), quota.algorithm().clone())
}

fn rate_and_burst(params: &Fields) -> Result<Quota, Stop> {
    let rate = rate_of(params)?;
    let mut burst = None;
    for name in ["burst", "max", "capacity"] {
        let stated = params.maybe_number(name)?;
        if stated.is_some() && burst.is_some() {
            return skip("a burst that is stated twice");
        }
        burst = burst.or(stated);
    }
    let initial = params.maybe_number("initial")?;
    if rate > 1e18 {
        return Ok(Quota::unlimited());
    }
    let of = BucketSettings { burst, initial, refill: Refill::Continuous };
    let (limit, period_ns) = ratio(rate)?;
    bucket(limit, period_ns, of)
}

/// `rate` a second as whole permits per ns of whole seconds.
pub(super) fn ratio(rate: f64) -> Result<(u64, u64), Stop> {
    let is_whole = |seconds: &u64| {
        let permits = rate * *seconds as f64;
        rate == 0.0 || (permits >= 0.5 && (permits - permits.round()).abs() < 1e-9 * permits)
    };
    match (1..=10_000).find(is_whole) {
        Some(seconds) => Ok(((rate * seconds as f64).round() as u64, seconds * 1_000_000_000)),
        None if rate < 1e-4 => skip("a rate below one in ten thousand seconds"),
        None => skip(format!("a rate that is no whole number in 10,000 s: {rate}")),
    }
}

/// Slots that may stay unused up to `slack` are permits of a bucket that starts with one.
fn slotted(params: &Fields) -> Result<Vec<Quota>, Stop> {
    let one = |rate: u64, per_ns: u64, slack: u64| {
        let of = BucketSettings { burst: slack.checked_add(1), initial: Some(1), refill: Refill::Continuous };
        bucket(rate, per_ns, of)
    };
    if params.has("slow_rate") {
        let slow = one(params.number("slow_rate")?, 1_000_000_000, params.number("slow_slack")?)?;
        let fast =
            one(params.number("fast_rate")?, params.number("fast_per_ns")?, params.number("fast_slack")?)?;
        return Ok(vec![slow, fast]);
    }
    let slacks = match params.get("slack") {
        Some(Value::Array(_)) => params.numbers("slack")?.unwrap_or_default(),
        _ => params.maybe_number("slack")?.into_iter().collect(),
    };
    let rate = params.number("rate")?;
    let per_ns = params.number("per_ns")?;
    slacks.into_iter().map(|slack| one(rate, per_ns, slack)).collect()
}

fn window(params: &Fields, algorithm: Algorithm) -> Result<Quota, Stop> {
    make(params.number("limit")?, params.number("window_ns")?, algorithm)
}

fn bucket(limit: u64, period_ns: u64, of: BucketSettings) -> Result<Quota, Stop> {
    let BucketSettings { burst, initial, refill } = of;
    let algorithm = Algorithm::TokenBucket { burst, initial, overdraft: 0, refill };
    make(limit, period_ns, algorithm)
}

fn make(limit: u64, period_ns: u64, algorithm: Algorithm) -> Result<Quota, Stop> {
    let period = Period::Span(Duration::from_nanos(period_ns));
    Quota::new(limit, period, algorithm).map_err(|error| Stop::Skip(format!("rejected when made: {error}")))
}

/// The quota after a step that changes it: the same bucket with another rate, burst or bandwidth.
pub(super) fn changed(old: &Quota, params: &Fields, step: &Fields) -> Result<Quota, Stop> {
    if matches!(
        old.algorithm(),
        Algorithm::WarmUp { .. } | Algorithm::SmoothBursty { .. } | Algorithm::Unlimited
    ) {
        return guava(params, rate_of(step)?);
    }
    if let Some(bandwidths) = step.list("bandwidths")? {
        return match bandwidths {
            [only] => bandwidth(only),
            _ => skip("several bandwidths replaced at once"),
        };
    }
    let (Algorithm::TokenBucket { burst, refill, .. }, Period::Span(period)) =
        (old.algorithm(), old.period())
    else {
        return skip("a change of what is no bucket");
    };
    let burst = step.maybe_number("burst")?.or(*burst);
    let of = BucketSettings { burst, initial: None, refill: *refill };
    if step.has("rate_per_s") || step.has("rate") {
        let (limit, period_ns) = ratio(rate_of(step)?)?;
        return bucket(limit, period_ns, of);
    }
    bucket(old.limit(), u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), of)
}
