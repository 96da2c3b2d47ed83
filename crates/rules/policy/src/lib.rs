//! Rules as data: the limits, the choice of the limits for a request, and the names of their counters.
//!
//! [`PolicyBuilder`] makes a [`Policy`] from [`DomainSpec`]s and checks everything, so that no decision can
//! fail. [`Domain::find`] picks the rule of a descriptor, and [`Rule::write_key`] writes the key of its
//! counter. [`RuleSource`] supplies policies while a process runs. Not here: rule files (`rule-files`),
//! counting (`core`), where counters are kept (`store`). No I/O.
#![deny(missing_docs)] // it is published

mod bucket;
mod builder;
mod countable;
mod counter_key;
mod digest;
mod domain;
mod error;
mod key_parts;
mod key_text;
mod limit;
mod limit_text;
mod name_table;
mod nearest;
mod pattern;
mod place;
mod policy;
mod reading;
mod readings;
mod removed;
mod response;
mod rule;
mod seen;
mod source;
mod spec;
mod stat_path;
mod wait;

pub use builder::PolicyBuilder;
pub use countable::Countable;
pub use counter_key::write_version;
pub use domain::{Charge, Domain, Entry, Matched, Unmatched};
pub use error::{BuildError, BuildErrors, RuleError};
pub use key_parts::KeyParts;
pub use limit::{Limit, LimitError, Override, Unit};
pub use limit_text::PATH_SEPARATOR;
pub use place::Place;
pub use policy::Policy;
pub use reading::{MOST_FORWARDED, ValueRoom};
pub use removed::{Removed, RemovedRule};
pub use response::{Response, ResponseErrors, ResponsePart, ResponseSpec};
pub use rule::{OnStoreFailure, Rule};
pub use seen::{EntryReading, seen_alone};
pub use source::{RuleSource, RuleUpdate};
pub use spec::{DescriptorSpec, DomainSpec, Part, RuleSpec, ValueSpec};
pub use tollgate_core::Timestamp;
pub use tollgate_store::Sharing;
pub use wait::{LONGEST_WAIT, SHORTEST_WAIT};
