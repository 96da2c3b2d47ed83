//! Users and their roles, for admins of every app.

use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::users::{self, User};
use tollgate_control::{ControlError, FieldFault, Role};
use tollgate_http_kit::Reply;

use super::sections::{Form, Secret, Section, SectionsPage};
use super::table::{Cell, cell};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::{Lang, access};
use crate::web::{Failure, Visit, encoded, query_of, redirect};

/// Users of a page.
const SIZE: i64 = 100;

pub(super) fn role_text(lang: Lang, role: Role) -> &'static str {
    let t = lang.texts();
    match role {
        Role::Viewer => t.role_viewer,
        Role::Editor => t.role_editor,
        Role::Approver => t.role_approver,
        Role::Admin => t.role_admin,
    }
}

pub(super) fn role_options(lang: Lang) -> [(&'static str, &'static str); 4] {
    Role::ALL.map(|role| (role.name(), role_text(lang, role)))
}

pub(super) fn roles_text(lang: Lang, roles: &[(String, Role)]) -> String {
    let name = |app: &str| if app == EVERY_APP { lang.texts().all_apps.to_owned() } else { app.to_owned() };
    let roles = roles.iter().map(|(app, role)| format!("{} – {}", name(app), role_text(lang, *role)));
    roles.collect::<Vec<_>>().join(" · ")
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    show(console, visit, StatusCode::OK, &[], None).await
}

async fn show(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    faults: &[FieldFault],
    made: Option<(User, String)>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let lang = visit.lang;
    let a = access::Texts::of(visit.lang);
    let after = visit.parameter("after").to_owned();
    let users =
        console.control.read_as(&claim, move |tx, actor| users::page(tx, actor, &after, SIZE)).await?;
    let mut list =
        SectionsPage::new(Frame::new(visit, "users", t.users), format!("{} / {}", t.system, t.users));
    list.secret = made.map(|(user, code)| link_of(console, visit, &user, &code));
    let more = users.last().filter(|_| users.len() as i64 == SIZE);
    let more = more.map(|it| (query_of("/users", &[("after", &it.name)]), t.next));
    let mut table = Section {
        head: vec![(t.user_name, false), (t.roles, false), (t.state, false), (t.last_login, false)],
        more,
        ..Section::default()
    };
    for user in users {
        let last = user.last_login_at.map_or_else(|| "–".to_owned(), |at| visit.time(at));
        table.rows.push(vec![
            cell(&user.name).href(href(&user.name)),
            cell(roles_text(lang, &user.roles)).class("text"),
            state(visit, &user),
            cell(last).class("time"),
        ]);
    }
    let bound = if visit.field("app").is_empty() { "*" } else { visit.field("app") };
    let role = if visit.field("role").is_empty() { "viewer" } else { visit.field("role") };
    let inputs = vec![
        Field::text("name", t.user_name, "", visit.field("name")).required(),
        Field::text("role", t.role, "", role).of(&role_options(lang)),
        Field::text("app", t.role_app, "", bound).mono(),
    ];
    let inputs = inputs.into_iter().map(|it| it.faulted(lang, faults)).collect();
    let form =
        Form { action: "/users".to_owned(), inputs, button: t.submit, class: "primary", ..Form::default() };
    list.sections = vec![
        table,
        Section { title: t.new_user, about: a.new_user_about, forms: vec![form], ..Section::default() },
    ];
    page(status, &list)
}

pub(super) fn href(name: &str) -> String {
    format!("/users/{}", encoded(name))
}

fn state(visit: &Visit, user: &User) -> Cell {
    let t = visit.lang.texts();
    let a = access::Texts::of(visit.lang);
    if user.state != "active" {
        cell(t.disabled).tag("tag off")
    } else if user.has_password {
        cell(t.active).tag("tag on")
    } else {
        cell(a.invited).tag("tag shadow")
    }
}

/// The link, which is shown this once.
fn link_of(console: &Console, visit: &Visit, user: &User, code: &str) -> Secret {
    let a = access::Texts::of(visit.lang);
    let until = user.link_until.map_or_else(String::new, |at| visit.time(at));
    let scheme = if console.settings.is_secure { "https" } else { "http" };
    Secret {
        title: a.link_title,
        hint: format!("{} · {} {until}", user.name, a.link_hint),
        text: format!("{scheme}://{}/link?code={code}", visit.host),
    }
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.field("name");
    let app = visit.field("app");
    let role = visit.field("role");
    match console.control.invite(&claim, name, app, role).await {
        Ok(made) => show(console, visit, StatusCode::CREATED, &[], Some(made)).await,
        Err(ControlError::Invalid(faults)) => {
            show(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &faults, None).await
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn one(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    show_one(console, visit, StatusCode::OK, &[], None).await
}

async fn show_one(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    faults: &[FieldFault],
    made: Option<(User, String)>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let lang = visit.lang;
    let a = access::Texts::of(visit.lang);
    let name = visit.segment(1);
    let user = console.control.read_as(&claim, move |tx, actor| users::get(tx, actor, &name)).await?;
    let path = href(&user.name);
    let crumb = format!("{} / {} / {}", t.system, t.users, user.name);
    let mut shown = SectionsPage::new(Frame::new(visit, "users", user.name.clone()), crumb);
    shown.tool = Some(("/users".to_owned(), t.users));
    shown.secret = made.map(|(user, code)| link_of(console, visit, &user, &code));
    let of_page = faults.iter().find(|it| matches!(it.field, "state" | "role"));
    shown.notice = of_page.map(|it| ("bad", lang.fault(&it.fault)));
    let mut facts = vec![
        (t.state, state(visit, &user).text),
        (t.last_login, user.last_login_at.map_or_else(|| "–".to_owned(), |at| visit.time(at))),
    ];
    facts.extend(user.link_until.map(|at| (a.link_until, visit.time(at))));
    let is_active = user.state == "active";
    let remove = |app: &str| cell(a.remove).post(format!("{path}/roles/remove"), "app", app);
    let rows = user
        .roles
        .iter()
        .map(|(app, role)| vec![cell(app).tag("mono"), cell(role_text(lang, *role)), remove(app)]);
    let inputs = vec![
        Field::text("app", t.role_app, "", visit.field("app")).required().mono(),
        Field::text("role", t.role, "", visit.field("role")).of(&role_options(lang)),
    ];
    let inputs = inputs.into_iter().map(|it| it.faulted(lang, faults)).collect();
    let grant = Form {
        action: format!("{path}/roles"),
        inputs,
        button: a.grant,
        class: "primary",
        ..Form::default()
    };
    let reset = Form { action: format!("{path}/link"), button: a.reset, ..Form::default() };
    let (button, value, about) = if is_active {
        (t.disable, "disabled", a.disable_about)
    } else {
        (t.enable, "active", a.enable_about)
    };
    let switch = Form {
        action: format!("{path}/state"),
        hidden: vec![("state", value.to_owned())],
        button,
        class: if is_active { "danger" } else { "primary" },
        ..Form::default()
    };
    shown.sections = vec![
        Section { title: a.details, facts, ..Section::default() },
        Section {
            title: t.roles,
            head: vec![(t.app, false), (t.role, false), ("", false)],
            rows: rows.collect(),
            empty: (a.no_roles, a.no_roles_text),
            ..Section::default()
        },
        Section { title: a.grant, about: a.roles_about, forms: vec![grant], ..Section::default() },
        Section { title: a.reset, about: a.reset_about, forms: vec![reset], ..Section::default() },
        Section { title: button, about, forms: vec![switch], ..Section::default() },
    ];
    page(status, &shown)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(1);
    let is_active = match visit.field("state") {
        "active" => true,
        "disabled" => false,
        _ => return Err(Failure::Bad("unknown state".to_owned())),
    };
    let changed =
        console.control.commit_as(&claim, move |tx, actor| users::set_active(tx, actor, &name, is_active));
    answered(console, visit, changed.await).await
}

pub(super) async fn grant(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(1);
    let app = visit.field("app").to_owned();
    let Ok(role) = visit.field("role").parse::<Role>() else {
        return Err(Failure::Bad("unknown role".to_owned()));
    };
    let changed = console
        .control
        .commit_as(&claim, move |tx, actor| users::set_role(tx, actor, &name, &app, Some(role)));
    answered(console, visit, changed.await).await
}

pub(super) async fn remove_role(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(1);
    let app = visit.field("app").to_owned();
    let changed =
        console.control.commit_as(&claim, move |tx, actor| users::set_role(tx, actor, &name, &app, None));
    answered(console, visit, changed.await).await
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let made = console.control.reset_password(&visit.claim()?, &visit.segment(1), None).await?;
    show_one(console, visit, StatusCode::CREATED, &[], Some(made)).await
}

async fn answered(
    console: &Console,
    visit: &Visit,
    changed: Result<(), ControlError>,
) -> Result<Reply, Failure> {
    match changed {
        Ok(()) => Ok(redirect(&href(&visit.segment(1)))),
        Err(ControlError::Invalid(faults)) => {
            show_one(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &faults, None).await
        }
        Err(error) => Err(error.into()),
    }
}
