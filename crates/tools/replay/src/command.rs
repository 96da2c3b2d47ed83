//! The commands of this crate.

mod bound;
mod outcome;
mod progress;
mod replay;

pub use bound::Bound;
pub use outcome::CommandOutcome;
pub use replay::Replay;
