//! Staged rollouts: a version reaches some nodes first, gates compare them with the others, and a failed gate
//! withdraws it.
//!
//! [`Plan`] says what the steps are, [`Machine`] moves from one to the next, [`Tally`] counts what nodes
//! decide meanwhile. All of it is pure; time is an argument. Not here: the table (`rollouts` of `control`),
//! and the task that asks nodes and carries out what comes of it (`tasks` of `control`).

mod machine;
mod mistake;
mod plan;
mod stage;
mod tally;

pub use machine::{
    Action, Ask, Event, MORE_MS, Machine, PATIENCE_MS, Progress, REPORTS_MS, SeenNode, Span, State, Why,
    WrongState,
};
pub use mistake::Mistake;
pub use plan::{MAX_SOAK_S, MAX_STEPS, Plan, PlanInput, SOAK_S, Step, StepError};
pub use stage::Stage;
pub use tally::{LEAST_DECISIONS, MOST_DENIED_MORE, Sides, Tally, Verdict};
