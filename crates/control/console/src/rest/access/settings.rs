//! The settings.

use hyper::StatusCode;
use tollgate_api::views;
use tollgate_control::settings;
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::web::{Failure, Visit, unless_stale};

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let (settings, etag) = console.control.read_as(&claim, |tx, _| settings::get(tx)).await?;
    Ok(tagged(StatusCode::OK, &views::Settings::from(settings), etag))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let etag = if_match(visit)?;
    let new: views::Settings = read(visit)?;
    let changed = console.control.change_settings(&claim, etag, new.into()).await;
    if let Some((settings, etag)) = unless_stale(changed)? {
        return Ok(tagged(StatusCode::OK, &views::Settings::from(settings), etag));
    }
    let mut now = get(console, visit).await?;
    *now.status_mut() = StatusCode::PRECONDITION_FAILED;
    Ok(now)
}
