//! The commands of this crate.

mod bound;
mod outcome;
mod progress;
mod replay;

pub use bound::Bound;
pub use outcome::Outcome;
pub use replay::Replay;
