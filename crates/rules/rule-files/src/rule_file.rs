//! One file of rules, or of values that rules refer to. Not here: where it comes from (`folder`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The extension of lists of values.
const LIST: &str = "values";

/// The text of one rule file, or of one list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// Name of the file in errors.
    pub name: PathBuf,
    /// Text of the file, as it was read.
    pub text: String,
}

impl RuleFile {
    /// Whether it is a list of values, which rules refer to, and not rules.
    pub(crate) fn is_list(&self) -> bool {
        self.name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(LIST))
    }
}

/// Whether a file with this name is read.
pub(crate) fn is_rules_name(name: &Path) -> bool {
    name.extension().and_then(OsStr::to_str).is_some_and(is_rules_extension)
}

/// Files of rules, or of lists that rules refer to.
fn is_rules_extension(extension: &str) -> bool {
    ["yaml", "yml", "json", LIST].iter().any(|known| extension.eq_ignore_ascii_case(known))
}
