//! Rules that were explained lately, parsed: programs ask about one app again and again.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tollgate_control::Document;
use tollgate_policy::Policy;

/// Apps whose rules are kept parsed.
const MOST_KEPT: usize = 4;

/// Digests of the documents of an app, and their rules.
type CachedPolicy = (Vec<[u8; 32]>, Arc<Policy>);

/// The rules that were explained last, parsed.
#[derive(Debug, Default)]
pub(crate) struct Explained(Mutex<VecDeque<CachedPolicy>>);

impl Explained {
    pub(crate) fn find(&self, documents: &[Document]) -> Option<Arc<Policy>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|it| it.0.iter().eq(documents.iter().map(Document::sha256)))?;
        let found = kept.remove(at)?;
        let policy = Arc::clone(&found.1);
        kept.push_back(found);
        Some(policy)
    }

    pub(crate) fn keep(&self, documents: &[Document], policy: Arc<Policy>) -> Arc<Policy> {
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back((documents.iter().map(|it| *it.sha256()).collect(), Arc::clone(&policy)));
        policy
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<CachedPolicy>> {
        self.0.lock()
    }
}
