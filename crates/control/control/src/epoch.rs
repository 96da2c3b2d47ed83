//! The name of a database: versions of different databases do not compare.

use tollgate_db::{Tx, query_value};

use crate::error::ControlError;
use crate::ids::id;

/// The name, made at the first start. A restored copy has the name of its original.
pub(crate) fn epoch(tx: &mut dyn Tx) -> Result<String, ControlError> {
    if let Some(epoch) = query_value(tx, "SELECT value FROM settings WHERE name = 'epoch'", &[])? {
        return Ok(epoch);
    }
    let epoch = id(tx.now_ms())?;
    tx.execute("INSERT INTO settings (name, value, etag) VALUES ('epoch', $1, 1)", &[(&epoch).into()])?;
    Ok(epoch)
}
