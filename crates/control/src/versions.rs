//! Versions of an app: each change is a new one, and so is a rollback. Their documents are kept.

use std::collections::HashMap;

use serde_json::json;
use tollgate_db::{Row, Tx, Value};

use crate::actor::Actor;
use crate::apps::{self, App};
use crate::audit::{self, Note};
use crate::car::{self, Car};
use crate::compile;
use crate::error::{ControlError, Fault, invalid};
use crate::ids::{id, sha256};
use crate::published::{AppDocuments, Change, Document};
use crate::role::Role;

/// Versions of an app whose documents are kept; the content of older ones is kept as rows.
const KEPT: i64 = 200;

/// A change of one row.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A new row, or other content for one that is there.
    Put {
        rule_id: String,
        car: Car,
    },
    Delete {
        rule_id: String,
        key: String,
    },
}

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// 1, 2, 3 …
    pub version: i64,
    /// `publish`, `rollback`.
    pub kind: String,
    /// SHA-256 of its documents.
    pub sha256: String,
    /// Who made it.
    pub author: String,
    /// What it is about.
    pub comment: String,
    /// Milliseconds UTC.
    pub created_at: i64,
}

/// Applies `ops` and makes the next version of `app` of the result.
pub(crate) fn publish(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    kind: &str,
    comment: &str,
    ops: &[Op],
) -> Result<AppDocuments, ControlError> {
    let (version, now) = (app.version + 1, tx.now_ms());
    for op in ops {
        match op {
            Op::Put { rule_id, car } => put(tx, actor, app, version, rule_id, car)?,
            Op::Delete { rule_id, .. } => delete(tx, version, rule_id)?,
        }
    }
    let rows = if app.state == "active" { rows(tx, &app.id)? } else { Vec::new() };
    let documents = compile::documents(&app.name, &rows)?;
    let kept: Vec<_> = documents.iter().map(|it| json!({"domain": it.domain(), "yaml": it.yaml()})).collect();
    let kept = serde_json::Value::from(kept).to_string();
    tx.execute(
        "INSERT INTO versions (app_id, version, kind, change_id, document, sha256, author, comment, created_at) \
         VALUES ($1, $2, $3, NULL, $4, $5, $6, $7, $8)",
        &[
            (&app.id).into(),
            version.into(),
            kind.into(),
            (&kept).into(),
            sha256(&kept).into(),
            (&actor.name).into(),
            comment.into(),
            now.into(),
        ],
    )?;
    tx.execute(
        "UPDATE versions SET document = NULL WHERE app_id = $1 AND version = $2",
        &[(&app.id).into(), (version - KEPT).into()],
    )?;
    tx.execute(
        "UPDATE apps SET version = $2, updated_at = $3 WHERE id = $1",
        &[(&app.id).into(), version.into(), now.into()],
    )?;
    Ok(AppDocuments { app: app.name.clone(), version: version.unsigned_abs(), documents })
}

fn put(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    version: i64,
    rule_id: &str,
    car: &Car,
) -> Result<(), ControlError> {
    tx.execute(
        "INSERT INTO rules (id, app_id, kind, key) VALUES ($1, $2, 'car', $3) ON CONFLICT (id) DO NOTHING",
        &[rule_id.into(), (&app.id).into(), (&car.key).into()],
    )?;
    let search = format!("{} {} {}", app.name, car.key, car.description).to_lowercase();
    tx.execute(
        "INSERT INTO car (rule_id, app_id, key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, \
         extras, description, per, sharing, on_store_failure, state, search, etag, updated_at, updated_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $19, $17, $18) \
         ON CONFLICT (rule_id) DO UPDATE SET rate = $4, max_permits = $5, need_permits = $6, pre_permits = $7, \
         g_micro = $8, u_micro = $9, extras = $10, description = $11, per = $12, sharing = $13, \
         on_store_failure = $14, state = $15, search = $16, etag = $19, updated_at = $17, \
         updated_by = $18",
        &[
            rule_id.into(),
            (&app.id).into(),
            (&car.key).into(),
            car.rate.into(),
            car.max_permits.into(),
            car.need_permits.into(),
            car.pre_permits.into(),
            car.g_micro.into(),
            car.u_micro.into(),
            (&car.extras).into(),
            (&car.description).into(),
            (&car.per).into(),
            (&car.sharing).into(),
            (&car.on_store_failure).into(),
            (&car.state).into(),
            search.into(),
            tx.now_ms().into(),
            (&actor.name).into(),
            version.into(), // unlike a count, it is new also for a row that is brought back
        ],
    )?;
    close(tx, version, rule_id)?;
    let body = serde_json::to_string(car).unwrap_or_default(); // texts and numbers cannot fail
    tx.execute(
        "INSERT INTO rule_versions (rule_id, from_version, app_id, to_version, body, sha256) \
         VALUES ($1, $2, $3, NULL, $4, $5)",
        &[rule_id.into(), version.into(), (&app.id).into(), (&body).into(), sha256(&body).into()],
    )?;
    Ok(())
}

fn delete(tx: &mut dyn Tx, version: i64, rule_id: &str) -> Result<(), ControlError> {
    close(tx, version, rule_id)?;
    tx.execute("DELETE FROM car WHERE rule_id = $1", &[rule_id.into()])?;
    tx.execute("DELETE FROM rules WHERE id = $1", &[rule_id.into()])?;
    Ok(())
}

fn close(tx: &mut dyn Tx, version: i64, rule_id: &str) -> Result<(), ControlError> {
    let values = [rule_id.into(), version.into()];
    tx.execute(
        "UPDATE rule_versions SET to_version = $2 WHERE rule_id = $1 AND to_version IS NULL",
        &values,
    )?;
    Ok(())
}

/// The rows of an app in the order of their keys.
fn rows(tx: &mut dyn Tx, app_id: &str) -> Result<Vec<Car>, ControlError> {
    let rows = tx.query(
        "SELECT key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, extras, description, per, \
         sharing, on_store_failure, state FROM car WHERE app_id = $1 ORDER BY key",
        &[app_id.into()],
    )?;
    rows.iter().map(|row| read_car(row, 0)).collect()
}

/// The row whose columns begin at `first`.
pub(crate) fn read_car(row: &Row, first: usize) -> Result<Car, ControlError> {
    Ok(Car {
        key: row.text(first)?,
        rate: row.int(first + 1)?,
        max_permits: row.int(first + 2)?,
        need_permits: row.int(first + 3)?,
        pre_permits: row.int(first + 4)?,
        g_micro: row.int(first + 5)?,
        u_micro: row.int(first + 6)?,
        extras: row.text(first + 7)?,
        description: row.text(first + 8)?,
        per: row.text(first + 9)?,
        sharing: row.text(first + 10)?,
        on_store_failure: row.text(first + 11)?,
        state: row.text(first + 12)?,
    })
}

/// The newest versions of an app, at most `limit`, which is at most 500. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, app: &str, limit: i64) -> Result<Vec<Version>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let rows = tx.query(
        "SELECT version, kind, sha256, author, comment, created_at FROM versions WHERE app_id = $1 \
         ORDER BY version DESC LIMIT $2",
        &[(&app.id).into(), limit.clamp(1, 500).into()],
    )?;
    let read = |row: &Row| {
        Ok(Version {
            version: row.int(0)?,
            kind: row.text(1)?,
            sha256: row.text(2)?,
            author: row.text(3)?,
            comment: row.text(4)?,
            created_at: row.int(5)?,
        })
    };
    rows.iter().map(read).collect()
}

/// The documents of a version, while they are kept. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn documents(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    version: i64,
) -> Result<Vec<Document>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let row = tx.query_one(
        "SELECT document FROM versions WHERE app_id = $1 AND version = $2",
        &[(&app.id).into(), version.into()],
    )?;
    let kept = row.map(|row| row.opt_text(0)).transpose()?.flatten();
    let kept = kept.ok_or_else(|| ControlError::NotFound { what: "version", name: version.to_string() })?;
    read_documents(&app.name, &kept)
}

fn read_documents(app: &str, kept: &str) -> Result<Vec<Document>, ControlError> {
    #[derive(serde::Deserialize)]
    struct Kept {
        domain: String,
        yaml: String,
    }
    let kept: Vec<Kept> = serde_json::from_str(kept)
        .map_err(|error| ControlError::Document { app: app.to_owned(), reason: error.to_string() })?;
    Ok(kept.into_iter().map(|Kept { domain, yaml }| Document::new(domain, yaml)).collect())
}

/// The documents of every app, as committed: what nodes should have after a start. For the program itself.
pub(crate) fn published(tx: &mut dyn Tx) -> Result<Vec<AppDocuments>, ControlError> {
    let rows = tx.query(
        "SELECT apps.name, apps.version, versions.document FROM apps JOIN versions \
         ON versions.app_id = apps.id AND versions.version = apps.version ORDER BY apps.name",
        &[],
    )?;
    let read = |row: &Row| {
        let (app, version) = (row.text(0)?, row.int(1)?.unsigned_abs());
        let documents = read_documents(&app, &row.text(2)?)?;
        Ok(AppDocuments { app, version, documents })
    };
    rows.iter().map(read).collect()
}

/// Makes a new version with the rows of version `to`. Needs editor, and a reason.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `base` is not the current version.
pub fn rollback(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    base: i64,
    to: i64,
    reason: &str,
) -> Result<Change<i64>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    apps::must_match(base, app.version)?;
    let reason = car::text(reason, car::MAX_DESCRIPTION).map_err(|fault| invalid("reason", fault))?;
    if reason.trim().is_empty() {
        return Err(invalid("reason", Fault::Required));
    }
    if !(1..app.version).contains(&to) {
        return Err(ControlError::NotFound { what: "version", name: to.to_string() });
    }
    let ops = ops_to(tx, &app, to)?;
    let documents = publish(tx, actor, &app, "rollback", &reason, &ops)?;
    let changed: Vec<_> = ops.iter().map(Op::key).collect();
    let note = Note {
        action: "app.rollback",
        target: app.name.clone(),
        app: Some(&app.name),
        before: Some(json!({"version": app.version})),
        after: Some(json!({"version": documents.version, "content_of": to, "rules": changed})),
        reason: &reason,
    };
    audit::append(tx, actor, note)?;
    Ok(Change { value: app.version + 1, documents: Some(documents) })
}

/// What turns the current rows into those of version `to`.
fn ops_to(tx: &mut dyn Tx, app: &App, to: i64) -> Result<Vec<Op>, ControlError> {
    let id_and_body = |row: &Row| Ok((row.text(0)?, row.text(1)?));
    let app_id: Value = (&app.id).into();
    let rows = tx.query(
        "SELECT rule_id, body FROM rule_versions WHERE app_id = $1 AND from_version <= $2 \
         AND (to_version IS NULL OR to_version > $2)",
        &[app_id.clone(), to.into()],
    )?;
    let then: Vec<(String, String)> = rows.iter().map(id_and_body).collect::<Result<_, ControlError>>()?;
    let rows = tx.query(
        "SELECT rule_id, body FROM rule_versions WHERE app_id = $1 AND to_version IS NULL",
        &[app_id],
    )?;
    let now: HashMap<String, String> = rows.iter().map(id_and_body).collect::<Result<_, ControlError>>()?;
    let read = |body: &str| {
        serde_json::from_str::<Car>(body)
            .map_err(|error| ControlError::Document { app: app.name.clone(), reason: error.to_string() })
    };
    let kept: std::collections::HashSet<&str> = then.iter().map(|(rule_id, _)| &**rule_id).collect();
    let mut ops = Vec::new();
    // Removals first: a key may have been deleted and made again.
    for (rule_id, body) in now.iter().filter(|(rule_id, _)| !kept.contains(&***rule_id)) {
        ops.push(Op::Delete { rule_id: rule_id.clone(), key: read(body)?.key });
    }
    for (rule_id, body) in then.iter().filter(|(rule_id, body)| now.get(rule_id) != Some(body)) {
        ops.push(Op::Put { rule_id: rule_id.clone(), car: read(body)? });
    }
    ops.sort_by(|a, b| (a.is_put(), a.key()).cmp(&(b.is_put(), b.key())));
    Ok(ops)
}

impl Op {
    /// A new row.
    pub(crate) fn create(tx: &dyn Tx, car: Car) -> Result<Self, ControlError> {
        Ok(Self::Put { rule_id: id(tx.now_ms())?, car })
    }

    const fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }

    fn key(&self) -> &str {
        match self {
            Self::Put { car, .. } => &car.key,
            Self::Delete { key, .. } => key,
        }
    }
}
