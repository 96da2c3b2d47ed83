//! Users and their roles.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::users::{self, User};
use tollgate_control::{ControlError, Fault, FieldFault, Role};
use tollgate_http_kit::{Reply, reply};

use crate::console::Console;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::rest::lists::{limit, next};
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, limit, after) = (visit.claim()?, limit(visit)?, visit.parameter("cursor").to_owned());
    let users =
        console.control.read_as(&claim, move |tx, actor| users::page(tx, actor, &after, limit)).await?;
    let next = next(&users, limit, |user| user.name.clone());
    let users: Vec<Value> = users.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"users": users, "next": next})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserBody {
    name: String,
    #[serde(default = "every_app")]
    app: String,
    #[serde(default)]
    role: String,
}

fn every_app() -> String {
    "*".to_owned()
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let UserBody { name, app, role } = read(visit)?;
    let (user, code) = console.control.invite(&claim, &name, &app, &role).await?;
    Ok(linked(&user, &code))
}

/// The user, and the path of the link, which is shown this once.
fn linked(user: &User, code: &str) -> Reply {
    let link = format!("/link?code={code}");
    let body = json!({"user": shown(user), "link": link, "link_until": user.link_until});
    tagged(StatusCode::CREATED, &body, user.etag)
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, name) = (visit.claim()?, visit.segment(3));
    let user = console.control.read_as(&claim, move |tx, actor| users::get(tx, actor, &name)).await?;
    Ok(tagged(StatusCode::OK, &shown(&user), user.etag))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateBody {
    state: String,
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, name, etag) = (visit.claim()?, visit.segment(3), if_match(visit)?);
    let StateBody { state } = read(visit)?;
    let is_active = match &*state {
        "active" => true,
        "disabled" => false,
        _ => return Err(invalid("state", Fault::Choice { expected: "active, disabled" })),
    };
    let changed = console.control.change_as(&claim, move |tx, actor| {
        users::get_at(tx, actor, &name, etag)?;
        users::set_active(tx, actor, &name, is_active)
    });
    answered(console, visit, changed.await).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleBody {
    role: String,
}

pub(super) async fn set_role(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    if_match(visit)?;
    let RoleBody { role } = read(visit)?;
    let role = role.parse::<Role>();
    let expected = "viewer, editor, approver, admin";
    let role = role.map_err(|()| invalid("role", Fault::Choice { expected }))?;
    bind(console, visit, Some(role)).await
}

pub(super) async fn remove_role(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    bind(console, visit, None).await
}

async fn bind(console: &Console, visit: &Visit, role: Option<Role>) -> Result<Reply, Failure> {
    let (claim, name, app, etag) = (visit.claim()?, visit.segment(3), visit.segment(5), if_match(visit)?);
    let changed = console.control.change_as(&claim, move |tx, actor| {
        users::get_at(tx, actor, &name, etag)?;
        users::set_role(tx, actor, &name, &app, role)
    });
    answered(console, visit, changed.await).await
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, name, etag) = (visit.claim()?, visit.segment(3), if_match(visit)?);
    match console.control.reset_password(&claim, &name, Some(etag)).await {
        Ok((user, code)) => Ok(linked(&user, &code)),
        Err(error) => answered(console, visit, Err(error)).await,
    }
}

pub(super) fn roles(visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let may = |role| match role {
        Role::Viewer => "see everything of the app except people",
        Role::Editor => "also change rules and roll back",
        Role::Approver => "also approve the changes of others",
        Role::Admin => "also change the app itself; over all apps: users, tokens of nodes, settings, audit",
    };
    let roles = Role::ALL.map(|role| json!({"role": role.name(), "may": may(role)}));
    Ok(reply::json(StatusCode::OK, &json!({"roles": roles})))
}

/// The user as it is after a change, or 412 with it.
async fn answered(
    console: &Console,
    visit: &Visit,
    changed: Result<(), ControlError>,
) -> Result<Reply, Failure> {
    let is_stale = matches!(changed, Err(ControlError::Stale { .. }));
    if !is_stale {
        changed?;
    }
    let mut now = get(console, visit).await?;
    if is_stale {
        *now.status_mut() = StatusCode::PRECONDITION_FAILED;
    }
    Ok(now)
}

fn invalid(field: &'static str, fault: Fault) -> Failure {
    ControlError::Invalid(vec![FieldFault { field, fault }]).into()
}

fn shown(user: &User) -> Value {
    json!({
        "name": user.name, "state": user.state, "has_password": user.has_password,
        "link_until": user.link_until, "last_login_at": user.last_login_at, "roles": bindings(&user.roles),
    })
}

pub(super) fn bindings(roles: &[(String, Role)]) -> Vec<Value> {
    roles.iter().map(|(app, role)| json!({"app": app, "role": role.name()})).collect()
}
