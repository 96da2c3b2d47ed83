//! The environment as text.

use std::collections::BTreeMap;

use crate::settings::parse;

/// Variables by name.
#[derive(Debug, Default)]
pub(in crate::settings) struct Env(pub(in crate::settings) BTreeMap<String, String>);

impl Env {
    /// The value of `name`, if it is set.
    pub(in crate::settings) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of `name`, if it is set and not empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|text| !text.is_empty())
    }

    /// Whether `name` is a switch that is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| parse::switch(text) == Ok(true))
    }
}
