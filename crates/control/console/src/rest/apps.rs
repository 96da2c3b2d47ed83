//! Apps, and the login of programs.

use hyper::StatusCode;
use tollgate_api::params::{AppBody, LoginBody};
use tollgate_api::views;
use tollgate_control::Role;
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::apps::{self, App};
use tollgate_http_kit::Reply;

use super::body::read;
use super::etag::{if_match, tagged};
use super::json::ok;
use crate::console::Console;
use crate::pages::with_login;
use crate::web::{Failure, Visit, unless_stale};

pub(super) async fn log_in(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let LoginBody { name, password } = read(visit)?;
    let secret = console.control.log_in(visit.origin(), &name, &password).await?;
    Ok(with_login(console, ok(&views::Name { name }), &secret))
}

pub(super) async fn log_out(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    if let Some(secret) = &visit.cookie {
        console.control.log_out(&claim, secret).await?;
    }
    Ok(ok(&views::Done {}))
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let apps = console.control.read_as(&claim, move |tx, actor| apps::list(tx, actor)).await?;
    let total = apps.len();
    Ok(ok(&views::Apps { apps: apps.into_iter().map(views::App::from).collect(), total }))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let AppBody { app, description, .. } = read(visit)?;
    let app = console.commit(visit, move |tx, actor| apps::create(tx, actor, &app, &description)).await?;
    Ok(shown(StatusCode::CREATED, app))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    Ok(shown(StatusCode::OK, current(console, visit).await?))
}

async fn current(console: &Console, visit: &Visit) -> Result<App, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(3);
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
    let description = current(console, visit).await?.description;
    let state = "disabled".to_owned();
    update(console, visit, AppInput { description, state, ..AppInput::default() }).await
}

async fn update(console: &Console, visit: &Visit, input: AppInput) -> Result<Reply, Failure> {
    let name = visit.segment(3);
    let etag = if_match(visit)?;
    let changed =
        console.commit(visit, move |tx, actor| app_settings::update(tx, actor, &name, etag, &input));
    Ok(match unless_stale(changed.await)? {
        Some(app) => shown(StatusCode::OK, app),
        None => shown(StatusCode::PRECONDITION_FAILED, current(console, visit).await?),
    })
}

fn shown(status: StatusCode, app: App) -> Reply {
    let etag = app.etag;
    tagged(status, &views::App::from(app), etag)
}
