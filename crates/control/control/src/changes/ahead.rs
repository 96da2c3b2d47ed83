//! The part of a large change that exists when its transaction begins: the operations of its change set, the
//! rows of the next version of its app, and the documents of that. Not here: how they get there (`rehearsal`,
//! `staging`).

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_db::Tx;
use tollgate_model::change_set::ChangeOp;
use tollgate_model::{App, Compiled, Content, RuleKind};

use crate::access::actor::Actor;
use crate::access::settings;
use crate::changes::known::{Known, Run};
use crate::changes::staging::{Staged, Wanted};
use crate::changes::stored::{self, Op};
use crate::changes::{apps, checks};
use crate::error::ControlError;

/// Names of what is known.
const WANTED: &str = "wanted";
const COMPILED: &str = "compiled";
const STAGED: &str = "staged";

/// The rows that a rehearsal has asked for.
pub(crate) fn wanted(rehearsal: &Known) -> Option<Wanted> {
    rehearsal.get::<Wanted>(WANTED).map(Arc::unwrap_or_clone)
}

fn set_wanted(rehearsal: &Known, wanted: Wanted) {
    rehearsal.set(WANTED, Arc::new(wanted));
}

/// Remembers the rows that were written.
pub(crate) fn set_staged(known: &Known, staged: Staged) {
    known.set(STAGED, Arc::new(staged));
}

/// The rows written ahead for the app, if they hold for the app as it is.
fn staged_for(known: &Known, tx: &mut dyn Tx, app: &App) -> Result<Arc<Staged>, ControlError> {
    let Some(staged) = known.get::<Staged>(STAGED) else { return Err(ControlError::Large) };
    // An app that the change itself has made is as it was planned.
    let now = if staged.is_made(app) { None } else { apps::find(tx, &app.name)? };
    let approvals = settings::get(tx)?.0.approvals;
    if staged.is_for(tx, now.as_ref(), approvals)? { Ok(staged) } else { Err(ControlError::Large) }
}

/// The id of a new change set whose operations are written already; `None` if they are not.
pub(crate) fn written_ops(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    ops: &[ChangeOp],
) -> Result<Option<String>, ControlError> {
    let Some(ahead) = actor.known().filter(|it| ops.len() > it.most) else { return Ok(None) };
    match ahead.run {
        Run::First => Err(ControlError::Large),
        Run::AtOnce => Ok(None),
        Run::Rehearsal => {
            let is_new = apps::find(tx, &app.name)?.is_none();
            let writes = Vec::new();
            let unchanged = Vec::new();
            set_wanted(ahead, Wanted { app: app.clone(), is_new, writes, unchanged, ops: ops.to_vec() });
            Ok(None)
        }
        Run::Prepared => {
            let staged = staged_for(ahead, tx, app)?;
            if staged.wanted.ops != ops {
                return Err(ControlError::Large);
            }
            if staged.wanted.writes.is_empty() {
                staged.use_ops(tx)?;
            }
            Ok(Some(staged.change_id.clone()))
        }
    }
}

/// Documents, and the rows that they are of.
type Written = (Arc<Compiled>, Arc<Staged>);

/// The documents of the app with `ops` applied, and the rows that are written already; `None` if they are
/// not.
pub(crate) fn written_rules(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    ops: &[Op],
) -> Result<Option<Written>, ControlError> {
    let Some(ahead) = actor.known().filter(|it| ops.len() > it.most) else { return Ok(None) };
    match ahead.run {
        Run::First => Err(ControlError::Large),
        Run::AtOnce => Ok(None),
        Run::Rehearsal => {
            let is_new = apps::find(tx, &app.name)?.is_none();
            let (compiled, unchanged) = with(tx, app, ops)?;
            let change_ops = wanted(ahead).map(|it| it.ops).unwrap_or_default();
            let writes = ops.to_vec();
            set_wanted(ahead, Wanted { app: app.clone(), is_new, writes, unchanged, ops: change_ops });
            ahead.set(COMPILED, Arc::new(compiled));
            Err(ControlError::Large)
        }
        Run::Prepared => {
            let staged = staged_for(ahead, tx, app)?;
            let compiled = ahead.get::<Compiled>(COMPILED);
            let is_same = staged.wanted.writes.len() == ops.len()
                && staged.wanted.writes.iter().zip(ops).all(|(a, b)| a.is_same(b));
            match compiled {
                Some(compiled) if is_same && staged.is_next(app) => Ok(Some((compiled, staged))),
                _ => Err(ControlError::Large),
            }
        }
    }
}

/// The app's documents with `ops` applied, and the ids of the rows that stay as they are.
fn with(tx: &mut dyn Tx, app: &App, ops: &[Op]) -> Result<(Compiled, Vec<String>), ControlError> {
    let mut rules: HashMap<String, (bool, Content)> =
        stored::current_all(tx, app)?.into_values().map(|it| (it.rule_id, (false, it.content))).collect();
    for op in ops {
        match op.put() {
            Some(content) => drop(rules.insert(op.rule_id().to_owned(), (true, content.clone()))),
            None => drop(rules.remove(op.rule_id())),
        }
    }
    let mut unchanged = Vec::new();
    let mut rows = Vec::new();
    let mut files = Vec::new();
    for (rule_id, (is_changed, content)) in rules {
        if !is_changed && content.kind() == RuleKind::TableRule {
            unchanged.push(rule_id);
        }
        match content {
            Content::TableRule(row) => rows.push(*row),
            Content::File(file) => files.push(file),
        }
    }
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    files.sort_by(|a, b| a.domain.cmp(&b.domain));
    let changed = ops.iter().map(Op::key).collect();
    let is_on = app.state == "active";
    let documents = if is_on { checks::documents_of(&app.name, &rows, files, &changed)? } else { Vec::new() };
    Ok((Compiled::of(documents), unchanged))
}
