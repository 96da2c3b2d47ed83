//! The last entry of the audit in the database, compared with the one that is kept beside it.

use tollgate_db::{Db, Head, Tx, query_any};

use crate::audit::head::{HAS, HeadFile, HeadRow, LAST, Lost};
use crate::error::ControlError;

/// Compares the database with the last entry that was acknowledged, before anything is written.
pub(crate) async fn at_start(db: &Db, head: &HeadFile) -> Result<(), ControlError> {
    let Some((seq, hash)) = head.read() else {
        let last = db.read(|tx| last(tx)).await?;
        last.iter().for_each(|last| head.keep(last));
        return Ok(());
    };
    let number = seq;
    let digest = hash.clone();
    let (is_there, last) =
        db.read(move |tx| Ok::<_, ControlError>((has(tx, number, &digest)?, last(tx)?))).await?;
    if is_there {
        last.iter().for_each(|last| head.keep(last));
        return Ok(());
    }
    // Whoever asks first would become the administrator of a new installation.
    let Some((found, _)) = last else { return Err(ControlError::Emptied { acknowledged: seq }) };
    let lost = Lost { seq, hash, found };
    tracing::error!(
        acknowledged = lost.seq,
        found = lost.found,
        "acknowledged changes are missing: the database was restored from a copy, or its \
         write-ahead log was damaged; look at what nodes hold, and accept the loss by `tollgate control audit accept`"
    );
    if let Err(error) = head.found_lost(&lost) {
        tracing::error!(%error, "what is missing cannot be kept in the data folder");
    }
    Ok(())
}

/// The last entry.
pub(crate) fn last(tx: &mut dyn Tx) -> Result<Option<Head>, ControlError> {
    let last = LAST.first(tx, &[])?;
    Ok(last.map(|HeadRow { seq, hash }| (seq, hash)))
}

/// Whether this entry is there.
pub(crate) fn has(tx: &mut dyn Tx, seq: i64, hash: &str) -> Result<bool, ControlError> {
    Ok(query_any(tx, HAS, &[seq.into(), hash.into()])?)
}
