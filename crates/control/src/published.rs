//! What nodes should have: the seam to their streams.

/// The documents of every app, as the last committed change left them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// By name.
    pub apps: Vec<AppDocuments>,
}

/// One version of an app: a node takes all of its documents or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppDocuments {
    /// The name of the app.
    pub app: String,
    /// 1, 2, 3 …; never goes down.
    pub version: u64,
    /// One for each domain; empty when the app has no rule.
    pub documents: Vec<Document>,
}

/// The rules of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The domain.
    pub domain: String,
    /// The text of the rule file.
    pub yaml: String,
    /// Of the text.
    pub sha256: [u8; 32],
}

/// What a change returns, and what it publishes once it is committed.
#[derive(Clone, Debug)]
pub struct Change<T> {
    /// The result for the caller.
    pub value: T,
    /// What nodes should have of the app, if that changed.
    pub documents: Option<AppDocuments>,
}

impl Published {
    /// Puts `documents` in place of an older version of the same app. Returns whether anything changed.
    pub(crate) fn take(&mut self, documents: AppDocuments) -> bool {
        match self.apps.binary_search_by(|it| it.app.cmp(&documents.app)) {
            Ok(at) if self.apps[at].version >= documents.version => return false,
            Ok(at) => self.apps[at] = documents,
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
        let documents = |app: &str, version| AppDocuments { app: app.into(), version, documents: Vec::new() };
        let mut published = Published::default();
        for (app, version, is_taken) in [("b", 1, true), ("a", 3, true), ("a", 2, false), ("a", 4, true)] {
            assert_eq!(published.take(documents(app, version)), is_taken, "{app} {version}");
        }
        let held: Vec<_> = published.apps.iter().map(|it| (&*it.app, it.version)).collect();
        assert_eq!(held, [("a", 4), ("b", 1)]);
    }
}
