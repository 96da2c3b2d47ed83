//! Rules in files: YAML to rules, every error of every file at once, folders, and changes while a process
//! runs.
//!
//! [`parse`] reads texts and [`load`] reads paths; both make a [`RuleSet`]. A [`RuleReader`] reads sets that
//! follow each other, each time only the changed files. [`FileSource`] watches paths and supplies each change
//! as a [`RuleSource`](tollgate_policy::RuleSource). Not here: what rules mean (`policy`), putting them in
//! force (`limiter`).
#![deny(missing_docs)] // it is published

mod error;
mod fault;
mod flat_yaml;
mod folder;
mod level;
mod load;
mod manifest;
mod read;
mod revision;
mod rule_file;
mod watch;
mod yaml_tree;
mod yaml_value;

pub use error::LoadError;
pub use fault::{Fault, Faults};
pub use flat_yaml::{FlatEntry, read_flat_yaml};
pub use folder::{hidden as hidden_files, read as read_files};
pub use level::{LANGUAGE, language_level};
pub use load::{Options, RuleReader, RuleSet, load, parse, parse_text};
pub use rule_file::RuleFile;
pub use watch::{FileSource, WatchHandle, WatchSettings};
pub use yaml_value::{YamlKind, YamlValue, read_large_yaml, read_yaml};
