//! Versions of an app as JSON.

use hyper::StatusCode;
use tollgate_api::params::{RollbackBody, VersionDiffQuery};
use tollgate_api::{VersionCall, views};
use tollgate_control::{ControlError, Role, apps, versions};
use tollgate_http_kit::Reply;

use super::body::read;
use super::etag::{if_match, tagged};
use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit, unless_stale};

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
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let found =
        console.control.read_as(&claim, move |tx, actor| versions::list(tx, actor, &app, 500)).await?;
    let current = found.first().map_or(0, |it| it.version);
    let versions = found.into_iter().map(views::Version::from).collect();
    Ok(tagged(StatusCode::OK, &views::Versions { current, versions }, current))
}

async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let version = number(visit)?;
    let found = console
        .control
        .read_as(&claim, move |tx, actor| versions::documents(tx, actor, &app, version))
        .await?;
    let documents = found.iter().map(views::Document::from).collect();
    Ok(ok(&views::VersionDocuments { version, documents }))
}

async fn diff(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let version = number(visit)?;
    let against = VersionDiffQuery::read(visit)?.against.unwrap_or(version - 1);
    let read = console
        .control
        .read_as(&claim, move |tx, actor| versions::difference(tx, actor, &app, against, version));
    let diff = read.await?.into_iter().map(views::RuleDiff::from).collect();
    Ok(ok(&views::VersionDiff { version, against, diff }))
}

async fn roll_back(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let to = number(visit)?;
    let base = if_match(visit)?;
    let RollbackBody { reason, rules } = read(visit)?;
    let name = app.clone();
    let rolled = console.commit(visit, move |tx, actor| {
        versions::restore(tx, actor, &name, (base, to), rules.as_deref(), &reason)
    });
    let (status, version) = match unless_stale(rolled.await)? {
        Some(version) => (StatusCode::OK, version),
        None => {
            let read =
                console.control.read_as(&claim, move |tx, actor| apps::get(tx, actor, Role::Viewer, &app));
            (StatusCode::PRECONDITION_FAILED, read.await?.version)
        }
    };
    Ok(tagged(status, &views::PublishedVersion { version }, version))
}
