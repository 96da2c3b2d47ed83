//! What the database knows of the current state.

use std::collections::BTreeMap;

use tollgate_db::{Row, Tx};

use super::State;
use crate::error::ControlError;
use crate::frozen;
use crate::history::{Counts, Resolution};
use crate::rollout_rows;

const MINUTE: i64 = Resolution::Minute.ms();

/// Everything but nodes and surroundings.
pub(crate) fn read(tx: &mut dyn Tx) -> Result<State, ControlError> {
    let now_ms = tx.now_ms();
    Ok(State {
        now_ms,
        versions: versions(tx)?,
        withdrawn: rollout_rows::withdrawn(tx)?,
        halted: rollout_rows::halted(tx)?,
        frozen: frozen::all(tx)?,
        few: frozen::few(tx)?,
        shares: shares(tx, now_ms)?,
        ..State::default()
    })
}

/// When the newest version of each app was last given to more nodes: when it was made, when the step of its
/// rollout began, or when that was done.
fn versions(tx: &mut dyn Tx) -> Result<BTreeMap<String, i64>, ControlError> {
    let rows = tx.query(
        "SELECT apps.name, versions.created_at, rollouts.step_at, \
         CASE WHEN rollouts.state = 'done' THEN rollouts.updated_at ELSE NULL END \
         FROM apps JOIN versions ON versions.app_id = apps.id AND versions.version = apps.version \
         LEFT JOIN rollouts ON rollouts.app_id = apps.id AND rollouts.to_version = apps.version",
        &[],
    )?;
    let read = |row: &Row| {
        let given = row.int(1)?.max(row.opt_int(2)?.unwrap_or(0)).max(row.opt_int(3)?.unwrap_or(0));
        Ok((row.text(0)?, given))
    };
    rows.iter().map(read).collect()
}

/// The last five minutes of each app with traffic, and the hour before.
fn shares(tx: &mut dyn Tx, now_ms: i64) -> Result<BTreeMap<String, (Counts, Counts)>, ControlError> {
    let to_ms = Resolution::Minute.row_of(now_ms) + MINUTE;
    // The cross joins fix the order in which SQLite looks: the rows of each series are found by their key.
    let rows = tx.query(
        "SELECT apps.name, CASE WHEN history.at >= $3 THEN 1 ELSE 0 END, SUM(admitted), SUM(denied), \
         SUM(shadow_denied), SUM(degraded), SUM(near), SUM(both_denied) \
         FROM domains CROSS JOIN apps CROSS JOIN series CROSS JOIN history \
         WHERE apps.id = domains.app_id AND series.domain = domains.domain AND series.rule = '' \
         AND history.res = $1 AND history.series = series.id AND history.at >= $2 AND history.at < $4 \
         GROUP BY 1, 2",
        &[MINUTE.into(), (to_ms - 65 * MINUTE).into(), (to_ms - 5 * MINUTE).into(), to_ms.into()],
    )?;
    let mut shares = BTreeMap::<String, (Counts, Counts)>::new();
    for row in &rows {
        let (now, before) = shares.entry(row.text(0)?).or_default();
        let of = if row.int(1)? == 1 { now } else { before };
        of.add(Counts::read(row, 2)?);
    }
    shares.retain(|_, (now, _)| now.offered() > 0);
    Ok(shares)
}
