//! Apps that are frozen: the database was restored from a copy that is older than what nodes hold.
//!
//! Nodes never go back to an older version, so a change of such an app would reach none of them, and the one
//! that catches up with their version would silently replace rules that nobody here has seen. So the app
//! takes no change until an administrator takes over what a node holds, or forces what the database has.
//! Either becomes a version above all that nodes hold.
//! Not here: the decision (`thaw`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tollgate_db::{Tx, query_value, row, select};
use tollgate_model::{App, Role, fields};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::{apps, past};
use crate::error::ControlError;
use crate::fleet::nodes::{NodeState, Nodes, is_majority, voters};
use crate::published::AppDocuments;

/// A node that claims a version so far above the database's is wrong, or lies.
const FURTHEST: i64 = 1_000_000;
/// Before the name of an app, what `sequences` calls the highest version that nodes hold of it.
pub(crate) const PREFIX: &str = "frozen:";
/// Likewise of an app that few nodes hold, which is not frozen.
pub(crate) const FEW: &str = "ahead:";
/// Most apps that few nodes hold.
const MOST_OF_FEW: usize = 1_000;

/// The apps that are frozen, and the highest version of each that nodes hold.
pub(crate) fn all(tx: &mut dyn Tx) -> Result<BTreeMap<String, i64>, ControlError> {
    named(tx, PREFIX)
}

/// The apps that few nodes hold, likewise.
pub(crate) fn few(tx: &mut dyn Tx) -> Result<BTreeMap<String, i64>, ControlError> {
    named(tx, FEW)
}

fn named(tx: &mut dyn Tx, prefix: &str) -> Result<BTreeMap<String, i64>, ControlError> {
    let held = select!(HeldRow: "FROM sequences WHERE SUBSTR(name, 1, LENGTH($1)) = $1");
    Ok(held.all(tx, &[prefix.into()])?.into_iter().map(|row| (row.app, row.version)).collect())
}

row! {
    /// The version of an app that nodes hold; `$1` is the prefix of its name.
    struct HeldRow { app: String = "SUBSTR(name, LENGTH($1) + 1)", version: i64 = "value" }
}

/// The highest version that nodes hold of an app that is frozen; `None` if it is not.
///
/// # Errors
/// [`ControlError::Db`].
pub fn held(tx: &mut dyn Tx, app: &str) -> Result<Option<i64>, ControlError> {
    let name = format!("{PREFIX}{app}");
    Ok(query_value(tx, "SELECT value FROM sequences WHERE name = $1", &[name.into()])?)
}

/// As [`held`], also of an app that few nodes hold: an administrator may decide about it.
pub(crate) fn decidable(tx: &mut dyn Tx, app: &str) -> Result<Option<i64>, ControlError> {
    let names = [PREFIX, FEW].map(|prefix| format!("{prefix}{app}").into());
    Ok(query_value(tx, "SELECT MAX(value) FROM sequences WHERE name IN ($1, $2)", &names)?.flatten())
}

/// The highest version of a frozen app on nodes, and the version in the database, 0 if it has no such app.
/// Needs viewer.
///
/// # Errors
/// [`ControlError`]; [`ControlError::NotFound`] if the app is not frozen.
pub fn status(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<(i64, i64), ControlError> {
    actor.must(Role::Viewer, app)?;
    let unknown = || ControlError::NotFound { what: "frozen app", name: app.to_owned() };
    let held = decidable(tx, app)?.ok_or_else(unknown)?;
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

/// Versions that live nodes hold and the database has never published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Apps that most of them hold, with the highest version. One node alone freezes nothing that others do
    /// not hold, nor does one machine, since it may lie.
    pub(crate) of_most: BTreeMap<String, i64>,
    /// Apps that only a few hold: these nodes keep them, and the other nodes get changes of the app.
    pub(crate) of_few: BTreeMap<String, i64>,
}

/// Looks at what nodes hold.
pub(crate) fn seen(nodes: &[NodeState], now_ms: i64) -> Ahead {
    let live: Vec<_> = nodes.iter().filter(|it| it.is_live(now_ms) && it.is_connected).collect();
    let voting = voters(nodes, |it| it.is_live(now_ms) && it.is_connected);
    let mut seen: BTreeMap<&str, (BTreeSet<&str>, i64)> = BTreeMap::new();
    for node in live {
        for app in node.apps.iter().filter(|it| it.is_ahead) {
            let versions = (i64::try_from(app.acked), i64::try_from(app.wanted));
            let (Ok(acked), Ok(wanted)) = versions else { continue };
            if acked - wanted <= FURTHEST && fields::app_name(&app.app).is_ok_and(|name| name == app.app) {
                let (nodes, highest) = seen.entry(&app.app).or_default();
                nodes.insert(&node.id);
                *highest = acked.max(*highest);
            }
        }
    }
    let mut ahead = Ahead::default();
    for (app, (nodes, highest)) in seen {
        let is_of_most = is_majority(&voting, |it| nodes.contains(&*it.id));
        let of = if is_of_most { &mut ahead.of_most } else { &mut ahead.of_few };
        of.insert(app.to_owned(), highest);
    }
    while ahead.of_few.len() > MOST_OF_FEW {
        ahead.of_few.pop_last();
    }
    ahead
}

/// Asks nodes within the transaction that would put `documents` in place of what they hold.
///
/// # Errors
/// [`ControlError::Frozen`] if most live nodes hold what this database has never published.
pub(crate) fn ask(tx: &mut dyn Tx, documents: &AppDocuments, nodes: &dyn Nodes) -> Result<(), ControlError> {
    let app = &documents.app;
    let version = documents.version;
    if documents.forced == version {
        return Ok(()); // an administrator says so
    }
    let held = nodes.ahead(app, tx.now_ms());
    if held.is_empty() {
        return Ok(()); // as a rule
    }
    // The decision may not have reached the nodes yet.
    let decided = past::forced_of(tx, app)?;
    if held.iter().all(|version| *version < decided) {
        return Ok(());
    }
    match seen(&nodes.nodes_of(app), tx.now_ms()).of_most.get(app) {
        Some(held) => {
            let version = i64::try_from(version).unwrap_or(i64::MAX) - 1;
            Err(ControlError::Frozen { app: app.clone(), held: *held, version })
        }
        None => Ok(()),
    }
}

/// Keeps what the nodes hold: apps of most are frozen, each at the highest version; those of few are kept for
/// an administrator who decides about them.
pub(crate) fn keep(tx: &mut dyn Tx, ahead: &Ahead) -> Result<(), ControlError> {
    freeze(tx, &ahead.of_most)?;
    let known = few(tx)?;
    let forced = past::forced(tx)?;
    let is_decided =
        |app: &str, version: i64| forced.get(app).is_some_and(|decided| *decided > version.unsigned_abs());
    let of_few = ahead.of_few.iter().filter(|(app, version)| !is_decided(app, **version));
    for (app, version) in of_few.filter(|(app, version)| known.get(*app) < Some(version)) {
        set(tx, &format!("{FEW}{app}"), *version)?;
    }
    Ok(())
}

fn set(tx: &mut dyn Tx, name: &str, version: i64) -> Result<(), ControlError> {
    tx.execute(
        "INSERT INTO sequences (name, value) VALUES ($1, $2) \
         ON CONFLICT (name) DO UPDATE SET value = $2 WHERE sequences.value < $2",
        &[name.into(), version.into()],
    )?;
    Ok(())
}

/// Freezes apps, each at the highest version that nodes hold.
pub(crate) fn freeze(tx: &mut dyn Tx, seen: &BTreeMap<String, i64>) -> Result<(), ControlError> {
    let known = all(tx)?;
    let forced = past::forced(tx)?;
    for (app, version) in seen.iter().filter(|(app, version)| known.get(*app) < Some(version)) {
        // An administrator may have decided meanwhile.
        if forced.get(app).is_some_and(|decided| *decided > version.unsigned_abs()) {
            continue;
        }
        set(tx, &format!("{PREFIX}{app}"), *version)?;
        let note = Note {
            action: "app.freeze",
            target: app.clone(),
            app: Some(app),
            after: Some(json!({"held_by_nodes": version})),
            reason: "nodes hold what this database has never published",
            ..Note::default()
        };
        audit::append(tx, &Actor::system(), note)?;
    }
    Ok(())
}
