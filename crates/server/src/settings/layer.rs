//! One layer of settings: values as text, and where they were given.

use std::collections::BTreeMap;

use super::row::Setting;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The name of the flag.
    Flag(&'static str),
    /// One environment variable, or several that make one setting together.
    Env(String),
    /// The place in the file: `file:line:column: key`.
    File(String),
    /// The default of its row.
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "command line: --{name}"),
            Self::Env(name) => write!(f, "environment: {name}"),
            Self::File(place) => f.write_str(place),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One value as text, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

impl Given {
    pub(crate) fn new(text: impl Into<String>, origin: Origin) -> Self {
        Self { text: text.into(), origin }
    }

    /// A value of the environment.
    pub(crate) fn env(text: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(text, Origin::Env(name.into()))
    }
}

/// The values of one layer, by setting.
#[derive(Debug, Default)]
pub(crate) struct Layer(BTreeMap<&'static str, Vec<Given>>);

impl Layer {
    /// Gives `setting` these values.
    pub(crate) fn set(&mut self, setting: &Setting, values: impl IntoIterator<Item = Given>) {
        self.0.insert(setting.name, values.into_iter().collect());
    }

    /// Takes the values of `other` in place of its own.
    pub(crate) fn replace_by(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The values of `setting`, if this layer has it.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&[Given]> {
        self.0.get(setting.name).map(Vec::as_slice)
    }

    /// The values of the setting called `name`, if this layer has it.
    pub(crate) fn get_named(&self, name: &str) -> Option<&[Given]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The name of each setting that this layer has, and its values.
    pub(crate) fn by_setting(&self) -> impl Iterator<Item = (&'static str, &[Given])> {
        self.0.iter().map(|(name, given)| (*name, given.as_slice()))
    }
}
