//! Rows of the table of committed rates: lists in pages, and changes, each of which is a version of its app.

use serde_json::Value as Json;
use tollgate_db::{Row, Tx, Value};

use crate::actor::{Actor, EVERY_APP};
use crate::apps::{self, must_match};
use crate::audit::{self, Note};
use crate::car::{Car, CarInput};
use crate::compile;
use crate::error::{ControlError, Fault, FieldFault, invalid};
use crate::published::Change;
use crate::role::Role;
use crate::versions::{self, Op, read_car};

/// Most rules of an app.
pub const MAX_RULES: i64 = 20_000;

/// A row with its app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) id: String,
    /// The name of its app.
    pub app: String,
    /// The version of its app.
    pub version: i64,
    /// Its fields.
    pub car: Car,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// Who changed it last.
    pub updated_by: String,
}

/// Which rows, and which page of them.
#[derive(Clone, Debug)]
pub struct Query {
    /// Of this app only, unless empty.
    pub app: String,
    /// That contain this text, unless empty.
    pub search: String,
    /// In this order.
    pub sort: Sort,
    /// From 1.
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
    /// Its rows.
    pub rules: Vec<Rule>,
    /// Rows that match, over all pages.
    pub matching: i64,
    /// Rows that there are.
    pub total: i64,
    /// This page: the last one if a later was asked for.
    pub page: i64,
}

const BY_KEY: &str = "SELECT car.rule_id, apps.name, apps.version, car.etag, car.updated_at, car.updated_by, \
     car.key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, extras, car.description, per, \
     sharing, on_store_failure, car.state FROM car JOIN apps ON apps.id = car.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR car.search LIKE $2 ESCAPE '\\') \
     AND ($3 = 1 OR REPLACE($4, '/' || apps.name || '/', '') <> $4) \
     ORDER BY apps.name, car.key LIMIT $5 OFFSET $6";
const BY_RATE: &str = "SELECT car.rule_id, apps.name, apps.version, car.etag, car.updated_at, car.updated_by, \
     car.key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, extras, car.description, per, \
     sharing, on_store_failure, car.state FROM car JOIN apps ON apps.id = car.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR car.search LIKE $2 ESCAPE '\\') \
     AND ($3 = 1 OR REPLACE($4, '/' || apps.name || '/', '') <> $4) \
     ORDER BY car.rate DESC, apps.name, car.key LIMIT $5 OFFSET $6";
const BY_TIME: &str = "SELECT car.rule_id, apps.name, apps.version, car.etag, car.updated_at, car.updated_by, \
     car.key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, extras, car.description, per, \
     sharing, on_store_failure, car.state FROM car JOIN apps ON apps.id = car.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR car.search LIKE $2 ESCAPE '\\') \
     AND ($3 = 1 OR REPLACE($4, '/' || apps.name || '/', '') <> $4) \
     ORDER BY car.updated_at DESC, apps.name, car.key LIMIT $5 OFFSET $6";
const COUNT: &str = "SELECT COUNT(*) FROM car JOIN apps ON apps.id = car.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR car.search LIKE $2 ESCAPE '\\') \
     AND ($3 = 1 OR REPLACE($4, '/' || apps.name || '/', '') <> $4)";

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
    ];
    let count = |tx: &mut dyn Tx, values: &[Value]| -> Result<i64, ControlError> {
        Ok(tx.query_one(COUNT, values)?.map_or(Ok(0), |row| row.int(0))?)
    };
    let matching = count(tx, &values)?;
    let total = if query.app.is_empty() && query.search.is_empty() {
        matching
    } else {
        count(tx, &["".into(), "".into(), values[2].clone(), values[3].clone()])?
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
    let rows = tx.query(statement, &values)?;
    let rules = rows.iter().map(Rule::read).collect::<Result<_, _>>()?;
    Ok(Page { rules, matching, total, page })
}

/// What `LIKE` finds the text by, wherever it is.
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
    let rows = tx.query("SELECT key FROM car WHERE app_id = $1 ORDER BY key", &[app.id.into()])?;
    rows.iter().map(|row| Ok(row.text(0)?)).collect()
}

fn find(tx: &mut dyn Tx, app: &str, key: &str) -> Result<Option<Rule>, ControlError> {
    let row = tx.query_one(
        "SELECT car.rule_id, apps.name, apps.version, car.etag, car.updated_at, car.updated_by, car.key, rate, \
         max_permits, need_permits, pre_permits, g_micro, u_micro, extras, car.description, per, sharing, \
         on_store_failure, car.state FROM car JOIN apps ON apps.id = car.app_id \
         WHERE apps.name = $1 AND car.key = $2",
        &[app.into(), key.into()],
    )?;
    row.as_ref().map(Rule::read).transpose()
}

/// Adds a row, and its app if that is new. Needs editor; of every app if the app is new.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Invalid`] names every field at fault, `app` among them.
pub fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    input: &CarInput,
) -> Result<Change<Rule>, ControlError> {
    let (named, car) = (crate::car::app_name(app), input.check());
    let (app, car) = match (named, car) {
        (Ok(app), Ok(car)) => (app, car),
        (Err(fault), Err(ControlError::Invalid(mut faults))) => {
            faults.insert(0, FieldFault { field: "app", fault });
            return Err(ControlError::Invalid(faults));
        }
        (Err(fault), _) => return Err(invalid("app", fault)),
        (_, Err(error)) => return Err(error),
    };
    let app = apps::get_or_create(tx, actor, &app)?;
    if app.rules >= MAX_RULES {
        return Err(ControlError::Cap { what: "rules of an app", max: MAX_RULES });
    }
    if find(tx, &app.name, &car.key)?.is_some() {
        return Err(invalid("key", Fault::Duplicate));
    }
    compile::check(&app.name, &car)?;
    let (key, after) = (car.key.clone(), json(&car));
    let ops = [Op::create(tx, car)?];
    let documents = versions::publish(tx, actor, &app, "publish", &key, &ops)?;
    let target = format!("{}/{key}", app.name);
    let note =
        Note { action: "rule.create", target, app: Some(&app.name), after: Some(after), ..Note::default() };
    audit::append(tx, actor, note)?;
    Ok(Change { value: get(tx, actor, &app.name, &key)?, documents: Some(documents) })
}

/// Replaces the fields of a row; its key stays. Needs editor.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn update(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    etag: i64,
    input: &CarInput,
) -> Result<Change<Rule>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    let before = get(tx, actor, &app.name, &input.key)?;
    must_match(etag, before.etag)?;
    let car = input.check()?;
    if car == before.car {
        return Ok(Change { value: before, documents: None }); // nothing to publish
    }
    compile::check(&app.name, &car)?;
    let (key, shown, after) = (car.key.clone(), json(&before.car), json(&car));
    let ops = [Op::Put { rule_id: before.id, car }];
    let documents = versions::publish(tx, actor, &app, "publish", &key, &ops)?;
    let note = Note {
        action: "rule.update",
        target: format!("{}/{key}", app.name),
        app: Some(&app.name),
        before: Some(shown),
        after: Some(after),
        reason: "",
    };
    audit::append(tx, actor, note)?;
    Ok(Change { value: get(tx, actor, &app.name, &key)?, documents: Some(documents) })
}

/// Removes a row; a rollback brings it back. Needs editor. Returns the version without it.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn delete(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    key: &str,
    etag: i64,
) -> Result<Change<i64>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    let before = get(tx, actor, &app.name, key)?;
    must_match(etag, before.etag)?;
    let ops = [Op::Delete { rule_id: before.id, key: key.to_owned() }];
    let documents = versions::publish(tx, actor, &app, "publish", key, &ops)?;
    let (target, before) = (format!("{}/{key}", app.name), Some(json(&before.car)));
    let note = Note { action: "rule.delete", target, app: Some(&app.name), before, ..Note::default() };
    audit::append(tx, actor, note)?;
    Ok(Change { value: app.version + 1, documents: Some(documents) })
}

/// Whether the actor could add a rule somewhere.
#[must_use]
pub fn may_create(actor: &Actor) -> bool {
    actor.may(Role::Editor, EVERY_APP) || actor.roles.iter().any(|(_, role)| *role >= Role::Editor)
}

fn json(car: &Car) -> Json {
    serde_json::to_value(car).unwrap_or_default() // texts and numbers cannot fail
}

impl Rule {
    fn read(row: &Row) -> Result<Self, ControlError> {
        Ok(Self {
            id: row.text(0)?,
            app: row.text(1)?,
            version: row.int(2)?,
            etag: row.int(3)?,
            updated_at: row.int(4)?,
            updated_by: row.text(5)?,
            car: read_car(row, 6)?,
        })
    }
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
