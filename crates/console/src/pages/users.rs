//! Users and their roles, for admins of every app.

use std::str::FromStr as _;

use hyper::StatusCode;
use tollgate_control::{ControlError, FieldFault, Role, users};
use tollgate_http_kit::Reply;

use super::table::{TablePage, cell};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::Lang;
use crate::web::{Failure, Visit, encoded, redirect};

pub(super) fn role_text(lang: Lang, role: Role) -> &'static str {
    let t = lang.texts();
    match role {
        Role::Viewer => t.role_viewer,
        Role::Editor => t.role_editor,
        Role::Approver => t.role_approver,
        Role::Admin => t.role_admin,
    }
}

pub(super) async fn list(console: &Console, visit: &Visit, faults: &[FieldFault]) -> Result<Reply, Failure> {
    let (actor, t, lang) = (visit.actor()?, visit.lang.texts(), visit.lang);
    let users = console.control.read(move |tx| users::list(tx, &actor)).await?;
    let mut list = TablePage::new(Frame::new(visit, "users", t.users), format!("{} / {}", t.system, t.users));
    list.head =
        vec![(t.user_name, false), (t.roles, false), (t.state, false), (t.last_login, false), ("", false)];
    for user in users {
        let roles = user.roles.iter().map(|(app, role)| format!("{app} {}", role_text(lang, *role)));
        let is_active = user.state == "active";
        let path = format!("/users/{}/state", encoded(&user.name));
        let (button, value) = if is_active { (t.disable, "disabled") } else { (t.enable, "active") };
        let last = user.last_login_at.map_or_else(|| "–".to_owned(), |at| visit.time(at));
        list.rows.push(vec![
            cell(&user.name),
            cell(roles.collect::<Vec<_>>().join(" · ")).class("text"),
            cell(if is_active { t.active } else { t.disabled }).tag(if is_active {
                "tag on"
            } else {
                "tag off"
            }),
            cell(last).class("time"),
            cell(button).post(path, "state", value),
        ]);
    }
    list.notice = faults
        .iter()
        .find(|it| matches!(it.field, "state" | "role"))
        .map(|it| ("bad", lang.fault(&it.fault)));
    list.form_title = t.new_user;
    list.action = "/users";
    list.button = t.submit;
    let roles = Role::ALL.map(|role| (role.name(), role_text(lang, role)));
    let bound = if visit.field("app").is_empty() { "*" } else { visit.field("app") };
    let inputs = vec![
        Field::text("name", t.user_name, "", visit.field("name")).required(),
        Field::text("password", t.password, t.password_hint, "").required().secret("new-password"),
        Field::text("role", t.role, "", visit.field("role")).of(&roles),
        Field::text("app", t.role_app, "", bound).mono(),
    ];
    list.inputs = inputs.into_iter().map(|it| it.faulted(lang, faults)).collect();
    page(if faults.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }, &list)
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let actor = visit.actor()?;
    let Ok(role) = Role::from_str(visit.field("role")) else {
        return Err(Failure::Bad("unknown role".to_owned()));
    };
    let app = visit.field("app").to_owned();
    if app != "*"
        && let Err(fault) = tollgate_control::car::app_name(&app)
    {
        return list(console, visit, &[FieldFault { field: "app", fault }]).await;
    }
    let created = console.control.create_user(&actor, visit.field("name"), visit.field("password")).await;
    let user = match created {
        Ok(user) => user,
        Err(ControlError::Invalid(faults)) => return list(console, visit, &faults).await,
        Err(error) => return Err(error.into()),
    };
    console.control.change(move |tx| users::set_role(tx, &actor, &user.name, &app, Some(role))).await?;
    Ok(redirect("/users"))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (actor, name) = (visit.actor()?, visit.segment(1));
    let is_active = match visit.field("state") {
        "active" => true,
        "disabled" => false,
        _ => return Err(Failure::Bad("unknown state".to_owned())),
    };
    match console.control.change(move |tx| users::set_active(tx, &actor, &name, is_active)).await {
        Ok(()) => Ok(redirect("/users")),
        Err(ControlError::Invalid(faults)) => list(console, visit, &faults).await,
        Err(error) => Err(error.into()),
    }
}
