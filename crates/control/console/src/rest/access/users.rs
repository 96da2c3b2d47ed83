//! Users and their roles.

use hyper::StatusCode;
use tollgate_api::params::{PageQuery, RoleBody, StateBody, UserBody};
use tollgate_api::{query, views};
use tollgate_control::users::{self, User};
use tollgate_control::{ControlError, Fault, FieldFault, Role};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::rest::json::ok;
use crate::web::{Failure, Visit, unless_stale};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let PageQuery { limit, cursor } = PageQuery::read(visit)?;
    let users =
        console.control.read_as(&claim, move |tx, actor| users::page(tx, actor, &cursor, limit)).await?;
    let next = query::next(&users, limit, |user| user.name.clone());
    Ok(ok(&views::Users { users: users.into_iter().map(views::User::from).collect(), next }))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let UserBody { name, app, role } = read(visit)?;
    let (user, code) = console.control.invite(&claim, &name, &app, &role).await?;
    Ok(linked(user, &code))
}

/// The user, and the path of the link, which is shown this once.
fn linked(user: User, code: &str) -> Reply {
    let etag = user.etag;
    let link = format!("/link?code={code}");
    let link_until = user.link_until;
    tagged(StatusCode::CREATED, &views::UserLink { user: user.into(), link, link_until }, etag)
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(3);
    let user = console.control.read_as(&claim, move |tx, actor| users::get(tx, actor, &name)).await?;
    let etag = user.etag;
    Ok(tagged(StatusCode::OK, &views::User::from(user), etag))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(3);
    let etag = if_match(visit)?;
    let StateBody { state } = read(visit)?;
    let is_active = match &*state {
        "active" => true,
        "disabled" => false,
        _ => return Err(invalid("state", Fault::Choice { expected: "active, disabled" })),
    };
    let changed = console.control.commit_as(&claim, move |tx, actor| {
        users::get_at(tx, actor, &name, etag)?;
        users::set_active(tx, actor, &name, is_active)
    });
    answered(console, visit, changed.await).await
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
    let claim = visit.claim()?;
    let name = visit.segment(3);
    let app = visit.segment(5);
    let etag = if_match(visit)?;
    let changed = console.control.commit_as(&claim, move |tx, actor| {
        users::get_at(tx, actor, &name, etag)?;
        users::set_role(tx, actor, &name, &app, role)
    });
    answered(console, visit, changed.await).await
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(3);
    let etag = if_match(visit)?;
    match console.control.reset_password(&claim, &name, Some(etag)).await {
        Ok((user, code)) => Ok(linked(user, &code)),
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
    let roles = Role::ALL.map(|role| views::RoleInWords { role: role.name(), may: may(role) });
    Ok(ok(&views::Roles { roles: roles.into() }))
}

/// The user as it is after a change, or 412 with it.
async fn answered(
    console: &Console,
    visit: &Visit,
    changed: Result<(), ControlError>,
) -> Result<Reply, Failure> {
    let is_stale = unless_stale(changed)?.is_none();
    let mut now = get(console, visit).await?;
    if is_stale {
        *now.status_mut() = StatusCode::PRECONDITION_FAILED;
    }
    Ok(now)
}

fn invalid(field: &'static str, fault: Fault) -> Failure {
    ControlError::Invalid(vec![FieldFault { field, fault }]).into()
}
