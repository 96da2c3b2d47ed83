//! What changes wait for after a start.

/// Nodes that changes wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// How many have not attached.
    pub missing: usize,
    /// Of how many.
    pub of: usize,
    /// For how long changes wait at most.
    pub left_ms: i64,
}
