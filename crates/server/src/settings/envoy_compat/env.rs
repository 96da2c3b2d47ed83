//! The environment as text.

use std::collections::{BTreeMap, BTreeSet};

use crate::settings::fault::Fault;
use crate::settings::parse::switch;

/// Variables by name.
#[derive(Debug, Default)]
pub(crate) struct Env {
    pub(crate) texts: BTreeMap<String, String>,
    /// Names whose values are not UTF-8.
    pub(crate) not_text: BTreeSet<String>,
}

impl Env {
    /// The value of `name`, if it is set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The value of `name`, if it is set and not empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|text| !text.is_empty())
    }

    /// Whether `name` is a switch that is on. A value that is neither on nor off is a fault: taken for off,
    /// it would switch off what the operator wants.
    pub(super) fn is_on(&self, name: &str, faults: &mut Vec<Fault>) -> bool {
        let Some(text) = self.given(name) else { return false };
        switch(text).unwrap_or_else(|what| {
            faults.push(Fault::env(name, what));
            false
        })
    }
}
