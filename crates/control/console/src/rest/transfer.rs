//! An app as one YAML document, and back.

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_control::changes::Look;
use tollgate_control::{ControlError, Role, transfer};
use tollgate_http_kit::{Reply, reply};

use super::changes::made_reply;
use super::content::{conflict, differences, fault};
use super::files::waits;
use crate::console::{Console, old_nodes};
use crate::web::{Failure, Visit};

/// An operation on whole apps.
#[derive(Clone, Copy, Debug)]
pub enum TransferCall {
    /// An app as YAML.
    Export,
    /// Makes an app equal to YAML.
    Import,
}

type Row = (Method, &'static str, TransferCall, &'static str, &'static str);

/// Method, path, call, id, summary.
pub(super) static ROWS: &[Row] = &[
    (
        Method::GET,
        "/api/v1/export",
        TransferCall::Export,
        "exportApp",
        "All rules of an app as one YAML document, sorted by key",
    ),
    (
        Method::POST,
        "/api/v1/import",
        TransferCall::Import,
        "importApp",
        "Makes an app equal to a YAML document, as one change set; `dry_run=true` only shows the difference",
    ),
];

pub(super) async fn answer(console: &Console, call: TransferCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        TransferCall::Export => export(console, visit).await,
        TransferCall::Import => import(console, visit).await,
    }
}

async fn export(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.parameter("app").to_owned());
    let yaml = console.control.read_as(&claim, move |tx, actor| transfer::export(tx, actor, &app)).await?;
    Ok(reply::reply(StatusCode::OK, HeaderValue::from_static("application/yaml"), yaml))
}

async fn import(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let is_dry = match visit.parameter("dry_run") {
        "" | "false" => false,
        "true" => true,
        _ => return Err(Failure::Bad("invalid `dry_run`: expected true or false".to_owned())),
    };
    let not_text = || Failure::Bad("invalid request body: expected YAML in UTF-8".to_owned());
    let text = std::str::from_utf8(&visit.body).map_err(|_| not_text())?;
    // Rights before work.
    if let Some(app) = transfer::app_of(text) {
        console.must(visit, if is_dry { Role::Viewer } else { Role::Editor }, &app).await?;
    }
    // It may take seconds and a multiple of its size: not on a thread that serves, and one at a time.
    let Ok(_turn) = console.imports.acquire().await else { return Err(Failure::Panic) };
    let body = visit.body.clone();
    let read = tokio::task::spawn_blocking(move || std::str::from_utf8(&body).map(transfer::read)).await;
    let all = match read.map_err(|_| Failure::Panic)?.map_err(|_| not_text())? {
        Err(ControlError::Faulty(faults)) if is_dry => {
            let errors: Vec<Value> = faults.iter().map(fault).collect();
            return Ok(reply::json(StatusCode::OK, &json!({"ok": false, "errors": errors})));
        }
        all => all?,
    };
    if is_dry {
        let look =
            console.control.read_as(&claim, move |tx, actor| transfer::dry_run(tx, actor, &all)).await?;
        let Look { ops, preview, conflicts } = look;
        let errors: Vec<Value> = preview.faults.iter().map(fault).collect();
        let conflicts: Vec<Value> = conflicts.iter().map(conflict).collect();
        let is_ok = errors.is_empty() && conflicts.is_empty();
        let body = json!({"ok": is_ok, "errors": errors, "conflicts": conflicts, "diff": differences(&ops)});
        return Ok(reply::json(StatusCode::OK, &body));
    }
    let done = console.control.import(&claim, old_nodes(visit), all).await?;
    Ok(match done {
        None => reply::json(StatusCode::OK, &json!({"changed": false})),
        Some(done) if done.published_version.is_none() => waits(&done),
        Some(done) => made_reply(StatusCode::OK, &done),
    })
}
