//! Bodies and queries of change sets.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::files::FileBody;
use super::rules::RuleBody;
use crate::query::{Query, Read, number, text};
use crate::words;

/// A change set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeBody {
    #[serde(default)]
    pub app: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub comment: String,
    /// `publish` publishes at once where no approval is needed; `draft`, or nothing, makes a draft.
    #[serde(default)]
    pub intent: String,
    #[serde(default)]
    pub ops: Vec<OpBody>,
}

/// Operations to check, perhaps on a trace.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewBody {
    #[serde(default)]
    pub app: String,
    /// Ignored, so that a change set can be sent.
    #[serde(default, rename = "title")]
    pub _title: String,
    /// Ignored as well.
    #[serde(default, rename = "comment")]
    pub _comment: String,
    #[serde(default)]
    pub ops: Vec<OpBody>,
    /// The name of a trace; only in a preview.
    #[serde(default)]
    pub trace: String,
    /// The meaning of the fields of the trace, as KEY=VALUE.
    #[serde(default)]
    pub map: Vec<String>,
}

/// An operation on a rule: a put has the content as `rule`, `yaml` or `file`, a delete has none of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpBody {
    #[schema(schema_with = words::put_or_delete)]
    pub op: String,
    /// `car` for a row of numbers, `file` for a rule file; by the content unless given.
    #[serde(default)]
    pub kind: Option<String>,
    pub key: String,
    /// The version of the app that wrote the content that the operation begins with; null or left out where
    /// the rule must not exist yet.
    #[serde(default)]
    pub base: Option<i64>,
    #[serde(default)]
    pub rule: Option<RuleBody>,
    /// A row of numbers as YAML.
    #[serde(default)]
    pub yaml: Option<String>,
    #[serde(default)]
    pub file: Option<FileBody>,
}

/// A comment on a change set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentBody {
    #[serde(default)]
    pub comment: String,
}

/// Decisions on conflicts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveBody {
    pub choices: Vec<ChoiceBody>,
}

/// The decision on one conflict.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChoiceBody {
    /// `car` unless given, or `file`.
    #[serde(default)]
    pub kind: Option<String>,
    pub key: String,
    /// `yours` or `theirs`.
    pub keep: String,
}

/// Change sets that are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// Change sets of this app only.
    #[param(required = false)]
    pub app: String,
    /// One of draft, submitted, approved, published, rejected, abandoned and open.
    #[param(required = false)]
    pub state: String,
    /// `next` of the reply before.
    #[param(required = false)]
    pub cursor: String,
    /// Entries of the reply, 1 to 500; 50 unless given.
    #[param(required = false)]
    pub limit: i64,
}

impl ChangesQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let limit = number(query, "limit", 50, 500)?;
        Ok(Self {
            app: text(query, "app"),
            state: text(query, "state"),
            cursor: text(query, "cursor"),
            limit,
        })
    }
}
