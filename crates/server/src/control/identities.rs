//! Where it is kept whose ids are whose.

use std::sync::Arc;

use tollgate_control::Control;
use tollgate_fleet_hub::Identities;

/// Secrets of nodes in the database, and claims in the audit.
#[derive(Debug)]
pub(crate) struct StoredIdentities(pub(crate) Arc<Control>);

impl Identities for StoredIdentities {
    fn bind(&self, node: String, sha256: [u8; 32]) {
        let control = Arc::clone(&self.0);
        tokio::spawn(async move {
            // The hub knows it until this process ends; then the node's next stream binds its id again.
            if let Err(error) = control.bind_node(&node, sha256).await {
                tracing::warn!(node, %error, "the secret of a node is not stored");
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
