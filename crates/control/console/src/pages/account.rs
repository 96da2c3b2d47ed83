//! The account of a user: preferences, password, logins.

use hyper::StatusCode;
use tollgate_control::{ControlError, FieldFault, Preferences, me};
use tollgate_http_kit::Reply;

use super::access::{held_by, tokens_field};
use super::sections::{Form, Section, SectionsPage};
use super::table::cell;
use super::users::roles_text;
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::access;
use crate::web::{Failure, Visit, redirect, zone_of};

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let a = access::Texts::of(visit.lang);
    let notice = match visit.parameter("done") {
        "saved" => Some(("ok", a.saved.to_owned())),
        "password" => Some(("ok", a.password_changed.to_owned())),
        _ => None,
    };
    render(console, visit, StatusCode::OK, &[], notice).await
}

async fn render(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    faults: &[FieldFault],
    notice: Option<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let lang = visit.lang;
    let a = access::Texts::of(visit.lang);
    let who = visit.who()?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    let read = console
        .control
        .read_as(&claim, move |tx, actor| Ok((me::get(tx, actor)?, me::logins(tx, actor, &cookie)?)));
    let (me, logins) = read.await?;
    let mut shown = SectionsPage::new(Frame::new(visit, "me", a.me), format!("{} / {}", a.user, who.name));
    shown.notice = notice;
    let kept = |name: &str, now: &str| {
        if visit.sent_field(name).is_some() { visit.field(name).to_owned() } else { now.to_owned() }
    };
    let languages = [("", a.language_auto), ("zh", "中文"), ("en", "English")];
    let themes = [("", t.theme_auto), ("light", t.theme_light), ("dark", t.theme_dark)];
    let Preferences { locale, theme, zone } = &me.preferences;
    let preferences = vec![
        Field::text("locale", a.language, "", &kept("locale", locale)).of(&languages),
        Field::text("theme", t.theme, "", &kept("theme", theme)).of(&themes),
        Field::text("zone", a.zone, a.zone_hint, &kept("zone", zone)),
    ];
    let password = vec![
        Field::text("current", a.current_password, "", "").required().secret("current-password"),
        Field::text("password", a.new_password, t.password_hint, "").required().secret("new-password"),
        Field::text("again", t.password_again, "", "").required().secret("new-password"),
        tokens_field(visit),
    ];
    let faulted = |fields: Vec<Field>| fields.into_iter().map(|it| it.faulted(lang, faults)).collect();
    let form = |action: &str, inputs, button| Form {
        action: action.to_owned(),
        inputs: faulted(inputs),
        button,
        class: "primary",
        ..Form::default()
    };
    let rows = logins.iter().map(|it| {
        vec![
            cell(visit.time(it.created_at)).class("time"),
            cell(visit.time(it.last_seen)).class("time"),
            cell(&it.ip).class("time"),
            cell(&it.agent).class("text mono"),
            if it.is_this {
                cell(a.this_login).tag("tag on")
            } else {
                cell(a.end).post(format!("/me/logins/{}/end", it.id), "id", &*it.id)
            },
        ]
    });
    shown.sections = vec![
        Section {
            facts: vec![(t.user_name, me.name.clone()), (t.roles, roles_text(lang, &who.roles))],
            ..Section::default()
        },
        Section { title: a.preferences, forms: vec![form("/me", preferences, t.save)], ..Section::default() },
        Section {
            title: a.change_password,
            about: a.change_password_about,
            forms: vec![form("/me/password", password, a.change_password)],
            ..Section::default()
        },
        Section {
            title: a.logins,
            about: a.logins_about,
            head: vec![
                (a.login_begun, false),
                (a.login_seen, false),
                (t.from, false),
                (a.device, false),
                ("", false),
            ],
            rows: rows.collect(),
            ..Section::default()
        },
    ];
    page(status, &shown)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let field = |name| visit.field(name).to_owned();
    let new = Preferences { locale: field("locale"), theme: field("theme"), zone: field("zone") };
    let changed = console.control.commit_as(&claim, move |tx, actor| {
        me::prefer(tx, actor, None, &new, |name| zone_of(name).is_some())
    });
    answered(console, visit, changed.await.map(drop), "/me?done=saved").await
}

pub(super) async fn change_password(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    let field = |name| visit.field(name);
    let current = field("current");
    let password = field("password");
    let again = field("again");
    let held = held_by(visit);
    let changed = console.control.change_password(&claim, &cookie, current, password, again, held).await;
    answered(console, visit, changed, "/me?done=password").await
}

pub(super) async fn end_login(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(2);
    console.control.commit_as(&claim, move |tx, actor| me::end_login(tx, actor, &id)).await?;
    Ok(redirect("/me?done=saved"))
}

async fn answered(
    console: &Console,
    visit: &Visit,
    changed: Result<(), ControlError>,
    done: &str,
) -> Result<Reply, Failure> {
    match changed {
        Ok(()) => Ok(redirect(done)),
        Err(ControlError::Invalid(faults)) => {
            render(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &faults, None).await
        }
        Err(error) => Err(error.into()),
    }
}
