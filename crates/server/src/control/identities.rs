//! Stores which secret each node id is bound to.

use std::sync::Arc;
use std::time::Duration;

use tollgate_control::Control;
use tollgate_fleet_hub::Identities;

/// Wait before storing again after a failure.
const AGAIN: Duration = Duration::from_secs(30);

/// Secrets of nodes in the database, and claims in the audit.
#[derive(Debug)]
pub(crate) struct StoredIdentities(pub(crate) Arc<Control>);

impl Identities for StoredIdentities {
    fn bind(&self, node: String, sha256: [u8; 32]) {
        let control = Arc::clone(&self.0);
        tokio::spawn(async move {
            // The hub knows it until this process ends. A node whose token for joining has ended has nothing
            // else to come back with.
            while let Err(error) = control.bind_node(&node, sha256).await {
                tracing::warn!(node, %error, "the secret of a node is not stored yet");
                tokio::time::sleep(AGAIN).await;
            }
        });
    }

    fn claimed(&self, node: String, address: String) {
        let control = Arc::clone(&self.0);
        tokio::spawn(async move {
            tracing::warn!(node, address, "a node was rejected: its id is another node's");
            if let Err(error) = control.note_claim(&node, &address).await {
                tracing::warn!(node, %error, "a rejected node is not in the audit");
            }
        });
    }
}
