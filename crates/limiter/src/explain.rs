//! Why a descriptor would be limited or not: what a decision does, told step by step, as data.
//!
//! Asks no store and charges nothing. Not here: how a screen or an API shows it; [`Explanation`]'s `Display` is for logs and tests.

use std::fmt;

use tollgate_policy::{Charge, Domain, Entry, Limit, Matched, OnStoreFailure, Place, Policy, Rule};

/// What stands between the levels of a rule's path.
const BETWEEN: &str = " → ";
/// Most rules that are told about besides the one that applies.
const MOST_OTHERS: usize = 10;

/// What a descriptor meets in the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain asked for.
    pub domain: String,
    /// Whether there are rules for it.
    pub is_domain_known: bool,
    /// One for each entry that was looked at, in order; the last one may have been taken by nothing.
    pub steps: Vec<Step>,
    /// What applies, or why nothing does.
    pub verdict: Verdict,
    /// Rules that begin with the same key and do not apply, and why; at most ten.
    pub others: Vec<Other>,
}

/// How one entry was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The entry, as `key=value`.
    pub entry: String,
    /// How it was taken; `None` when nothing took it.
    pub matched: Option<Matched>,
}

/// What applies in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// This rule.
    Rule(Box<Applied>),
    /// Nothing limits it: no file is about the domain.
    UnknownDomain,
    /// Nothing limits it: this entry (counted from 0) is taken by nothing, and there is no way back to another branch.
    Untaken(usize),
    /// Nothing limits it: all entries are taken, but no rule ends where they do.
    NoRuleEnds,
}

/// The rule that applies, and what would be charged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its path, such as `api_key → plan=gold`.
    pub path: String,
    /// Its name; empty where the file gives none.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Nothing is counted and everything passes.
    pub is_unlimited: bool,
    /// It counts, but never denies.
    pub is_shadow: bool,
    /// It denies only when all quota rules of the request do.
    pub is_quota: bool,
    /// Names of rules that it takes the place of.
    pub replaces: Vec<String>,
    /// Whether other limits of the request are charged when one denies.
    pub charge: Charge,
    /// What it does when the store gives no answer.
    pub on_store_failure: OnStoreFailure,
    /// Each of its limits would be charged.
    pub limits: Vec<Charged>,
}

/// One limit that would be charged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charged {
    /// Its name; empty where the file gives none.
    pub name: String,
    /// How much over what: `5 per minute`.
    pub rate: String,
    /// The algorithm's name in rule files.
    pub algorithm: &'static str,
    /// The counter's key.
    pub key: String,
}

/// A rule that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Other {
    /// Its path.
    pub path: String,
    /// Where it stands.
    pub place: Place,
    /// Why it does not apply.
    pub why: String,
}

/// What a descriptor of `entries` meets in the rules of `domain`.
#[must_use]
pub fn explain(policy: &Policy, domain: &str, entries: &[Entry<'_>]) -> Explanation {
    let Some(rules) = policy.domain(domain) else {
        let (domain, verdict) = (domain.to_owned(), Verdict::UnknownDomain);
        return Explanation {
            domain,
            is_domain_known: false,
            steps: Vec::new(),
            verdict,
            others: Vec::new(),
        };
    };
    let taken = rules.trace(entries);
    let steps = entries.iter().take(taken.len() + 1).enumerate();
    let steps = steps.map(|(index, entry)| Step { entry: spell(entry), matched: taken.get(index).copied() });
    let rule = rules.find(entries);
    let verdict = match rule {
        Some(rule) => Verdict::Rule(Box::new(applied(rules, rule, entries))),
        None if taken.len() < entries.len() => Verdict::Untaken(taken.len()),
        None => Verdict::NoRuleEnds,
    };
    let others = rules
        .rules()
        .iter()
        .filter(|other| rule.is_none_or(|rule| rule.index != other.index))
        .filter(|other| begins_alike(other, entries))
        .take(MOST_OTHERS)
        .map(|other| Other {
            path: other.path.clone(),
            place: other.place.clone(),
            why: why_not(other, rule, &taken, entries),
        })
        .collect();
    Explanation { domain: domain.to_owned(), is_domain_known: true, steps: steps.collect(), verdict, others }
}

fn applied(domain: &Domain, rule: &Rule, entries: &[Entry<'_>]) -> Applied {
    let charged = |(index, limit): (usize, &Limit)| {
        let mut key = Vec::new();
        rule.write_key(index, domain.name(), entries, &mut key);
        let period = limit.unit.map_or_else(|| format!("{:?}", limit.period), |unit| unit.name().to_owned());
        Charged {
            name: limit.name.clone(),
            rate: format!("{} per {period}", limit.requests_per_unit),
            algorithm: limit.quota.algorithm().name(),
            key: String::from_utf8_lossy(&key).into_owned(),
        }
    };
    Applied {
        path: rule.path.clone(),
        name: rule.name.clone(),
        place: rule.place.clone(),
        is_unlimited: rule.unlimited,
        is_shadow: rule.shadow_mode,
        is_quota: rule.quota_mode,
        replaces: rule.replaces.clone(),
        charge: domain.charge(),
        on_store_failure: rule.on_store_failure,
        limits: rule.limits.iter().enumerate().map(charged).collect(),
    }
}

/// Whether the first level of `rule` is about the first entry's key.
fn begins_alike(rule: &Rule, entries: &[Entry<'_>]) -> bool {
    let rest = entries.first().and_then(|entry| rule.path.strip_prefix(entry.key));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-'))
}

fn why_not(other: &Rule, rule: Option<&Rule>, taken: &[Matched], entries: &[Entry<'_>]) -> String {
    let levels: Vec<&str> = other.path.split(BETWEEN).collect();
    if levels.len() > entries.len() {
        return format!("it needs {} entries, the descriptor has {}", levels.len(), entries.len());
    }
    if levels.len() < entries.len() {
        return format!("it ends after {} of the descriptor's {} entries", levels.len(), entries.len());
    }
    let winner: Vec<&str> = rule.map_or_else(Vec::new, |rule| rule.path.split(BETWEEN).collect());
    for (index, (level, entry)) in levels.iter().zip(entries).enumerate() {
        let (key, entry) = (entry.key, spell(entry));
        let took = match taken.get(index) {
            Some(Matched::Exact) => *level == entry,
            Some(Matched::Default) => *level == key,
            // Where no rule applies, nothing says which of them it was.
            Some(Matched::Network | Matched::Pattern) => rule.is_none() || winner.get(index) == Some(level),
            None => false,
        };
        if took {
            continue;
        }
        return match taken.get(index) {
            Some(Matched::Exact) if *level != entry => {
                format!("{entry} has a level of its own, not `{level}`")
            }
            Some(Matched::Network) => format!("a narrower network takes {entry} before `{level}`"),
            Some(Matched::Pattern) => format!("another pattern takes {entry} before `{level}`"),
            Some(Matched::Default) => format!("`{level}` does not take {entry}"),
            _ => format!("nothing on its level takes {entry}"),
        };
    }
    "another branch was taken before, and there is no way back".to_owned()
}

fn spell(entry: &Entry<'_>) -> String {
    format!("{}={}", entry.key, entry.value)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "domain {}", self.domain)?;
        for step in &self.steps {
            let how = match step.matched {
                Some(Matched::Exact) => "taken by its key and value",
                Some(Matched::Network) => "taken by a network that it lies in",
                Some(Matched::Pattern) => "taken by a pattern",
                Some(Matched::Default) => "taken by its key",
                None => "taken by nothing",
            };
            writeln!(f, "entry {}: {how}", step.entry)?;
        }
        match &self.verdict {
            Verdict::UnknownDomain => writeln!(f, "no limit: no file is about this domain")?,
            Verdict::Untaken(index) => writeln!(f, "no limit: no rule takes entry {}", index + 1)?,
            Verdict::NoRuleEnds => writeln!(f, "no limit: no rule ends at the last entry")?,
            Verdict::Rule(rule) => {
                writeln!(f, "rule {} ({})", rule.path, rule.place)?;
                for limit in &rule.limits {
                    writeln!(f, "charges {} by {}, counter {}", limit.rate, limit.algorithm, limit.key)?;
                }
            }
        }
        for other in &self.others {
            writeln!(f, "not {} ({}): {}", other.path, other.place, other.why)?;
        }
        Ok(())
    }
}
