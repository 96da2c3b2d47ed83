//! One line in the log for each domain that is asked for and that no file is about.
//!
//! Clients choose these names, so only the first of them are remembered; a domain that is known to be unknown
//! costs a load and a lookup. Not here: the decision about such requests (`limiter`).

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::Outcome;
use tollgate_human_text::shorten;

/// The most names that are remembered.
const MOST: usize = 100;

/// Unknown domains that the log has named, each shortened as the log shows it.
#[derive(Debug, Default)]
pub(crate) struct UnknownDomains(ArcSwap<HashSet<String>>);

impl UnknownDomains {
    /// The names so far, at most [`MOST`], in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.load().iter().cloned().collect();
        names.sort();
        names.truncate(MOST);
        names
    }

    /// Logs `domain`, decided as `outcome`, if it is new; `hint` suggests the domain that was meant.
    pub(crate) fn note(&self, domain: &str, outcome: Outcome, hint: impl FnOnce() -> Option<String>) {
        let named = self.0.load();
        if named.len() > MOST {
            return;
        }
        let name = shorten(domain);
        if named.contains(&name) {
            return;
        }
        let is_last = named.len() == MOST;
        let before = self.0.rcu(|named| {
            let mut named = HashSet::clone(named);
            // Two threads may see a new name at the same time: one of them adds it.
            if named.len() <= MOST {
                named.insert(name.clone());
            }
            Arc::new(named)
        });
        if before.len() > MOST || before.contains(&name) {
            return;
        }
        if is_last {
            let message = "more unknown domains are requested; no further ones are logged";
            return tracing::warn!(named = MOST, "{message}");
        }
        let outcome = match outcome {
            Outcome::Admit => "admitted",
            Outcome::Deny => "denied",
        };
        let hint =
            hint().unwrap_or_else(|| "add rules for it, or correct its name in the requests".to_owned());
        tracing::warn!(
            domain = name,
            "no rule file is about this domain, so its requests are {outcome}; {hint}"
        );
    }
}
