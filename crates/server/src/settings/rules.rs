//! Which rules are loaded.

use std::path::PathBuf;

use tollgate_policy::Charge;

use super::control::NodeControl;
use super::layers::Layers;
use super::parse;
use super::row::Heading::Rules;
use super::row::{OptionalRow, Row, rows};

rows! {
    /// The rows of this file.
    ROWS:
    PATHS: OptionalRow<PathBuf> = OptionalRow::many("rules", "PATH", parse::path)
        .envoy_compat(&["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"])
        .help(Rules, "Folder or file of rules; may be given more than once. Changes apply within a second, without a \
                      restart");
    MERGE_DOMAINS: Row<bool> = Row::switch("merge-domains")
        .envoy_compat(&["MERGE_DOMAIN_CONFIG"])
        .help(Rules, "Allow several files to contain rules of one domain");
    DOT_FILES: Row<bool> = Row::switch("dot-files")
        .envoy_compat(&["RUNTIME_IGNOREDOTFILES"])
        .help(Rules, "Read rule files whose names begin with a dot too; folders with such names are never read. \
                      `RUNTIME_IGNOREDOTFILES` says the opposite, and without it the files below `RUNTIME_ROOT` are read");
    CHARGE: Row<Charge> = Row::new("charge", "HOW", "each", parse::charge)
        .one_of(&["each", "together", "spare_others"])
        .envoy_compat(&["STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"])
        .help(Rules, "What a request is charged if one of its limits denies, in domains that do not say `charge`: `each` \
                      of its limits, none of them (`together`), or only those fixed windows that deny \
                      (`spare_others`)");
    MAX_RULES_DROPPED: Row<u8> = Row::new("max-rules-dropped", "PERCENT", "100", parse::percent)
        .help(Rules, "Reject a reload that drops more than this percentage of the rules in force; 100 rejects none");
    START_ANYWAY: Row<bool> = Row::switch("start-anyway")
        .envoy_compat(&["FORCE_START_WITHOUT_INITIAL_CONFIG"])
        .help(Rules, "Start even if rules are missing or invalid: not ready, and calls fail, until they are valid");
}

/// Advice for a start without rules.
const NO_RULES: &str = match cfg!(feature = "control") {
    true => "no rules given; add --rules FOLDER, or --control URL for those of a control plane",
    false => "no rules given; add --rules FOLDER",
};

/// Which rules are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// Folders and files.
    pub paths: Vec<PathBuf>,
    /// Several files may contain rules of one domain.
    pub merge_domains: bool,
    /// Files whose names begin with a dot are read too.
    pub dot_files: bool,
    /// Charge of the domains that do not say it.
    pub charge: Charge,
    /// A reload that drops more than this percentage of the rules in force is rejected.
    pub max_rules_dropped: u8,
    /// Start even without valid rules.
    pub start_anyway: bool,
}

impl RuleSettings {
    pub(super) fn read(layers: &mut Layers) -> Self {
        let settings = Self {
            paths: layers.all(&PATHS),
            merge_domains: layers.one(&MERGE_DOMAINS),
            dot_files: layers.one(&DOT_FILES),
            charge: layers.one(&CHARGE),
            max_rules_dropped: layers.one(&MAX_RULES_DROPPED),
            start_anyway: layers.one(&START_ANYWAY),
        };
        if settings.paths.is_empty() && !NodeControl::is_given(layers) {
            layers.conflict(NO_RULES);
        }
        settings
    }
}
