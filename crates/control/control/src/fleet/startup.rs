//! Data that a control plane reads for the nodes at its start: the nodes that were there before, and every
//! version that was published.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_db::{Tx, query_values, row, select};
use tollgate_model::hash::digest_in;

use crate::changes::past::{PastVersions, digest};
use crate::changes::versions;
use crate::control::Control;
use crate::error::ControlError;

/// Nodes that had reported within this time before the last report in the database were there.
const RECENT_MS: i64 = 60_000;
/// Most nodes that are waited for.
const MOST_NODES: i64 = 10_000;
/// Versions whose digest is added in one transaction.
const STEP: usize = 50;
/// Versions of an app that are read.
const MOST: i64 = 10_000;

impl Control {
    /// From now on, changes of rules wait until the nodes that the database knows are attached, and for
    /// `wait` at most. To be called once, before anybody can make changes.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn wait_for_nodes(&self, wait: Duration) -> Result<(), ControlError> {
        let (nodes, now_ms) = self.read(|tx| Ok((recent(tx)?, tx.now_ms()))).await?;
        self.attach_wait.begin(nodes, now_ms, wait);
        Ok(())
    }
}

/// The nodes that reported last.
fn recent(tx: &mut dyn Tx) -> Result<BTreeSet<String>, ControlError> {
    let nodes = query_values(
        tx,
        "SELECT DISTINCT node FROM reported WHERE at > (SELECT MAX(at) FROM reported) - $1 LIMIT $2",
        &[RECENT_MS.into(), MOST_NODES.into()],
    )?;
    Ok(nodes.into_iter().collect())
}

row! {
    struct AppRow { id: String, name: String }
}

row! {
    struct DigestRow { version: i64, digest: Option<String> }
}

row! {
    struct DocumentRow { app_id: String, version: i64, document: String }
}

impl Control {
    /// Every version that the database has published, as far as its digest is known.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn past(&self) -> Result<Vec<PastVersions>, ControlError> {
        while self.write(add_digests).await? == STEP {}
        self.read(|tx| {
            let apps = select!(AppRow: "FROM apps ORDER BY name").all(tx, &[])?;
            apps.into_iter().map(|AppRow { id, name }| of_app(tx, &id, name)).collect()
        })
        .await
    }
}

fn of_app(tx: &mut dyn Tx, id: &str, app: String) -> Result<PastVersions, ControlError> {
    let rows = select!(DigestRow: "FROM versions WHERE app_id = $1 ORDER BY version DESC LIMIT $2");
    let mut past = PastVersions { app, ..PastVersions::default() };
    for DigestRow { version, digest } in rows.all(tx, &[id.into(), (MOST + 1).into()])? {
        let version = version.unsigned_abs();
        match digest.and_then(|text| digest_in(&text)) {
            Some(digest) if past.versions.len() < MOST as usize => past.versions.push((version, digest)),
            // All below have none either, or are too many.
            _ => {
                past.from = version + 1;
                break;
            }
        }
    }
    Ok(past)
}

/// Adds the digests that versions older than this column lack. Returns how many were looked at.
fn add_digests(tx: &mut dyn Tx) -> Result<usize, ControlError> {
    let rows = select!(DocumentRow:
        "FROM versions WHERE digest IS NULL AND document IS NOT NULL ORDER BY app_id, version LIMIT $1");
    let rows = rows.all(tx, &[(STEP as i64).into()])?;
    let count = rows.len();
    for DocumentRow { app_id, version, document } in rows {
        // Documents that cannot be read are damaged, and no node has them.
        let documents = versions::read_documents("", &document).unwrap_or_default();
        tx.execute(
            "UPDATE versions SET digest = $1 WHERE app_id = $2 AND version = $3",
            &[digest(&documents).into(), app_id.into(), version.into()],
        )?;
    }
    Ok(count)
}
