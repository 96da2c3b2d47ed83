//! Rules that are rows of numbers.

use serde::Serialize;
use tollgate_control::fields::in_words;
use tollgate_control::rules;
use utoipa::ToSchema;

use crate::words;

/// A rule of an app as a row of numbers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rule {
    pub app: String,
    /// The request class, unique in its app.
    pub key: String,
    /// Permits added per second.
    pub rate: i64,
    /// Permits available at once.
    pub max_permits: i64,
    /// Permits that one request takes.
    pub need_permits: i64,
    /// Permits that a request may take in advance.
    pub pre_permits: i64,
    /// Hits are reported after they were used.
    pub post_paid: bool,
    /// The priority, a decimal number.
    pub g: String,
    /// The adjustment factor, a decimal number.
    pub u: String,
    /// Free-form JSON, byte for byte as entered; empty for none.
    pub extras: String,
    pub description: String,
    /// An entry of the request, each value of which is counted separately; empty for none.
    pub per: String,
    /// A bucket that the rule shares with others of its app; empty for one of its own.
    pub bucket: String,
    #[schema(schema_with = words::sharing)]
    pub sharing: String,
    #[schema(schema_with = words::on_store_failure)]
    pub on_store_failure: String,
    #[schema(schema_with = words::rule_state)]
    pub state: String,
    /// Its app is disabled, so that no node has the rule.
    pub app_disabled: bool,
    /// The rate that is tried in shadow; null without a trial.
    #[schema(required)]
    pub trial_rate: Option<i64>,
    /// The burst that is tried with it.
    #[schema(required)]
    pub trial_max_permits: Option<i64>,
    /// The version of the app that wrote it.
    pub version: i64,
    pub updated_at: i64,
    pub updated_by: String,
}

impl From<rules::Rule> for Rule {
    fn from(rule: rules::Rule) -> Self {
        let row = rule.row;
        Self {
            app: rule.app,
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
            app_disabled: rule.is_app_disabled,
            trial_rate: row.trial.map(|it| it.rate),
            trial_max_permits: row.trial.map(|it| it.max_permits),
            version: rule.version,
            updated_at: rule.updated_at,
            updated_by: rule.updated_by,
        }
    }
}

/// A page of rules.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rules {
    pub rules: Vec<Rule>,
    /// The number of the page, from 1.
    pub page: i64,
    /// Rules of a page.
    pub size: i64,
    /// Rules that match the search.
    pub matching: i64,
    /// Rules in all.
    pub total: i64,
}
