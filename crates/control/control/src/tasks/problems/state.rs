//! The part of the state that the database knows.

use std::collections::BTreeMap;

use tollgate_db::{Tx, row, select};

use super::ProblemInputs;
use crate::error::ControlError;
use crate::fleet::frozen;
use crate::history::{Counts, Resolution};
use crate::rollouts::rollout_rows;

const MINUTE: i64 = Resolution::Minute.ms();

/// Everything but nodes and surroundings.
pub(crate) fn read(tx: &mut dyn Tx) -> Result<ProblemInputs, ControlError> {
    let now_ms = tx.now_ms();
    Ok(ProblemInputs {
        now_ms,
        versions: versions(tx)?,
        withdrawn: rollout_rows::withdrawn(tx)?,
        halted: rollout_rows::halted(tx)?,
        frozen: frozen::all(tx)?,
        few: frozen::few(tx)?,
        shares: shares(tx, now_ms)?,
        ..ProblemInputs::default()
    })
}

/// When the newest version of each app was last given to more nodes: when it was made, when the step of its
/// rollout began, or when that was done.
fn versions(tx: &mut dyn Tx) -> Result<BTreeMap<String, i64>, ControlError> {
    let versions = select!(VersionRow:
        "FROM apps JOIN versions ON versions.app_id = apps.id AND versions.version = apps.version \
         LEFT JOIN rollouts ON rollouts.app_id = apps.id AND rollouts.to_version = apps.version");
    let given = |row: VersionRow| {
        let rolled_out = row.step_at.unwrap_or(0).max(row.done_at.unwrap_or(0));
        (row.app, row.created_at.max(rolled_out))
    };
    Ok(versions.all(tx, &[])?.into_iter().map(given).collect())
}

row! {
    /// When the newest version of an app was made and given to more nodes.
    struct VersionRow {
        app: String = "apps.name",
        created_at: i64 = "versions.created_at",
        step_at: Option<i64> = "rollouts.step_at",
        done_at: Option<i64> = "CASE WHEN rollouts.state = 'done' THEN rollouts.updated_at ELSE NULL END",
    }
}

row! {
    /// Decisions of an app from the moment `$1` on, or before it.
    struct ShareRow {
        app: String = "apps.name",
        is_now: bool = "CASE WHEN history.at >= $1 THEN 1 ELSE 0 END",
        counts: Counts = Counts::COLUMNS,
    }
}

/// The last five minutes of each app with traffic, and the hour before.
fn shares(tx: &mut dyn Tx, now_ms: i64) -> Result<BTreeMap<String, (Counts, Counts)>, ControlError> {
    let to_ms = Resolution::Minute.row_of(now_ms) + MINUTE;
    // The cross joins fix the order in which SQLite looks: the rows of each series are found by their key.
    let rows = select!(ShareRow:
        "FROM domains CROSS JOIN apps CROSS JOIN series CROSS JOIN history \
         WHERE apps.id = domains.app_id AND series.domain = domains.domain AND series.rule = '' \
         AND history.res = $2 AND history.series = series.id AND history.at >= $3 AND history.at < $4 \
         GROUP BY 1, 2");
    let values = [(to_ms - 5 * MINUTE).into(), MINUTE.into(), (to_ms - 65 * MINUTE).into(), to_ms.into()];
    let mut shares = BTreeMap::<String, (Counts, Counts)>::new();
    for ShareRow { app, is_now, counts } in rows.all(tx, &values)? {
        let (now, before) = shares.entry(app).or_default();
        let of = if is_now { now } else { before };
        of.add(counts);
    }
    shares.retain(|_, (now, _)| now.offered() > 0);
    Ok(shares)
}
