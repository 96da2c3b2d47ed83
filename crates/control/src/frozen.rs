//! Apps that are frozen: the database was restored from a copy that is older than what nodes hold.
//!
//! Nodes never go back to an older version, so a change of such an app would reach none of them, and the one
//! that catches up with their version would silently replace rules that nobody here has seen. So the app
//! takes no change until an administrator takes over what a node holds, or forces what the database has.
//! Either becomes a version above all that nodes hold.
//! Not here: the decision (`thawing`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tollgate_db::Tx;

use crate::actor::Actor;
use crate::apps::{self, App};
use crate::audit::{self, Note};
use crate::car;
use crate::error::ControlError;
use crate::nodes::{NodeState, is_majority, voters};
use crate::role::Role;

/// A node that claims a version so far above the database's is wrong, or lies.
const FURTHEST: i64 = 1_000_000;
/// Before the name of an app, what `sequences` calls the highest version that nodes hold of it.
pub(crate) const PREFIX: &str = "frozen:";

/// The apps that are frozen, and the highest version of each that nodes hold.
pub(crate) fn all(tx: &mut dyn Tx) -> Result<BTreeMap<String, i64>, ControlError> {
    let rows = tx.query("SELECT name, value FROM sequences WHERE name LIKE 'frozen:%'", &[])?;
    let read = |row: &tollgate_db::Row| {
        let name = row.text(0)?;
        Ok((name.trim_start_matches(PREFIX).to_owned(), row.int(1)?))
    };
    rows.iter().map(read).collect()
}

/// The highest version that nodes hold of an app that is frozen; `None` if it is not.
///
/// # Errors
/// [`ControlError::Db`].
pub fn held(tx: &mut dyn Tx, app: &str) -> Result<Option<i64>, ControlError> {
    let name = format!("{PREFIX}{app}");
    let row = tx.query_one("SELECT value FROM sequences WHERE name = $1", &[name.into()])?;
    Ok(row.map(|row| row.int(0)).transpose()?)
}

/// The highest version of a frozen app on nodes, and the version in the database, 0 if it has no such app.
/// Needs viewer.
///
/// # Errors
/// [`ControlError`]; [`ControlError::NotFound`] if the app is not frozen.
pub fn status(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<(i64, i64), ControlError> {
    actor.must(Role::Viewer, app)?;
    let unknown = || ControlError::NotFound { what: "frozen app", name: app.to_owned() };
    let held = held(tx, app)?.ok_or_else(unknown)?;
    Ok((held, apps::find(tx, app)?.map_or(0, |app| app.version)))
}

/// # Errors
/// [`ControlError::Frozen`] if the app is frozen.
pub(crate) fn must_not_be(tx: &mut dyn Tx, app: &App) -> Result<(), ControlError> {
    match held(tx, &app.name)? {
        Some(held) => Err(ControlError::Frozen { app: app.name.clone(), held, version: app.version }),
        None => Ok(()),
    }
}

/// What most of the live nodes hold and the database has never published: the app, and the highest version.
/// One node alone freezes nothing that others do not hold, nor does one machine, since it may lie.
pub(crate) fn seen(nodes: &[NodeState], now_ms: i64) -> BTreeMap<String, i64> {
    let voters = voters(nodes, |it| it.is_live(now_ms) && it.is_connected);
    let mut seen: BTreeMap<&str, (BTreeSet<&str>, i64)> = BTreeMap::new();
    for node in &voters {
        for app in node.apps.iter().filter(|it| it.is_ahead) {
            let versions = (i64::try_from(app.acked), i64::try_from(app.wanted));
            let (Ok(acked), Ok(wanted)) = versions else { continue };
            if acked - wanted <= FURTHEST && car::app_name(&app.app).is_ok_and(|name| name == app.app) {
                let (nodes, highest) = seen.entry(&app.app).or_default();
                nodes.insert(&node.id);
                *highest = acked.max(*highest);
            }
        }
    }
    let is_of_most = |nodes: &BTreeSet<&str>| is_majority(&voters, |it| nodes.contains(&*it.id));
    let of_most = seen.into_iter().filter(|(_, (nodes, _))| is_of_most(nodes));
    of_most.map(|(app, (_, highest))| (app.to_owned(), highest)).collect()
}

/// Freezes apps, each at the highest version that nodes hold.
pub(crate) fn freeze(tx: &mut dyn Tx, seen: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let known = all(tx)?;
    for (app, version) in seen.iter().filter(|(app, version)| known.get(*app) < Some(version)) {
        // It may have been published meanwhile.
        if apps::find(tx, app)?.is_some_and(|it| it.version > *version) {
            continue;
        }
        tx.execute(
            "INSERT INTO sequences (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
            &[format!("{PREFIX}{app}").into(), (*version).into()],
        )?;
        let note = Note {
            action: "app.freeze",
            target: app.clone(),
            app: Some(app),
            after: Some(json!({"held_by_nodes": version})),
            reason: "nodes hold a newer version than this database",
            ..Note::default()
        };
        audit::append(tx, &Actor::system(), note)?;
    }
    Ok(())
}
