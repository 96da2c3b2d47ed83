//! The environment as text.

use std::collections::BTreeMap;

use crate::settings::parse::switch;

/// Variables by name.
#[derive(Debug, Default)]
pub(crate) struct Env(pub(crate) BTreeMap<String, String>);

impl Env {
    /// The value of `name`, if it is set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of `name`, if it is set and not empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|text| !text.is_empty())
    }

    /// Whether `name` is a switch that is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| switch(text) == Ok(true))
    }
}
