//! What a control plane reads at its start for the nodes: those that were there before, and every version
//! that was published.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_db::Tx;

use crate::control::Control;
use crate::error::ControlError;
use crate::ids::digest_in;
use crate::past::{PastVersions, digest};
use crate::versions;

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
        self.attaching.begin(nodes, now_ms, wait);
        Ok(())
    }
}

/// The nodes that reported last.
fn recent(tx: &mut dyn Tx) -> Result<BTreeSet<String>, ControlError> {
    let rows = tx.query(
        "SELECT DISTINCT node FROM reported WHERE at > (SELECT MAX(at) FROM reported) - $1 LIMIT $2",
        &[RECENT_MS.into(), MOST_NODES.into()],
    )?;
    Ok(rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?)
}

impl Control {
    /// Every version that the database has published, as far as its digest is known.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn past(&self) -> Result<Vec<PastVersions>, ControlError> {
        while self.write(add_digests).await? == STEP {}
        self.read(|tx| {
            let apps = tx.query("SELECT id, name FROM apps ORDER BY name", &[])?;
            apps.iter().map(|row| of_app(tx, &row.text(0)?, row.text(1)?)).collect()
        })
        .await
    }
}

fn of_app(tx: &mut dyn Tx, id: &str, app: String) -> Result<PastVersions, ControlError> {
    let rows = tx.query(
        "SELECT version, digest FROM versions WHERE app_id = $1 ORDER BY version DESC LIMIT $2",
        &[id.into(), (MOST + 1).into()],
    )?;
    let mut past = PastVersions { app, ..PastVersions::default() };
    for row in &rows {
        let version = row.int(0)?.unsigned_abs();
        match row.opt_text(1)?.and_then(|text| digest_in(&text)) {
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

/// Adds the digests that a version of before this column lacks. Returns how many were looked at.
fn add_digests(tx: &mut dyn Tx) -> Result<usize, ControlError> {
    let rows = tx.query(
        "SELECT app_id, version, document FROM versions \
         WHERE digest IS NULL AND document IS NOT NULL ORDER BY app_id, version LIMIT $1",
        &[(STEP as i64).into()],
    )?;
    for row in &rows {
        // Documents that cannot be read are damaged, and no node has them.
        let documents = versions::read_documents("", &row.text(2)?).unwrap_or_default();
        tx.execute(
            "UPDATE versions SET digest = $3 WHERE app_id = $1 AND version = $2",
            &[row.text(0)?.into(), row.int(1)?.into(), digest(&documents).into()],
        )?;
    }
    Ok(rows.len())
}
