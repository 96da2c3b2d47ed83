//! Bodies and queries of rules that are rows of numbers.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tollgate_control::publishing::Intent;
use tollgate_control::rules::Sort;
use tollgate_control::table_rule::{MAX_NUMBER, TableRuleInput};
use tollgate_control::{ControlError, Fault, FieldFaults};
use utoipa::{IntoParams, ToSchema};

use crate::query::{BadQuery, Query, Read, flag, number, text};
use crate::words;

/// A rule. Members that are left out have their defaults. A reply can be sent back: the members that a reply
/// has besides are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleBody {
    #[schema(schema_with = words::ignored_text)]
    #[serde(default, rename = "app")]
    pub _app: IgnoredAny,
    #[schema(schema_with = words::ignored_number)]
    #[serde(default, rename = "version")]
    pub _version: IgnoredAny,
    #[schema(schema_with = words::ignored_number)]
    #[serde(default, rename = "updated_at")]
    pub _updated_at: IgnoredAny,
    #[schema(schema_with = words::ignored_flag)]
    #[serde(default, rename = "app_disabled")]
    pub _app_disabled: IgnoredAny,
    #[schema(schema_with = words::ignored_text)]
    #[serde(default, rename = "updated_by")]
    pub _updated_by: IgnoredAny,
    #[serde(default)]
    pub key: String,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub rate: Value,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub max_permits: Value,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub need_permits: Value,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub pre_permits: Value,
    #[serde(default)]
    pub post_paid: Option<bool>,
    #[schema(schema_with = words::decimal)]
    #[serde(default)]
    pub g: Value,
    #[schema(schema_with = words::decimal)]
    #[serde(default)]
    pub u: Value,
    #[schema(schema_with = words::json_object)]
    #[serde(default)]
    pub extras: Value,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub per: String,
    #[serde(default)]
    pub bucket: String,
    /// `exact`, `leased` or `local`.
    #[serde(default)]
    pub sharing: String,
    /// `allow`, `deny` or `local`.
    #[serde(default)]
    pub on_store_failure: String,
    /// `on`, `shadow` or `off`.
    #[serde(default)]
    pub state: String,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub trial_rate: Value,
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub trial_max_permits: Value,
}

impl RuleBody {
    /// The texts to check, for `key` if the path names it: members are checked by the same code as the fields
    /// of the form.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for members that are not numbers.
    pub fn input(self, key: Option<String>) -> Result<TableRuleInput, ControlError> {
        let mut faults = FieldFaults::default();
        let whole = Fault::Whole { min: 0, max: MAX_NUMBER };
        let mut number = |field, value: Value, fault: Fault| match value {
            Value::Null => String::new(),
            Value::Number(number) => number.to_string(),
            Value::String(text) if matches!(field, "g" | "u") => text, // exact, unlike floats
            _ => faults.take(field, Err(fault), String::new()),
        };
        let input = TableRuleInput {
            key: key.unwrap_or(self.key),
            rate: number("rate", self.rate, whole.clone()),
            max_permits: number("max_permits", self.max_permits, whole.clone()),
            need_permits: number("need_permits", self.need_permits, whole.clone()),
            pre_permits: number("pre_permits", self.pre_permits, whole.clone()),
            post_paid: self.post_paid.map_or_else(String::new, |it| it.to_string()),
            trial_rate: number("trial_rate", self.trial_rate, whole.clone()),
            trial_max_permits: number("trial_max_permits", self.trial_max_permits, whole),
            g: number("g", self.g, Fault::Decimal),
            u: number("u", self.u, Fault::Decimal),
            extras: match self.extras {
                Value::Null => String::new(),
                Value::String(text) => text, // byte for byte
                other => other.to_string(),
            },
            description: self.description,
            per: self.per,
            bucket: self.bucket,
            sharing: self.sharing,
            on_store_failure: self.on_store_failure,
            state: self.state,
        };
        faults.check()?;
        Ok(input)
    }
}

/// The order of rules.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum RuleSort {
    Key,
    Rate,
    Updated,
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum RuleState {
    On,
    Shadow,
    Off,
}

/// A page of rules.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RulesQuery {
    /// Part of app, key or description.
    #[param(required = false)]
    pub search: String,
    /// Rules in this state only.
    #[param(required = false, value_type = RuleState, inline)]
    pub state: String,
    /// Order of the rules.
    #[param(required = false, value_type = RuleSort, inline)]
    pub sort: Sort,
    /// Page number, counted from 1.
    #[param(required = false)]
    pub page: i64,
    /// Rows of a page, 1 to 500.
    #[param(required = false)]
    pub size: i64,
}

impl RulesQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let sort = match query.parameter("sort") {
            "" | "key" => Sort::Key,
            "rate" => Sort::Rate,
            "updated" => Sort::Updated,
            _ => return Err(BadQuery("unknown `sort`: expected key, rate or updated".to_owned())),
        };
        let page = number(query, "page", 1, i64::from(u32::MAX))?;
        let size = number(query, "size", 100, 500)?;
        let state = match query.parameter("state") {
            state @ ("" | "on" | "shadow" | "off") => state.to_owned(),
            _ => return Err(BadQuery("unknown `state`: expected on, shadow or off".to_owned())),
        };
        Ok(Self { search: text(query, "search"), state, sort, page, size })
    }
}

/// Whether a change becomes a draft.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DraftQuery {
    /// `true` makes a draft of what would be published.
    #[param(required = false)]
    pub draft: bool,
}

impl DraftQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { draft: flag(query, "draft")? })
    }

    /// The intent of the change.
    #[must_use]
    pub const fn intent(&self) -> Intent {
        if self.draft { Intent::Draft } else { Intent::Publish }
    }
}

/// A word for nodes that cannot read the rules.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OldNodes {
    Leave,
}

/// The choice for nodes that cannot read the rules that are published.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OldNodesQuery {
    /// `leave`: publish also where a live node cannot read the rules; it keeps the version that it has.
    #[param(required = false, value_type = OldNodes, inline)]
    pub old_nodes: String,
}
