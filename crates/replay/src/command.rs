//! The commands of this crate.

mod bound;
mod outcome;

pub use bound::Bound;
pub use outcome::Outcome;
