//! Rows that are older than their resolution keeps are removed in slices, so that no transaction is long.

use tollgate_db::{Tx, query_values};

use super::resolution::Resolution;
use super::top;
use crate::error::ControlError;

/// Most rows that one slice removes.
const SLICE: i64 = 5_000;
/// Most series that one slice looks at.
const MOST_SERIES: i64 = 500;
/// Progress of a node's earlier start is of no use after this time.
const PROGRESS_KEPT_MS: i64 = 24 * 3_600_000;

/// Where the next slice begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// After this series.
    after: i64,
}

/// Removes one slice. Returns where the next begins, or `None` when everything was looked at.
///
/// # Errors
/// [`ControlError::Db`].
pub fn sweep(tx: &mut dyn Tx, from: Sweep) -> Result<Option<Sweep>, ControlError> {
    let now = tx.now_ms();
    if from.after == 0 {
        tx.execute(
            "DELETE FROM top_keys WHERE (series, at, key) IN \
             (SELECT series, at, key FROM top_keys WHERE at < $1 LIMIT $2)",
            &[(now - top::KEPT_MS).into(), SLICE.into()],
        )?;
        // The last start of a node is kept as long as its counts are.
        tx.execute(
            "DELETE FROM reported WHERE at < $1 AND (at < $2 OR EXISTS (SELECT 1 FROM reported later \
             WHERE later.node = reported.node AND later.incarnation > reported.incarnation))",
            &[(now - PROGRESS_KEPT_MS).into(), (now - Resolution::Hour.kept_ms()).into()],
        )?;
    }
    let series = query_values::<i64>(
        tx,
        "SELECT id FROM series WHERE id > $1 ORDER BY id LIMIT $2",
        &[from.after.into(), MOST_SERIES.into()],
    )?;
    let mut room = SLICE;
    let mut last = from;
    for id in series.iter().copied() {
        for resolution in Resolution::ALL {
            let oldest = resolution.row_of(now - resolution.kept_ms());
            room -= remove(tx, resolution, id, oldest, room)?;
        }
        if room <= 0 {
            return Ok(Some(last)); // this series again
        }
        tx.execute(
            "DELETE FROM series WHERE id = $1 AND hour < $2 AND NOT EXISTS \
             (SELECT 1 FROM history WHERE res = 3600000 AND series = $1)",
            &[id.into(), (now / 3_600_000 - 24).into()],
        )?;
        last = Sweep { after: id };
    }
    let is_more = series.len() == MOST_SERIES as usize;
    Ok(is_more.then_some(last))
}

fn remove(
    tx: &mut dyn Tx,
    resolution: Resolution,
    series: i64,
    oldest: i64,
    most: i64,
) -> Result<i64, ControlError> {
    if most <= 0 {
        return Ok(0);
    }
    let removed = tx.execute(
        "DELETE FROM history WHERE res = $1 AND series = $2 AND at IN \
         (SELECT at FROM history WHERE res = $1 AND series = $2 AND at < $3 ORDER BY at LIMIT $4)",
        &[resolution.ms().into(), series.into(), oldest.into(), most.into()],
    )?;
    Ok(i64::try_from(removed).unwrap_or(i64::MAX))
}
