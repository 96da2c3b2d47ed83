//! Flags made of rows of settings. Values are parsed by the settings, so that flag, environment and file
//! agree.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::{Setting, SettingKind};

/// Presentation of the rows of one command as flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags<'s> {
    pub(crate) rows: &'s [&'static Setting],
    /// Prefix that is left out of the names of flags; flags with it are accepted too.
    pub(crate) prefix: &'static str,
    /// Those that `-h` shows.
    pub(crate) summary: &'s [&'s str],
}

impl Flags<'_> {
    /// Adds the flags to `command`.
    pub(crate) fn add_to(self, command: Command) -> Command {
        self.rows.iter().fold(command, |command, setting| command.arg(self.arg(setting)))
    }

    /// The values that were given, by the names of their rows.
    pub(crate) fn given(self, matches: &ArgMatches) -> BTreeMap<String, Vec<String>> {
        let given = |name: &str| matches.get_many::<String>(name).map(|values| values.cloned().collect());
        self.rows.iter().filter_map(|setting| Some((setting.name.to_owned(), given(setting.name)?))).collect()
    }

    fn arg(self, setting: &'static Setting) -> Arg {
        let names: Vec<String> = std::iter::once(setting.env())
            .chain(setting.envoy_compat.iter().map(ToString::to_string))
            .collect();
        let default = match setting.kind {
            SettingKind::One if !setting.default.is_empty() => format!(" [default: {}]", setting.default),
            _ => String::new(),
        };
        let without_prefix = setting.name.strip_prefix(self.prefix).filter(|_| !self.prefix.is_empty());
        let arg = Arg::new(setting.name)
            .long(without_prefix.unwrap_or(setting.name))
            .value_name(setting.value)
            .help(format!("{}{default}", setting.help))
            .long_help(format!("{} [env: {}]{default}", setting.help, names.join(", ")))
            .hide_short_help(!self.summary.contains(&setting.name))
            .help_heading(setting.heading.name());
        let arg = if without_prefix.is_some() { arg.alias(setting.name) } else { arg };
        let arg = if setting.alias.is_empty() { arg } else { arg.alias(setting.alias) };
        let arg = match setting.values {
            [] => arg,
            values => arg.value_parser(Suggested(values)).hide_possible_values(true),
        };
        match setting.kind {
            // Parsed only to say why it is rejected; see `Settings::read`.
            SettingKind::Secret => arg.hide(true),
            // The last one counts, so that a script can add to another's flags.
            SettingKind::One => arg.action(ArgAction::Set).overrides_with(setting.name),
            SettingKind::Many => arg.action(ArgAction::Append),
            SettingKind::Switch => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .overrides_with(setting.name),
        }
    }
}

/// Any text. Shells complete these values; the settings accept more spellings, and report errors.
#[derive(Clone, Copy)]
struct Suggested(&'static [&'static str]);

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, text: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
