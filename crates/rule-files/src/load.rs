//! From files or texts to a policy.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_policy::{Countable, Policy, PolicyBuilder};

use crate::error::LoadError;
use crate::fault::{Fault, Faults};
use crate::folder::{self, RuleFile};
use crate::read::{self, Lists, Notes};
use crate::revision::revision_of;

/// How to read rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files of one domain add up instead of being an error.
    pub merge_domains: bool,
    /// What the store can count; everything by default.
    pub countable: Countable,
}

/// What rule files contain.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RuleSet {
    /// The rules.
    pub policy: Policy,
    /// Digest of the names and texts of the files: unlike the version of the rules, it changes with every
    /// character.
    pub revision: String,
    /// What has no effect, or not the one it seems to have.
    pub warnings: Vec<Fault>,
}

/// Reads the texts of rule files, and reports every error of each.
///
/// # Errors
/// [`Faults`]: everything that is wrong, in the order of `files` and of their lines. No part of a faulty set
/// is used.
///
/// # Example
/// ```
/// # use tollgate_rule_files::*;
/// let text = "domain: shop\ndescriptors:\n  - key: user\n    ratelimit: {unit: minute}\n";
/// let file = RuleFile { name: "shop.yaml".into(), text: text.into() };
/// let faults = parse(&[file], &Options::default()).expect_err("rate_limit is misspelt");
/// let want = "shop.yaml:4:5: descriptors[0].ratelimit: unknown key; did you mean rate_limit?";
/// assert_eq!(faults.to_string(), want);
/// ```
pub fn parse(files: &[RuleFile], options: &Options) -> Result<RuleSet, Faults> {
    let mut builder = PolicyBuilder::new().merge_domains(options.merge_domains).countable(options.countable);
    let mut notes: Vec<Notes> = Vec::with_capacity(files.len());
    let lists = Lists::new(files);
    for file in files.iter().filter(|file| !file.is_list()) {
        let mut of_file = Notes::new(file.name.as_path().into());
        if let Some(domain) = read::file(&file.text, options.countable, &lists, &mut of_file) {
            builder = builder.domain(domain);
        }
        notes.push(of_file);
    }
    let policy = match builder.build() {
        Ok(policy) => policy,
        Err(errors) => {
            for error in errors {
                let of_file = error
                    .place
                    .as_ref()
                    .and_then(|place| notes.iter_mut().find(|notes| Arc::ptr_eq(notes.file(), &place.file)));
                if let (Some(notes), Some(place)) = (of_file, error.place) {
                    notes.fault_at(place, error.path, error.error.to_string());
                }
            }
            Policy::empty()
        }
    };
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    for mut notes in notes {
        notes.faults.sort_by_key(|fault| (fault.place.line, fault.place.column));
        notes.warnings.sort_by_key(|warning| (warning.place.line, warning.place.column));
        faults.append(&mut notes.faults);
        warnings.append(&mut notes.warnings);
    }
    match Faults::new(faults) {
        Some(faults) => Err(faults),
        None => Ok(RuleSet { policy, revision: revision_of(files), warnings }),
    }
}

/// Reads one text; `name` is how errors name it.
///
/// # Errors
/// [`Faults`]: everything that is wrong.
///
/// # Example
/// ```
/// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]}";
/// let policy = tollgate_rule_files::parse_text("shop.yaml", text)?;
/// assert_eq!(policy.rules().next().map(|rule| rule.limits[0].requests_per_unit), Some(5));
/// # Ok::<(), tollgate_rule_files::Faults>(())
/// ```
pub fn parse_text(name: &str, text: impl Into<String>) -> Result<Policy, Faults> {
    let file = RuleFile { name: name.into(), text: text.into() };
    Ok(parse(&[file], &Options::default())?.policy)
}

/// Reads files, and folders with everything below them: `*.yaml`, `*.yml` and `*.json` are rules, and
/// `*.values` lists of values that rules refer to, in name order. Files whose names begin with a dot are
/// ignored. Paths without a rule file make a policy without rules.
///
/// # Errors
/// [`LoadError`]: a path cannot be read, or files are faulty.
pub fn load(paths: &[PathBuf], options: &Options) -> Result<RuleSet, LoadError> {
    Ok(parse(&folder::read(paths)?, options)?)
}
