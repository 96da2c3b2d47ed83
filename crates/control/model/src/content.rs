//! Rules as values: a row of the table of committed rates, or a rule file. Pure.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::faults::ModelError;
use crate::table_rule::TableRule;
use crate::table_rule_yaml;

/// The two kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// A row of the table of committed rates.
    TableRule,
    /// A rule file, which is a domain of its own.
    File,
}

impl RuleKind {
    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TableRule => "car",
            Self::File => "file",
        }
    }
}

impl FromStr for RuleKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        [Self::TableRule, Self::File].into_iter().find(|kind| kind.name() == name).ok_or(())
    }
}

/// A rule file: one domain, in the words of docs/rules.md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRule {
    /// The domain, which is the key of the rule.
    pub domain: String,
    /// The YAML, byte for byte.
    pub text: String,
    pub description: String,
    /// `on` or `off`.
    pub state: String,
}

/// The content of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    TableRule(Box<TableRule>),
    File(FileRule),
}

impl Content {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> RuleKind {
        match self {
            Self::TableRule(_) => RuleKind::TableRule,
            Self::File(_) => RuleKind::File,
        }
    }

    /// Its name, unique within its app and kind.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::TableRule(row) => &row.key,
            Self::File(file) => &file.domain,
        }
    }

    /// `on`, `shadow`, `off`.
    #[must_use]
    pub fn state(&self) -> &str {
        match self {
            Self::TableRule(row) => &row.state,
            Self::File(file) => &file.state,
        }
    }

    /// The same rule in another state.
    #[must_use]
    pub fn with_state(mut self, state: &str) -> Self {
        match &mut self {
            Self::TableRule(row) => state.clone_into(&mut row.state),
            Self::File(file) => state.clone_into(&mut file.state),
        }
        self
    }

    /// As YAML for people: the fields of a row, or the text of a file.
    #[must_use]
    pub fn yaml(&self) -> String {
        match self {
            Self::TableRule(row) => table_rule_yaml::write(&row.to_input()),
            Self::File(file) => file.text.clone(),
        }
    }

    /// As JSON, for the database and the API.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default() // texts and numbers cannot fail
    }

    /// [`json`](Self::json) as text.
    #[must_use]
    pub fn body(&self) -> String {
        self.json().to_string()
    }

    /// The rule that [`body`](Self::body) wrote.
    ///
    /// # Errors
    /// [`ModelError::Document`].
    pub fn read(app: &str, body: &str) -> Result<Self, ModelError> {
        // Nearly all are rows. An enum without a tag would keep each value twice to find out.
        if let Ok(row) = serde_json::from_str(body) {
            return Ok(Self::TableRule(row));
        }
        serde_json::from_str(body)
            .map_err(|error| ModelError::Document { app: app.to_owned(), reason: error.to_string() })
    }
}
