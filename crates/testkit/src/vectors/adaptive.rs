//! Vectors of limits that learn: samples in, limits out, by the library's public types.

use std::time::Duration;

use serde_json::{Map, Value};
use tollgate::adaptive::{
    AdaptiveLimit, Aimd, Average, Decrease, Gradient2, Sample, Vegas, log10_of, root_of,
};

use super::case::{Seen, Stop, Vector, text};

type Fields = Map<String, Value>;

/// What the vectors of one of these algorithms are about.
pub(super) enum Learner {
    Aimd(Aimd),
    Limit(Box<dyn AdaptiveLimit>),
    Average(Average),
    Functions,
}

fn number(fields: &Fields, name: &str) -> Option<u64> {
    fields.get(name).and_then(Value::as_u64)
}

fn share(fields: &Fields, name: &str) -> Option<f64> {
    fields.get(name).and_then(Value::as_f64)
}

/// `limit` with what `value` sets, if it is there.
fn set<L, V>(limit: L, value: Option<V>, setting: fn(L, V) -> L) -> L {
    match value {
        Some(value) => setting(limit, value),
        None => limit,
    }
}

fn skip<T>(what: &str) -> Result<T, Stop> {
    Err(Stop::Skip(what.to_owned()))
}

/// The least that a limit falls to. Ours never fall to 0, where nothing would be measured any more.
fn least(fields: &Fields) -> Option<u64> {
    number(fields, "min").map(|min| min.max(1))
}

fn aimd(limit: Aimd, fields: &Fields) -> Aimd {
    let limit = set(limit, number(fields, "initial"), Aimd::initial);
    let limit = set(limit, least(fields), Aimd::min);
    let limit = set(limit, number(fields, "max"), Aimd::max);
    let limit = set(limit, share(fields, "backoff"), Aimd::backoff);
    set(limit, number(fields, "timeout_ns").map(Duration::from_nanos), Aimd::timeout)
}

fn vegas(fields: &Fields) -> Result<Vegas, Stop> {
    let limit = Vegas::default().probe_every(0);
    let limit = set(limit, number(fields, "initial"), Vegas::initial);
    let limit = set(limit, number(fields, "max"), Vegas::max);
    let limit = set(limit, number(fields, "alpha"), Vegas::alpha);
    let limit = set(limit, number(fields, "beta"), Vegas::beta);
    let limit = set(limit, share(fields, "smoothing"), Vegas::smoothing);
    match text(fields, "decrease") {
        "" => Ok(limit),
        "L/2" => Ok(limit.decrease(Decrease::To(0.5))),
        other => skip(&format!("a limit that is lowered by {other}")),
    }
}

fn gradient2(fields: &Fields) -> Gradient2 {
    let limit = set(Gradient2::default(), number(fields, "initial"), Gradient2::initial);
    let limit = set(limit, least(fields), Gradient2::min);
    let limit = set(limit, number(fields, "max"), Gradient2::max);
    let limit = set(limit, share(fields, "smoothing"), Gradient2::smoothing);
    let limit = set(limit, number(fields, "queue"), Gradient2::queue);
    let window = number(fields, "long_window").and_then(|samples| u32::try_from(samples).ok());
    let limit = set(limit, window, Gradient2::long_window);
    set(limit, share(fields, "tolerance"), Gradient2::tolerance)
}

impl Learner {
    /// What plays `vector`, if it is of such an algorithm.
    pub(super) fn of(vector: &Vector) -> Option<Result<Self, Stop>> {
        let params = &vector.params;
        Some(match vector.algorithm.as_str() {
            "concurrency_aimd" => Ok(Self::Aimd(aimd(Aimd::default(), params))),
            "concurrency_vegas" => vegas(params).map(|limit| Self::Limit(Box::new(limit))),
            "concurrency_gradient2" => Ok(Self::Limit(Box::new(gradient2(params)))),
            "exp_average" => {
                let count = |name| number(params, name).and_then(|count| u32::try_from(count).ok());
                match count("window").zip(count("warmup")) {
                    Some((window, warm_up)) => Ok(Self::Average(Average::new(window, warm_up))),
                    None => skip("an average without its window"),
                }
            }
            "limit_functions" => Ok(Self::Functions),
            _ => return None,
        })
    }

    pub(super) fn step(&mut self, step: &Fields) -> Result<Seen, Stop> {
        let op = text(step, "op");
        let value = |value: Value| Ok(Seen::from([("value", value)]));
        match self {
            // Each step is a limiter of its own.
            Self::Aimd(settings) if op == "sample_from" => {
                let mut limit = aimd(settings.clone(), step);
                limit.update(sample(step)?);
                Ok(Seen::from([("limit", limit.limit().into())]))
            }
            Self::Aimd(limit) => learn(limit, step),
            Self::Limit(limit) => learn(limit.as_mut(), step),
            Self::Average(average) if op == "add" => {
                average.add(share(step, "n").unwrap_or_default());
                value(average.value().into())
            }
            Self::Functions if op == "log10root" => {
                value(log10_of(number(step, "n").unwrap_or_default()).into())
            }
            Self::Functions if op == "sqrt_min4" => {
                value(root_of(number(step, "n").unwrap_or_default()).into())
            }
            Self::Average(_) | Self::Functions => skip(&format!("{op} of a learning limit")),
        }
    }
}

fn learn(limit: &mut dyn AdaptiveLimit, step: &Fields) -> Result<Seen, Stop> {
    match text(step, "op") {
        "sample" => limit.update(sample(step)?),
        other => return skip(&format!("{other} of a learning limit")),
    }
    Ok(Seen::from([("limit", limit.limit().into())]))
}

fn sample(step: &Fields) -> Result<Sample, Stop> {
    let Some((rtt, in_flight)) = number(step, "rtt_ns").zip(number(step, "inflight")) else {
        return skip("a sample without a latency");
    };
    let is_overload = step.get("dropped").and_then(Value::as_bool).unwrap_or(false);
    Ok(Sample { rtt: Duration::from_nanos(rtt), in_flight, is_overload })
}
