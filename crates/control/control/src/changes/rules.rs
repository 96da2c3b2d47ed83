//! Rows of the table of committed rates: lists in pages, and changes, each of which is a version of its app.

use tollgate_db::{Select, Tx, Value, columns, query_int, query_values, row, select, sql};
use tollgate_model::change_set::ChangeSet;
use tollgate_model::table_rule::{TableRule, TableRuleInput};
use tollgate_model::{Content, Role, RuleKind, fields};

use crate::access::actor::{Actor, EVERY_APP, Who};
use crate::changes::apps;
use crate::changes::drafts::ChangeInput;
use crate::changes::operations::OpInput;
use crate::changes::publishing::{self, Intent};
use crate::changes::stored::TableRuleRow;
use crate::error::{ControlError, Fault, FieldFault, invalid, must_match};
use crate::published::Committed;

/// A row with its app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) id: String,
    /// The name of its app.
    pub app: String,
    /// The version of its app.
    pub version: i64,
    pub row: TableRule,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// Who changed it last.
    pub updated_by: String,
    /// Its app is disabled, so it is on no node, whatever its state.
    pub is_app_disabled: bool,
}

/// Which rows, and which page of them.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Rows of this app only, unless empty.
    pub app: String,
    /// That contain this text, unless empty.
    pub search: String,
    /// In this state only, unless empty.
    pub state: String,
    /// In this order.
    pub sort: Sort,
    /// Counted from 1.
    pub page: i64,
    /// Rows of a page: 1 to 500.
    pub size: i64,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By app and key.
    #[default]
    Key,
    /// The highest rate first.
    Rate,
    /// The last changed first.
    Updated,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    pub rules: Vec<Rule>,
    /// Rows that match, over all pages.
    pub matching: i64,
    /// Rows that there are.
    pub total: i64,
    /// This page: the last one if a later was asked for.
    pub page: i64,
}

columns! {
    Rule {
        id = "car.rule_id",
        app = "apps.name",
        version = "apps.version",
        etag = "car.etag",
        updated_at = "car.updated_at",
        updated_by = "car.updated_by",
        row = TableRuleRow::COLUMNS => |TableRuleRow(table_rule)| table_rule,
        is_app_disabled = "apps.state = 'disabled'",
    }
}

const FROM_BOTH: &str = "FROM car JOIN apps ON apps.id = car.app_id AND apps.edition = car.edition ";
/// The rows of a list. The cross join has SQLite go through the apps first, so that it asks once for each
/// app, not for each row, what the reader may see: a count of 10,000 rows takes 1.4 ms, before 12.
const MATCHING: &str = "FROM apps CROSS JOIN car WHERE car.app_id = apps.id AND car.edition = apps.edition \
     AND ($1 = '' OR apps.name = $1) AND ($2 = '' OR car.search LIKE $2 ESCAPE '\\') \
     AND ($3 = 1 OR REPLACE($4, '/' || apps.name || '/', '') <> $4) AND ($5 = '' OR car.state = $5) ";
/// A list in an order that no index has: only the ids are sorted, not whole rows.
macro_rules! sorted {
    ($order: literal) => {
        select!(Rule:
            FROM_BOTH,
            "WHERE car.rule_id IN (SELECT car.rule_id ",
            MATCHING,
            "ORDER BY ",
            $order,
            " LIMIT $6 OFFSET $7) ORDER BY ",
            $order)
    };
}
const BY_KEY: Select<Rule> = select!(Rule: MATCHING, "ORDER BY apps.name, car.key LIMIT $6 OFFSET $7");
const BY_RATE: Select<Rule> = sorted!("car.rate DESC, apps.name, car.key");
const BY_TIME: Select<Rule> = sorted!("car.updated_at DESC, apps.name, car.key");
const COUNT: &str = sql!("SELECT COUNT(*) ", MATCHING);
const ONE: Select<Rule> = select!(Rule: FROM_BOTH, "WHERE apps.name = $1 AND car.key = $2");

/// One page of the rows that the actor may see.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, query: &Query) -> Result<Page, ControlError> {
    if !query.app.is_empty() {
        actor.must(Role::Viewer, &query.app)?;
    }
    let mut values: Vec<Value> = vec![
        (&query.app).into(),
        pattern(&query.search).into(),
        actor.may_everywhere(Role::Viewer).into(),
        actor.apps().into(),
        (&query.state).into(),
    ];
    let matching = query_int(tx, COUNT, &values)?;
    let total = if query.app.is_empty() && query.search.is_empty() && query.state.is_empty() {
        matching
    } else {
        let all = ["".into(), "".into(), values[2].clone(), values[3].clone(), "".into()];
        query_int(tx, COUNT, &all)?
    };
    let size = query.size.clamp(1, 500);
    let last = matching.saturating_sub(1) / size + 1;
    let page = query.page.clamp(1, last);
    values.extend([size.into(), ((page - 1) * size).into()]);
    let statement = match query.sort {
        Sort::Key => BY_KEY,
        Sort::Rate => BY_RATE,
        Sort::Updated => BY_TIME,
    };
    Ok(Page { rules: statement.all(tx, &values)?, matching, total, page })
}

/// A pattern by which `LIKE` finds the text wherever it is.
pub(crate) fn pattern(search: &str) -> String {
    if search.is_empty() {
        return String::new();
    }
    let mut pattern = "%".to_owned();
    for character in search.to_lowercase().chars().take(200) {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

/// One row. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, app: &str, key: &str) -> Result<Rule, ControlError> {
    actor.must(Role::Viewer, app)?;
    find(tx, app, key)?.ok_or_else(|| ControlError::NotFound { what: "rule", name: format!("{app} {key}") })
}

/// The keys of an app, in their order. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn keys(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<Vec<String>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let keys = "SELECT key FROM car WHERE app_id = $1 AND edition = $2 ORDER BY key";
    Ok(query_values(tx, keys, &[app.id.into(), app.edition.into()])?)
}

fn find(tx: &mut dyn Tx, app: &str, key: &str) -> Result<Option<Rule>, ControlError> {
    Ok(ONE.first(tx, &[app.into(), key.into()])?)
}

/// Adds a row, and its app if that is new. Needs editor; of every app if the app is new.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Invalid`] names every field at fault, `app` among them, and
/// [`ControlError::NeedsApproval`] says that [`propose_create`] has to propose it.
pub fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    input: &TableRuleInput,
) -> Result<Committed<Rule>, ControlError> {
    let Committed { value, documents } = propose_create(tx, actor, app, input, Intent::Publish)?;
    in_force(tx, actor, &value)?;
    Ok(Committed { value: get(tx, actor, &value.app, &input.key)?, documents })
}

/// [`create`] as a change set: published, submitted or a draft.
///
/// # Errors
/// As [`create`].
pub fn propose_create(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    input: &TableRuleInput,
    intent: Intent,
) -> Result<Committed<ChangeSet>, ControlError> {
    let named = fields::app_name(app);
    let table_rule = input.check().map_err(ControlError::from);
    let (app, table_rule) = match (named, table_rule) {
        (Ok(app), Ok(table_rule)) => (app, table_rule),
        (Err(fault), Err(ControlError::Invalid(mut faults))) => {
            faults.insert(0, FieldFault { field: "app", fault });
            return Err(ControlError::Invalid(faults));
        }
        (Err(fault), _) => return Err(invalid("app", fault)),
        (_, Err(error)) => return Err(error),
    };
    let app = apps::get_or_create(tx, actor, &app)?;
    if find(tx, &app.name, &table_rule.key)?.is_some() {
        return Err(invalid("key", Fault::Duplicate));
    }
    propose_one(tx, actor, &app.name, put(table_rule, None), intent)
}

/// Replaces the fields of a row; its key stays. Needs editor.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one, and
/// [`ControlError::NeedsApproval`] when [`propose_update`] has to propose it.
pub fn update(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    etag: i64,
    input: &TableRuleInput,
) -> Result<Committed<Rule>, ControlError> {
    let Committed { value, documents } = propose_update(tx, actor, app, etag, input, Intent::Publish)?;
    if let Some(change) = &value {
        in_force(tx, actor, change)?;
    }
    Ok(Committed { value: get(tx, actor, app, &input.key)?, documents })
}

/// [`update`] as a change set: published, submitted or a draft; `None` when nothing changes.
///
/// # Errors
/// As [`update`].
pub fn propose_update(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    etag: i64,
    input: &TableRuleInput,
    intent: Intent,
) -> Result<Committed<Option<ChangeSet>>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    let before = get(tx, actor, &app.name, &input.key)?;
    must_match(etag, before.etag)?;
    let table_rule = input.check()?;
    if table_rule == before.row {
        return Ok(Committed { value: None, documents: None }); // nothing to publish
    }
    let op = put(table_rule, Some(etag));
    let Committed { value, documents } = propose_one(tx, actor, &app.name, op, intent)?;
    Ok(Committed { value: Some(value), documents })
}

/// Removes a row; a rollback brings it back. Needs editor. Returns the version without it.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one, and
/// [`ControlError::NeedsApproval`] when [`propose_delete`] has to propose it.
pub fn delete(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    key: &str,
    etag: i64,
) -> Result<Committed<i64>, ControlError> {
    let Committed { value, documents } = propose_delete(tx, actor, app, key, etag, Intent::Publish)?;
    Ok(Committed { value: in_force(tx, actor, &value)?, documents })
}

/// [`delete`] as a change set: published, submitted or a draft.
///
/// # Errors
/// As [`delete`].
pub fn propose_delete(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    key: &str,
    etag: i64,
    intent: Intent,
) -> Result<Committed<ChangeSet>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    let before = get(tx, actor, &app.name, key)?;
    must_match(etag, before.etag)?;
    let op = OpInput { kind: RuleKind::TableRule, key: key.to_owned(), base: Some(etag), after: None };
    propose_one(tx, actor, &app.name, op, intent)
}

/// A change set of one operation on a row.
fn propose_one(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    op: OpInput,
    intent: Intent,
) -> Result<Committed<ChangeSet>, ControlError> {
    publishing::propose(tx, actor, app, &ChangeInput { ops: vec![op], ..ChangeInput::default() }, intent)
}

/// Puts a row. `base`: the etag that it begins with.
fn put(table_rule: TableRule, base: Option<i64>) -> OpInput {
    let key = table_rule.key.clone();
    let after = Some(Content::TableRule(Box::new(table_rule)));
    OpInput { kind: RuleKind::TableRule, key, base, after }
}

/// The version that a change set became.
fn in_force(tx: &mut dyn Tx, actor: &Actor, change: &ChangeSet) -> Result<i64, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, &change.app)?;
    let needs = ControlError::NeedsApproval { app: app.name, approvals: app.approvals };
    change.published_version.ok_or(needs)
}

/// A version of one row: what it said from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The version of the app.
    pub version: i64,
    /// Who made it.
    pub author: String,
    /// The title of its change set, or the reason.
    pub comment: String,
    /// The change set, if it was one.
    pub change_id: Option<String>,
    /// Milliseconds UTC.
    pub at: i64,
    /// The content of the rule in this version.
    pub content: Content,
}

/// Who changed a rule how: its versions, the newest first, at most 100. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn past(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    kind: RuleKind,
    key: &str,
) -> Result<Vec<Past>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let rows = select!(PastRow:
        "FROM rule_versions JOIN versions ON versions.app_id = $1 AND versions.version = from_version \
         WHERE rule_id = (SELECT rule_id FROM car \
         WHERE $2 = 'car' AND app_id = $1 AND edition = $3 AND key = $4 \
         UNION ALL SELECT rule_id FROM rule_files WHERE $2 = 'file' AND app_id = $1 AND domain = $4) \
         ORDER BY from_version DESC LIMIT 100");
    let rows = rows.all(tx, &[(&app.id).into(), kind.name().into(), (&app.edition).into(), key.into()])?;
    let past = |PastRow { version, author, comment, change_id, at, body }| {
        Ok(Past { version, author, comment, change_id, at, content: Content::read(&app.name, &body)? })
    };
    rows.into_iter().map(past).collect()
}

row! {
    struct PastRow {
        version: i64 = "from_version",
        author: String = "versions.author",
        comment: String = "versions.comment",
        change_id: Option<String> = "versions.change_id",
        at: i64 = "versions.created_at",
        body: String,
    }
}

/// Whether they could add a rule somewhere.
#[must_use]
pub fn may_create(who: &Who) -> bool {
    who.may(Role::Editor, EVERY_APP) || who.roles.iter().any(|(_, role)| *role >= Role::Editor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_its_text_and_no_pattern() {
        assert_eq!(pattern(""), "");
        assert_eq!(pattern("GEO_50%\\"), "%geo\\_50\\%\\\\%");
    }
}
