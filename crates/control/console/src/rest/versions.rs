//! Versions of an app as JSON.

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::versions::{self, Version};
use tollgate_control::{ControlError, Role, apps, hex};
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use super::content::difference;
use super::etag::{if_match, tagged};
use crate::console::Console;
use crate::web::{Failure, Visit};

/// An operation on versions.
#[derive(Clone, Copy, Debug)]
pub enum VersionCall {
    /// Lists them.
    List,
    /// The documents of one.
    Get,
    /// What differs between two.
    Diff,
    /// Makes a new one of an old one's content.
    RollBack,
}

type Row = (Method, &'static str, VersionCall, &'static str, &'static str);

/// Method, path, call, id, summary.
pub(super) static ROWS: &[Row] = &[
    (
        Method::GET,
        "/api/v1/apps/{app}/versions",
        VersionCall::List,
        "listVersions",
        "Lists the versions of an app, the newest first; its ETag is the current version",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/versions/{version}",
        VersionCall::Get,
        "getVersion",
        "The documents of a version",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/versions/{version}/diff",
        VersionCall::Diff,
        "diffVersions",
        "What differs from the version `against`, by default the one before",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/versions/{version}/rollback",
        VersionCall::RollBack,
        "rollBack",
        "Publishes the rules of an old version as a new one; needs If-Match with the current version, and a reason",
    ),
];

/// The body of a rollback: without `rules`, all of them come back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackBody {
    reason: String,
    rules: Option<Vec<String>>,
}

pub(super) async fn answer(console: &Console, call: VersionCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        VersionCall::List => list(console, visit).await,
        VersionCall::Get => get(console, visit).await,
        VersionCall::Diff => diff(console, visit).await,
        VersionCall::RollBack => roll_back(console, visit).await,
    }
}

/// The version that the path names.
fn number(visit: &Visit) -> Result<i64, Failure> {
    let text = visit.segment(5);
    let unknown = || ControlError::NotFound { what: "version", name: text.clone() };
    Ok(text.parse().map_err(|_| unknown())?)
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let found =
        console.control.read_as(&claim, move |tx, actor| versions::list(tx, actor, &app, 500)).await?;
    let current = found.first().map_or(0, |it| it.version);
    let versions: Vec<Value> = found.iter().map(shown).collect();
    Ok(tagged(StatusCode::OK, &json!({"current": current, "versions": versions}), current))
}

fn shown(it: &Version) -> Value {
    json!({
        "version": it.version, "kind": it.kind, "sha256": it.sha256, "author": it.author,
        "comment": it.comment, "created_at": it.created_at, "change": it.change_id,
    })
}

async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, version) = (visit.claim()?, visit.segment(3), number(visit)?);
    let found = console
        .control
        .read_as(&claim, move |tx, actor| versions::documents(tx, actor, &app, version))
        .await?;
    let documents: Vec<Value> = found
        .iter()
        .map(|it| json!({"domain": it.domain(), "yaml": it.yaml(), "sha256": hex(it.sha256())}))
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({"version": version, "documents": documents})))
}

async fn diff(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, version) = (visit.claim()?, visit.segment(3), number(visit)?);
    let against = match visit.parameter("against") {
        "" => version - 1,
        text => text
            .parse()
            .map_err(|_| Failure::Bad("invalid `against`: expected the number of a version".to_owned()))?,
    };
    let read = console
        .control
        .read_as(&claim, move |tx, actor| versions::difference(tx, actor, &app, against, version));
    let rules: Vec<Value> = read
        .await?
        .iter()
        .map(|it| difference(it.kind, &it.key, it.before.as_ref(), it.after.as_ref()))
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({"version": version, "against": against, "diff": rules})))
}

async fn roll_back(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, to, base) = (visit.claim()?, visit.segment(3), number(visit)?, if_match(visit)?);
    let RollbackBody { reason, rules } = read(visit)?;
    let name = app.clone();
    let rolled = console.change(visit, move |tx, actor| {
        versions::restore(tx, actor, &name, (base, to), rules.as_deref(), &reason)
    });
    match rolled.await {
        Ok(version) => Ok(tagged(StatusCode::OK, &json!({"version": version}), version)),
        Err(ControlError::Stale { .. }) => {
            let now = console
                .control
                .read_as(&claim, move |tx, actor| apps::get(tx, actor, Role::Viewer, &app))
                .await?;
            let body = json!({"version": now.version});
            Ok(tagged(StatusCode::PRECONDITION_FAILED, &body, now.version))
        }
        Err(error) => Err(error.into()),
    }
}
