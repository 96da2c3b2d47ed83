//! The suite that every store is held to: random histories compared answer by answer with
//! [`ModelStore`](crate::ModelStore), shrunk when they differ, and checks with many callers at once.
//!
//! For tests of store crates (feature `suite`). Not here: the right arithmetic (`core` and its oracle have
//! it) and speed. The suite is itself tested: `tests/mutations.rs` breaks the model in known ways, and the
//! suite must fail for each.
//!
//! ```
//! use tollgate_store::{ModelStore, suite};
//!
//! suite::run(&suite::Parked, ModelStore::default, &suite::Options { cases: 8, ..Default::default() });
//! ```
#![expect(clippy::panic, reason = "a suite reports its findings by failing the test that runs it")]

mod bucket;
mod classes;
mod concurrent;
mod history;
mod outage;
mod quotas;
mod setup;
mod slots;

pub use self::outage::{Down, Outage, OutageStore};
pub use self::setup::{Executor, Failure, Options, Parked};
use crate::Store;

/// Checks the stores that `make` makes by everything in the suite; each check begins with a new one.
///
/// # Panics
/// Panics with the first [`Failure`].
pub fn run<S: Store>(executor: &impl Executor, make: impl Fn() -> S, options: &Options) {
    if let Err(failure) = check(executor, make, options) {
        panic!("{failure}");
    }
}

/// As [`run`], but returns the failure.
///
/// # Errors
/// The first [`Failure`].
pub fn check<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    history::answers_as_the_model_does(executor, &make, options)?;
    history::each_quota_at_its_edges(executor, &make, options)?;
    concurrent::callers_at_once_admit_exactly_the_limit(executor, &make, options)?;
    concurrent::together_charges_all_or_nobody(executor, &make, options)?;
    concurrent::together_in_any_order_never_passes_a_limit(executor, &make, options)?;
    concurrent::giving_back_at_once_loses_and_mints_nothing(executor, &make, options)?;
    concurrent::reserving_at_once_promises_no_permit_twice(executor, &make, options)?;
    concurrent::charges_at_once_are_all_counted(executor, &make, options)?;
    if !options.unsupported.contains(&"token_bucket") {
        if !options.unsupported.contains(&"overdraft") {
            bucket::classes_of_a_bucket_are_as_the_model_has_them(executor, &make, options)?;
        }
        bucket::classes_at_once_share_one_bucket(executor, &make, options)?;
    }
    if !options.unsupported.contains(&"priority_buckets") {
        classes::classes_are_as_the_model_has_them(executor, &make, options)?;
    }
    if options.unsupported.contains(&"concurrency") {
        return Ok(());
    }
    slots::slots_are_as_the_model_has_them(executor, &make, options)?;
    slots::holders_at_once_are_never_more_than_the_slots(executor, &[make()], options)
}

/// Checks that several stores that count together, as nodes of a fleet do, keep the laws of slots with many
/// callers at once.
///
/// # Errors
/// The first [`Failure`].
pub fn check_nodes<S: Store>(
    executor: &impl Executor,
    nodes: &[S],
    options: &Options,
) -> Result<(), Failure> {
    slots::holders_at_once_are_never_more_than_the_slots(executor, nodes, options)
}
