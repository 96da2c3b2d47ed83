//! What is on its way to a node. Texts are shared until the moment they are sent.

use std::sync::Arc;

use tollgate_fleet_proto::{AppVersion, Begin, Document, End, FromControl};

use crate::published::PreparedApp;

/// A set of rules for one node.
#[derive(Debug, Default)]
pub struct Bundle {
    pub(crate) id: u64,
    pub(crate) full: bool,
    pub(crate) apps: Vec<(Arc<str>, Arc<PreparedApp>)>,
    pub(crate) removed: Vec<String>,
}

/// One thing to send.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A message.
    Message(Box<FromControl>),
    /// A set of rules.
    Bundle(Arc<Bundle>),
}

impl From<FromControl> for Outgoing {
    fn from(says: FromControl) -> Self {
        Self::Message(Box::new(says))
    }
}

impl Outgoing {
    /// The messages, each made when it is asked for.
    pub fn messages(self) -> impl Iterator<Item = FromControl> + Send {
        let (message, bundle) = match self {
            Self::Message(message) => (Some(*message), None),
            Self::Bundle(bundle) => (None, Some(bundle)),
        };
        message.into_iter().chain(bundle.into_iter().flat_map(|bundle| {
            let begin = FromControl::Begin(bundle.begin());
            let end = FromControl::End(End { bundle: bundle.id });
            let places: Vec<_> = (0..bundle.apps.len())
                .flat_map(|app| (0..bundle.apps[app].1.documents.len()).map(move |place| (app, place)))
                .collect();
            let documents = places.into_iter().filter_map(move |place| bundle.document(place));
            std::iter::once(begin).chain(documents).chain(std::iter::once(end))
        }))
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

    fn document(&self, (app, place): (usize, usize)) -> Option<FromControl> {
        let (app, rules) = self.apps.get(app)?;
        let document = rules.documents.get(place)?;
        Some(FromControl::Document(Document {
            app: app.to_string(),
            version: rules.version,
            domain: document.domain().to_owned(),
            sha256: document.sha256().to_vec(),
            yaml: document.yaml().to_owned(),
        }))
    }
}
