//! What the database knows of the current state.

use std::collections::BTreeMap;

use tollgate_db::{Row, Tx};

use super::State;
use crate::actor::Actor;
use crate::apps;
use crate::error::ControlError;
use crate::frozen;
use crate::history::{Counts, HistoryQuery, Resolution, Scope, history};
use crate::rollout_rows;

const MINUTE: i64 = Resolution::Minute.ms();

/// Everything but nodes and surroundings.
pub(crate) fn read(tx: &mut dyn Tx) -> Result<State, ControlError> {
    let now_ms = tx.now_ms();
    let mut state = State {
        now_ms,
        versions: versions(tx)?,
        withdrawn: rollout_rows::withdrawn(tx)?,
        halted: rollout_rows::halted(tx)?,
        frozen: frozen::all(tx)?,
        ..State::default()
    };
    for app in apps::list(tx, &Actor::system())? {
        let shares = shares(tx, &app.name, now_ms)?;
        if shares.0.offered() > 0 {
            state.shares.insert(app.name, shares);
        }
    }
    Ok(state)
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

/// The last five minutes of an app, and the hour before.
fn shares(tx: &mut dyn Tx, app: &str, now_ms: i64) -> Result<(Counts, Counts), ControlError> {
    let to_ms = Resolution::Minute.row_of(now_ms) + MINUTE;
    let (from_ms, step_ms) = (to_ms - 65 * MINUTE, MINUTE);
    let query = HistoryQuery { scope: Scope::App(app.to_owned()), from_ms, to_ms, step_ms };
    let found = history(tx, &Actor::system(), &query)?;
    let (mut now, mut before) = (Counts::default(), Counts::default());
    for point in found.points {
        let of = if point.at_ms >= to_ms - 5 * MINUTE { &mut now } else { &mut before };
        of.add(point.counts);
    }
    Ok((now, before))
}
