//! Vectors of limits that learn: samples in, limits out, by the library's public types.

use std::time::Duration;

use serde_json::Value;
use tollgate::adaptive::{
    AdaptiveLimit, Aimd, Average, Decrease, Gradient2, Sample, Vegas, log10_of, root_of,
};

use super::case::{Fields, StepAnswer, Stop, Vector, lacks, skip};

/// The algorithm under test.
pub(super) enum Learner {
    Aimd(Aimd),
    Limit(Box<dyn AdaptiveLimit>),
    Average(Average),
    Functions,
}

/// `limit` with what `value` sets, if it is there.
fn set<L, V>(limit: L, value: Option<V>, setting: fn(L, V) -> L) -> L {
    match value {
        Some(value) => setting(limit, value),
        None => limit,
    }
}

/// The least that a limit falls to. Ours never fall to 0, where nothing would be measured any more.
fn least(fields: &Fields) -> Result<Option<u64>, Stop> {
    Ok(fields.maybe_number("min")?.map(|min| min.max(1)))
}

fn aimd(limit: Aimd, fields: &Fields) -> Result<Aimd, Stop> {
    let limit = set(limit, fields.maybe_number("initial")?, Aimd::initial);
    let limit = set(limit, least(fields)?, Aimd::min);
    let limit = set(limit, fields.maybe_number("max")?, Aimd::max);
    let limit = set(limit, fields.maybe_share("backoff")?, Aimd::backoff);
    Ok(set(limit, fields.maybe_number("timeout_ns")?.map(Duration::from_nanos), Aimd::timeout))
}

fn vegas(fields: &Fields) -> Result<Vegas, Stop> {
    let limit = Vegas::default().probe_every(0);
    let limit = set(limit, fields.maybe_number("initial")?, Vegas::initial);
    let limit = set(limit, fields.maybe_number("max")?, Vegas::max);
    let limit = set(limit, fields.maybe_number("alpha")?, Vegas::alpha);
    let limit = set(limit, fields.maybe_number("beta")?, Vegas::beta);
    let limit = set(limit, fields.maybe_share("smoothing")?, Vegas::smoothing);
    match fields.text("decrease")? {
        "" => Ok(limit),
        "L/2" => Ok(limit.decrease(Decrease::To(0.5))),
        other => skip(format!("a limit that is lowered by {other}")),
    }
}

fn gradient2(fields: &Fields) -> Result<Gradient2, Stop> {
    let limit = set(Gradient2::default(), fields.maybe_number("initial")?, Gradient2::initial);
    let limit = set(limit, least(fields)?, Gradient2::min);
    let limit = set(limit, fields.maybe_number("max")?, Gradient2::max);
    let limit = set(limit, fields.maybe_share("smoothing")?, Gradient2::smoothing);
    let limit = set(limit, fields.maybe_number("queue")?, Gradient2::queue);
    let window =
        fields.maybe_number("long_window")?.map(|samples| u32::try_from(samples).unwrap_or(u32::MAX));
    let limit = set(limit, window, Gradient2::long_window);
    Ok(set(limit, fields.maybe_share("tolerance")?, Gradient2::tolerance))
}

impl Learner {
    /// The player of `vector`, if it is of such an algorithm.
    pub(super) fn of(vector: &Vector) -> Option<Result<Self, Stop>> {
        let params = &vector.params;
        let checked = |limit: Box<dyn AdaptiveLimit>| match limit.check() {
            Ok(()) => Ok(Self::Limit(limit)),
            Err(error) => skip(format!("rejected when made: {error}")),
        };
        Some(match vector.algorithm.as_str() {
            "concurrency_aimd" => aimd(Aimd::default(), params).map(Self::Aimd),
            "concurrency_vegas" => vegas(params).and_then(|limit| checked(Box::new(limit))),
            "concurrency_gradient2" => gradient2(params).and_then(|limit| checked(Box::new(limit))),
            "exp_average" => average(params).map(Self::Average),
            "limit_functions" => Ok(Self::Functions),
            _ => return None,
        })
    }

    pub(super) fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        let value = |value: Value| Ok(StepAnswer::from([("value", value)]));
        match self {
            // Each step is a limiter of its own.
            Self::Aimd(settings) if op == "sample_from" => {
                let mut limit = aimd(settings.clone(), step)?;
                if let Err(error) = limit.check() {
                    return skip(format!("rejected when made: {error}"));
                }
                limit.update(sample(step)?);
                Ok(StepAnswer::from([("limit", limit.limit().into())]))
            }
            Self::Aimd(limit) => learn(limit, step, op),
            Self::Limit(limit) => learn(limit.as_mut(), step, op),
            Self::Average(average) if op == "add" => {
                average.add(step.share("n")?);
                value(average.value().into())
            }
            Self::Functions if op == "log10root" => value(log10_of(step.number("n")?).into()),
            Self::Functions if op == "sqrt_min4" => value(root_of(step.number("n")?).into()),
            Self::Average(_) | Self::Functions => skip(format!("`{op}` of a learning limit")),
        }
    }
}

fn average(params: &Fields) -> Result<Average, Stop> {
    params.is("factor", "2/(window+1)")?;
    let count = |name: &str| {
        u32::try_from(params.number(name)?).or_else(|_| skip(format!("`{name}` is above 2^32 - 1")))
    };
    Ok(Average::new(count("window")?, count("warmup")?))
}

fn learn(limit: &mut dyn AdaptiveLimit, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
    match op {
        "sample" => limit.update(sample(step)?),
        other => return skip(format!("`{other}` of a learning limit")),
    }
    Ok(StepAnswer::from([("limit", limit.limit().into())]))
}

fn sample(step: &Fields) -> Result<Sample, Stop> {
    let rtt = step.number("rtt_ns")?;
    let in_flight = step.number("inflight")?;
    let is_overload = match step.get("dropped") {
        None => false,
        Some(dropped) => dropped.as_bool().ok_or_else(|| lacks("dropped"))?,
    };
    Ok(Sample { rtt: Duration::from_nanos(rtt), in_flight, is_overload })
}
