//! Rollouts as JSON.

use hyper::StatusCode;
use tollgate_api::params::{RolloutsQuery, WithdrawBody};
use tollgate_api::{RolloutCall, views};
use tollgate_control::rollout::Ask;
use tollgate_control::rollouts::{self, Rollout};
use tollgate_http_kit::Reply;

use super::body::read;
use super::etag::{if_match, tagged};
use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit, unless_stale};

pub(super) async fn answer(console: &Console, call: RolloutCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        RolloutCall::List => list(console, visit).await,
        RolloutCall::Get => {
            let (found, now_ms) = current(console, visit).await?;
            Ok(tagged(StatusCode::OK, &with_nodes(console, &found, now_ms), found.etag))
        }
        RolloutCall::Pause => ask(console, visit, Ask::Pause).await,
        RolloutCall::Resume => ask(console, visit, Ask::Resume).await,
        RolloutCall::Advance => ask(console, visit, Ask::Advance).await,
        RolloutCall::Withdraw => {
            visit.claim()?;
            if_match(visit)?;
            let WithdrawBody { reason } = read(visit)?;
            ask(console, visit, Ask::Withdraw(reason)).await
        }
    }
}

async fn current(console: &Console, visit: &Visit) -> Result<(Rollout, i64), Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let get =
        console.control.read_as(&claim, move |tx, actor| Ok((rollouts::get(tx, actor, &app)?, tx.now_ms())));
    Ok(get.await?)
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let RolloutsQuery { app, limit } = RolloutsQuery::read(visit)?;
    let found =
        console.control.read_as(&claim, move |tx, actor| rollouts::list(tx, actor, &app, limit)).await?;
    Ok(ok(&views::Rollouts { rollouts: found.iter().map(|it| listed(console, it)).collect() }))
}

async fn ask(console: &Console, visit: &Visit, ask: Ask) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let etag = if_match(visit)?;
    let asked = console.control.ask_rollout(&claim, &app, etag, ask).await;
    let (status, found, now_ms) = match unless_stale(asked)? {
        Some(found) => {
            let now_ms = found.updated_at;
            (StatusCode::OK, found, now_ms)
        }
        None => {
            let (found, now_ms) = current(console, visit).await?;
            (StatusCode::PRECONDITION_FAILED, found, now_ms)
        }
    };
    Ok(tagged(status, &with_nodes(console, &found, now_ms), found.etag))
}

fn listed(console: &Console, rollout: &Rollout) -> views::Rollout {
    let is_open = rollout.progress.state.is_open();
    let observed = is_open.then(|| console.control.observed(&rollout.app)).flatten().unwrap_or_default();
    views::Rollout::listed(rollout, &observed)
}

fn with_nodes(console: &Console, rollout: &Rollout, now_ms: i64) -> views::Rollout {
    listed(console, rollout).with_nodes(console.control.stages(rollout, now_ms))
}
