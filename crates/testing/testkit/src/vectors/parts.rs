//! Vectors of slots that are split over classes of callers.

use serde_json::Value;
use tollgate::{ConcurrencyLimiter, PartitionGuard, PartitionedLimiter};

use super::case::{Fields, StepAnswer, Stop, Vector, lacks, skip};

/// Slots by class; the names are those of the vector.
pub(super) struct Parts {
    slots: PartitionedLimiter,
    names: Vec<String>,
    held: Vec<PartitionGuard>,
}

impl Parts {
    /// The player of `vector`, if it is of this kind.
    pub(super) fn of(vector: &Vector) -> Option<Result<Self, Stop>> {
        (vector.algorithm == "concurrency_partitioned").then(|| Self::new(&vector.params))
    }

    fn new(params: &Fields) -> Result<Self, Stop> {
        let parts = params.get("partitions").and_then(Value::as_object).ok_or_else(|| lacks("partitions"))?;
        let weights = parts.values().map(weight).collect::<Result<Vec<_>, _>>()?;
        if weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight)) != 1_000 {
            return skip("shares whose sum is not 1");
        }
        let slots = ConcurrencyLimiter::partitioned(params.number("total")?, &weights)
            .or_else(|error| skip(format!("rejected when made: {error}")))?;
        Ok(Self { slots, names: parts.keys().cloned().collect(), held: Vec::new() })
    }

    pub(super) fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        match op {
            "partition_limits" => Ok(self.limits()),
            "set_total" => {
                self.slots.set_limit(step.number("n")?);
                Ok(self.limits())
            }
            "acquire" | "acquire_many" => {
                let key = step.text("key")?;
                let Some(class) = self.names.iter().position(|name| name == key) else {
                    return skip(format!("a class that is not there: {key:?}"));
                };
                let asked = step.calls("n")?;
                let before = self.held.len();
                self.held.extend((0..asked).map_while(|_| self.slots.try_enter(class).ok()));
                let entered = (self.held.len() - before) as u64;
                Ok(StepAnswer::from([("ok_count", entered.into()), ("ok", (entered == asked).into())]))
            }
            other => skip(format!("`{other}` of slots")),
        }
    }

    /// Slots that each class has whatever the others do, by the names of the vector.
    fn limits(&self) -> StepAnswer {
        let mut seen = StepAnswer::new();
        for (class, name) in self.names.iter().enumerate() {
            seen.insert(name, self.slots.limit_of(class));
        }
        seen
    }
}

/// A share in thousandths.
fn weight(share: &Value) -> Result<u64, Stop> {
    let thousandths = share.as_f64().map(|share| share * 1_000.0).filter(|it| (0.0..=1e9).contains(it));
    match thousandths.filter(|it| (it - it.round()).abs() < 1e-6) {
        Some(thousandths) => Ok(thousandths.round() as u64),
        None => skip(format!("a class whose share is {share}")),
    }
}
