//! The content of rules of either kind, what differs between two, conflicts, and faults of texts.

use serde::Serialize;
use serde_json::Value;
use tollgate_control::diff::by_field;
use tollgate_control::fields::in_words;
use tollgate_control::table_rule;
use tollgate_control::{ConflictSides, DocFault, FieldFault, FileRule, RuleKind, change_set, diff};
use utoipa::ToSchema;

use crate::words;

/// The content of a rule, whichever kind it is.
#[allow(clippy::large_enum_variant, reason = "one at a time, made to be written out at once")]
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Content {
    Row(RowContent),
    File(FileContent),
}

impl From<tollgate_control::Content> for Content {
    fn from(content: tollgate_control::Content) -> Self {
        match content {
            tollgate_control::Content::TableRule(row) => Self::Row((*row).into()),
            tollgate_control::Content::File(file) => Self::File(file.into()),
        }
    }
}

/// The content of a rule that is a row of numbers.
#[derive(Debug, Serialize, ToSchema)]
pub struct RowContent {
    pub key: String,
    pub rate: i64,
    pub max_permits: i64,
    pub need_permits: i64,
    pub pre_permits: i64,
    /// Not there where it is false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub post_paid: bool,
    pub g: String,
    pub u: String,
    pub extras: String,
    pub description: String,
    pub per: String,
    pub bucket: String,
    #[schema(schema_with = words::sharing)]
    pub sharing: String,
    #[schema(schema_with = words::on_store_failure)]
    pub on_store_failure: String,
    #[schema(schema_with = words::rule_state)]
    pub state: String,
    /// Not there without a trial.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

impl From<table_rule::TableRule> for RowContent {
    fn from(row: table_rule::TableRule) -> Self {
        Self {
            key: row.key,
            rate: row.rate,
            max_permits: row.max_permits,
            need_permits: row.need_permits,
            pre_permits: row.pre_permits,
            post_paid: row.post_paid,
            g: in_words(row.g_micro),
            u: in_words(row.u_micro),
            extras: row.extras,
            description: row.description,
            per: row.per,
            bucket: row.bucket,
            sharing: row.sharing,
            on_store_failure: row.on_store_failure,
            state: row.state,
            trial: row.trial.map(|it| Trial { rate: it.rate, max_permits: it.max_permits }),
        }
    }
}

/// Numbers that are tried in shadow beside those in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct Trial {
    pub rate: i64,
    pub max_permits: i64,
}

/// The content of a rule file.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileContent {
    pub domain: String,
    /// The YAML, byte for byte.
    pub text: String,
    pub description: String,
    #[schema(schema_with = words::file_state)]
    pub state: String,
}

impl From<FileRule> for FileContent {
    fn from(file: FileRule) -> Self {
        let FileRule { domain, text, description, state } = file;
        Self { domain, text, description, state }
    }
}

/// A difference between two contents of a rule.
#[derive(Debug, Serialize, ToSchema)]
pub struct RuleDiff {
    #[schema(schema_with = words::rule_kind)]
    pub kind: &'static str,
    pub key: String,
    #[schema(schema_with = words::diff_op)]
    pub op: &'static str,
    pub fields: Vec<FieldDiff>,
    /// The rule before as YAML; null where it is created.
    #[schema(required)]
    pub before_yaml: Option<String>,
    /// The rule after as YAML; null where it is deleted.
    #[schema(required)]
    pub after_yaml: Option<String>,
}

impl RuleDiff {
    /// The difference of the rule of this kind and key.
    #[must_use]
    pub fn new(
        kind: RuleKind,
        key: &str,
        before: Option<&tollgate_control::Content>,
        after: Option<&tollgate_control::Content>,
    ) -> Self {
        let op = match (before, after) {
            (None, _) => "create",
            (_, None) => "delete",
            _ => "update",
        };
        Self {
            kind: kind.name(),
            key: key.to_owned(),
            op,
            fields: by_field(before, after).into_iter().map(FieldDiff::from).collect(),
            before_yaml: before.map(tollgate_control::Content::yaml),
            after_yaml: after.map(tollgate_control::Content::yaml),
        }
    }

    /// The differences that operations of a change set make.
    #[must_use]
    pub fn of_ops(ops: &[change_set::ChangeOp]) -> Vec<Self> {
        ops.iter().map(|op| Self::new(op.kind, &op.key, op.before.as_ref(), op.after.as_ref())).collect()
    }
}

/// A field that differs.
#[derive(Debug, Serialize, ToSchema)]
pub struct FieldDiff {
    pub field: String,
    /// Null where there was no rule.
    #[schema(required)]
    pub before: Option<String>,
    /// Null where there is no rule any more.
    #[schema(required)]
    pub after: Option<String>,
}

impl From<diff::FieldDiff> for FieldDiff {
    fn from(diff: diff::FieldDiff) -> Self {
        let diff::FieldDiff { field, before, after } = diff;
        Self { field, before, after }
    }
}

/// A rule that was changed both in a change set and since the base of that.
#[derive(Debug, Serialize, ToSchema)]
pub struct Conflict {
    #[schema(schema_with = words::rule_kind)]
    pub kind: &'static str,
    pub key: String,
    /// The content that the change set began with; null where there was no rule.
    #[schema(required)]
    pub base: Option<Content>,
    /// The content that is there now.
    #[schema(required)]
    pub theirs: Option<Content>,
    /// The content that the change set makes; null where it deletes the rule.
    #[schema(required)]
    pub yours: Option<Content>,
}

impl From<change_set::Conflict> for Conflict {
    fn from(conflict: change_set::Conflict) -> Self {
        let change_set::Conflict { kind, key, base, theirs, yours } = conflict;
        let side = |content: Option<tollgate_control::Content>| content.map(Content::from);
        Self { kind: kind.name(), key, base: side(base), theirs: side(theirs), yours: side(yours) }
    }
}

impl From<ConflictSides> for Conflict {
    fn from(conflict: ConflictSides) -> Self {
        let ConflictSides { kind, key, base, theirs, yours } = conflict;
        let side = |json: Option<Value>| {
            json.and_then(|it| serde_json::from_value::<tollgate_control::Content>(it).ok())
                .map(Content::from)
        };
        Self { kind, key, base: side(base), theirs: side(theirs), yours: side(yours) }
    }
}

/// A fault of a body, of a rule file or of YAML. Only those of texts have a place.
#[derive(Debug, Serialize, ToSchema)]
pub struct Fault {
    /// The member at fault, such as `/rate`, or the path of a key in a text.
    pub pointer: String,
    pub message: String,
    /// The domain of the file; empty for a text that is not a file yet.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Line in the text, counted from 1.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the line, counted from 1.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl From<DocFault> for Fault {
    fn from(fault: DocFault) -> Self {
        let DocFault { domain, line, column, path, message } = fault;
        Self { pointer: path, message, domain: Some(domain), line: Some(line), column: Some(column) }
    }
}

impl From<FieldFault> for Fault {
    fn from(FieldFault { field, fault }: FieldFault) -> Self {
        let pointer = format!("/{field}");
        Self { pointer, message: fault.to_string(), domain: None, line: None, column: None }
    }
}
