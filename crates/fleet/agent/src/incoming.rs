//! A set of rules on its way: Begin, its documents, End.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_fleet_proto::{
    AppVersion, Begin, Document, Fault, MAX_APPS, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_TEXT_BYTES,
    Sha256Bytes, text_digest,
};

use crate::rules::{AppRules, RuleDocument};

/// The most bytes of all documents of one bundle.
const MAX_BUNDLE_BYTES: usize = 64 << 20;

/// The parts of a bundle that have arrived so far.
#[derive(Debug)]
pub(crate) struct Incoming {
    begin: Begin,
    documents: BTreeMap<String, Vec<RuleDocument>>,
    bytes: usize,
    faults: Vec<Fault>,
}

/// A complete bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) id: u64,
    pub(crate) full: bool,
    /// Apps that arrived whole.
    pub(crate) apps: BTreeMap<String, Arc<AppRules>>,
    pub(crate) removed: Vec<String>,
    /// Apps that did not arrive whole, and why.
    pub(crate) faults: Vec<Fault>,
}

/// The control plane broke the protocol; the stream ends.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    #[error("a bundle names more than {MAX_APPS} apps, or an app with an invalid name or size")]
    Begin,
    #[error("a document of app {0:?} that the bundle does not name")]
    Document(String),
    #[error("a bundle of more than {MAX_BUNDLE_BYTES} bytes")]
    Large,
    #[error("the end of a bundle that did not begin")]
    End,
}

impl Incoming {
    pub(crate) fn begin(begin: Begin) -> Result<Self, ProtocolError> {
        let is_valid = |app: &AppVersion| {
            app.version > 0
                && app.documents as usize <= MAX_DOCUMENTS
                && !app.app.is_empty()
                && app.app.len() <= MAX_TEXT_BYTES
        };
        if begin.apps.len().max(begin.removed.len()) > MAX_APPS || !begin.apps.iter().all(is_valid) {
            return Err(ProtocolError::Begin);
        }
        let documents = begin.apps.iter().map(|app| (app.app.clone(), Vec::new())).collect();
        Ok(Self { begin, documents, bytes: 0, faults: Vec::new() })
    }

    pub(crate) fn document(&mut self, document: Document) -> Result<(), ProtocolError> {
        let Document { app, version, domain, sha256, yaml } = document;
        let named = self.begin.apps.iter().any(|named| named.app == app && named.version == version);
        let Some(documents) = self.documents.get_mut(&app).filter(|_| named) else {
            return Err(ProtocolError::Document(app));
        };
        self.bytes = self.bytes.saturating_add(yaml.len() + domain.len());
        if self.bytes > MAX_BUNDLE_BYTES || documents.len() >= MAX_DOCUMENTS {
            return Err(ProtocolError::Large);
        }
        let digest = text_digest(&yaml);
        let message = if yaml.len() > MAX_DOCUMENT_BYTES {
            format!("has {} bytes; the most is {MAX_DOCUMENT_BYTES}", yaml.len())
        } else if digest[..] != sha256[..] {
            "was damaged on its way: its SHA-256 differs".to_owned()
        } else {
            documents.push(RuleDocument { domain, sha256: digest, yaml: yaml.into() });
            return Ok(());
        };
        self.faults.push(Fault { app, version, domain, message, ..Fault::default() });
        Ok(())
    }

    pub(crate) fn end(self, bundle: u64) -> Result<Bundle, ProtocolError> {
        let Self { begin, mut documents, mut faults, .. } = self;
        if bundle != begin.bundle {
            return Err(ProtocolError::End);
        }
        let mut apps = BTreeMap::new();
        for AppVersion { app, version, documents: count, sha256 } in begin.apps {
            if faults.iter().any(|fault| fault.app == app) {
                continue;
            }
            let rules = AppRules::new(version, documents.remove(&app).unwrap_or_default());
            let arrived = rules.documents.len();
            if arrived == count as usize && Sha256Bytes::try_from(sha256) == Ok(rules.sha256) {
                apps.insert(app, Arc::new(rules));
            } else {
                let message =
                    format!("arrived with {arrived} of {count} documents, or with a different SHA-256");
                faults.push(Fault { app, version, message, ..Fault::default() });
            }
        }
        Ok(Bundle { id: begin.bundle, full: begin.full, apps, removed: begin.removed, faults })
    }
}
