//! Frozen apps as JSON: taking over what a node holds, or forcing what the database has.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::{frozen, thaw};
use tollgate_http_kit::openapi::Description;
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use super::schema::{int, object, replies, text};
use crate::console::Console;
use crate::web::{Failure, Visit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForceBody {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeOverBody {
    node: String,
    reason: String,
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let of = app.clone();
    let (held, version) =
        console.control.read_as(&claim, move |tx, actor| frozen::status(tx, actor, &of)).await?;
    Ok(reply::json(StatusCode::OK, &json!({"app": app, "held": held, "version": version})))
}

pub(super) async fn force(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let ForceBody { reason } = read(visit)?;
    let of = app.clone();
    let version =
        console.control.change_as(&claim, move |tx, actor| thaw::force(tx, actor, &of, &reason)).await?;
    Ok(decided(&app, version))
}

pub(super) async fn take_over(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let TakeOverBody { node, reason } = read(visit)?;
    let version = console.control.take_over(&claim, &app, &node, &reason).await?;
    Ok(decided(&app, version))
}

fn decided(app: &str, version: i64) -> Reply {
    reply::json(StatusCode::OK, &json!({"app": app, "version": version}))
}

fn version() -> Value {
    object(&[("app", text()), ("version", int())], &[])
}

pub(super) fn described() -> Description {
    replies(object(&[("app", text()), ("held", int()), ("version", int())], &[]))
}

pub(super) fn described_force() -> Description {
    let body = object(&[("reason", text())], &[]);
    replies(version()).takes(body, json!({"reason": "the copy is what we want"}))
}

pub(super) fn described_take_over() -> Description {
    let body = object(&[("node", text()), ("reason", text())], &[]);
    let example = json!({"node": "3b1c", "reason": "the copy is a day old"});
    replies(version()).takes(body, example)
}
