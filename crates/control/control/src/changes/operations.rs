//! Operations of change sets: as they are asked for, checked against the rules of their app, and written. Not
//! here: the effect of all rules of an app together (`checks`).

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_db::Tx;
use tollgate_model::change_set::{ChangeOp, Conflict, content_hash};
use tollgate_model::{App, Content, FileRule, Role, RuleKind, compile, fields};

use crate::access::actor::Actor;
use crate::changes::file_rules::FileInput;
use crate::changes::known::known;
use crate::changes::stored::{self, Written};
use crate::changes::{apps, change_set, checks};
use crate::error::{ControlError, Fault, invalid};

/// Most operations of a change set.
pub const MAX_OPS: usize = 20_000;

/// An operation as people and programs ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpInput {
    /// The kind of the rule.
    pub kind: RuleKind,
    /// The key of the rule.
    pub key: String,
    /// The etag of what it begins with; `None`: the rule must not exist yet.
    pub base: Option<i64>,
    /// The content that it gives the rule; `None` deletes it.
    pub after: Option<Content>,
}

/// The effect of operations.
#[derive(Clone, Debug)]
pub struct Look {
    /// The operations with the contents that they begin with.
    pub ops: Vec<ChangeOp>,
    /// The app with the operations in force, as nodes would get it.
    pub preview: checks::Preview,
    /// Conflicts with the current rules.
    pub conflicts: Vec<Conflict>,
}

/// Looks at operations without a change set. Needs viewer; changes nothing.
///
/// # Errors
/// [`ControlError`].
pub fn look(tx: &mut dyn Tx, actor: &Actor, app: &str, ops: &[OpInput]) -> Result<Look, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let ops = checked_ops(tx, actor, &app, ops)?.ops.clone();
    let preview = checks::preview(tx, actor, &app.name, &ops)?;
    let conflicts = change_set::conflicts_of(tx, &app, &ops)?;
    Ok(Look { ops, preview, conflicts })
}

/// Operations that were checked against a version of an app.
pub(super) struct Checked {
    inputs: Vec<OpInput>,
    /// With what they begin with, by kind and key.
    pub(super) ops: Vec<ChangeOp>,
    pub(super) sha256: String,
}

pub(super) fn checked_ops(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    inputs: &[OpInput],
) -> Result<Arc<Checked>, ControlError> {
    let name = || format!("checked for {} {}", app.id, app.version);
    let found = known(actor.known(), inputs.len(), name, || {
        let ops = check(tx, app, inputs)?;
        let sha256 = content_hash(&app.id, &ops);
        Ok(Checked { inputs: inputs.to_vec(), ops, sha256 })
    })?;
    // A change has one list of many operations.
    if found.inputs == inputs { Ok(found) } else { Err(ControlError::Large) }
}

/// The operations with what they begin with.
fn check(tx: &mut dyn Tx, app: &App, inputs: &[OpInput]) -> Result<Vec<ChangeOp>, ControlError> {
    if inputs.len() > MAX_OPS {
        let max = i64::try_from(MAX_OPS).unwrap_or(i64::MAX);
        return Err(ControlError::Cap { what: "operations of a change set", max });
    }
    let mut seen = BTreeSet::new();
    let mut written = Written::default();
    let mut ops = Vec::with_capacity(inputs.len());
    for OpInput { kind, key, base, after } in inputs {
        let key = fields::rule_key(key).map_err(|fault| invalid("key", fault))?;
        if !seen.insert((*kind, key.clone())) {
            return Err(invalid("key", Fault::Duplicate));
        }
        let is_same = after.as_ref().is_none_or(|it| it.kind() == *kind && it.key() == key);
        if !is_same || (base.is_none() && after.is_none()) {
            return Err(invalid(
                "op",
                Fault::Choice { expected: "put with a rule of this key, delete with a base" },
            ));
        }
        if let Some(content) = after {
            must_be_valid(&app.name, content)?;
        }
        let before = match base {
            None => None,
            Some(base) => {
                let unknown = || ControlError::NotFound { what: "base", name: format!("{key} {base}") };
                let now = stored::current(tx, app, *kind, &key)?.filter(|it| it.from_version == *base);
                match now {
                    Some(now) => Some(now.content),
                    None => Some(written.get(tx, app, (*kind, &key), *base)?.ok_or_else(unknown)?),
                }
            }
        };
        ops.push(ChangeOp { kind: *kind, key, base: *base, before, after: after.clone() });
    }
    ops.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    Ok(ops)
}

/// # Errors
/// The faults of the rule alone, whoever made it.
pub(crate) fn must_be_valid(app: &str, content: &Content) -> Result<(), ControlError> {
    match content {
        Content::TableRule(row) => {
            row.to_input().check()?;
            Ok(compile::check(app, row)?)
        }
        Content::File(file) => {
            let FileRule { domain, text, description, state } = file.clone();
            FileInput { domain, text, description, state }.check().map(drop)
        }
    }
}

pub(crate) fn write_ops(tx: &mut dyn Tx, id: &str, ops: &[ChangeOp]) -> Result<(), ControlError> {
    ops.iter().enumerate().try_for_each(|(seq, op)| change_set::write_op(tx, id, seq, op))
}
