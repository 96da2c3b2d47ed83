//! Which secret of a node its id is bound to, kept across restarts of the control plane. Only digests.

use std::collections::HashMap;

use serde_json::json;
use tollgate_db::{Tx, insert, row, select};
use tollgate_model::hash::{digest_in, hex};

use crate::access::actor::Who;
use crate::audit::{self, Note};
use crate::control::Control;
use crate::error::ControlError;

/// An id without a report for this long is free again.
const KEPT_MS: i64 = 90 * 24 * 3_600_000;

row! {
    struct SecretRow { node: String, sha256: String }
}

impl Control {
    /// Digests of the secrets of nodes, by id.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn bound_nodes(&self) -> Result<HashMap<String, [u8; 32]>, ControlError> {
        self.read(|tx| {
            let secrets = select!(SecretRow: "FROM node_secrets ORDER BY node LIMIT 50000").all(tx, &[])?;
            let mut bound = HashMap::with_capacity(secrets.len());
            for SecretRow { node, sha256 } in secrets {
                if let Some(digest) = digest_in(&sha256) {
                    bound.insert(node, digest);
                }
            }
            Ok(bound)
        })
        .await
    }

    /// Keeps that an id is bound, unless another secret has it. Ids that did not attach for 90 days are
    /// forgotten.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn bind_node(&self, node: &str, sha256: [u8; 32]) -> Result<(), ControlError> {
        let node = node.to_owned();
        let sha256 = hex(&sha256);
        self.write(move |tx: &mut dyn Tx| {
            let now = tx.now_ms();
            tx.execute(
                "DELETE FROM node_secrets WHERE at < $1 AND NOT EXISTS \
                 (SELECT 1 FROM reported WHERE reported.node = node_secrets.node AND reported.at >= $1)",
                &[(now - KEPT_MS).into()],
            )?;
            insert!(tx, "node_secrets" {
                node: &node,
                sha256: &sha256,
                at: now,
            }, "ON CONFLICT DO NOTHING")?;
            Ok(())
        })
        .await
    }

    /// Records that somebody has tried to attach as a node; at most 60 times a minute for each node.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn note_claim(&self, node: &str, address: &str) -> Result<(), ControlError> {
        let now_ms = self.read(|tx| Ok(tx.now_ms())).await?;
        let Some(left_out) = self.rejections.admit(&format!("node {node}"), now_ms) else { return Ok(()) };
        let node = node.to_owned();
        let address = address.to_owned();
        self.write(move |tx: &mut dyn Tx| {
            let mut after = json!({"address": address});
            if left_out > 0 {
                after["left_out_before"] = left_out.into();
            }
            let reason = "another node has this id and another secret";
            let note = Note {
                action: "node.rejected",
                target: node.clone(),
                after: Some(after),
                reason,
                ..Note::default()
            };
            audit::append(tx, &Who { ip: address.clone(), ..Who::system() }.acting(), note)
        })
        .await
    }
}
