//! Published rules, checked and ready to be sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};
use tollgate_fleet_proto::reach::Reach;
use tollgate_fleet_proto::{
    self as proto, CandidateVersion, Candidates, ControlSays, FromControl, MAX_APPS, MAX_DOCUMENT_BYTES,
    MAX_DOCUMENTS, MAX_TEXT_BYTES, Sha256Bytes, app_digest,
};

/// One app, ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreparedApp {
    pub(crate) version: u64,
    pub(crate) sha256: Sha256Bytes,
    /// In the order of their domains.
    pub(crate) documents: Vec<Document>,
    /// The messages with these documents, as they travel.
    pub(crate) frames: Vec<Bytes>,
    /// The level of the rule language that the documents need, once it was asked for.
    level: OnceLock<u32>,
}

impl PreparedApp {
    /// The level of the rule language that the documents need; `of` is that of one text.
    pub(crate) fn level(&self, of: fn(&str) -> u32) -> u32 {
        *self.level.get_or_init(|| self.documents.iter().map(|it| of(it.yaml())).max().unwrap_or(1))
    }
}

/// Versions of one app that nodes should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The version of all nodes that a candidate has not reached; `None` before the first.
    pub(crate) stable: Option<Arc<PreparedApp>>,
    /// A version that is rolled out, and the nodes that it has reached.
    pub(crate) candidate: Option<(Arc<PreparedApp>, Reach)>,
    /// Rules that this database has never published are replaced if their version is below this one.
    pub(crate) forced: u64,
}

impl Wanted {
    /// Whether it has the versions of `published`, and as much of the candidate has been reached.
    pub(crate) fn is_of(&self, published: &AppDocuments) -> bool {
        let version = |rules: &Arc<PreparedApp>| rules.version;
        let candidate = self.candidate.as_ref().map(|(rules, reach)| (rules.version, reach));
        let of = published.candidate.as_ref().map(|it| (it.version, &it.reach));
        self.stable.as_ref().map_or(0, version) == published.version && candidate == of
    }

    /// Whether it is the same, by address: what is unchanged was taken over.
    fn is(&self, other: &Self) -> bool {
        let same = |a: Option<&Arc<PreparedApp>>, b: Option<&Arc<PreparedApp>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let rules = |it: &Self| it.candidate.as_ref().map(|(rules, _)| Arc::clone(rules));
        let reach = |it: &Self| it.candidate.as_ref().map(|(_, reach)| reach.clone());
        same(self.stable.as_ref(), other.stable.as_ref())
            && same(rules(self).as_ref(), rules(other).as_ref())
            && reach(self) == reach(other)
            && self.forced == other.forced
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &Arc<PreparedApp>> {
        self.stable.iter().chain(self.candidate.iter().map(|(rules, _)| rules))
    }
}

/// Published rules, checked and with their digests. Made outside the hub, since it takes time.
#[derive(Debug, Default)]
pub struct Prepared {
    pub(crate) apps: BTreeMap<Arc<str>, Wanted>,
    /// Apps that break a bound, and why they are not sent.
    pub(crate) faults: Vec<String>,
    /// Domains and the apps that have them.
    owners: BTreeSet<(String, Arc<str>)>,
}

impl Prepared {
    /// Checks `published`. Apps of `before` with the same version and content are taken from there.
    #[must_use]
    pub fn new(published: &Published, before: &Self) -> Self {
        let mut prepared = Self::default();
        for documents in published.apps.iter().take(MAX_APPS) {
            let name: Arc<str> = documents.app.as_str().into();
            let known = before.apps.get(&name);
            let wanted = match wanted(documents, known) {
                Ok(wanted) => wanted,
                Err(why) => {
                    prepared.faults.push(format!("app {name}: {why}"));
                    // Nodes keep the version that they have.
                    let Some(known) = known else { continue };
                    known.clone()
                }
            };
            let documents = wanted.versions().flat_map(|rules| &rules.documents);
            prepared.owners.extend(documents.map(|it| (it.domain().to_owned(), Arc::clone(&name))));
            prepared.apps.insert(name, wanted);
        }
        if published.apps.len() > MAX_APPS {
            prepared.faults.push(format!("more than {MAX_APPS} apps"));
        }
        prepared
    }

    /// The apps that are not as in `before`, and those that are not there any more.
    pub(crate) fn changed(&self, before: &Self) -> Vec<Arc<str>> {
        let is_same =
            |name: &Arc<str>, now: &Wanted| before.apps.get(name).is_some_and(|known| known.is(now));
        let changed = self.apps.iter().filter(|(name, now)| !is_same(name, now)).map(|(name, _)| name);
        let gone = before.apps.keys().filter(|name| !self.apps.contains_key(*name));
        changed.chain(gone).cloned().collect()
    }

    /// The versions that are being rolled out.
    pub(crate) fn candidates(&self) -> Candidates {
        let candidate = |(app, wanted): (&Arc<str>, &Wanted)| {
            let (rules, _) = wanted.candidate.as_ref()?;
            Some(CandidateVersion { app: app.to_string(), version: rules.version })
        };
        Candidates { apps: self.apps.iter().filter_map(candidate).collect() }
    }

    /// An app has given up a domain since `before`, so what clashed may not clash any more.
    pub(crate) fn moves_domains(&self, before: &Self) -> bool {
        before.owners.iter().any(|owner| !self.owners.contains(owner))
    }
}

fn wanted(published: &AppDocuments, known: Option<&Wanted>) -> Result<Wanted, String> {
    let AppDocuments { app, version, documents, candidate, forced } = published;
    let ready = |version: u64, documents: &[Document]| {
        let mut documents = documents.to_vec();
        documents.sort_by(|a, b| a.domain().cmp(b.domain()));
        let mut known = known.into_iter().flat_map(Wanted::versions);
        match known.find(|known| known.version == version && known.documents == documents) {
            Some(known) => Ok(Arc::clone(known)),
            None => prepare(app, version, documents).map(Arc::new),
        }
    };
    let candidate = match candidate {
        Some(it) if it.version <= *version => return Err("a candidate that is not newer".to_owned()),
        Some(it) => Some((ready(it.version, &it.documents)?, it.reach.clone())),
        None => None,
    };
    let is_new = *version == 0 && candidate.is_some();
    let stable = if is_new { None } else { Some(ready(*version, documents)?) };
    Ok(Wanted { stable, candidate, forced: *forced })
}

fn prepare(app: &str, version: u64, documents: Vec<Document>) -> Result<PreparedApp, String> {
    if app.is_empty() || app.len() > MAX_TEXT_BYTES || version == 0 {
        return Err("invalid name or version".to_owned());
    }
    if documents.len() > MAX_DOCUMENTS {
        return Err(format!("{} documents; the most is {MAX_DOCUMENTS}", documents.len()));
    }
    if let Some(large) = documents.iter().find(|it| it.yaml().len() > MAX_DOCUMENT_BYTES) {
        let domain = large.domain();
        let bytes = large.yaml().len();
        return Err(format!("domain {domain}: {bytes} bytes; the most is {MAX_DOCUMENT_BYTES}"));
    }
    let sha256 = app_digest(documents.iter().map(|it| (it.domain(), *it.sha256())));
    let frame = |document: &Document| {
        let message = FromControl::Document(proto::Document {
            app: app.to_owned(),
            version,
            domain: document.domain().to_owned(),
            sha256: document.sha256().to_vec(),
            yaml: document.yaml().to_owned(),
        });
        ControlSays::from(message).to_bytes()
    };
    let frames = documents.iter().map(frame).collect();
    Ok(PreparedApp { version, sha256, documents, frames, level: OnceLock::new() })
}
