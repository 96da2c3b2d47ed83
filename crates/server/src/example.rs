//! An example for people: a descriptor that matches a rule.

use tollgate_policy::{Domain, Entry, PATH_SEPARATOR, Policy, Rule};

/// The domain of the first counting rule of `policy`, and a descriptor that matches it; `None` without such a
/// rule.
pub(crate) fn of(policy: &Policy) -> Option<(&Domain, Vec<(String, String)>)> {
    policy.domains().iter().find_map(|domain| {
        let counting = domain.rules().iter().filter(|rule| !rule.limits.is_empty());
        let descriptor = counting.filter_map(|rule| descriptor_of(domain, rule)).next()?;
        Some((domain, descriptor))
    })
}

/// A descriptor that matches `rule`: built from its path, and returned only if the matcher agrees.
fn descriptor_of(domain: &Domain, rule: &Rule) -> Option<Vec<(String, String)>> {
    let descriptor: Vec<(String, String)> = rule
        .path
        .split(PATH_SEPARATOR)
        .map(|level| match level.split_once('=') {
            Some((key, value)) => (key.replace('*', "x"), value.replace('*', "x")),
            None if level.contains(" in ") => {
                let (key, network) = level.split_once(" in ").unwrap_or((level, ""));
                (key.to_owned(), network.split('/').next().unwrap_or("").to_owned())
            }
            None if level.contains("address") => (level.to_owned(), "192.0.2.1".to_owned()),
            None => (level.replace('*', "x"), "alice".to_owned()),
        })
        .collect();
    let entries: Vec<Entry<'_>> = descriptor.iter().map(|(key, value)| Entry::new(key, value)).collect();
    let found = domain.find(&entries)?.index == rule.index;
    found.then_some(descriptor)
}
