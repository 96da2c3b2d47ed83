//! What the simulated database keeps of rollouts, and what the process that moves them on knows.

use std::collections::BTreeMap;

use tollgate_control::rollout::{Machine, Plan, Progress};

use super::content::Kind;

/// A bug of what surrounds the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutBug {
    /// A withdrawal publishes the content of before under its old number.
    OldVersionRepublished,
    /// A process that was overtaken still writes.
    OldTermWrites,
}

/// A rollout in the database.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) plan: Plan,
    pub(super) progress: Progress,
    pub(super) etag: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    /// What the version before does, and its domain.
    pub(super) before: (Kind, String),
}

/// What the database knows besides what is published.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    pub(super) kept: BTreeMap<String, Kept>,
    pub(super) last: u64,
}

/// The process that moves rollouts on.
#[derive(Clone, Debug, Default)]
pub(super) struct Driver {
    pub(super) term: u64,
    /// With the etag that each knows.
    pub(super) machines: BTreeMap<String, (u64, Machine)>,
}
