//! The settings of an app: what it is for, its approvals, and whether it is in force.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::apps::{self, App};
use tollgate_control::rollout::PlanInput;
use tollgate_control::{FieldFault, Role};
use tollgate_http_kit::Reply;

use super::confirm::ConfirmPage;
use super::hrefs::settings_href;
use super::rollouts::plan_fields;
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::changes::Texts;
use crate::texts::grouped;
use crate::web::{Failure, Outcome, Visit, encoded, query_of, redirect};

#[derive(Template)]
#[template(path = "app_settings.html")]
struct SettingsPage {
    f: Frame,
    c: &'static Texts,
    app: String,
    versions_href: String,
    action: String,
    export_href: String,
    notice: Option<(&'static str, String)>,
    etag: i64,
    inputs: Vec<Field>,
    may_edit: bool,
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let app = read(console, visit).await?;
    let notice = (visit.parameter("done") == "1").then(|| ("ok", Texts::of(visit.lang).saved.to_owned()));
    form(visit, StatusCode::OK, &app, &input_of(&app), &[], notice)
}

async fn read(console: &Console, visit: &Visit) -> Result<App, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(1);
    Ok(console.control.read_as(&claim, move |tx, actor| apps::get(tx, actor, Role::Viewer, &name)).await?)
}

fn input_of(app: &App) -> (AppInput, PlanInput) {
    let App { description, state, approvals, rollout, .. } = app.clone();
    let plan = rollout.to_input();
    (AppInput { description, state, approvals: approvals.to_string(), rollout: None }, plan)
}

pub(super) async fn save(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let name = visit.segment(1);
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let field = |name: &str| visit.field(name).to_owned();
    let plan =
        PlanInput { steps: field("steps"), soak_s: field("soak_s"), auto_rollback: field("auto_rollback") };
    let description = field("description");
    let state = field("state");
    let approvals = field("approvals");
    let input = AppInput { description, state, approvals, rollout: None };
    // An older form has no plan: the app keeps its own.
    let sent = visit.sent_field("steps").map(|_| plan.check()).transpose();
    let before = read(console, visit).await?;
    if (&*before.state, &*input.state) == ("active", "disabled") && visit.field("confirmed") != "yes" {
        return ask_disable(visit, &before);
    }
    let asked = input.clone();
    let changed = match sent {
        Ok(rollout) => {
            let asked = AppInput { rollout, ..asked };
            console.commit(visit, move |tx, actor| app_settings::update(tx, actor, &name, etag, &asked)).await
        }
        Err(error) => Err(error.into()),
    };
    let input = (input, plan);
    match Outcome::of(changed)? {
        Outcome::Done(app) => Ok(redirect(&query_of(&settings_href(&app.name), &[("done", "1")]))),
        Outcome::Invalid(faults) => {
            let mut app = read(console, visit).await?;
            app.etag = etag; // a change by others meanwhile is still found
            form(visit, StatusCode::UNPROCESSABLE_ENTITY, &app, &input, &faults, None)
        }
        Outcome::Stale => {
            let app = read(console, visit).await?;
            let notice = Some(("warn", Texts::of(visit.lang).settings_stale.to_owned()));
            form(visit, StatusCode::PRECONDITION_FAILED, &app, &input_of(&app), &[], notice)
        }
    }
}

/// Asks before an app is disabled: the page says what stops.
fn ask_disable(visit: &Visit, app: &App) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let c = Texts::of(visit.lang);
    let fields = visit.fields("").into_iter().filter(|(name, _)| *name != "etag");
    let mut hidden: Vec<(String, String)> =
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    hidden.push(("confirmed".to_owned(), "yes".to_owned()));
    let confirm = ConfirmPage {
        f: Frame::new(visit, "versions", c.disable_app),
        crumb: format!("{} / {} / {}", t.limits, app.name, c.settings),
        fault: None,
        action: settings_href(&app.name),
        question: c.disable_question,
        facts: vec![(t.app, app.name.clone()), (t.rules_count, grouped(app.rules))],
        consequence: c.disable_consequence,
        etag: visit.field("etag").parse().map_err(|_| Failure::NoMatch)?,
        second: None,
        picks: Vec::new(),
        picks_title: String::new(),
        asks_reason: false,
        hidden,
        button: c.disable_app,
        back: settings_href(&app.name),
    };
    page(StatusCode::OK, &confirm)
}

fn form(
    visit: &Visit,
    status: StatusCode,
    app: &App,
    (input, plan): &(AppInput, PlanInput),
    faults: &[FieldFault],
    notice: Option<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let c = Texts::of(visit.lang);
    let numbers = [("0", "0"), ("1", "1"), ("2", "2")];
    let states = [("active", t.active), ("disabled", t.disabled)];
    let mut inputs = vec![
        Field::text("description", t.description, t.description_hint, &input.description),
        Field::text("approvals", c.approvals, c.approvals_hint, &input.approvals).of(&numbers),
        Field::text("state", c.app_state, c.app_state_hint, &input.state).of(&states),
    ];
    let value = |name: &str| match name {
        "steps" => plan.steps.clone(),
        "soak_s" => plan.soak_s.clone(),
        _ => plan.auto_rollback.clone(),
    };
    inputs.extend(plan_fields(visit.lang, faults, value));
    let settings = SettingsPage {
        f: Frame::new(visit, "versions", format!("{} · {}", app.name, c.settings)),
        c,
        versions_href: format!("/apps/{}/versions", encoded(&app.name)),
        action: settings_href(&app.name),
        export_href: query_of("/api/v1/export", &[("app", &app.name)]),
        notice,
        etag: app.etag,
        inputs: inputs.into_iter().map(|it| it.faulted(visit.lang, faults)).collect(),
        may_edit: visit.who()?.may(Role::Admin, &app.name),
        app: app.name.clone(),
    };
    page(status, &settings)
}
