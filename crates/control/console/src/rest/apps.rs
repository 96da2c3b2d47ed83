//! Apps, and the login of programs.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::apps::{self, App};
use tollgate_control::{ControlError, Role};
use tollgate_http_kit::{Reply, reply};

use super::body::{AppBody, LoginBody, read};
use super::etag::{if_match, tagged};
use crate::console::Console;
use crate::pages::with_login;
use crate::web::{Failure, Visit};

pub(super) async fn log_in(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let LoginBody { name, password } = read(visit)?;
    let secret = console.control.log_in(visit.origin(), &name, &password).await?;
    Ok(with_login(console, reply::json(StatusCode::OK, &json!({"name": name})), &secret))
}

pub(super) async fn log_out(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    if let Some(secret) = &visit.cookie {
        console.control.log_out(&claim, secret).await?;
    }
    Ok(reply::json(StatusCode::OK, &json!({})))
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let apps = console.control.read_as(&claim, move |tx, actor| apps::list(tx, actor)).await?;
    let apps: Vec<Value> = apps.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"total": apps.len(), "apps": apps})))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let AppBody { app, description, .. } = read(visit)?;
    let app = console.change(visit, move |tx, actor| apps::create(tx, actor, &app, &description)).await?;
    Ok(tagged(StatusCode::CREATED, &shown(&app), app.etag))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let app = current(console, visit).await?;
    Ok(tagged(StatusCode::OK, &shown(&app), app.etag))
}

async fn current(console: &Console, visit: &Visit) -> Result<App, Failure> {
    let (claim, name) = (visit.claim()?, visit.segment(3));
    Ok(console.control.read_as(&claim, move |tx, actor| apps::get(tx, actor, Role::Viewer, &name)).await?)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let body: AppBody = read(visit)?;
    let approvals = body.approvals.map_or_else(String::new, |it| it.to_string());
    let AppBody { description, state, rollout, .. } = body;
    update(console, visit, AppInput { description, state, approvals, rollout }).await
}

pub(super) async fn disable(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let before = current(console, visit).await?;
    let (description, state) = (before.description, "disabled".to_owned());
    update(console, visit, AppInput { description, state, ..AppInput::default() }).await
}

async fn update(console: &Console, visit: &Visit, input: AppInput) -> Result<Reply, Failure> {
    let (name, etag) = (visit.segment(3), if_match(visit)?);
    let changed =
        console.change(visit, move |tx, actor| app_settings::update(tx, actor, &name, etag, &input));
    match changed.await {
        Ok(app) => Ok(tagged(StatusCode::OK, &shown(&app), app.etag)),
        Err(ControlError::Stale { .. }) => {
            let now = current(console, visit).await?;
            Ok(tagged(StatusCode::PRECONDITION_FAILED, &shown(&now), now.etag))
        }
        Err(error) => Err(error.into()),
    }
}

fn shown(app: &App) -> Value {
    json!({
        "app": app.name, "description": app.description, "version": app.version, "state": app.state,
        "rules": app.rules, "approvals": app.approvals, "updated_at": app.updated_at,
        "rollout": super::rollouts::plan(&app.rollout),
    })
}
