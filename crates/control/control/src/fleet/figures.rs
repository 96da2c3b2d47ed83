//! Figures besides counts: of nodes, of the database, and of the surroundings of the process.

use tollgate_fleet_proto::RejectedRequests;

/// The figures of a node's last report besides counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// When it came, in ms UTC.
    pub at_ms: i64,
    /// Name of the store, and whether it answers.
    pub store: Option<(String, bool)>,
    /// The node's clock less this one's.
    pub skew_ms: i64,
    /// Memory of its table of counters.
    pub table_bytes: u64,
    /// Why it could not save its rules; empty if it could.
    pub state_error: String,
    /// Why its own rule files as they are now are not in force; empty if they are.
    pub rules_error: String,
    /// Domains that it was asked for and has no rules of; only the first ones.
    pub unknown_domains: Vec<String>,
    /// Decisions of its last five minutes.
    pub decided: u64,
    /// Rules that denied work that may be finished already, the most requests first.
    pub forgotten: Vec<ForgottenRule>,
    /// Requests that its rules did not answer in its last five minutes, the most frequent kind first.
    pub rejected: Vec<RejectedRequests>,
}

/// A rule that denied and did not count what may be the cost of finished work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenRule {
    pub domain: String,
    /// Path of the rule.
    pub rule: String,
    /// Such requests of the last five minutes.
    pub requests: u64,
}

/// Figures that are counted in the database from time to time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Rules with rows of history in this hour.
    pub history_rules: u64,
    /// Domains with rows of history in this hour.
    pub history_domains: u64,
    /// Rules of the app that has most.
    pub most_rules: u64,
}

/// Disk and certificate of the process, as far as the program has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Free bytes of the disk with the data, and its size.
    pub disk: Option<(u64, u64)>,
    /// With fewer free bytes, the rest of the disk is kept for changes and audit.
    pub reserve: u64,
    /// When the TLS certificate expires, in ms UTC.
    pub certificate_ends_ms: Option<i64>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { disk: None, reserve: 200 << 20, certificate_ends_ms: None }
    }
}

impl Surroundings {
    /// Whether the disk has room for more than changes and audit.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.disk.is_none_or(|(free, _)| free >= self.reserve)
    }
}
