//! One row for each setting: its flag, its environment name, its key in `tollgate.yaml`, its default, its
//! help, and the parser of its value.
//!
//! `memory-max` is `--memory-max`, `TOLLGATE_MEMORY_MAX` and `memory_max:`. A setting is read by its row and
//! never by its name: the name of a row and the type of its value are written in one place.

use super::parse;
use super::secret::{Secret, secret};

/// Number of values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    One,
    /// Any number of values: a repeated flag, a list in the file, separated by `:` in the environment.
    Many,
    /// On or off; the flag alone means on.
    Switch,
    /// One value for the environment and the file only: everyone on a machine can see command lines.
    Secret,
}

/// A section of the help text, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// Which rules are loaded.
    Rules,
    /// Rules that a control plane sends.
    Control,
    /// A control plane, as it is run.
    Plane,
    /// Addresses, connections, timeouts.
    Listen,
    /// TLS and secrets.
    Guard,
    /// Contents of replies.
    Answers,
    /// Where counters are.
    Counters,
    /// A store that several nodes share.
    SharedStore,
    /// Logs of denials, metrics, traces.
    Observe,
    /// The process itself.
    Process,
}

impl Heading {
    /// As the help text has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rules => "Rules",
            Self::Control => "Rules from a control plane",
            Self::Plane => "Running a control plane (`tollgate control` has these without `control-`)",
            Self::Listen => "Where it listens",
            Self::Guard => "TLS, tokens",
            Self::Answers => "How clients are answered",
            Self::Counters => "Counters",
            Self::SharedStore => "Shared store",
            Self::Observe => "What is observed",
            Self::Process => "Start, stop, logs",
        }
    }
}

/// A row as help, documentation and the layers see it: without the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The flag, without its two dashes.
    pub name: &'static str,
    /// Number of values that the setting takes.
    pub kind: SettingKind,
    /// Placeholder of the value in help.
    pub value: &'static str,
    /// Possible values, if there are only a few; shells complete these.
    pub values: &'static [&'static str],
    /// The default as text; empty without a default.
    pub default: &'static str,
    /// The names by which envoyproxy/ratelimit reads the same setting from its environment.
    pub envoy_compat: &'static [&'static str],
    /// The section of the help text.
    pub heading: Heading,
    /// One or two sentences.
    pub help: &'static str,
    /// Another name of its flag, which help does not show; empty without one.
    pub(crate) alias: &'static str,
}

impl Setting {
    /// Name of the environment variable, such as `TOLLGATE_MEMORY_MAX`.
    #[must_use]
    pub fn env(&self) -> String {
        format!("TOLLGATE_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// Key in the settings file, such as `memory_max`.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Whether the value is a path of a file or a folder.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self.value, "FILE" | "PATH" | "DIR")
    }
}

/// Reads a value from its text; the error names the invalid value and the expected form.
pub(crate) type Parse<T> = fn(&str) -> Result<T, String>;

/// A setting that always has a value, since it has a default.
#[derive(Debug)]
pub(crate) struct Row<T: 'static> {
    pub(crate) setting: Setting,
    pub(crate) parse: Parse<T>,
}

/// A setting without a default: given once, several times or not at all.
#[derive(Debug)]
pub(crate) struct OptionalRow<T: 'static> {
    pub(crate) setting: Setting,
    pub(crate) parse: Parse<T>,
}

impl<T> Row<T> {
    /// A row with a value called `value` in help.
    pub(crate) const fn new(
        name: &'static str,
        value: &'static str,
        default: &'static str,
        parse: Parse<T>,
    ) -> Self {
        Self { setting: Setting { default, ..setting(name, SettingKind::One, value) }, parse }
    }

    /// The same row with another name of its flag.
    pub(crate) const fn alias(mut self, name: &'static str) -> Self {
        self.setting.alias = name;
        self
    }

    /// The same row for a value that is one of `values`.
    pub(crate) const fn one_of(mut self, values: &'static [&'static str]) -> Self {
        self.setting.values = values;
        self
    }

    /// The same row under a heading, with its help.
    pub(crate) const fn help(mut self, heading: Heading, help: &'static str) -> Self {
        (self.setting.heading, self.setting.help) = (heading, help);
        self
    }

    /// The same row with the names that envoyproxy/ratelimit reads it by.
    pub(crate) const fn envoy_compat(mut self, names: &'static [&'static str]) -> Self {
        self.setting.envoy_compat = names;
        self
    }
}

impl Row<bool> {
    /// A switch, which is off by default.
    pub(crate) const fn switch(name: &'static str) -> Self {
        let setting = Setting { default: "false", ..setting(name, SettingKind::Switch, "BOOL") };
        Self { setting, parse: parse::switch }
    }
}

impl<T> OptionalRow<T> {
    /// A row with a value called `value` in help.
    pub(crate) const fn new(name: &'static str, value: &'static str, parse: Parse<T>) -> Self {
        Self { setting: setting(name, SettingKind::One, value), parse }
    }

    /// A row that may be given several times.
    pub(crate) const fn many(name: &'static str, value: &'static str, parse: Parse<T>) -> Self {
        Self { setting: setting(name, SettingKind::Many, value), parse }
    }

    /// The same row under a heading, with its help.
    pub(crate) const fn help(mut self, heading: Heading, help: &'static str) -> Self {
        (self.setting.heading, self.setting.help) = (heading, help);
        self
    }

    /// The same row with the names that envoyproxy/ratelimit reads it by.
    pub(crate) const fn envoy_compat(mut self, names: &'static [&'static str]) -> Self {
        self.setting.envoy_compat = names;
        self
    }
}

impl OptionalRow<Secret> {
    /// A secret, which has no flag.
    pub(crate) const fn secret(name: &'static str) -> Self {
        Self { setting: setting(name, SettingKind::Secret, "SECRET"), parse: secret }
    }
}

const fn setting(name: &'static str, kind: SettingKind, value: &'static str) -> Setting {
    Setting {
        name,
        kind,
        value,
        values: &[],
        default: "",
        alias: "",
        envoy_compat: &[],
        heading: Heading::Listen,
        help: "",
    }
}

/// Declares rows and the list of them.
macro_rules! rows {
    ($(#[$about:meta])* $list:ident: $($(#[$doc:meta])* $row:ident: $type:ty = $value:expr;)+) => {
        $($(#[$doc])* pub(crate) const $row: $type = $value;)+
        $(#[$about])*
        pub(crate) const $list: &[&$crate::settings::row::Setting] = &[$(&$row.setting),+];
    };
}
pub(crate) use rows;
