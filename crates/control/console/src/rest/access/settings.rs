//! The settings.

use hyper::StatusCode;
use serde_json::json;
use tollgate_control::{ControlError, Settings, settings};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::web::{Failure, Visit};

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let (settings, etag) = console.control.read_as(&claim, |tx, _| settings::get(tx)).await?;
    Ok(tagged(StatusCode::OK, &json!(settings), etag))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, etag) = (visit.claim()?, if_match(visit)?);
    let new: Settings = read(visit)?;
    match console.control.change_settings(&claim, etag, new).await {
        Ok((settings, etag)) => Ok(tagged(StatusCode::OK, &json!(settings), etag)),
        Err(ControlError::Stale { .. }) => {
            let mut now = get(console, visit).await?;
            *now.status_mut() = StatusCode::PRECONDITION_FAILED;
            Ok(now)
        }
        Err(error) => Err(error.into()),
    }
}
