//! The control plane's own work: loops that run until their future is dropped, and the state in memory that
//! they keep.
//!
//! `housekeeping` writes reports and removes what is old, `rollout_task` moves rollouts on by the
//! `rollout_counts`, `problem_watch` looks for `problems`. `live` is the state, `events` wakes readers when
//! it changes, `load` counts how full it is. Not here: two loops beside their tables, `fleet::known_nodes`
//! and `audit::seals`.

pub mod events;
pub(crate) mod housekeeping;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod problem_watch;
pub mod problems;
pub(crate) mod rollout_counts;
pub(crate) mod rollout_task;
