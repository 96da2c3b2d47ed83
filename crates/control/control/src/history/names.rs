//! The rules that are published: they have a history of their own before all others. A node may report any
//! name, and the number of series is limited.
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_model::compile;

use super::UNMATCHED;
use crate::published::{Document, Published};

/// The rules of each published domain, as hashes of their paths.
#[derive(Clone, Debug, Default)]
pub struct Names {
    hasher: RandomState,
    domains: HashMap<String, Vec<Arc<HashSet<u64>>>>,
}

impl Names {
    /// Whether it is published: a rule, the total of a domain, or what no rule of a domain matched.
    pub(super) fn has(&self, domain: &str, rule: &str) -> bool {
        let Some(documents) = self.domains.get(domain) else { return false };
        let hash = self.hasher.hash_one(rule);
        rule.is_empty() || rule == UNMATCHED || documents.iter().any(|rules| rules.contains(&hash))
    }
}

/// The names of what is published, read again as far as it has changed.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<NamesCache>);

#[derive(Debug, Default)]
struct NamesCache {
    of: Option<Arc<Published>>,
    names: Arc<Names>,
    /// By the digest of a document.
    documents: HashMap<[u8; 32], Arc<HashSet<u64>>>,
}

impl KnownNames {
    /// The names of `published`, if they were read before.
    pub(crate) fn known(&self, published: &Arc<Published>) -> Option<Arc<Names>> {
        let state = self.0.lock();
        let is_it = state.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, published));
        is_it.then(|| Arc::clone(&state.names))
    }

    /// The names of `published`. Takes a time that grows with the documents that have changed.
    pub(crate) fn read(&self, published: &Arc<Published>) -> Arc<Names> {
        let (hasher, before) = {
            let state = self.0.lock();
            (state.names.hasher.clone(), state.documents.clone())
        };
        let mut names = Names { hasher, domains: HashMap::new() };
        let mut documents = HashMap::new();
        for app in &published.apps {
            for document in app.documents.iter().chain(app.candidate.iter().flat_map(|it| &it.documents)) {
                let rules = match before.get(document.sha256()) {
                    Some(rules) => Arc::clone(rules),
                    None => {
                        let found = paths(&app.app, document);
                        Arc::new(found.iter().map(|path| names.hasher.hash_one(path.as_str())).collect())
                    }
                };
                documents.insert(*document.sha256(), Arc::clone(&rules));
                names.domains.entry(document.domain().to_owned()).or_default().push(rules);
            }
            // Also an app without rules may have been asked about.
            names.domains.entry(app.app.clone()).or_default();
        }
        let names = Arc::new(names);
        let of = Some(Arc::clone(published));
        *self.0.lock() = NamesCache { of, names: Arc::clone(&names), documents };
        names
    }
}

/// The paths of the rules of a document.
fn paths(app: &str, document: &Document) -> Vec<String> {
    if document.domain() == app
        && let Some(paths) = compile::paths(document.yaml())
    {
        return paths;
    }
    match tollgate_rule_files::parse_text(document.domain(), document.yaml()) {
        Ok(policy) => policy.rules().map(|rule| rule.path.to_string()).collect(),
        Err(_) => Vec::new(), // it was checked before it was published
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::table_rule::TableRuleInput;

    use super::*;
    use crate::published::AppDocuments;

    fn row(key: &str, per: &str, trial: &str) -> tollgate_model::table_rule::TableRule {
        let [key, per, trial_rate] = [key, per, trial].map(str::to_owned);
        let trial_max_permits = trial_rate.clone();
        let max_permits = "10".to_owned();
        let input = TableRuleInput {
            key,
            per,
            trial_rate,
            trial_max_permits,
            max_permits,
            ..TableRuleInput::default()
        };
        input.check().expect("a row")
    }

    #[test]
    fn the_names_of_published_rules_are_known_and_no_others() {
        let rows = [row("a.b:c", "", ""), row("d", "provider", ""), row("e", "", "7")];
        let documents = compile::documents("shop", &rows).expect("a document");
        let read = tollgate_rule_files::parse_text("shop", documents[0].yaml()).expect("rules");
        let all: Vec<String> = read.rules().map(|rule| rule.path.to_string()).collect();
        assert_eq!(compile::paths(documents[0].yaml()).as_ref(), Some(&all), "as nodes name them");
        let file = "domain: web\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n";
        let mut documents = documents;
        documents.push(Document::new("web", file.to_owned()));
        let published = Arc::new(Published { apps: vec![AppDocuments::new("shop", 1, documents)] });
        let names = KnownNames::default();
        assert!(names.known(&published).is_none());
        let read = names.read(&published);
        for (domain, rule, is_known) in [
            ("shop", "key=a.b:c", true),
            ("shop", &*all[1], true),
            ("shop", "", true),
            ("shop", UNMATCHED, true),
            ("shop", "key=z", false),
            ("shop", "(anything)", false),
            ("web", "user", true),
            ("web", "key=a.b:c", false),
            ("made-up", "", false),
            ("made-up", UNMATCHED, false),
            ("", "", false),
        ] {
            assert_eq!(read.has(domain, rule), is_known, "{domain} {rule}");
        }
        assert!(names.known(&published).is_some());
    }
}
