//! The rules that a block or an allowance would go before, or that there is none.

use std::collections::BTreeSet;

use tollgate_control::overrides::Override;
use tollgate_policy::{Domain, Entry, Matched, PATH_SEPARATOR, Policy};
use tollgate_rule_files::parse_text;

use crate::console::Console;

/// Rules that are named.
pub(crate) const MOST_RULES: usize = 10;
/// Most keys under which a value is blocked at once.
pub(crate) const MOST_ACROSS: usize = 200;

/// The published rules that an override goes before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The first rules that it goes before, by their paths.
    pub(crate) rules: Vec<String>,
    /// The number of rules that it goes before.
    pub(crate) total: usize,
    /// The domain has published rules. Without, nodes may have it from files of their own.
    pub(crate) is_published: bool,
    /// Where it meets no rule: entries that begin with a key of the rules before its own entry, as when a
    /// supplier is named and each key counts suppliers.
    pub(crate) across: Vec<Vec<(String, String)>>,
}

/// The rules that `made` goes before.
pub(crate) async fn find_met(console: &Console, made: &Override) -> Met {
    let published = console.control.published().borrow().clone();
    let mut documents = published.apps.iter().flat_map(|it| &it.documents);
    let found = documents.find(|it| it.domain() == made.domain).cloned();
    let domain = made.domain.clone();
    let entries = made.entries.clone();
    let Some(document) = found else { return Met::default() };
    // A document may be large, and this thread serves others.
    let work = move || {
        let policy = parse_text(&domain, document.yaml()).unwrap_or_default();
        of(&policy, &domain, &entries)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

fn of(policy: &Policy, name: &str, entries: &[(String, String)]) -> Met {
    let Some(domain) = policy.domain(name) else { return Met::default() };
    let taken = domain.trace(&borrowed(entries));
    let mut met = Met { is_published: true, ..Met::default() };
    if taken.len() < entries.len() {
        met.across = across(domain, entries);
        return met;
    }
    for rule in domain.rules() {
        let mut parts = rule.path.split(PATH_SEPARATOR);
        let begins = entries.iter().zip(&taken).all(|((key, value), matched)| {
            parts.next().is_some_and(|part| match matched {
                Matched::Exact => {
                    part.strip_prefix(&**key).is_some_and(|rest| rest.strip_prefix('=') == Some(value))
                }
                Matched::Default => part == key,
                // One of the patterns of this key.
                Matched::Pattern | Matched::Network => {
                    part.strip_prefix(&**key).is_some_and(|rest| rest.contains(['*', '~', '@', '^', '/']))
                }
            })
        });
        if begins {
            met.total += 1;
            if met.rules.len() < MOST_RULES {
                met.rules.push(rule.path.clone());
            }
        }
    }
    met
}

fn borrowed(entries: &[(String, String)]) -> Vec<Entry<'_>> {
    entries.iter().map(|(key, value)| Entry::new(key, value)).collect()
}

/// Where a single entry that begins no rule stands further down: below each exact key of the rules.
fn across(domain: &Domain, entries: &[(String, String)]) -> Vec<Vec<(String, String)>> {
    let [(key, value)] = entries else { return Vec::new() };
    let mut found = BTreeSet::new();
    for rule in domain.rules() {
        let parts: Vec<&str> = rule.path.split(PATH_SEPARATOR).collect();
        let is_it = |part: &&str| part.split_once('=').map_or(*part, |it| it.0) == key;
        let Some(at) = parts.iter().position(is_it).filter(|at| *at > 0) else { continue };
        let above = parts[..at].iter().map(|part| part.split_once('='));
        let above = above.map(|it| it.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let Some(mut whole) = above.collect::<Option<Vec<_>>>() else { continue };
        whole.push((key.clone(), value.clone()));
        if domain.trace(&borrowed(&whole)).len() == whole.len() && found.len() < MOST_ACROSS {
            found.insert(whole);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
domain: hotel
descriptors:
  - {key: key, value: push, descriptors: [{key: provider, rate_limit: {unit: second, requests_per_unit: 5}}]}
  - {key: key, value: pull, descriptors: [{key: provider, rate_limit: {unit: second, requests_per_unit: 5}}]}
  - {key: key, value: login, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: key, value: geo*, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: user, rate_limit: {unit: second, requests_per_unit: 5}}";

    #[test]
    fn a_block_names_the_rules_that_it_goes_before_and_the_keys_below_which_a_value_stands() {
        let policy = parse_text("hotel", RULES).unwrap_or_else(|faults| panic!("{faults}"));
        for (entries, total, across) in [
            ("", 5, ""),
            ("key=push", 1, ""),
            ("key=push provider=9527", 1, ""),
            ("key=login", 1, ""),
            ("key=geoCode", 1, ""),
            ("user=ann", 1, ""),
            ("key=other", 0, ""),
            ("key=login provider=1", 0, ""),
            ("provider=9527", 0, "key=pull provider=9527; key=push provider=9527"),
            ("nothing=1", 0, ""),
        ] {
            let pair = |it: &str| it.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            let entries: Vec<_> = entries.split_whitespace().filter_map(pair).collect();
            let met = of(&policy, "hotel", &entries);
            let one = |it: &Vec<(String, String)>| {
                it.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
            };
            let found = met.across.iter().map(one).collect::<Vec<_>>().join("; ");
            assert_eq!((met.total, &*found), (total, across), "{entries:?}");
            assert!(met.is_published);
        }
        assert_eq!(of(&policy, "another", &[]), Met::default());
    }
}
