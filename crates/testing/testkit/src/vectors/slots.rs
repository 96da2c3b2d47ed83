//! Vectors of slots: callers that hold some, and others that wait for them, or have parts of their own.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tollgate::{ConcurrencyGuard, ConcurrencyLimiter, EnterError};

use super::case::{Fields, StepAnswer, Stop, Vector, lacks, skip};

type Waits = Pin<Box<dyn Future<Output = Result<ConcurrencyGuard, EnterError>>>>;

/// Slots whose waiters are served last in, first out.
pub(super) struct Slots {
    slots: ConcurrencyLimiter,
    held: Vec<ConcurrencyGuard>,
    /// By the number that the vector gives them.
    waiting: HashMap<u64, Waits>,
}

impl Slots {
    /// The player of `vector`, if it is of slots.
    pub(super) fn of(vector: &Vector) -> Option<Result<Self, Stop>> {
        if vector.algorithm != "concurrency_blocking_lifo" {
            return None;
        }
        Some(vector.params.number("limit").map(|limit| {
            let slots = ConcurrencyLimiter::direct(limit);
            slots.set_last_first(true);
            Self { slots, held: Vec::new(), waiting: HashMap::new() }
        }))
    }

    pub(super) fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        match op {
            "acquire_many" => {
                let asked = step.calls("n")?;
                let before = self.held.len();
                self.held.extend((0..asked).map_while(|_| self.slots.try_enter().ok()));
                Ok(StepAnswer::from([("ok_count", (self.held.len() - before).into())]))
            }
            "queue_many" => {
                let numbers = step.numbers("ids")?.ok_or_else(|| lacks("ids"))?;
                if step.number("n")? != numbers.len() as u64 {
                    return skip("`n` of `queue_many` that is not the number of `ids`");
                }
                for number in numbers {
                    if self.waiting.contains_key(&number) {
                        return skip("two callers of one number that wait");
                    }
                    self.waiting.insert(number, Box::pin(self.slots.enter(1)));
                    if !self.served().is_empty() {
                        return skip("callers that find a slot at once");
                    }
                }
                Ok(StepAnswer::new())
            }
            "release_all" => {
                let mut order = Vec::new();
                while self.held.pop().is_some() {
                    order.extend(self.served());
                }
                Ok(StepAnswer::from([("admit_order", order.into())]))
            }
            other => skip(format!("`{other}` of slots")),
        }
    }

    /// Those that have a slot now, in no order; they hold it.
    fn served(&mut self) -> Vec<u64> {
        let mut served = Vec::new();
        for (number, waits) in &mut self.waiting {
            if let Poll::Ready(Ok(guard)) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                self.held.push(guard);
                served.push(*number);
            }
        }
        self.waiting.retain(|number, _| !served.contains(number));
        served
    }
}
