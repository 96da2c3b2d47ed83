//! Why a descriptor would be limited or not: the steps of a decision, as data.
//!
//! Asks no store and charges nothing. [`Explanation`]'s `Display` is the text of `tollgate explain`.
//! Not here: how an API or a page shows it.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use tollgate_human_text::show_bytes;
use tollgate_policy::{
    Charge, Domain, Entry, Limit, Matched, OnStoreFailure, PATH_SEPARATOR, Place, Policy, Rule, Unmatched,
};
use tollgate_store::Sharing;

use crate::interventions::InForce;

/// Most other rules that are listed beside the one that applies, and most names of a list to choose from.
const MOST: usize = 10;

/// Explanation of the treatment of a descriptor by the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain asked for.
    pub domain: String,
    /// The entries asked about, in order, each as `key=value`.
    pub asked: Vec<String>,
    /// Kinds of match of the entries, from the first on; shorter than `asked` if an entry matches nothing.
    pub steps: Vec<Matched>,
    /// The intervention of an operator, which applies whatever the rules say; `None` where rules are
    /// explained that are not in force.
    pub intervention: Option<InForce>,
    /// The rule that applies, or why there is none.
    pub verdict: Verdict,
    /// Treatment of a request with this descriptor alone, as no rule matches it; `None` where a rule applies,
    /// and for an exception.
    pub unmatched: Option<Unmatched>,
    /// Rules that begin with the same key and do not apply, and why: the ten nearest, first those that have
    /// most entries in common.
    pub others: Vec<Other>,
    /// Number of further rules that begin with the same key.
    pub more_others: usize,
}

/// The part of the rules that applies to a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// This rule applies.
    Rule(Box<Applied>),
    /// No rule: no file is about the domain. The value has the known domains.
    UnknownDomain(Known),
    /// No rule begins with the first entry. The value has the known rules, if no rule even has the key.
    NoRuleBegins(Known),
    /// No rule takes the first entry after `steps`, and matching never backtracks.
    Untaken,
    /// All entries are taken, but no rule ends where they do.
    NoRuleEnds,
    /// Nothing limits it: the rules name it without a limit.
    Exception,
}

/// Names to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Known {
    /// The first ten names.
    pub names: Vec<String>,
    /// Number of further names.
    pub more: usize,
}

/// The rule that applies, and the limits that would be charged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its path, such as `api_key → plan=gold`.
    pub path: String,
    /// Its name; empty where the file gives none.
    pub name: String,
    /// Where it was written; `None` for a rule that was built without a text.
    pub place: Option<Place>,
    /// Nothing is counted and everything passes.
    pub is_unlimited: bool,
    /// Nothing is counted and everything is denied.
    pub denies: bool,
    /// It counts, but never denies.
    pub is_shadow: bool,
    /// It denies only when all quota rules of the request do.
    pub is_quota: bool,
    /// Names of the rules that it replaces.
    pub replaces: Vec<String>,
    /// Whether other limits of the request are charged when one denies.
    pub charge: Charge,
    /// Where its counters are kept if several nodes run.
    pub sharing: Sharing,
    /// Its treatment of requests while the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// Longest wait of a request that is over a limit for its turn; `None`: it is denied at once.
    pub max_wait: Option<Duration>,
    /// It has slots: a holder acquires one and releases it, and a check is an error.
    pub has_slots: bool,
    /// Each of its limits would be charged.
    pub limits: Vec<Charged>,
}

/// One limit that would be charged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charged {
    /// The limit in words: `5 per minute, fixed_window`.
    pub limit: String,
    /// The counter's key, in the spelling of `tollgate_human_text::show_bytes`.
    pub key: String,
}

/// A rule that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Other {
    /// Its path, such as `api_key → plan=gold`.
    pub path: String,
    /// Where it was written; `None` for a rule that was built without a text.
    pub place: Option<Place>,
    /// Why it does not apply.
    pub why: String,
}

/// Explains the treatment of a descriptor of `entries` by the rules of `domain`. `unmatched` is the
/// [setting](crate::LimiterSettings::unmatched) for requests for which no rule matches.
#[must_use]
pub fn explain(policy: &Policy, domain: &str, entries: &[Entry<'_>], unmatched: Unmatched) -> Explanation {
    let mut explanation = Explanation {
        domain: domain.to_owned(),
        asked: entries.iter().map(ToString::to_string).collect(),
        steps: Vec::new(),
        intervention: None,
        verdict: Verdict::NoRuleEnds,
        unmatched: Some(unmatched),
        others: Vec::new(),
        more_others: 0,
    };
    let Some(rules) = policy.domain(domain) else {
        explanation.verdict = Verdict::UnknownDomain(known(policy.domains().iter().map(Domain::name)));
        return explanation;
    };
    explanation.steps = rules.trace(entries);
    let rule = rules.find(entries);
    let mut others: Vec<(Nearness, &Rule)> = rules
        .rules()
        .iter()
        .filter(|other| rule.is_none_or(|rule| rule.index != other.index))
        .filter(|other| begins_alike(other, entries))
        .map(|other| (Nearness::of(other, rule, &explanation.steps, entries), other))
        .collect();
    others.sort_by_key(|(nearness, _)| *nearness);
    explanation.more_others = others.len().saturating_sub(MOST);
    explanation.others = others
        .into_iter()
        .take(MOST)
        .map(|(_, other)| Other {
            path: other.path.clone(),
            place: other.place.clone(),
            why: why_not(other, rule, &explanation.steps, entries),
        })
        .collect();
    // Ordered by how far the match got: the first case that holds is the reason.
    explanation.verdict = match rule {
        Some(rule) => Verdict::Rule(Box::new(applied(rules, rule, entries))),
        None if rules.is_exception(entries) => Verdict::Exception,
        None if explanation.steps.len() == entries.len() => Verdict::NoRuleEnds,
        None if !explanation.steps.is_empty() => Verdict::Untaken,
        None if explanation.others.is_empty() => {
            Verdict::NoRuleBegins(known(rules.rules().iter().map(|rule| rule.path.as_str())))
        }
        None => Verdict::NoRuleBegins(Known::default()),
    };
    explanation.unmatched = match explanation.verdict {
        Verdict::Rule(_) | Verdict::Exception => None,
        _ => Some(rules.unmatched().unwrap_or(unmatched)),
    };
    explanation
}

fn known<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> Known {
    Known { names: names.by_ref().take(MOST).map(str::to_owned).collect(), more: names.len() }
}

fn applied(domain: &Domain, rule: &Rule, entries: &[Entry<'_>]) -> Applied {
    let charged = |(index, limit): (usize, &Limit)| {
        let mut key = Vec::new();
        rule.write_key(index, domain.name(), entries, &mut key);
        Charged { limit: limit.to_string(), key: show_bytes(&key).into_owned() }
    };
    let slots = rule.slots.iter().map(|_| {
        let mut key = Vec::new();
        rule.write_slot_key(domain.name(), entries, &mut key);
        Charged { limit: rule.limits_in_words().concat(), key: show_bytes(&key).into_owned() }
    });
    Applied {
        path: rule.path.clone(),
        name: rule.name.clone(),
        place: rule.place.clone(),
        is_unlimited: rule.unlimited,
        denies: rule.denies,
        is_shadow: rule.shadow_mode,
        is_quota: rule.quota_mode,
        replaces: rule.replaces.clone(),
        charge: domain.charge(),
        sharing: rule.sharing,
        on_store_failure: rule.on_store_failure,
        max_wait: rule.max_wait,
        has_slots: rule.slots.is_some(),
        limits: rule.limits.iter().enumerate().map(charged).chain(slots).collect(),
    }
}

/// Whether the first level of `rule` is about the first entry's key.
fn begins_alike(rule: &Rule, entries: &[Entry<'_>]) -> bool {
    entries.first().is_some_and(|entry| has_key(&rule.path, entry.key))
}

/// Whether a level, or a path that begins with it, is about `key`.
fn has_key(level: &str, key: &[u8]) -> bool {
    let rest = std::str::from_utf8(key).ok().and_then(|key| level.strip_prefix(key));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-'))
}

fn why_not(other: &Rule, rule: Option<&Rule>, taken: &[Matched], entries: &[Entry<'_>]) -> String {
    let levels: Vec<&str> = other.path.split(PATH_SEPARATOR).collect();
    if levels.len() > entries.len() {
        return format!("it needs {} entries, the descriptor has {}", levels.len(), entries.len());
    }
    if levels.len() < entries.len() {
        return format!("it ends after {} of the descriptor's {} entries", levels.len(), entries.len());
    }
    let index = levels_in_common(other, rule, taken, entries);
    let (Some(level), Some(entry)) = (levels.get(index), entries.get(index)) else {
        return "another branch was taken before, and there is no way back".to_owned();
    };
    match taken.get(index) {
        Some(Matched::Exact) if !is_written(level, entry) => {
            format!("{entry} has a level of its own, not `{level}`")
        }
        Some(Matched::Network) => format!("a narrower network takes {entry} before `{level}`"),
        Some(Matched::Pattern) => format!("another pattern takes {entry} before `{level}`"),
        Some(Matched::Default) => format!("`{level}` does not take {entry}"),
        _ => format!("nothing on its level takes {entry}"),
    }
}

/// The number of levels, from the first on, on which `other` matches as the descriptor does.
fn levels_in_common(other: &Rule, rule: Option<&Rule>, taken: &[Matched], entries: &[Entry<'_>]) -> usize {
    let mut winner = rule.map(|rule| rule.path.split(PATH_SEPARATOR));
    let levels = other.path.split(PATH_SEPARATOR).zip(entries).zip(taken);
    let took = |((level, entry), matched): &((&str, &Entry<'_>), &Matched)| {
        let of_rule = winner.as_mut().map(Iterator::next);
        match matched {
            // A list takes its values exactly, under its own name.
            Matched::Exact => is_written(level, entry) || of_rule == Some(Some(*level)),
            Matched::Default => level.as_bytes() == entry.key,
            // Without a rule that applies, the path of the descriptor through its level is unknown.
            Matched::Network | Matched::Pattern => of_rule.is_none_or(|it| it == Some(*level)),
        }
    };
    levels.take_while(took).count()
}

/// Whether a level is exactly an entry. A path has its texts as the rules write them, without escapes.
fn is_written(level: &str, entry: &Entry<'_>) -> bool {
    let value = level.as_bytes().strip_prefix(entry.key).and_then(|rest| rest.strip_prefix(b"="));
    value == Some(entry.value)
}

/// Nearness of a rule that does not apply; the nearest is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nearness {
    /// Levels in common, the more the nearer.
    common: Reverse<usize>,
    /// The next level is about another key than the descriptor.
    differs_in_key: bool,
    /// Levels too many or too few.
    off_by: usize,
}

impl Nearness {
    fn of(other: &Rule, rule: Option<&Rule>, taken: &[Matched], entries: &[Entry<'_>]) -> Self {
        let common = levels_in_common(other, rule, taken, entries);
        let mut levels = other.path.split(PATH_SEPARATOR).skip(common);
        let differs_in_key = match (levels.next(), entries.get(common)) {
            (Some(level), Some(entry)) => !has_key(level, entry.key),
            _ => false,
        };
        let off_by = other.path.split(PATH_SEPARATOR).count().abs_diff(entries.len());
        Self { common: Reverse(common), differs_in_key, off_by }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "domain   {}", self.domain)?;
        writeln!(f, "asked    {}", self.asked.join(PATH_SEPARATOR))?;
        if let Some(found) = &self.intervention {
            writeln!(f, "operator {found}")?;
        }
        let (taken, left) = self.asked.split_at(self.steps.len().min(self.asked.len()));
        let next = left.first().map_or("", String::as_str);
        match &self.verdict {
            Verdict::Rule(rule) => {
                writeln!(f, "rule     {}{}", rule.path, in_brackets(rule.place.as_ref()))?;
                for ((level, entry), matched) in
                    rule.path.split(PATH_SEPARATOR).zip(&self.asked).zip(&self.steps)
                {
                    writeln!(f, "why      {}", why(level, entry, *matched))?;
                }
                rule.fmt(f)?;
            }
            Verdict::UnknownDomain(domains) => {
                let outcome = if self.unmatched == Some(Unmatched::Deny) { "denies" } else { "admits" };
                writeln!(f, "rule     none: there is no such domain, so --unmatched {outcome} it")?;
                domains.write("domains  ", f)?;
            }
            nothing => {
                let outcome = match self.unmatched {
                    Some(Unmatched::Deny) => "no rule matches, which denies it",
                    _ => "nothing limits it",
                };
                writeln!(f, "rule     none: {outcome}")?;
                match nothing {
                    Verdict::NoRuleBegins(rules) => {
                        writeln!(f, "why      no rule begins with {next}")?;
                        rules.write("known    ", f)?;
                    }
                    Verdict::Untaken => {
                        let taken = taken.join(PATH_SEPARATOR);
                        writeln!(
                            f,
                            "why      below {taken} no rule takes {next}; there is no way back to another branch"
                        )?;
                    }
                    Verdict::Exception => writeln!(
                        f,
                        "why      the rules have {} without a limit, which makes it an exception",
                        taken.join(PATH_SEPARATOR)
                    )?,
                    _ => writeln!(
                        f,
                        "why      rules go on below {}, and none ends there",
                        taken.join(PATH_SEPARATOR)
                    )?,
                }
            }
        }
        for other in &self.others {
            let place = in_brackets(other.place.as_ref());
            writeln!(f, "not      {}{place}: {}", other.path, other.why)?;
        }
        if self.more_others > 0 {
            writeln!(f, "not      … {} more", self.more_others)?;
        }
        Ok(())
    }
}

fn in_brackets(place: Option<&Place>) -> String {
    place.map_or_else(String::new, |place| format!(" ({place})"))
}

impl Known {
    fn write(&self, label: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.names.is_empty(), self.more) {
            (true, _) => Ok(()),
            (false, 0) => writeln!(f, "{label}{}", self.names.join(", ")),
            (false, more) => writeln!(f, "{label}{} and {more} more", self.names.join(", ")),
        }
    }
}

/// Shows the charges and the other settings of the rule: the lines below the rule's own.
impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited {
            writeln!(f, "limit    none: the rule says unlimited")?;
        }
        if self.denies {
            writeln!(f, "limit    none: the rule denies everything")?;
        }
        for limit in &self.limits {
            writeln!(f, "limit    {}\ncounter  {}", limit.limit, limit.key)?;
        }
        if !self.limits.is_empty() {
            let charge = match self.charge {
                _ if self.has_slots => {
                    "1 slot for each holder that acquires one, until it is released; none by a check"
                }
                Charge::Each => "1 permit of each limit, whatever the others say",
                Charge::Together => "1 permit of each limit, or of none when one denies (charge: together)",
                Charge::SpareOthers => {
                    "1 permit of each limit; when one denies, only of fixed windows that do (charge: spare_others)"
                }
            };
            writeln!(f, "charge   {charge}")?;
        }
        if !self.limits.is_empty() {
            let sharing = match self.sharing {
                Sharing::Exact => "exact: with --store, every decision asks it",
                Sharing::Leased => "leased: with --store, this node is handed permits ahead of time",
                Sharing::Local => "local: in the memory of each node, also with --store",
            };
            writeln!(f, "sharing  {sharing}")?;
            let without = match (self.sharing, self.on_store_failure) {
                (Sharing::Local, _) => "no matter: no store is asked",
                (_, OnStoreFailure::Deny) => "deny",
                (_, OnStoreFailure::Allow) => "allow",
                (_, OnStoreFailure::Local) => {
                    "local: each node counts by itself, by the limit divided by the nodes that are alive"
                }
            };
            writeln!(f, "outage   {without}")?;
        }
        if let Some(wait) = self.max_wait {
            writeln!(
                f,
                "over     queue: a request waits for its turn, for at most {wait:?}, before it is denied"
            )?;
        }
        if self.is_shadow {
            writeln!(f, "mode     shadow: counted, never denied")?;
        }
        if self.is_quota {
            writeln!(f, "mode     quota: denies only when every quota of the request is used up")?;
        }
        if !self.replaces.is_empty() {
            writeln!(f, "replaces {}", self.replaces.join(", "))?;
        }
        Ok(())
    }
}

/// The reason why an entry falls under one level of a rule.
fn why(level: &str, asked: &str, matched: Matched) -> String {
    match matched {
        Matched::Exact => format!("{asked} has a rule of its own"),
        Matched::Network => format!("{asked} falls to {level}, the narrowest network that it lies in"),
        Matched::Pattern => format!("{asked} matches {level}, the first pattern that does"),
        Matched::Default => format!("{asked} has no rule of its own, so that of every {level} applies"),
    }
}
