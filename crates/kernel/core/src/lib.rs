//! Quota, cost, time, decision, and each algorithm as a pure step.
//!
//! `(state, cost, now) -> (state, decision)`: same inputs, same outputs, on every platform. Reads no clock,
//! takes no lock, does no I/O, uses no float in a decision. Needs an allocator but no `std`: the feature
//! `std`, on by default, is only for the dependencies. Not here: where a state is kept (`store`), which quota
//! applies to a request (`policy`).

#![deny(missing_docs)] // it is published
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod algorithm;
mod bounds;
mod cost;
mod decision;
mod error;
mod inherit;
mod period;
mod promise;
mod quota;
mod rational;
mod refund;
mod slots;
mod state;
mod step;
mod step_params;
mod time;

pub use algorithm::token_bucket::{ShortBucket, ShortStep};
pub use algorithm::{Algorithm, Align, LeakyForm, LeavingCell, Refill};
pub use bounds::MAX_COUNT;
pub use cost::Cost;
pub use decision::{Decision, Outcome, RetryAfter};
pub use error::QuotaError;
pub use inherit::Inherit;
pub use period::{CivilUnit, Period};
pub use promise::Promise;
pub use quota::Quota;
pub use slots::{Acquired, Holder, Released, Slots};
pub use state::{Expiry, FastStep, Shape, State, Wide, Word, WordStep};
pub use step::{Step, WideAlgorithm, WordAlgorithm};
pub use step_params::{
    BucketParams, CellParams, CounterParams, IntervalParams, LogParams, PriorityParams, StepParams,
    WarmUpParams, WindowParams,
};
pub use time::{Clock, ManualClock, NANOS_PER_SECOND, Timestamp, nanos};
