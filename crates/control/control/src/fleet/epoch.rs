//! The name of a database: versions of different databases do not compare.

use tollgate_db::{Tx, insert, query_value};

use crate::error::ControlError;
use crate::ids::new_id;

/// The name, made at the first start. A restored copy has the name of its original.
pub(crate) fn epoch(tx: &mut dyn Tx) -> Result<String, ControlError> {
    if let Some(epoch) = query_value(tx, "SELECT value FROM settings WHERE name = 'epoch'", &[])? {
        return Ok(epoch);
    }
    let epoch = new_id(tx.now_ms())?;
    insert!(tx, "settings" { name: "epoch", value: &epoch, etag: 1 })?;
    Ok(epoch)
}
