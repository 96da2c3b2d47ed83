//! All rules in force, read from texts or files.

use std::path::PathBuf;

use hashbrown::HashMap;
use tollgate_core::{Quota, Timestamp};

use crate::domain::Domain;
use crate::fault::{Fault, Faults};
use crate::read::Notes;
use crate::rule::Rule;
use crate::{build, files, read};

/// The text of one rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How faults name it.
    pub name: PathBuf,
    /// What it says.
    pub text: String,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files of one domain add up instead of being a fault.
    pub merge_domains: bool,
    /// What the store can count; all that there is where nothing is said.
    pub countable: Countable,
}

/// Whether the store that is configured can count a quota: `Err` says why not, and what to write instead.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let nothing = Countable::by(|_| Err("this store counts nothing"));
/// let text = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";
/// let source = Source { name: "d.yaml".into(), text: text.into() };
/// let faults = Policy::parse(&[source], &Options { countable: nothing, ..Options::default() });
/// let want = "d.yaml:3:26: descriptors[0].rate_limit: fixed_window: this store counts nothing";
/// assert_eq!(faults.expect_err("a fault").to_string(), want);
/// ```
#[derive(Clone, Copy)]
pub struct Countable(fn(&Quota) -> Result<(), &'static str>);

impl Countable {
    /// As `check` says.
    #[must_use]
    pub const fn by(check: fn(&Quota) -> Result<(), &'static str>) -> Self {
        Self(check)
    }

    pub(crate) fn check(self, quota: &Quota) -> Result<(), &'static str> {
        (self.0)(quota)
    }
}

impl Default for Countable {
    /// Everything.
    fn default() -> Self {
        Self(|_| Ok(()))
    }
}

impl std::fmt::Debug for Countable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Countable")
    }
}

impl PartialEq for Countable {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Countable {}

/// Why no policy could be had from paths. The policy before stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A path cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The files are read, and say something that cannot be.
    #[error(transparent)]
    Faulty(#[from] Faults),
}

/// All rules in force.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    domains: Vec<Domain>,
    by_name: HashMap<String, usize>,
    version: String,
    warnings: Vec<Fault>,
}

impl Policy {
    /// A policy without a rule.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads the texts of rule files, all of them, and reports every fault of each.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong, in the order of `sources` and of their lines. No part of a faulty set is
    /// ever taken.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let text = "domain: shop\ndescriptors:\n  - key: user\n    ratelimit: {unit: minute}\n";
    /// let source = Source { name: "shop.yaml".into(), text: text.into() };
    /// let faults = Policy::parse(&[source], &Options::default()).expect_err("rate_limit is misspelt");
    /// let want = "shop.yaml:4:5: descriptors[0].ratelimit: unknown key; did you mean rate_limit?";
    /// assert_eq!(faults.to_string(), want);
    /// ```
    pub fn parse(sources: &[Source], options: &Options) -> Result<Self, Faults> {
        let files = sources.iter().map(|source| {
            let mut notes = Notes::new(source.name.as_path().into());
            (read::file(&source.text, options.countable, &mut notes), notes)
        });
        let (domains, notes) = build::domains(files.collect(), options.merge_domains);
        let (mut faults, mut warnings) = (Vec::new(), Vec::new());
        for mut notes in notes {
            notes.faults.sort_by_key(|fault| (fault.place.line, fault.place.column));
            notes.warnings.sort_by_key(|warning| (warning.place.line, warning.place.column));
            faults.append(&mut notes.faults);
            warnings.append(&mut notes.warnings);
        }
        if let Some(faults) = Faults::new(faults) {
            return Err(faults);
        }
        let by_name = domains.iter().map(|domain| (domain.name.clone(), domain.index)).collect();
        Ok(Self { domains, by_name, version: version(sources, options), warnings })
    }

    /// Reads files, and folders with everything below them: `*.yaml`, `*.yml` and `*.json`, in name order; names that
    /// begin with a dot are passed over. No rule file at all makes a policy without a rule.
    ///
    /// # Errors
    /// [`LoadError`]: a path cannot be read, or files are faulty.
    pub fn load(paths: &[PathBuf], options: &Options) -> Result<Self, LoadError> {
        Ok(Self::parse(&files::read(paths)?, options)?)
    }

    /// Twelve hexadecimal digits that change with what the files say: the active rules' version. No secret, no seal.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The domain of that name.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.by_name.get(name).and_then(|index| self.domains.get(*index))
    }

    /// The domains, in index order.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// All rules of all domains, in index order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.domains.iter().flat_map(Domain::rules)
    }

    /// What the files say that has no effect, or not the one it seems to have. Nothing is refused for it.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        &self.warnings
    }

    /// This policy as the successor of `old` from `at` on: counters of rules that are in both keep their counts.
    ///
    /// A rule follows the old one of the same domain and path, else the one of the same domain and name. Counter keys
    /// hold neither, so counts survive where the algorithm and the unit stay; what this adds is that a token bucket's
    /// state, written under the old rate, is read in permits under the new one.
    #[must_use]
    pub fn migrated_from(mut self, old: &Self, at: Timestamp) -> Self {
        for domain in &mut self.domains {
            let Some(before) = old.domain(&domain.name) else { continue };
            let by_path: HashMap<u64, &Rule> =
                before.rules.iter().map(|rule| (rule.identity, rule)).collect();
            let named = before.rules.iter().filter(|rule| !rule.name.is_empty());
            let by_name: HashMap<&str, &Rule> = named.map(|rule| (rule.name.as_str(), rule)).collect();
            for rule in &mut domain.rules {
                let before = by_path.get(&rule.identity).or_else(|| by_name.get(rule.name.as_str()));
                for limit in &mut rule.limits {
                    let mut limits = before.iter().flat_map(|rule| &rule.limits);
                    if let Some(before) = limits.find(|before| before.key_tail == limit.key_tail) {
                        limit.quota = limit.quota.clone().migrated_from(&before.quota, at);
                    }
                }
            }
        }
        self
    }
}

/// FNV-1a over the texts, each after its length, in 64 bits, of which 48 are shown.
fn version(sources: &[Source], options: &Options) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&[u8::from(options.merge_domains)]);
    for source in sources {
        add(source.text.as_bytes());
    }
    format!("{:012x}", (hash ^ hash >> 48) & 0xffff_ffff_ffff)
}
