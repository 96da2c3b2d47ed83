//! What is published, checked and ready to be sent.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};
use tollgate_fleet_proto::{
    self as proto, ControlSays, FromControl, MAX_APPS, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_TEXT_BYTES,
    Sha256Bytes, app_digest,
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

/// What is published, checked and with its digests. Made outside the hub, since it takes time.
#[derive(Debug, Default)]
pub struct Prepared {
    pub(crate) apps: BTreeMap<Arc<str>, Arc<PreparedApp>>,
    /// Apps that break a bound, and why they are not sent.
    pub(crate) faults: Vec<String>,
    /// Which app has which domain.
    owners: BTreeMap<String, Arc<str>>,
}

impl Prepared {
    /// Checks `published`. Apps of `before` with the same version and content are taken from there.
    #[must_use]
    pub fn new(published: &Published, before: &Self) -> Self {
        let mut prepared = Self::default();
        for AppDocuments { app, version, documents } in published.apps.iter().take(MAX_APPS) {
            let name: Arc<str> = app.as_str().into();
            let mut documents = documents.clone();
            documents.sort_by(|a, b| a.domain().cmp(b.domain()));
            let known = before.apps.get(&name);
            let known = known.filter(|known| known.version == *version && known.documents == documents);
            let ready = match known {
                Some(known) => Ok(Arc::clone(known)),
                None => prepare(app, *version, documents).map(Arc::new),
            };
            match ready {
                Ok(ready) => {
                    let domains =
                        ready.documents.iter().map(|it| (it.domain().to_owned(), Arc::clone(&name)));
                    prepared.owners.extend(domains);
                    prepared.apps.insert(name, ready);
                }
                Err(why) => {
                    prepared.faults.push(format!("app {app}: {why}"));
                    // Nodes keep the version that they have.
                    if let Some(known) = before.apps.get(&name) {
                        prepared.apps.insert(name, Arc::clone(known));
                    }
                }
            }
        }
        if published.apps.len() > MAX_APPS {
            prepared.faults.push(format!("more than {MAX_APPS} apps"));
        }
        prepared
    }

    /// The apps that are not as in `before`, and those that are not there any more.
    pub(crate) fn changed(&self, before: &Self) -> Vec<Arc<str>> {
        let is_same = |name: &Arc<str>, rules: &Arc<PreparedApp>| {
            before.apps.get(name).is_some_and(|known| Arc::ptr_eq(known, rules))
        };
        let changed = self.apps.iter().filter(|(name, rules)| !is_same(name, rules)).map(|(name, _)| name);
        let gone = before.apps.keys().filter(|name| !self.apps.contains_key(*name));
        changed.chain(gone).cloned().collect()
    }

    /// A domain belongs to another app than `before`, so what clashed may not clash any more.
    pub(crate) fn moves_domains(&self, before: &Self) -> bool {
        before.owners.iter().any(|(domain, app)| self.owners.get(domain) != Some(app))
    }
}

fn prepare(app: &str, version: u64, documents: Vec<Document>) -> Result<PreparedApp, String> {
    if app.is_empty() || app.len() > MAX_TEXT_BYTES || version == 0 {
        return Err("invalid name or version".to_owned());
    }
    if documents.len() > MAX_DOCUMENTS {
        return Err(format!("{} documents; the most is {MAX_DOCUMENTS}", documents.len()));
    }
    if let Some(large) = documents.iter().find(|it| it.yaml().len() > MAX_DOCUMENT_BYTES) {
        let (domain, bytes) = (large.domain(), large.yaml().len());
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
