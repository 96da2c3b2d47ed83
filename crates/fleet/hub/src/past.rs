//! Which versions this database has ever published. A node that holds another one has it from a database that
//! was lost: this one was restored from an older copy, or is new.

use std::collections::{BTreeMap, HashMap};

use tollgate_fleet_proto::Sha256Bytes;

/// Versions of an app that are remembered; older ones count as published.
const MOST_VERSIONS: usize = 10_000;

/// Digests of the versions of every app, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Past {
    apps: HashMap<String, Versions>,
    /// An app or a version that is not there was never published.
    is_whole: bool,
}

#[derive(Clone, Debug, Default)]
struct Versions {
    /// The first eight bytes of each digest: nodes do not choose what they hold.
    digests: BTreeMap<u64, u64>,
    /// Digests of versions below this one are not known.
    from: u64,
}

impl Past {
    /// That of a database that has published nothing yet, or whose versions are all added. The default is
    /// one of which nothing is known.
    #[must_use]
    pub fn of_database() -> Self {
        Self { apps: HashMap::new(), is_whole: true }
    }

    /// This version has this digest.
    pub fn add(&mut self, app: &str, version: u64, sha256: &Sha256Bytes) {
        let versions = self.versions(app);
        versions.digests.insert(version, short(sha256));
        if versions.digests.len() > MOST_VERSIONS {
            versions.digests.pop_first();
            versions.from = versions.digests.first_key_value().map_or(0, |(oldest, _)| *oldest);
        }
    }

    /// The database has published versions below this one too, and their digests are not known.
    pub fn begins_at(&mut self, app: &str, version: u64) {
        let versions = self.versions(app);
        versions.from = version.max(versions.from);
    }

    fn versions(&mut self, app: &str) -> &mut Versions {
        self.apps.entry(app.to_owned()).or_default()
    }

    /// Whether a node that holds this can have it from this database. Versions from before digests were kept
    /// count as published.
    pub(crate) fn has(&self, app: &str, version: u64, sha256: &Sha256Bytes) -> bool {
        let Some(Versions { digests, from }) = self.apps.get(app) else { return !self.is_whole };
        match digests.get(&version) {
            Some(digest) => *digest == short(sha256),
            None if self.is_whole => version < *from,
            None => digests.first_key_value().is_none_or(|(oldest, _)| version < *oldest),
        }
    }
}

fn short(sha256: &Sha256Bytes) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&sha256[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_published_if_its_digest_is_or_if_it_is_too_old_to_be_known() {
        let mut past = Past::default();
        for (version, digest) in [(3, 3), (4, 4), (9, 9)] {
            past.add("shop", version, &[digest; 32]);
        }
        for (app, version, digest, is_ours) in [
            ("shop", 3, 3, true),
            ("shop", 3, 4, false),
            ("shop", 9, 9, true),
            ("shop", 9, 1, false),
            ("shop", 2, 7, true), // before digests were kept
            ("shop", 5, 7, false),
            ("shop", 10, 9, false), // not yet
            ("bank", 10, 9, true),  // nothing is known of the app
        ] {
            assert_eq!(past.has(app, version, &[digest; 32]), is_ours, "{app} {version} {digest}");
        }
        let mut whole = Past::of_database();
        assert!(!whole.has("bank", 1, &[1; 32]), "nothing was published");
        whole.add("bank", 8, &[8; 32]);
        assert!(!whole.has("bank", 6, &[1; 32]), "nor was this");
        whole.begins_at("bank", 7);
        assert!(whole.has("bank", 6, &[1; 32]) && !whole.has("bank", 7, &[1; 32]));
        for version in 10..=20_000 {
            past.add("shop", version, &[1; 32]);
        }
        assert_eq!(past.apps["shop"].digests.len(), MOST_VERSIONS);
        assert!(past.has("shop", 9, &[1; 32]) && !past.has("shop", 20_000, &[2; 32]));
    }
}
