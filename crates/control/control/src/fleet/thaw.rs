//! The decision about a frozen app: what a node holds, or what the database has, as a version above all that
//! nodes hold.

use serde::Deserialize;
use serde_json::json;
use tollgate_db::Tx;
use tollgate_model::{App, Content, FileRule, Role, compile, fields};

use crate::access::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::changes::stored::{self, Op};
use crate::changes::{apps, versions};
use crate::error::{ControlError, Fault, invalid};
use crate::fleet::frozen::{FEW, PREFIX, decidable};
use crate::published::{Committed, Document};
use crate::rollouts::rollout_rows;

/// The documents of an app that a node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HeldDocuments {
    pub version: u64,
    /// One for each domain.
    pub documents: Vec<HeldDocument>,
}

/// The rules of one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HeldDocument {
    pub domain: String,
    /// The rule file.
    pub yaml: String,
}

/// The frozen app with the number of the next version above what nodes hold; made if this database does not
/// know it. Not frozen any more.
fn thaw(tx: &mut dyn Tx, actor: &Actor, name: &str, reason: &str) -> Result<(App, String), ControlError> {
    actor.must(Role::Admin, name)?;
    let reason = fields::text(reason, fields::MAX_DESCRIPTION).map_err(|fault| invalid("reason", fault))?;
    if reason.trim().is_empty() {
        return Err(invalid("reason", Fault::Required));
    }
    let unknown = || ControlError::NotFound { what: "frozen app", name: name.to_owned() };
    let held = decidable(tx, name)?.ok_or_else(unknown)?;
    if apps::find(tx, name)?.is_none() {
        actor.must(Role::Admin, EVERY_APP)?;
    }
    let app = apps::find_or_insert(tx, actor, name)?;
    for prefix in [PREFIX, FEW] {
        tx.execute("DELETE FROM sequences WHERE name = $1", &[format!("{prefix}{name}").into()])?;
    }
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
pub fn force(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    reason: &str,
) -> Result<Committed<i64>, ControlError> {
    let (app, reason) = thaw(tx, actor, name, reason)?;
    rollout_rows::supersede(tx, actor, &app, &reason)?;
    let documents = versions::publish(tx, actor, &app, "force", &reason, &[])?;
    note(tx, actor, ("app.force", &reason), &app, documents.version, &[])?;
    Ok(Committed { value: app.next(), documents: Some(documents) })
}

/// Makes the rules of an app those that a node holds. What nodes do not get, such as descriptions, stays as
/// the database has it; a row that the node does not have is switched off.
pub(crate) fn take_over(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    held: &HeldDocuments,
    reason: &str,
) -> Result<Committed<i64>, ControlError> {
    let (app, reason) = thaw(tx, actor, name, reason)?;
    let mut now = stored::current_all(tx, &app)?;
    let mut ops = Vec::new();
    let mut put = |tx: &mut dyn Tx, content: Content| -> Result<(), ControlError> {
        match now.remove(&(content.kind(), content.key().to_owned())) {
            Some(same) if same.content == content => {}
            Some(before) => ops.push(Op::replace(before.rule_id, content)),
            None => ops.push(Op::create(tx.now_ms(), content)?),
        }
        Ok(())
    };
    let known = stored::table_rules(tx, &app)?;
    let files = stored::files(tx, &app.id)?;
    for HeldDocument { domain, yaml } in &held.documents {
        if *domain == app.name {
            let rows = compile::read(&app.name, yaml, &known)?;
            for row in rows {
                put(tx, Content::TableRule(Box::new(row)))?;
            }
        } else {
            let before = files.iter().find(|it| it.domain == *domain);
            let description = before.map(|it| it.description.clone()).unwrap_or_default();
            let domain = domain.clone();
            let text = yaml.clone();
            put(tx, Content::File(FileRule { domain, text, description, state: "on".to_owned() }))?;
        }
    }
    for stored in now.into_values().filter(|it| it.content.state() != "off") {
        ops.push(Op::replace(stored.rule_id, stored.content.with_state("off")));
    }
    rollout_rows::supersede(tx, actor, &app, &reason)?;
    let documents = versions::publish(tx, actor, &app, "takeover", &reason, &ops)?;
    let given = held.documents.iter().map(|it| Document::new(&*it.domain, &*it.yaml));
    let mut given: Vec<_> = given.collect();
    let mut made = documents.documents.clone();
    for list in [&mut given, &mut made] {
        list.sort_by(|a, b| a.domain().cmp(b.domain()));
    }
    // Otherwise taking over would change the rules of the node. The error rolls everything back.
    if given != made {
        let reason =
            "what the node holds cannot be written as rules of this app; force what the database has";
        return Err(ControlError::Document { app: app.name, reason: reason.to_owned() });
    }
    note(tx, actor, ("app.take_over", &reason), &app, documents.version, &ops)?;
    Ok(Committed { value: app.next(), documents: Some(documents) })
}
