//! The bytes of files in the state folder: a header with a checksum, then a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tollgate_fleet_proto::{Document, Fault, Held, Overrides, text_digest};

use crate::rules::{AppRules, RuleDocument, RuleState};

const HEADER: &[u8] = b"tollgate state 1\n";
const OVERRIDES_HEADER: &[u8] = b"tollgate overrides 1\n";
const CHECKSUM: usize = 32;

/// Why bytes cannot be read as saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// Torn, or written by something else.
    #[error("is incomplete or damaged")]
    Damaged,
}

/// Written before rules are applied and removed afterwards. A marker that is found at a start means that
/// these rules crashed the node.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Marker {
    /// The versions that are being applied.
    #[prost(message, repeated, tag = "1")]
    pub apps: Vec<Held>,
    /// They are saved rules, which worked before.
    #[prost(bool, tag = "2")]
    pub is_saved: bool,
    /// Attempts to apply these rules that began and did not end.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Saved {
    #[prost(string, tag = "1")]
    epoch: String,
    #[prost(message, repeated, tag = "2")]
    apps: Vec<Held>,
    #[prost(message, repeated, tag = "3")]
    documents: Vec<Document>,
    #[prost(message, repeated, tag = "4")]
    gone: Vec<Held>,
    #[prost(message, repeated, tag = "5")]
    crashed: Vec<Fault>,
}

fn sealed(header: &[u8], message: &impl prost::Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    [header, &Sha256::digest(&body)[..], &body].concat()
}

fn opened<M: prost::Message + Default>(header: &[u8], bytes: &[u8]) -> Result<M, SavedError> {
    let rest = bytes.strip_prefix(header).ok_or(SavedError::Damaged)?;
    let (checksum, body) = rest.split_at_checked(CHECKSUM).ok_or(SavedError::Damaged)?;
    if Sha256::digest(body)[..] != *checksum {
        return Err(SavedError::Damaged);
    }
    M::decode(body).map_err(|_| SavedError::Damaged)
}

/// Blocks and allowances, as they are saved.
pub(crate) fn overrides_to_bytes(overrides: &Overrides) -> Vec<u8> {
    sealed(OVERRIDES_HEADER, overrides)
}

pub(crate) fn overrides_from_bytes(bytes: &[u8]) -> Result<Overrides, SavedError> {
    opened(OVERRIDES_HEADER, bytes)
}

impl Marker {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        sealed(HEADER, self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, SavedError> {
        opened(HEADER, bytes)
    }
}

impl RuleState {
    /// The bytes to save.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut saved = Saved { epoch: self.epoch.clone(), apps: self.held(), ..Saved::default() };
        for (app, rules) in &self.apps {
            saved.documents.extend(rules.documents.iter().map(|text| Document {
                app: app.clone(),
                version: rules.version,
                domain: text.domain.clone(),
                sha256: text.sha256.to_vec(),
                yaml: (*text.yaml).to_owned(),
            }));
        }
        let gone =
            |(app, version): (&String, &u64)| Held { app: app.clone(), version: *version, ..Held::default() };
        saved.gone = self.gone.iter().map(gone).collect();
        saved.crashed = self.crashed.values().cloned().collect();
        sealed(HEADER, &saved)
    }

    /// Reads saved rules.
    ///
    /// # Errors
    /// [`SavedError::Damaged`]: the bytes are torn, or written by something else.
    ///
    /// # Example
    /// ```
    /// # use tollgate_fleet_agent::RuleState;
    /// let state = RuleState { epoch: "a database".into(), ..RuleState::default() };
    /// let bytes = state.to_bytes();
    /// assert_eq!(RuleState::from_bytes(&bytes), Ok(state));
    /// assert!(RuleState::from_bytes(&bytes[1..]).is_err());
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SavedError> {
        let saved: Saved = opened(HEADER, bytes)?;
        let mut documents: BTreeMap<String, Vec<RuleDocument>> = BTreeMap::new();
        for Document { app, domain, yaml, .. } in saved.documents {
            let text = RuleDocument { domain, sha256: text_digest(&yaml), yaml: yaml.into() };
            documents.entry(app).or_default().push(text);
        }
        let app = |Held { app, version, .. }: Held| {
            let rules = AppRules::new(version, documents.remove(&app).unwrap_or_default());
            (app, Arc::new(rules))
        };
        let apps = saved.apps.into_iter().map(app).collect();
        let gone = saved.gone.into_iter().map(|Held { app, version, .. }| (app, version)).collect();
        let crashed =
            saved.crashed.into_iter().map(|fault| ((fault.app.clone(), fault.version), fault)).collect();
        Ok(Self { epoch: saved.epoch, apps, gone, crashed })
    }
}
