//! Versions of an app: each change is a new one, and so is a rollback. Their documents are kept.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;
use tollgate_db::{Tx, columns, insert, query_int, query_value, row, select};
use tollgate_model::audit_sides::{RuleSides, differing};
use tollgate_model::{App, Compiled, Content, Role, RuleKind, fields};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::ahead::written_rules;
use crate::changes::known::known;
use crate::changes::staging::Staged;
use crate::changes::stored::{self, Op};
use crate::changes::{apps, checks, past};
use crate::error::{ControlError, Fault, invalid, must_match};
use crate::fleet::frozen;
use crate::published::{AppDocuments, Committed, Document};
use crate::rollouts::rollout_rows;

/// Versions of an app whose documents are kept; the content of older ones is kept as rows.
const KEPT: i64 = 200;

/// Most rules of a difference.
const MAX_DIFFS: usize = 5_000;

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// 1, 2, 3 …
    pub version: i64,
    /// `publish` or `rollback`.
    pub kind: String,
    /// SHA-256 of its documents.
    pub sha256: String,
    /// Who made it.
    pub author: String,
    /// The title of its change set, or the reason.
    pub comment: String,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// The change set that it was, if it was one.
    pub change_id: Option<String>,
}

/// A rule that differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDiff {
    pub kind: RuleKind,
    pub key: String,
    /// The earlier content; `None`: the rule did not exist.
    pub before: Option<Content>,
    /// The later content; `None`: the rule does not exist.
    pub after: Option<Content>,
}

impl RuleDiff {
    fn sides(&self) -> RuleSides<'_> {
        let Self { kind, key, before, after } = self;
        RuleSides { kind: *kind, key, before: before.as_ref(), after: after.as_ref() }
    }
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
    publish_as(tx, actor, app, VersionOrigin { kind, comment, change_id: None }, ops, Ahead::default())
}

/// Why there is a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionOrigin<'a> {
    /// `publish`, `rollback` and others.
    pub(crate) kind: &'a str,
    pub(crate) comment: &'a str,
    pub(crate) change_id: Option<&'a str>,
}

/// The part of a version that was worked out or written before its transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead<'a> {
    /// The documents of the app with the operations applied.
    pub(crate) documents: Option<&'a Compiled>,
    /// The rows are written, except those of files. The app is then as [`Staged::app`] has it.
    pub(crate) staged: Option<&'a Staged>,
}

/// As [`publish`], with what is there ahead.
pub(crate) fn publish_as(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    VersionOrigin { kind, comment, change_id }: VersionOrigin<'_>,
    ops: &[Op],
    ahead: Ahead<'_>,
) -> Result<AppDocuments, ControlError> {
    frozen::must_not_be(tx, app)?;
    let written = if ahead.documents.is_none() { written_rules(tx, actor, app, ops)? } else { None };
    let (app_then, ahead) = match &written {
        Some((compiled, staged)) => {
            (Some(staged.app(app)), Ahead { documents: Some(compiled), staged: Some(staged) })
        }
        None => (None, ahead),
    };
    let app = app_then.as_ref().unwrap_or(app);
    let version = app.next();
    let now = tx.now_ms();
    for op in ops.iter().filter(|op| ahead.staged.is_none() || op.kind() == RuleKind::File) {
        stored::apply(tx, actor, app, version, op)?;
    }
    if let Some(staged) = ahead.staged {
        staged.put_in_place(tx)?;
    }
    let made;
    let Compiled { documents, kept, sha256 } = match ahead.documents {
        Some(ready) => ready,
        None => {
            let changed: HashSet<&str> = ops.iter().map(Op::key).collect();
            let is_on = app.state == "active";
            made = Compiled::of(if is_on { checks::documents(tx, app, &changed)? } else { Vec::new() });
            &made
        }
    };
    insert!(tx, "versions" {
        app_id: &app.id,
        version,
        kind,
        change_id: change_id.map(str::to_owned),
        document: kept,
        sha256,
        author: &actor.name,
        comment,
        created_at: now,
        digest: past::digest(documents),
    })?;
    tx.execute(
        "UPDATE versions SET document = NULL WHERE app_id = $1 AND version > $2 AND version <= $3",
        &[(&app.id).into(), (app.version - KEPT).into(), (version - KEPT).into()], // numbers may be left out
    )?;
    tx.execute(
        "UPDATE apps SET version = $1, updated_at = $2 WHERE id = $3",
        &[version.into(), now.into(), (&app.id).into()],
    )?;
    // An administrator has decided about what nodes hold.
    let forced = if past::DECISIONS.contains(&kind) { version.unsigned_abs() } else { 0 };
    Ok(AppDocuments { forced, ..AppDocuments::new(&app.name, version.unsigned_abs(), documents.clone()) })
}

/// The newest versions of an app, at most `limit`, which is at most 500. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, app: &str, limit: i64) -> Result<Vec<Version>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let versions = select!(Version: "FROM versions WHERE app_id = $1 ORDER BY version DESC LIMIT $2");
    Ok(versions.all(tx, &[(&app.id).into(), limit.clamp(1, 500).into()])?)
}

columns! { Version { version, kind, sha256, author, comment, created_at, change_id } }

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
    if version == 0 {
        return Err(ControlError::NotFound { what: "version", name: version.to_string() });
    }
    kept(tx, &app.name, version)
}

pub(crate) fn read_documents(app: &str, kept: &str) -> Result<Vec<Document>, ControlError> {
    #[derive(serde::Deserialize)]
    struct StoredDocument {
        domain: String,
        yaml: String,
    }
    let kept: Vec<StoredDocument> = serde_json::from_str(kept)
        .map_err(|error| ControlError::Document { app: app.to_owned(), reason: error.to_string() })?;
    Ok(kept.into_iter().map(|StoredDocument { domain, yaml }| Document::new(domain, yaml)).collect())
}

/// The documents of the newest version of every app. For the program itself.
pub(crate) fn newest(tx: &mut dyn Tx) -> Result<Vec<AppDocuments>, ControlError> {
    let rows = select!(NewestRow:
        "FROM apps JOIN versions ON versions.app_id = apps.id AND versions.version = apps.version \
         ORDER BY apps.name");
    let read = |NewestRow { app, version, document }| {
        let documents = read_documents(&app, &document)?;
        Ok(AppDocuments::new(app, version.unsigned_abs(), documents))
    };
    rows.all(tx, &[])?.into_iter().map(read).collect()
}

row! {
    struct NewestRow {
        app: String = "apps.name",
        version: i64 = "apps.version",
        document: String = "versions.document",
    }
}

/// The documents of a version; none for version 0, which has no rule. For the program itself.
pub(crate) fn kept(tx: &mut dyn Tx, app: &str, version: i64) -> Result<Vec<Document>, ControlError> {
    if version == 0 {
        return Ok(Vec::new());
    }
    let kept = query_value::<Option<String>>(
        tx,
        "SELECT document FROM versions JOIN apps ON apps.id = versions.app_id \
         WHERE apps.name = $1 AND versions.version = $2",
        &[app.into(), version.into()],
    )?;
    let kept = kept
        .flatten()
        .ok_or_else(|| ControlError::NotFound { what: "version", name: version.to_string() })?;
    read_documents(app, &kept)
}

/// Makes a new version with the rows of version `to`, on all nodes at once, and ends a rollout that is open.
/// Needs editor, and a reason.
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
) -> Result<Committed<i64>, ControlError> {
    restore(tx, actor, app, (base, to), None, reason)
}

/// As [`rollback`], of the rules with these keys only; of all without. `base` is the current version, and
/// `to` the one whose rules come back.
///
/// # Errors
/// As there; [`ControlError::Invalid`] if none of these rules differs.
pub fn restore(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    (base, to): (i64, i64),
    only: Option<&[String]>,
    reason: &str,
) -> Result<Committed<i64>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    must_match(base, app.version)?;
    let reason = fields::text(reason, fields::MAX_DESCRIPTION).map_err(|fault| invalid("reason", fault))?;
    if reason.trim().is_empty() {
        return Err(invalid("reason", Fault::Required));
    }
    if !(1..app.version).contains(&to) {
        return Err(ControlError::NotFound { what: "version", name: to.to_string() });
    }
    let found = turned(tx, actor, &app, to)?;
    let mut ops = found.0.clone();
    let mut diffs = found.1.clone();
    if let Some(only) = only {
        ops.retain(|op| only.iter().any(|key| key == op.key()));
        diffs.retain(|it| only.contains(&it.key));
        if ops.is_empty() {
            return Err(invalid("rules", Fault::Required));
        }
    }
    let changes = differing(diffs.iter().map(RuleDiff::sides));
    rollout_rows::supersede(tx, actor, &app, &reason)?;
    let documents = publish(tx, actor, &app, "rollback", &reason, &ops)?;
    let changed: Vec<_> = ops.iter().map(Op::key).collect();
    let note = Note {
        action: "app.rollback",
        target: app.name.clone(),
        app: Some(&app.name),
        before: Some(json!({"version": app.version})),
        after: Some(json!({
            "version": documents.version, "content_of": to, "rules": changed, "changes": changes,
        })),
        reason: &reason,
    };
    audit::append(tx, actor, note)?;
    Ok(Committed { value: app.next(), documents: Some(documents) })
}

/// The differences between two versions: each rule with both sides, by kind and key; at most 5,000. Needs
/// viewer.
///
/// # Errors
/// [`ControlError`].
pub fn difference(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    from: i64,
    to: i64,
) -> Result<Vec<RuleDiff>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    if let Some(unknown) = [from, to].into_iter().find(|it| !(0..=app.version).contains(it)) {
        return Err(ControlError::NotFound { what: "version", name: unknown.to_string() });
    }
    let mut old = stored::at(tx, &app, from)?;
    let new = stored::at(tx, &app, to)?;
    let mut diffs = Vec::new();
    for ((kind, key), (_, after)) in new {
        let before = old.remove(&(kind, key.clone())).map(|(_, content)| content);
        if before.as_ref() != Some(&after) {
            diffs.push(RuleDiff { kind, key, before, after: Some(after) });
        }
    }
    let removed = old.into_iter().map(|((kind, key), (_, content))| RuleDiff {
        kind,
        key,
        before: Some(content),
        after: None,
    });
    diffs.extend(removed);
    diffs.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    diffs.truncate(MAX_DIFFS);
    Ok(diffs)
}

pub(crate) type Turned = (Vec<Op>, Vec<RuleDiff>);

/// Operations that turn the current rules into those of version `to`, and the differences.
pub(crate) fn turned(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    to: i64,
) -> Result<Arc<Turned>, ControlError> {
    // As many as there are, or as were taken away since.
    let since = query_int(
        tx,
        "SELECT COUNT(*) FROM rule_versions WHERE app_id = $1 AND to_version > $2",
        &[(&app.id).into(), to.into()],
    )?;
    let rules = app.rules.max(since);
    let name = || format!("from {} of {} to {to}", app.version, app.id);
    known(actor.known(), usize::try_from(rules).unwrap_or_default(), name, || {
        let diffs = difference(tx, actor, &app.name, app.version, to)?;
        Ok((ops_to(tx, app, to)?, diffs))
    })
}

/// Operations that turn the current rules into those of version `to`.
fn ops_to(tx: &mut dyn Tx, app: &App, to: i64) -> Result<Vec<Op>, ControlError> {
    let then = stored::at(tx, app, to)?;
    let now = stored::at(tx, app, app.version)?;
    let kept: HashSet<&str> = then.values().map(|(rule_id, _)| &**rule_id).collect();
    let mut ops = Vec::new();
    // Removals first: a key may have been deleted and made again.
    for ((kind, key), (rule_id, _)) in now.iter().filter(|(_, (rule_id, _))| !kept.contains(&**rule_id)) {
        ops.push(Op::Delete { rule_id: rule_id.clone(), kind: *kind, key: key.clone() });
    }
    for (name, rule) in then.iter().filter(|(name, rule)| now.get(*name) != Some(rule)) {
        debug_assert_eq!(name.1, rule.1.key());
        ops.push(Op::bring_back(rule.0.clone(), rule.1.clone()));
    }
    ops.sort_by(|a, b| (a.is_put(), a.key()).cmp(&(b.is_put(), b.key())));
    Ok(ops)
}
