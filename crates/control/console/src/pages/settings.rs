//! The settings that are changed while the program runs, for admins of every app.

use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::settings::{self, Bounds, NUMBERS, Settings};
use tollgate_control::{ControlError, Fault, FieldFault, Role};
use tollgate_http_kit::Reply;

use super::sections::{Form, Section, SectionsPage};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::access;
use crate::web::{Failure, Outcome, Visit, redirect};

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let a = access::Texts::of(visit.lang);
    let notice = (visit.parameter("done") == "saved").then(|| ("ok", a.saved.to_owned()));
    render(console, visit, StatusCode::OK, &[], notice, None).await
}

async fn render(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    faults: &[FieldFault],
    notice: Option<(&'static str, String)>,
    etag: Option<i64>,
) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let a = access::Texts::of(visit.lang);
    let lang = visit.lang;
    let claim = visit.claim()?;
    let read = console.control.read_as(&claim, |tx, actor| {
        actor.must(Role::Admin, EVERY_APP)?;
        settings::get(tx)
    });
    let (now, current) = read.await?;
    let kept = |name: &str, now: String| {
        if visit.sent_field(name).is_some() { visit.field(name).to_owned() } else { now }
    };
    let number = |name, label, hint| {
        Field::text(name, label, hint, &kept(name, now.number(name).to_string())).required().number()
    };
    let languages = [("", a.language_auto), ("zh", "中文"), ("en", "English")];
    let language = kept("language", now.language.clone());
    let inputs = vec![
        Field::text("language", a.set_language, a.set_language_hint, &language).of(&languages),
        number("approvals", a.set_approvals, a.set_approvals_hint),
        number("login_idle_minutes", a.set_idle, a.set_idle_hint),
        number("login_days", a.set_days, a.set_days_hint),
        number("token_days", a.set_token, a.set_token_hint),
    ];
    let form = Form {
        action: "/settings".to_owned(),
        hidden: vec![("etag", etag.unwrap_or(current).to_string())],
        inputs: inputs.into_iter().map(|it| it.faulted(lang, faults)).collect(),
        button: t.save,
        class: "primary",
    };
    let f = Frame::new(visit, "settings", a.settings);
    let mut shown = SectionsPage::new(f, format!("{} / {}", t.system, a.settings));
    shown.notice = notice;
    shown.sections = vec![Section { about: a.settings_about, forms: vec![form], ..Section::default() }];
    page(status, &shown)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    console.must(visit, Role::Admin, EVERY_APP).await?; // before the faults of what was entered
    let etag: i64 = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let mut faults = Vec::new();
    let mut number = |name: &'static str| {
        let text = visit.field(name).trim();
        let is_digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let read = is_digits.then(|| text.parse().ok()).flatten();
        read.unwrap_or_else(|| {
            let Bounds { min, max, .. } =
                NUMBERS.into_iter().find(|it| it.name == name).unwrap_or(NUMBERS[0]);
            faults.push(FieldFault { field: name, fault: Fault::Whole { min, max } });
            min
        })
    };
    let new = Settings {
        language: visit.field("language").to_owned(),
        login_idle_minutes: number("login_idle_minutes"),
        login_days: number("login_days"),
        token_days: number("token_days"),
        approvals: number("approvals"),
    };
    let changed = if faults.is_empty() {
        console.control.change_settings(&claim, etag, new).await
    } else {
        Err(ControlError::Invalid(faults))
    };
    match Outcome::of(changed)? {
        Outcome::Done(_) => Ok(redirect("/settings?done=saved")),
        Outcome::Invalid(faults) => {
            render(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &faults, None, Some(etag)).await
        }
        Outcome::Stale => {
            let notice = Some(("warn", access::Texts::of(visit.lang).settings_stale.to_owned()));
            render(console, visit, StatusCode::PRECONDITION_FAILED, &[], notice, None).await
        }
    }
}
