//! Rules of either kind, differences and faults as JSON; and the operations of a change set as they are asked
//! for.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::change_set::{ChangeOp, ChangeSet, Conflict};
use tollgate_control::changes::OpInput;
use tollgate_control::diff::{FieldDiff, by_field};
use tollgate_control::fields::in_words;
use tollgate_control::file_rules::FileInput;
use tollgate_control::{ConflictSides, Content, ControlError, DocFault, Kind, table_rule_yaml};

use super::body::RuleBody;
use crate::web::Failure;

/// A rule, whichever kind it is.
pub(super) fn content(content: &Content) -> Value {
    match content {
        Content::TableRule(row) => {
            let mut shape = content_members(content);
            shape["g"] = in_words(row.g_micro).into();
            shape["u"] = in_words(row.u_micro).into();
            shape["bucket"] = row.bucket.clone().into(); // also where it is empty
            if let Value::Object(members) = &mut shape {
                members.remove("g_micro");
                members.remove("u_micro");
            }
            shape
        }
        Content::File(_) => content_members(content),
    }
}

fn content_members(content: &Content) -> Value {
    content.json()
}

fn side(rule: Option<&Content>) -> Value {
    rule.map_or(Value::Null, content)
}

/// A fault of a rule file or of YAML.
pub(super) fn fault(fault: &DocFault) -> Value {
    let DocFault { domain, line, column, path, message } = fault;
    json!({"domain": domain, "line": line, "column": column, "pointer": path, "message": message})
}

/// The sides of a conflict.
pub(super) fn conflict(it: &Conflict) -> Value {
    sides(&it.clone().into())
}

/// The sides of a conflict, as an error has them.
pub(super) fn sides(it: &ConflictSides) -> Value {
    let side = |json: &Option<Value>| {
        let read = json.clone().and_then(|json| serde_json::from_value::<Content>(json).ok());
        side(read.as_ref())
    };
    json!({
        "kind": it.kind, "key": it.key, "base": side(&it.base), "theirs": side(&it.theirs),
        "yours": side(&it.yours),
    })
}

/// What a rule was and is, with the fields that differ.
pub(super) fn difference(kind: Kind, key: &str, before: Option<&Content>, after: Option<&Content>) -> Value {
    let fields = by_field(before, after);
    let fields: Vec<Value> = fields
        .into_iter()
        .map(|FieldDiff { field, before, after }| json!({"field": field, "before": before, "after": after}))
        .collect();
    let op = match (before, after) {
        (None, _) => "create",
        (_, None) => "delete",
        _ => "update",
    };
    json!({
        "kind": kind.name(), "key": key, "op": op, "fields": fields,
        "before_yaml": before.map(Content::yaml), "after_yaml": after.map(Content::yaml),
    })
}

pub(super) fn differences(ops: &[ChangeOp]) -> Vec<Value> {
    ops.iter().map(|op| difference(op.kind, &op.key, op.before.as_ref(), op.after.as_ref())).collect()
}

/// A change set; its operations and events are there unless it is one of a list.
pub(crate) fn change(change: &ChangeSet, is_whole: bool) -> Value {
    let mut shape = json!({
        "id": change.id, "app": change.app, "state": change.state.name(), "title": change.title,
        "comment": change.comment, "author": change.author, "base_version": change.base_version,
        "published_version": change.published_version, "content_sha256": change.content_sha256,
        "created_at": change.created_at, "updated_at": change.updated_at, "rules": change.rules,
        "approvals_needed": change.needed,
    });
    if is_whole {
        shape["approved_by"] = json!(change.approved_by());
        shape["ops"] = change
            .ops
            .iter()
            .map(|op| {
                let name = if op.after.is_some() { "put" } else { "delete" };
                json!({
                    "op": name, "kind": op.kind.name(), "key": op.key, "base": op.base,
                    "before": side(op.before.as_ref()), "after": side(op.after.as_ref()),
                })
            })
            .collect();
        shape["events"] = change
            .events
            .iter()
            .map(|it| json!({"user": it.user, "event": it.verdict, "comment": it.comment, "at": it.at}))
            .collect();
    }
    shape
}

/// An operation of a change set. A row is given as `rule` or as `yaml`, a file as `file`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpBody {
    op: String,
    #[serde(default)]
    kind: Option<String>,
    key: String,
    #[serde(default)]
    base: Option<i64>,
    #[serde(default)]
    rule: Option<RuleBody>,
    #[serde(default)]
    yaml: Option<String>,
    #[serde(default)]
    file: Option<FileBody>,
}

/// A rule file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileBody {
    domain: String,
    text: String,
    description: String,
    state: String,
}

impl FileBody {
    pub(super) fn input(self, domain: Option<String>) -> FileInput {
        let Self { domain: given, text, description, state } = self;
        FileInput { domain: domain.unwrap_or(given), text, description, state }
    }
}

impl OpBody {
    pub(super) fn input(self) -> Result<OpInput, Failure> {
        let Self { op, kind, key, base, rule, yaml, file } = self;
        let kind = kind.as_deref().unwrap_or(if file.is_some() { "file" } else { "car" });
        let kind: Kind =
            kind.parse().map_err(|()| Failure::Bad("unknown `kind`: expected car or file".to_owned()))?;
        let bad = |detail: &str| Failure::Bad(detail.to_owned());
        let after = match (&*op, kind, rule, yaml, file) {
            ("delete", _, None, None, None) => None,
            ("put", Kind::TableRule, Some(rule), None, None) => {
                Some(Content::TableRule(Box::new(rule.input(Some(key.clone()))?.check()?)))
            }
            ("put", Kind::TableRule, None, Some(yaml), None) => {
                Some(Content::TableRule(Box::new(table_rule_yaml::read(&yaml)?.check()?)))
            }
            ("put", Kind::File, None, None, Some(file)) => {
                Some(Content::File(file.input(Some(key.clone())).check()?))
            }
            ("put" | "delete", ..) => {
                return Err(bad("a put has `rule`, `yaml` or `file`; a delete has none of them"));
            }
            _ => return Err(bad("unknown `op`: expected put or delete")),
        };
        Ok(OpInput { kind, key, base, after })
    }
}

/// Every operation of a list.
pub(super) fn inputs(ops: Vec<OpBody>) -> Result<Vec<OpInput>, Failure> {
    ops.into_iter().map(OpBody::input).collect()
}

/// The faults of an error that is about a text, or the error.
pub(super) fn faults_of(error: ControlError) -> Result<Vec<Value>, ControlError> {
    match error {
        ControlError::Faulty(faults) => Ok(faults.iter().map(fault).collect()),
        ControlError::Invalid(faults) => Ok(faults
            .iter()
            .map(|it| json!({"pointer": format!("/{}", it.field), "message": it.fault.to_string()}))
            .collect()),
        error => Err(error),
    }
}
