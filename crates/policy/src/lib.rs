//! Rule files: what they may say, every fault of every file at once, and which rule a request falls under.
//!
//! Texts go in, a [`Policy`] comes out, checked once so that nothing later can fail: each [`Rule`] holds quotas that
//! exist. [`Domain::find`] picks the rule of a descriptor, [`Rule::write_key`] names its counter.
//! Not here: counting (`core`), where counters live (`store`), watching files for changes (`limiter`).

mod build;
mod domain;
mod fault;
mod files;
mod flat;
mod key;
mod names;
mod pattern;
mod policy;
mod read;
mod rule;
mod stat;
mod tree;
mod words;

pub use domain::{Charge, Domain, Entry, Matched};
pub use fault::{Fault, Faults, Place};
pub use files::read as read_files;
pub use flat::{FlatEntry, read_flat};
pub use policy::{Countable, LoadError, Options, Policy, Source};
pub use tollgate_core::Timestamp;

pub use read::duration::{parse as parse_span, show as show_span};
pub use read::spelling::did_you_mean;
pub use rule::{Limit, OnStoreFailure, Override, Response, Rule, Unit};
pub use tollgate_core::Sharing;
pub use words::LEVEL;
