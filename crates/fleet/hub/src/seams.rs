//! Dependencies of the fleet: the clock, and where reports, tokens and ids are kept.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::{Clock, Timestamp};
use tollgate_fleet_proto::{Report, Sha256Bytes};

use crate::tokens::Tokens;

/// Keeps the reports of nodes.
pub trait Reports: Send + Sync + 'static {
    /// Stores a report that ended `report.age_ms` before `at`, unless one of the same number or a higher one
    /// of this node and incarnation is stored: a repeated report counts once. Reports of one incarnation come
    /// in the order of their numbers, and repeated from the first that is not confirmed.
    fn store<'a>(
        &'a self,
        node: &'a str,
        incarnation: u64,
        report: Report,
        at: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<(), ReportsError>> + Send + 'a>>;
}

/// Keeps which secret a node's id is bound to. Called where no task may wait.
pub trait Identities: Send + Sync + 'static {
    /// The id is bound to the secret with this digest from now on; to be handed to the hub at its next start.
    fn bind(&self, node: String, sha256: Sha256Bytes);

    /// A client at `address` was rejected: the id is another node's.
    fn claimed(&self, node: String, address: String);
}

/// Ids are bound as long as this process runs.
#[derive(Clone, Copy, Debug)]
pub struct IdentitiesInMemory;

impl Identities for IdentitiesInMemory {
    fn bind(&self, _: String, _: Sha256Bytes) {}

    fn claimed(&self, node: String, address: String) {
        tracing::warn!(node, address, "a node was rejected: its id is another node's");
    }
}

/// Why a report is not stored. The node keeps it and sends it again.
#[derive(Debug, thiserror::Error)]
#[error("cannot store the report: {0}")]
pub struct ReportsError(pub Box<dyn std::error::Error + Send + Sync>);

/// Dependencies of the hub.
pub struct Seams {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    pub reports: Arc<dyn Reports>,
    /// Decides which tokens open a stream.
    pub tokens: Arc<dyn Tokens>,
    /// Keeps which secret each id is bound to.
    pub identities: Arc<dyn Identities>,
}

impl std::fmt::Debug for Seams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}
