//! What goes into a store and what comes out.

use tollgate_core::{Cost, Decision, Quota};

use crate::StoreError;

/// What a state is kept under: bytes that no two counters share. The limiter makes them, escaped, so that no
/// value chosen by a client can equal another counter's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a>(pub &'a [u8]);

/// One take of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// Whose counter.
    pub key: Key<'a>,
    /// By which quota.
    pub quota: &'a Quota,
    /// How many permits; zero peeks.
    pub cost: Cost,
}

/// What becomes of the other takes of a batch when one is denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Every take is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one is denied, none is charged.
    Together,
}

/// The answers to a batch, in its order. Kept by the caller and used again, so that a decision allocates
/// nothing.
pub type Verdicts = Vec<Result<Decision, StoreError>>;

/// What a store keeps of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What a peek would answer.
    pub decision: Decision,
    /// False when nothing is kept, so that the answer is that of a fresh quota.
    pub is_tracked: bool,
}
