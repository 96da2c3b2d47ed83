//! Messages on their way to a node. Documents are encoded once, and shared by all nodes until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_fleet_proto::{AppVersion, Begin, ControlSays, End, FromControl, Sha256Bytes};

use crate::published::PreparedApp;

/// A set of rules for one node.
#[derive(Debug, Default)]
pub struct Bundle {
    pub(crate) id: u64,
    pub(crate) full: bool,
    /// In the order of their names.
    pub(crate) apps: Vec<(Arc<str>, Arc<PreparedApp>)>,
    pub(crate) removed: Vec<String>,
}

impl Bundle {
    pub(crate) fn app(&self, name: &str) -> Option<&(Arc<str>, Arc<PreparedApp>)> {
        let at = self.apps.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        self.apps.get(at)
    }

    pub(crate) fn has(&self, app: &str, version: u64, sha256: &Sha256Bytes) -> bool {
        self.app(app).is_some_and(|(_, rules)| rules.version == version && rules.sha256 == *sha256)
    }
}

/// One thing to send.
#[derive(Clone, Debug)]
pub enum Outgoing {
    Message(Box<FromControl>),
    /// A message that many nodes get, encoded once.
    Encoded(Bytes),
    /// A set of rules.
    Bundle(Arc<Bundle>),
}

impl From<FromControl> for Outgoing {
    fn from(says: FromControl) -> Self {
        Self::Message(Box::new(says))
    }
}

impl Outgoing {
    /// The messages as they travel. Those of documents are shared by all nodes; the others are made when they
    /// are asked for.
    pub fn frames(self) -> impl Iterator<Item = Bytes> + Send {
        let (one, bundle) = match self {
            Self::Message(message) => (Some(ControlSays::from(*message).to_bytes()), None),
            Self::Encoded(bytes) => (Some(bytes), None),
            Self::Bundle(bundle) => (None, Some(bundle)),
        };
        one.into_iter().chain(bundle.into_iter().flat_map(|bundle| {
            let begin = ControlSays::from(FromControl::Begin(bundle.begin())).to_bytes();
            let end = ControlSays::from(FromControl::End(End { bundle: bundle.id })).to_bytes();
            let documents = (0..bundle.apps.len()).flat_map(move |app| bundle.apps[app].1.frames.to_vec());
            std::iter::once(begin).chain(documents).chain(std::iter::once(end))
        }))
    }

    /// The messages of [`frames`](Self::frames), decoded.
    pub fn messages(self) -> impl Iterator<Item = FromControl> + Send {
        self.frames().filter_map(|bytes| ControlSays::from_bytes(bytes).ok()?.says)
    }
}

impl Bundle {
    fn begin(&self) -> Begin {
        let app = |(app, rules): &(Arc<str>, Arc<PreparedApp>)| AppVersion {
            app: app.to_string(),
            version: rules.version,
            documents: u32::try_from(rules.documents.len()).unwrap_or(u32::MAX),
            sha256: rules.sha256.to_vec(),
        };
        let apps = self.apps.iter().map(app).collect();
        Begin { bundle: self.id, full: self.full, apps, removed: self.removed.clone() }
    }
}
