//! Quota, cost, time, decision, and each algorithm as a pure step.
//!
//! `(state, cost, now) -> (state, decision)`: same inputs, same outputs, on every platform. Reads no clock, takes
//! no lock, does no I/O, uses no float in a decision.
//! Not here: where a state is kept (`store`), which quota applies to a request (`policy`).

pub mod algorithm;
mod cost;
mod decision;
mod hold;
mod numbers;
mod quota;
mod rational;
mod reservation;
mod slots;
mod state;
mod time;

pub use algorithm::{Algorithm, Align, LeakyForm, Refill};
pub use cost::Cost;
pub use decision::{Decision, Outcome, RetryAfter};
pub use numbers::{
    BucketNumbers, CellNumbers, CounterNumbers, IntervalNumbers, LogNumbers, MOST_COUNTED, Numbers,
    WindowNumbers,
};
pub use quota::{CivilUnit, Period, Quota, QuotaError, Sharing};
pub use reservation::Reservation;
pub use slots::{Holder, Slots};
pub use state::{Expiry, Shape, State, UsualStep, Wide, Word, WordStep};
pub use time::{Clock, ManualClock, NANOS_PER_SECOND, Timestamp};
