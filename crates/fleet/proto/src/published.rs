//! Rules that nodes should have: made by the control plane's services, sent by its hub.

use crate::digest::{Sha256Bytes, text_digest};
use crate::reach::Reach;

/// The documents of every app, as the last committed change left them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// By name. An app that is missing is removed from the nodes.
    pub apps: Vec<AppDocuments>,
}

/// One version of an app: a node takes all of its documents or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppDocuments {
    /// Its name, of at most 256 bytes.
    pub app: String,
    /// 1, 2, 3 …; never goes down, also after a rollback.
    pub version: u64,
    /// One for each domain, at most 1,000; empty when the app has no rule.
    pub documents: Vec<Document>,
    /// The next version, while it is rolled out. A node that holds it keeps it.
    pub candidate: Option<Box<Candidate>>,
    /// The newest version that an administrator has put in place of versions on nodes; 0 if there is none.
    /// Nodes keep rules that this database has never published, unless their version is below it.
    pub forced: u64,
}

/// A version that only some nodes should have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Higher than the version that the other nodes have.
    pub version: u64,
    /// As those of an app.
    pub documents: Vec<Document>,
    /// Grows with each step of the rollout.
    pub step: u64,
    /// Which nodes should have it.
    pub reach: Reach,
}

impl AppDocuments {
    /// A version for all nodes.
    #[must_use]
    pub fn new(app: impl Into<String>, version: u64, documents: Vec<Document>) -> Self {
        Self { app: app.into(), version, documents, candidate: None, forced: 0 }
    }

    /// Grows with everything that is published of an app: a version, a step of its rollout, its end.
    fn order(&self) -> (u64, u64) {
        self.candidate.as_ref().map_or((self.version, u64::MAX), |it| (it.version, it.step))
    }
}

/// The rules of one domain, with the digest of their text. The two always agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    domain: String,
    yaml: String,
    sha256: Sha256Bytes,
}

impl Document {
    /// The rule file `yaml` of this domain, of at most 4 MiB.
    ///
    /// # Example
    /// ```
    /// # use tollgate_fleet_proto::{published::Document, text_digest};
    /// let document = Document::new("shop", "domain: shop\ndescriptors: []\n");
    /// assert_eq!(document.domain(), "shop");
    /// assert_eq!(*document.sha256(), text_digest(document.yaml()));
    /// ```
    #[must_use]
    pub fn new(domain: impl Into<String>, yaml: impl Into<String>) -> Self {
        let yaml = yaml.into();
        Self { domain: domain.into(), sha256: text_digest(&yaml), yaml }
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The text of the rule file.
    #[must_use]
    pub fn yaml(&self) -> &str {
        &self.yaml
    }

    /// Digest of the text.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Bytes {
        &self.sha256
    }

    /// The text of the rule file.
    #[must_use]
    pub fn into_yaml(self) -> String {
        self.yaml
    }
}

impl Published {
    /// Puts `documents` in place of an older version of the same app, or of an earlier step of its rollout.
    /// Returns whether anything changed.
    pub fn take(&mut self, mut documents: AppDocuments) -> bool {
        match self.apps.binary_search_by(|it| it.app.cmp(&documents.app)) {
            Ok(at) if self.apps[at].order() >= documents.order() => return false,
            Ok(at) => {
                // A subscriber may miss versions in between, and an administrator's decision stays valid.
                documents.forced = documents.forced.max(self.apps[at].forced);
                self.apps[at] = documents;
            }
            Err(at) => self.apps.insert(at, documents),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_an_app_never_goes_down() {
        let documents = |app: &str, version| AppDocuments::new(app, version, Vec::new());
        let mut published = Published::default();
        for (app, version, is_taken) in [("b", 1, true), ("a", 3, true), ("a", 2, false), ("a", 4, true)] {
            assert_eq!(published.take(documents(app, version)), is_taken, "{app} {version}");
        }
        let held: Vec<_> = published.apps.iter().map(|it| (&*it.app, it.version)).collect();
        assert_eq!(held, [("a", 4), ("b", 1)]);
    }

    #[test]
    fn a_rollout_only_moves_on_whatever_order_its_steps_arrive_in() {
        let stable = |version| AppDocuments::new("a", version, Vec::new());
        let step = |version, step| {
            let candidate = Candidate { version, documents: Vec::new(), step, reach: Reach::default() };
            AppDocuments { candidate: Some(Box::new(candidate)), ..stable(version - 1) }
        };
        let mut published = Published::default();
        for (documents, is_taken) in [
            (stable(1), true),
            (step(2, 0), true),
            (step(2, 2), true),
            (step(2, 1), false),
            (stable(1), false),
            (step(3, 0), true), // the end of the rollout before came late, or not at all
            (stable(2), false),
            (stable(3), true),
            (step(3, 7), false),
        ] {
            assert_eq!(published.take(documents.clone()), is_taken, "{documents:?}");
        }
    }
}
