//! Frozen apps as JSON: taking over what a node holds, or forcing what the database has.

use tollgate_api::params::{ForceBody, TakeOverBody};
use tollgate_api::views;
use tollgate_control::{frozen, thaw};
use tollgate_http_kit::Reply;

use super::body::read;
use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let of = app.clone();
    let (held, version) =
        console.control.read_as(&claim, move |tx, actor| frozen::status(tx, actor, &of)).await?;
    Ok(ok(&views::Frozen { app, held, version }))
}

pub(super) async fn force(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let ForceBody { reason } = read(visit)?;
    let of = app.clone();
    let version =
        console.control.commit_as(&claim, move |tx, actor| thaw::force(tx, actor, &of, &reason)).await?;
    Ok(ok(&views::Thawed { app, version }))
}

pub(super) async fn take_over(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let TakeOverBody { node, reason } = read(visit)?;
    let version = console.control.take_over(&claim, &app, &node, &reason).await?;
    Ok(ok(&views::Thawed { app, version }))
}
