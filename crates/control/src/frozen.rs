//! Apps that are frozen: the database was restored from a copy that is older than what nodes hold.
//!
//! Nodes never go back to an older version, so a change of such an app would reach none of them, and the one
//! that catches up with their version would silently replace rules that nobody here has seen. So the app
//! takes no change until an administrator takes over what a node holds, or forces what the database has.
//! Either becomes a version above all that nodes hold.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use tollgate_db::Tx;

use crate::actor::{Actor, EVERY_APP};
use crate::apps::{self, App};
use crate::audit::{self, Note};
use crate::car;
use crate::compile;
use crate::content::{Content, FileRule};
use crate::control::Control;
use crate::error::{ControlError, Fault, invalid};
use crate::keys::PATIENCE;
use crate::nodes::NodeState;
use crate::published::{Change, Document};
use crate::role::Role;
use crate::rollout_rows;
use crate::stored::{self, Op};
use crate::versions;

/// A node that claims a version so far above the database's is wrong, or lies.
const FURTHEST: i64 = 1_000_000;
/// Before the name of an app, what `sequences` calls the highest version that nodes hold of it.
const PREFIX: &str = "frozen:";

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

/// The highest version of a frozen app on nodes, and the version in the database, 0 if it does not know the app.
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
/// One node alone freezes nothing that others do not hold, since it may lie.
pub(crate) fn seen(nodes: &[NodeState], now_ms: i64) -> BTreeMap<String, i64> {
    let live: Vec<_> = nodes.iter().filter(|it| it.is_live(now_ms) && it.is_connected).collect();
    let mut seen: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for app in live.iter().flat_map(|it| &it.apps).filter(|it| it.is_ahead) {
        let (Ok(acked), Ok(wanted)) = (i64::try_from(app.acked), i64::try_from(app.wanted)) else { continue };
        if acked - wanted <= FURTHEST && car::app_name(&app.app).is_ok_and(|name| name == app.app) {
            let (count, highest) = seen.entry(&app.app).or_default();
            *count += 1;
            *highest = acked.max(*highest);
        }
    }
    let of_most = seen.into_iter().filter(|(_, (count, _))| count * 2 > live.len());
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

/// What a node holds of an app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HeldDocuments {
    /// Its version.
    pub version: u64,
    /// One for each domain.
    pub documents: Vec<HeldDocument>,
}

/// The rules of one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HeldDocument {
    /// The domain.
    pub domain: String,
    /// The rule file.
    pub yaml: String,
}

/// The frozen app with the number of the next version above what nodes hold; made if this database does not
/// know it. Not frozen any more.
fn thaw(tx: &mut dyn Tx, actor: &Actor, name: &str, reason: &str) -> Result<(App, String), ControlError> {
    actor.must(Role::Admin, name)?;
    let reason = car::text(reason, car::MAX_DESCRIPTION).map_err(|fault| invalid("reason", fault))?;
    if reason.trim().is_empty() {
        return Err(invalid("reason", Fault::Required));
    }
    let unknown = || ControlError::NotFound { what: "frozen app", name: name.to_owned() };
    let held = held(tx, name)?.ok_or_else(unknown)?;
    if apps::find(tx, name)?.is_none() {
        actor.must(Role::Admin, EVERY_APP)?;
    }
    let app = apps::find_or_insert(tx, actor, name)?;
    tx.execute("DELETE FROM sequences WHERE name = $1", &[format!("{PREFIX}{name}").into()])?;
    Ok((App { version: held.max(app.version), ..app }, reason))
}

fn note(
    tx: &mut dyn Tx,
    actor: &Actor,
    (action, reason): (&str, &str),
    app: &App,
    version: u64,
    rules: &[Op],
) -> Result<(), ControlError> {
    let rules: Vec<_> = rules.iter().map(Op::key).collect();
    let note = Note {
        action,
        target: app.name.clone(),
        app: Some(&app.name),
        before: Some(json!({"held_by_nodes": app.version})),
        after: Some(json!({"version": version, "rules": rules})),
        reason,
    };
    audit::append(tx, actor, note)
}

/// Puts what the database has in place of what nodes hold, as a version above theirs. Needs admin of the app;
/// of every app where this database does not know it: it is then made without rules. Returns the version.
///
/// # Errors
/// [`ControlError`]; [`ControlError::NotFound`] if the app is not frozen.
pub fn force(tx: &mut dyn Tx, actor: &Actor, name: &str, reason: &str) -> Result<Change<i64>, ControlError> {
    let (app, reason) = thaw(tx, actor, name, reason)?;
    rollout_rows::supersede(tx, actor, &app, &reason)?;
    let documents = versions::publish(tx, actor, &app, "force", &reason, &[])?;
    note(tx, actor, ("app.force", &reason), &app, documents.version, &[])?;
    Ok(Change { value: app.version + 1, documents: Some(documents) })
}

/// Makes the rules of an app those that a node holds. What nodes do not get, such as descriptions, stays as the
/// database has it; a row that the node does not have is switched off.
pub(crate) fn take_over(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    held: &HeldDocuments,
    reason: &str,
) -> Result<Change<i64>, ControlError> {
    let (app, reason) = thaw(tx, actor, name, reason)?;
    let mut now = stored::current_all(tx, &app)?;
    let mut ops = Vec::new();
    let mut put = |tx: &mut dyn Tx, content: Content| -> Result<(), ControlError> {
        match now.remove(&(content.kind(), content.key().to_owned())) {
            Some(same) if same.content == content => {}
            Some(before) => ops.push(Op::Put { rule_id: before.rule_id, content }),
            None => ops.push(Op::create(tx, content)?),
        }
        Ok(())
    };
    let known = stored::cars(tx, &app.id)?;
    let files = stored::files(tx, &app.id)?;
    for HeldDocument { domain, yaml } in &held.documents {
        if *domain == app.name {
            let cars = compile::read(&app.name, yaml, &known)?;
            for car in cars {
                put(tx, Content::Car(Box::new(car)))?;
            }
        } else {
            let before = files.iter().find(|it| it.domain == *domain);
            let description = before.map(|it| it.description.clone()).unwrap_or_default();
            let (domain, text) = (domain.clone(), yaml.clone());
            put(tx, Content::File(FileRule { domain, text, description, state: "on".to_owned() }))?;
        }
    }
    for stored in now.into_values().filter(|it| it.content.state() != "off") {
        ops.push(Op::Put { rule_id: stored.rule_id, content: stored.content.with_state("off") });
    }
    rollout_rows::supersede(tx, actor, &app, &reason)?;
    let documents = versions::publish(tx, actor, &app, "takeover", &reason, &ops)?;
    let given = held.documents.iter().map(|it| Document::new(&*it.domain, &*it.yaml));
    let mut given: Vec<_> = given.collect();
    let mut made = documents.documents.clone();
    for list in [&mut given, &mut made] {
        list.sort_by(|a, b| a.domain().cmp(b.domain()));
    }
    if given != made {
        let reason =
            "what the node holds cannot be written as rules of this app; force what the database has";
        return Err(ControlError::Document { app: app.name, reason: reason.to_owned() });
    }
    note(tx, actor, ("app.take_over", &reason), &app, documents.version, &ops)?;
    Ok(Change { value: app.version + 1, documents: Some(documents) })
}

impl Control {
    /// Makes the rules of a frozen app those that `node` holds, as a version above all that nodes hold. Needs
    /// admin of the app. Returns the version.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NotFound`] if the app is not frozen, and [`ControlError::Unanswered`]
    /// if the node does not say what it holds.
    pub async fn take_over(
        &self,
        actor: &Actor,
        app: &str,
        node: &str,
        reason: &str,
    ) -> Result<i64, ControlError> {
        actor.must(Role::Admin, app)?;
        let name = app.to_owned();
        let is_frozen = self.read(move |tx| held(tx, &name)).await?.is_some();
        if !is_frozen {
            return Err(ControlError::NotFound { what: "frozen app", name: app.to_owned() });
        }
        let body = json!({"app": app}).to_string();
        let answer = self.nodes_shared().command(node, "documents", body, PATIENCE).await;
        let unanswered = |reason| ControlError::Unanswered { node: node.to_owned(), reason };
        let documents: HeldDocuments = serde_json::from_str(&answer.map_err(unanswered)?)
            .map_err(|error| unanswered(error.to_string()))?;
        let (actor, app, reason) = (actor.clone(), app.to_owned(), reason.to_owned());
        self.change(move |tx| take_over(tx, &actor, &app, &documents, &reason)).await
    }
}
