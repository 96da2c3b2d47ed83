//! The state of a server at one instant.

use serde::Deserialize;
use tollgate_core::Timestamp;

use crate::exposition::Exposition;

/// All responses of one reading.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// When the last of them was received.
    pub(crate) at: Timestamp,
    pub(crate) rules: Rules,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Exposition,
}

/// Response to `GET /v1/rules`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Rules {
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) last_error: Option<String>,
    #[serde(default)]
    pub(crate) domains: Vec<Domain>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Domain {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Rule {
    pub(crate) rule: String,
    #[serde(default)]
    pub(crate) limits: Vec<String>,
    #[serde(default)]
    pub(crate) admitted: u64,
    #[serde(default)]
    pub(crate) denied: u64,
    #[serde(default)]
    pub(crate) shadow_denied: u64,
    #[serde(default)]
    pub(crate) degraded: u64,
    #[serde(default)]
    pub(crate) top_limited: Vec<TopKey>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct TopKey {
    pub(crate) key: String,
    pub(crate) denied: u64,
    #[serde(default)]
    pub(crate) at_most_over: u64,
    #[serde(default)]
    pub(crate) at_most_under: u64,
}

impl TopKey {
    /// The fewest and the most denials that it may have had lately.
    pub(crate) const fn bounds(&self) -> (u64, u64) {
        (self.denied.saturating_sub(self.at_most_over), self.denied.saturating_add(self.at_most_under))
    }
}

/// Response to `GET /readyz`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Readiness {
    #[serde(default)]
    pub(crate) ready: bool,
    #[serde(default)]
    pub(crate) draining: bool,
    #[serde(default)]
    pub(crate) store: Store,
}

/// The store and its state.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Store {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) down_for_ms: Option<u64>,
    #[serde(default)]
    pub(crate) why: Option<String>,
}
