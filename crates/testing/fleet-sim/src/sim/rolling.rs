//! The rollouts in the simulated database, and the state of the process that advances them.

use std::collections::BTreeMap;

use tollgate_control::rollout::{Machine, Plan, Progress};

use super::content::RulesEffect;

/// A mistake of what surrounds the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutMistake {
    /// A withdrawal publishes the earlier content under its old number.
    OldVersionRepublished,
    /// A process that was overtaken still writes.
    OldTermWrites,
}

/// A rollout in the database.
#[derive(Clone, Debug)]
pub(super) struct StoredRollout {
    pub(super) plan: Plan,
    pub(super) progress: Progress,
    pub(super) etag: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Kind of the previous version's rules, and its domain.
    pub(super) before: (RulesEffect, String),
}

/// State of the database besides the published rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    pub(super) kept: BTreeMap<String, StoredRollout>,
    pub(super) last: u64,
}

/// The process that moves rollouts on.
#[derive(Clone, Debug, Default)]
pub(super) struct Driver {
    pub(super) term: u64,
    /// With the etag that each knows.
    pub(super) machines: BTreeMap<String, (u64, Machine)>,
}
