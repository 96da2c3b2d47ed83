//! Rule files: what they may say, every fault of every file at once, and which rule a request falls under.
//!
//! Texts go in, a [`Policy`] comes out, checked once so that nothing later can fail: each [`Rule`] holds quotas that
//! exist. [`Domain::find`] picks the rule of a descriptor, [`Rule::write_key`] names its counter.
//! Not here: counting (`core`), where counters live (`store`), watching files for changes (`limiter`).

mod domain;
mod fault;
mod key;
mod policy;
mod rule;

pub use domain::{Charge, Domain, Entry};
pub use fault::{Fault, Faults, Place};
pub use policy::{LoadError, Options, Policy, Source};
pub use rule::{Limit, OnStoreFailure, Override, Response, Rule, Sharing, Unit};
