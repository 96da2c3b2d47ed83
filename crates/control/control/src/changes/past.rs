//! The versions that the database has published so far: their digests, and the decisions of administrators
//! about nodes that held something else.

use std::collections::BTreeMap;

use tollgate_db::{Tx, query_value, row, select};
use tollgate_fleet_proto::{Sha256Bytes, app_digest};
use tollgate_model::hash::hex;

use crate::error::ControlError;
use crate::published::Document;

/// Kinds of versions by which an administrator puts what the database has in place of what nodes hold.
pub(crate) const DECISIONS: [&str; 2] = ["force", "takeover"];

/// The versions of an app, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastVersions {
    pub app: String,
    /// Versions below this one have no digest.
    pub from: u64,
    /// Each with its digest, as nodes hold it.
    pub versions: Vec<(u64, Sha256Bytes)>,
}

/// The digest of documents, as nodes hold them.
pub(crate) fn digest(documents: &[Document]) -> String {
    let mut of: Vec<_> = documents.iter().map(|it| (it.domain(), *it.sha256())).collect();
    of.sort_unstable_by_key(|(domain, _)| *domain);
    hex(&app_digest(of))
}

/// The newest version of each app by which an administrator has decided.
pub(crate) fn forced(tx: &mut dyn Tx) -> Result<BTreeMap<String, u64>, ControlError> {
    let forced = select!(ForcedRow:
        "FROM apps JOIN versions ON versions.app_id = apps.id \
         WHERE versions.kind IN ('force', 'takeover') GROUP BY apps.name");
    Ok(forced.all(tx, &[])?.into_iter().map(|row| (row.app, row.version.unsigned_abs())).collect())
}

row! {
    struct ForcedRow { app: String = "apps.name", version: i64 = "MAX(versions.version)" }
}

/// The newest version of this app by which an administrator has decided; 0 if there is none.
pub(crate) fn forced_of(tx: &mut dyn Tx, app: &str) -> Result<u64, ControlError> {
    let newest = query_value::<Option<i64>>(
        tx,
        "SELECT MAX(versions.version) FROM apps JOIN versions ON versions.app_id = apps.id \
         WHERE apps.name = $1 AND versions.kind IN ('force', 'takeover')",
        &[app.into()],
    )?;
    Ok(newest.flatten().map_or(0, i64::unsigned_abs))
}
