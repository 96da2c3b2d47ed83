//! Rules in a line each, and how an app gets them. Functions that change an app act as the program itself.

use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::file_rules::FileInput;
use tollgate_control::publishing::{self, Intent};
use tollgate_control::rollout::{Plan, PlanInput};
use tollgate_control::rules::Rule;
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, Content, Control, ControlError, Role, RuleKind, apps, rules};
use tollgate_db::Tx;

/// A limit of `rate` permits a second, and 100 at once.
#[must_use]
pub fn limit(key: &str, rate: i64) -> TableRuleInput {
    TableRuleInput {
        key: key.to_owned(),
        rate: rate.to_string(),
        max_permits: "100".to_owned(),
        ..TableRuleInput::default()
    }
}

/// A limit as it is stored: the form, checked.
#[must_use]
pub fn checked(input: &TableRuleInput) -> Content {
    Content::TableRule(Box::new(input.check().expect("a valid limit")))
}

/// A rule file of one rule for `user`.
#[must_use]
pub fn file_text(domain: &str, per_minute: i64) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: minute, requests_per_unit: {per_minute}}}\n"
    )
}

/// Puts a [`limit`]; `base` is the version that wrote the rule before.
#[must_use]
pub fn put(key: &str, base: Option<i64>, rate: i64) -> OpInput {
    let after = Some(checked(&limit(key, rate)));
    OpInput { kind: RuleKind::TableRule, key: key.to_owned(), base, after }
}

/// Puts a rule file.
///
/// # Errors
/// As [`FileInput::check`], if the text is not a rule file.
pub fn put_file(domain: &str, base: Option<i64>, text: &str) -> Result<OpInput, ControlError> {
    let file = FileInput { text: text.to_owned(), ..FileInput::default() }.check()?;
    Ok(OpInput { kind: RuleKind::File, key: domain.to_owned(), base, after: Some(Content::File(file)) })
}

/// Removes a rule or a file.
#[must_use]
pub fn removal(kind: RuleKind, key: &str, base: i64) -> OpInput {
    OpInput { kind, key: key.to_owned(), base: Some(base), after: None }
}

/// A change set of these operations.
#[must_use]
pub fn change_of(ops: &[OpInput]) -> ChangeInput {
    ChangeInput { ops: ops.to_vec(), comment: "because".to_owned(), ..ChangeInput::default() }
}

/// The steps of a rollout, with `/` between them.
#[must_use]
pub fn plan(steps: &str) -> Plan {
    PlanInput { steps: steps.replace('/', "\n"), ..PlanInput::default() }.check().expect("a plan")
}

/// All limits of an app, as a list shows them.
#[must_use]
pub fn all_of(app: &str) -> rules::Query {
    rules::Query { app: app.to_owned(), page: 1, size: 500, ..rules::Query::default() }
}

/// Adds a rule to an app, which is made if it does not exist.
///
/// # Errors
/// As [`rules::create`].
pub async fn create_rule(control: &Control, app: &str, input: TableRuleInput) -> Result<Rule, ControlError> {
    let app = app.to_owned();
    control.commit(move |tx| rules::create(tx, &Actor::system(), &app, &input)).await
}

/// Adds a rule to an app, or changes it if it is there.
///
/// # Errors
/// As [`rules::create`] and [`rules::update`].
pub async fn write_rule(control: &Control, app: &str, input: TableRuleInput) -> Result<Rule, ControlError> {
    let app = app.to_owned();
    let write = move |tx: &mut dyn Tx| match rules::get(tx, &Actor::system(), &app, &input.key) {
        Ok(now) => rules::update(tx, &Actor::system(), &app, now.etag, &input),
        Err(_) => rules::create(tx, &Actor::system(), &app, &input),
    };
    control.commit(write).await
}

/// Publishes these operations on an app together.
///
/// # Errors
/// As [`publishing::propose`].
pub async fn publish(control: &Control, app: &str, ops: &[OpInput]) -> Result<(), ControlError> {
    let app = app.to_owned();
    let input = change_of(ops);
    let write =
        move |tx: &mut dyn Tx| publishing::propose(tx, &Actor::system(), &app, &input, Intent::Publish);
    control.commit(write).await.map(drop)
}

/// Changes the settings of an app, such as its approvals or its rollout plan.
pub async fn set_app(control: &Control, app: &str, input: AppInput) {
    let app = app.to_owned();
    let set = control.commit(move |tx| {
        let etag = apps::get(tx, &Actor::system(), Role::Admin, &app)?.etag;
        app_settings::update(tx, &Actor::system(), &app, etag, &input)
    });
    set.await.expect("the settings of an app");
}
