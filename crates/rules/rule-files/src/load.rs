//! From files or texts to a policy.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_policy::{Charge, Countable, DomainSpec, Policy, PolicyBuilder};

use crate::error::LoadError;
use crate::fault::{Fault, Faults};
use crate::folder;
use crate::read::{self, Lists, Notes, Warnings};
use crate::revision::{digest_of, revision_of};
use crate::rule_file::RuleFile;

/// Options for reading rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files of one domain add up instead of being an error.
    pub merge_domains: bool,
    /// Charge of the domains whose files do not say it.
    pub charge: Charge,
    /// Quotas that the store can count; everything by default.
    pub countable: Countable,
    /// Rule files whose names begin with a dot are read too. Folders with such names never are.
    pub dot_files: bool,
}

/// The contents of rule files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RuleSet {
    /// All rules of the files, ready to be matched.
    pub policy: Policy,
    /// Digest of the names and texts of the files: unlike the version of the rules, it changes with every
    /// character.
    pub revision: String,
    /// Warnings: text that has no effect, or another effect than it seems to have. If a kind occurs often,
    /// only the first is here, with the number of the others.
    pub warnings: Vec<Fault>,
    /// The number of all warnings.
    pub warned: usize,
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
    read_all(files, options, |file, lists| of_file(file, options, lists))
}

/// Reads one set of rule files after another; only changed texts are read again. Lists of values may change
/// the meaning of a text, so sets with lists are read whole.
#[derive(Debug, Default)]
pub struct RuleReader {
    options: Options,
    /// The texts of the last set without a fault, by name.
    read: HashMap<PathBuf, LoadedText>,
}

/// The contents of one text.
#[derive(Clone, Debug)]
struct LoadedText {
    /// Digest of the text.
    sha256: [u8; 32],
    domain: DomainSpec,
    notes: Notes,
}

impl RuleReader {
    /// A reader that has read nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, read: HashMap::new() }
    }

    /// Reads a set; the result is that of [`parse`].
    ///
    /// # Errors
    /// As [`parse`].
    ///
    /// # Example
    /// ```
    /// # use tollgate_rule_files::*;
    /// let file = |limit: u32| RuleFile {
    ///     name: "shop.yaml".into(),
    ///     text: format!("domain: shop\ndescriptors: [{{key: user, rate_limit: {{rate: {limit}/s}}}}]\n"),
    /// };
    /// let mut reader = RuleReader::new(Options::default());
    /// for limit in [5, 5, 6] {
    ///     let rules = reader.parse(&[file(limit)])?.policy;
    ///     assert_eq!(rules.rules().next().map(|rule| rule.limits[0].requests_per_unit), Some(limit.into()));
    /// }
    /// # Ok::<(), Faults>(())
    /// ```
    pub fn parse(&mut self, files: &[RuleFile]) -> Result<RuleSet, Faults> {
        let mut before = std::mem::take(&mut self.read);
        if files.iter().any(RuleFile::is_list) {
            return parse(files, &self.options);
        }
        let options = self.options;
        let read = &mut self.read;
        read_all(files, &options, |file, lists| {
            let sha256 = digest_of(&file.text);
            let (domain, notes) = match before.remove(&file.name).filter(|it| it.sha256 == sha256) {
                Some(it) => (Some(it.domain), it.notes),
                None => of_file(file, &options, lists),
            };
            if let Some(domain) = domain.clone().filter(|_| notes.faults.is_empty()) {
                read.insert(file.name.clone(), LoadedText { sha256, domain, notes: notes.clone() });
            }
            (domain, notes)
        })
    }
}

fn of_file(file: &RuleFile, options: &Options, lists: &Lists<'_>) -> (Option<DomainSpec>, Notes) {
    let mut notes = Notes::new(file.name.as_path().into());
    (read::file(&file.text, options.countable, lists, &mut notes), notes)
}

/// Reads each text by `read`, and makes one policy of all.
fn read_all<'f>(
    files: &'f [RuleFile],
    options: &Options,
    mut read: impl FnMut(&'f RuleFile, &Lists<'f>) -> (Option<DomainSpec>, Notes),
) -> Result<RuleSet, Faults> {
    let mut builder = PolicyBuilder::new()
        .merge_domains(options.merge_domains)
        .default_charge(options.charge)
        .countable(options.countable);
    let mut notes: Vec<Notes> = Vec::with_capacity(files.len());
    let lists = Lists::new(files);
    for file in files.iter().filter(|file| !file.is_list()) {
        let (domain, of_file) = read(file, &lists);
        if let Some(domain) = domain {
            builder = builder.domain(domain);
        }
        notes.push(of_file);
    }
    let policy = match builder.build() {
        Ok(policy) => policy,
        Err(errors) => {
            // These errors join those of reading, so that all are reported at once.
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
    let mut faults = Vec::new();
    let mut warnings = Warnings::default();
    for mut notes in notes {
        notes.faults.sort_by_key(|fault| (fault.place.line, fault.place.column));
        faults.append(&mut notes.faults);
        warnings.append(notes.warnings);
    }
    match Faults::new(faults) {
        Some(faults) => Err(faults),
        None => {
            let (warnings, warned) = warnings.into_shown();
            Ok(RuleSet { policy, revision: revision_of(files), warnings, warned })
        }
    }
}

/// Reads one text; errors call it `name`.
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
/// ignored unless `options` say otherwise. Paths without a rule file make a policy without rules.
///
/// # Errors
/// [`LoadError`]: a path cannot be read, or files are faulty.
pub fn load(paths: &[PathBuf], options: &Options) -> Result<RuleSet, LoadError> {
    Ok(parse(&folder::read(paths, options.dot_files)?, options)?)
}
