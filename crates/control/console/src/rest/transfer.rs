//! An app as one YAML document, and back.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tollgate_api::params::{ExportQuery, ImportQuery};
use tollgate_api::{TransferCall, views};
use tollgate_control::changes::Look;
use tollgate_control::{ControlError, Role, transfer};
use tollgate_http_kit::{Reply, reply};

use super::changes::made_reply;
use super::files::waits;
use super::json::ok;
use crate::console::{Console, old_nodes_of};
use crate::web::{Failure, Visit};

pub(super) async fn answer(console: &Console, call: TransferCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        TransferCall::Export => export(console, visit).await,
        TransferCall::Import => import(console, visit).await,
    }
}

async fn export(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let ExportQuery { app } = ExportQuery::read(visit);
    let yaml = console.control.read_as(&claim, move |tx, actor| transfer::export(tx, actor, &app)).await?;
    Ok(reply::reply(StatusCode::OK, HeaderValue::from_static("application/yaml"), yaml))
}

async fn import(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let ImportQuery { dry_run } = ImportQuery::read(visit)?;
    let not_text = || Failure::Bad("invalid request body: expected YAML in UTF-8".to_owned());
    let text = std::str::from_utf8(&visit.body).map_err(|_| not_text())?;
    // Rights before work.
    if let Some(app) = transfer::app_of(text) {
        console.must(visit, if dry_run { Role::Viewer } else { Role::Editor }, &app).await?;
    }
    // It may take seconds and a multiple of its size: not on a thread that serves, and one at a time.
    let Ok(_turn) = console.imports.acquire().await else { return Err(Failure::Panic) };
    let body = visit.body.clone();
    let read = tokio::task::spawn_blocking(move || std::str::from_utf8(&body).map(transfer::read)).await;
    let all = match read.map_err(|_| Failure::Panic)?.map_err(|_| not_text())? {
        Err(ControlError::Faulty(faults)) if dry_run => {
            let errors = faults.into_iter().map(views::Fault::from).collect();
            return Ok(ok(&views::DryRun { ok: false, errors, conflicts: None, diff: None }));
        }
        all => all?,
    };
    if dry_run {
        let look =
            console.control.read_as(&claim, move |tx, actor| transfer::dry_run(tx, actor, &all)).await?;
        let Look { ops, preview, conflicts } = look;
        let errors: Vec<_> = preview.faults.into_iter().map(views::Fault::from).collect();
        let conflicts: Vec<_> = conflicts.into_iter().map(views::Conflict::from).collect();
        return Ok(ok(&views::DryRun {
            ok: errors.is_empty() && conflicts.is_empty(),
            errors,
            conflicts: Some(conflicts),
            diff: Some(views::RuleDiff::of_ops(&ops)),
        }));
    }
    let done = console.control.import(&claim, old_nodes_of(visit), all).await?;
    Ok(match done {
        None => ok(&views::Unchanged { changed: false }),
        Some(done) if done.published_version.is_none() => waits(done),
        Some(done) => made_reply(StatusCode::OK, done),
    })
}
