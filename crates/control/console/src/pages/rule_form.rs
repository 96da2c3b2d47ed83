//! The form of a rule: new, or one that is there.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::diff::by_field;
use tollgate_control::history::{self, History, HistoryQuery, Scope, Suggestion};
use tollgate_control::rules::{Past, Rule};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::trials::{self, Compared};
use tollgate_control::{
    ControlError, Document, Fault, FieldFault, ModelError, NodeState, Role, RuleKind, apps, compile, rules,
};
use tollgate_http_kit::Reply;

use super::change_forms::{after, intent_of};
use super::diffs::edited;
use super::hrefs::{change_href, rule_href};
use super::parts::{Button, Edit, chart_words};
use super::rule_trial::{Entered, TrialView};
use crate::chart::{Chart, per_second};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, live, page};
use crate::texts::changes::Texts;
use crate::web::{Failure, Outcome, Visit, encoded, query_of, redirect};

#[derive(Template)]
#[template(path = "rule_form.html")]
struct FormPage {
    f: Frame,
    c: &'static Texts,
    crumb: String,
    live: Option<(&'static str, String)>,
    delete_href: Option<String>,
    notice: Option<(&'static str, String)>,
    action: String,
    etag: Option<i64>,
    main: Vec<Field>,
    numbers: Vec<Field>,
    preset: String,
    rest: Vec<Field>,
    is_more_open: bool,
    more: Vec<Field>,
    extras: Field,
    /// Whether they are accepted, and what is wrong with that; only for a new rule.
    terms: Option<(bool, Option<String>)>,
    may_edit: bool,
    button: &'static str,
    yaml: Option<String>,
    changed: String,
    versions_href: String,
    /// Where the rule is, for what is done with it besides the form; empty for a new one.
    href: String,
    states: Vec<Button>,
    past: Vec<PastView>,
    apps: Vec<String>,
    /// The state of a rule that is there: class and text.
    state: (String, &'static str),
    /// Its latest decisions, if there are any.
    chart: Option<Chart>,
    /// Numbers that are tried, or could be; not of a new rule.
    trial: Option<TrialView>,
    as_table: &'static str,
    /// Whether a part of it changes with reports.
    is_live: bool,
    /// The events that the page has seen.
    after: String,
}

/// A version of the rule: who, when, and what differs from the one before.
struct PastView {
    version: i64,
    href: String,
    author: String,
    at: String,
    ms: i64,
    fields: Vec<Edit>,
}

pub(super) async fn new(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    // An example names the values of fields in its link.
    let field = |name: &str, default: &str| match visit.parameter(name) {
        "" => default.to_owned(),
        value => value.to_owned(),
    };
    let input = TableRuleInput {
        key: field("key", ""),
        max_permits: field("max_permits", "100"),
        rate: field("rate", "1"),
        pre_permits: field("pre_permits", ""),
        post_paid: field("post_paid", ""),
        per: field("per", ""),
        ..TableRuleInput::default()
    };
    show_new(console, visit, StatusCode::OK, visit.parameter("app"), &input, &[]).await
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let mut input = input_of(visit);
    let app = visit.field("app").to_owned();
    if visit.field("action") == "preset" {
        // Without JavaScript the server fills in both fields.
        let number = visit.field("preset").trim().to_owned();
        (input.rate, input.max_permits) = (number.clone(), number);
        return show_new(console, visit, StatusCode::OK, &app, &input, &[]).await;
    }
    if visit.field("action") == "queue" {
        let fields =
            [("app", &app), ("key", &input.key), ("rate", &input.rate), ("max_permits", &input.max_permits)];
        let mut parameters = vec![("example", "queue")];
        parameters.extend(fields.map(|(name, value)| (name, value.trim())));
        return Ok(redirect(&query_of("/files/new", &parameters)));
    }
    let is_accepted = visit.field("terms") == "yes";
    let asked = input.clone();
    let asked_app = app.clone();
    let created = if is_accepted {
        let intent = intent_of(visit);
        console
            .commit(visit, move |tx, actor| rules::propose_create(tx, actor, &asked_app, &asked, intent))
            .await
    } else {
        // Everything else that is wrong is shown at the same time.
        let mut faults = vec![FieldFault { field: "terms", fault: Fault::NotAccepted }];
        if let Err(fault) = tollgate_control::fields::app_name(&app) {
            faults.push(FieldFault { field: "app", fault });
        }
        if let Err(ModelError::Invalid(more)) = input.check() {
            faults.extend(more);
        }
        Err(ControlError::Invalid(faults))
    };
    match created {
        Ok(done) => Ok(after(&done, "/rules")),
        Err(ControlError::Invalid(faults)) => {
            show_new(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &app, &input, &faults).await
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn edit(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let read = read_page(console, visit).await?;
    let mut input = read.rule.row.to_input();
    // Numbers of a link, such as a suggestion, are filled in and not saved.
    for (field, name) in [(&mut input.rate, "rate"), (&mut input.max_permits, "max_permits")] {
        if !visit.parameter(name).is_empty() {
            visit.parameter(name).clone_into(field);
        }
    }
    show(console, visit, StatusCode::OK, &read, &Filled::of(&input))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let mut input = input_of(visit);
    input.key = visit.segment(3);
    if visit.field("action") == "preset" {
        let read = read_page(console, visit).await?;
        let number = visit.field("preset").trim().to_owned();
        (input.rate, input.max_permits) = (number.clone(), number);
        return show(console, visit, StatusCode::OK, &read, &Filled::of(&input));
    }
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let app = visit.segment(1);
    let asked = input.clone();
    let intent = intent_of(visit);
    let changed =
        console.commit(visit, move |tx, actor| rules::propose_update(tx, actor, &app, etag, &asked, intent));
    match Outcome::of(changed.await)? {
        Outcome::Done(Some(done)) => Ok(after(&done, "/rules")),
        Outcome::Done(None) => Ok(redirect(&rule_href(&visit.segment(1), &input.key))),
        Outcome::Invalid(faults) => {
            let mut read = read_page(console, visit).await?;
            read.rule.etag = etag; // a change by others meanwhile is still found
            let filled = Filled { faults: &faults, ..Filled::of(&input) };
            show(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &read, &filled)
        }
        Outcome::Stale => {
            let read = read_page(console, visit).await?;
            let now = format!("{} {}", visit.lang.texts().stale, in_words(visit, &read.rule));
            let filled = Filled { notice: Some(("warn", now)), ..Filled::of(&input) };
            show(console, visit, StatusCode::PRECONDITION_FAILED, &read, &filled)
        }
    }
}

/// Everything that the page of a rule shows besides its form.
struct RuleContext {
    rule: Rule,
    now_ms: i64,
    past: Vec<Past>,
    /// Its latest decisions.
    lately: History,
    compared: Option<Compared>,
    suggestion: Option<Suggestion>,
}

async fn read_page(console: &Console, visit: &Visit) -> Result<RuleContext, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    let read = console.control.read_as(&claim, move |tx, actor| {
        let past = rules::past(tx, actor, &app, RuleKind::TableRule, &key)?;
        let rule = rules::get(tx, actor, &app, &key)?;
        // Reports of the last ten seconds are not complete.
        let to_ms = (tx.now_ms() - STEP_MS).div_euclid(STEP_MS) * STEP_MS;
        let scope = Scope::Rule(app.clone(), format!("key={key}"));
        let query = HistoryQuery { scope, from_ms: to_ms - LATELY_MS, to_ms, step_ms: STEP_MS };
        let lately = history::history(tx, actor, &query)?;
        let compared = trials::compared(tx, actor, &app, &key)?;
        let suggestion = match &compared {
            Some(_) => None,
            None => history::suggestion(tx, actor, &app, &key)?,
        };
        Ok(RuleContext { rule, now_ms: tx.now_ms(), past, lately, compared, suggestion })
    });
    Ok(read.await?)
}

/// The input of the forms, with its faults.
struct Filled<'a> {
    input: &'a TableRuleInput,
    faults: &'a [FieldFault],
    notice: Option<(&'static str, String)>,
    trial: Option<&'a Entered>,
}

impl<'a> Filled<'a> {
    const fn of(input: &'a TableRuleInput) -> Self {
        Self { input, faults: &[], notice: None, trial: None }
    }
}

/// The page again, with the faults in the numbers of a trial.
pub(super) async fn show_entered(
    console: &Console,
    visit: &Visit,
    trial: &Entered,
) -> Result<Reply, Failure> {
    let read = read_page(console, visit).await?;
    let input = read.rule.row.to_input();
    let filled = Filled { trial: Some(trial), ..Filled::of(&input) };
    show(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &read, &filled)
}

/// The span and the step of the small chart.
const LATELY_MS: i64 = 900_000;
const STEP_MS: i64 = 10_000;

/// The states that it is not in, as buttons.
fn states(c: &Texts, now: &str) -> Vec<Button> {
    let all = [("on", c.switch_on), ("shadow", c.try_shadow), ("off", c.switch_off)];
    let others = all.into_iter().filter(|(value, _)| *value != now);
    others.map(|(value, text)| Button { value, class: "btn", text }).collect()
}

/// At most this many versions are shown.
const MAX_PAST: usize = 10;

fn past_views(visit: &Visit, app: &str, past: &[Past]) -> Vec<PastView> {
    let view = |(index, it): (usize, &Past)| {
        let before = past.get(index + 1).map(|it| &it.content);
        let is_first = before.is_none();
        let fields = by_field(before, Some(&it.content)).into_iter().filter(|_| !is_first);
        let versions = format!("/apps/{}/versions/{}/diff", encoded(app), it.version);
        PastView {
            version: it.version,
            href: it.change_id.as_deref().map_or(versions, change_href),
            author: it.author.clone(),
            at: visit.time(it.at),
            ms: it.at,
            fields: fields.map(|it| edited(visit.lang, it)).collect(),
        }
    };
    past.iter().enumerate().take(MAX_PAST).map(view).collect()
}

/// The numbers that people compare.
fn in_words(visit: &Visit, rule: &Rule) -> String {
    let t = visit.lang.texts();
    let row = &rule.row;
    let changed = visit.lang.changed(&rule.updated_by, &visit.time(rule.updated_at));
    let state = super::rules::state_text(visit.lang, &row.state);
    let numbers = format!("{} {} · {} {}", t.max_permits, row.max_permits, t.rate, row.rate);
    let parts = [&*numbers, state, &row.description, &changed];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

fn input_of(visit: &Visit) -> TableRuleInput {
    let field = |name: &str| visit.field(name).to_owned();
    TableRuleInput {
        key: field("key"),
        rate: field("rate"),
        max_permits: field("max_permits"),
        need_permits: field("need_permits"),
        pre_permits: field("pre_permits"),
        post_paid: field("post_paid"),
        g: field("g"),
        u: field("u"),
        extras: field("extras"),
        description: field("description"),
        per: field("per"),
        bucket: field("bucket"),
        sharing: field("sharing"),
        on_store_failure: field("on_store_failure"),
        state: field("state"),
        trial_rate: field("trial_rate"),
        trial_max_permits: field("trial_max_permits"),
    }
}

async fn show_new(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    app: &str,
    input: &TableRuleInput,
    faults: &[FieldFault],
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let asked = app.to_owned();
    let read = console.control.read_as(&claim, move |tx, actor| {
        if !rules::may_create(actor) {
            return Err(ControlError::NoRight { need: Role::Editor, app: asked.clone() });
        }
        apps::names(tx, actor)
    });
    let apps = read.await?;
    let t = visit.lang.texts();
    let mut form = form_of(visit, Frame::new(visit, "new", t.create), app, input, faults, false);
    form.crumb = format!("{} / {}", t.limits_short, t.create);
    form.action = "/rules/new".to_owned();
    form.button = t.submit;
    form.apps = apps.into_iter().map(|(name, _)| name).collect();
    let fault = faults.iter().find(|it| it.field == "terms").map(|it| visit.lang.fault(&it.fault));
    form.terms = Some((visit.field("terms") == "yes", fault));
    page(status, &form)
}

fn show(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    read: &RuleContext,
    filled: &Filled<'_>,
) -> Result<Reply, Failure> {
    let RuleContext { rule, lately, .. } = read;
    let t = visit.lang.texts();
    let may_edit = visit.who()?.may(Role::Editor, &rule.app);
    let title = format!("{} / {}", rule.app, rule.row.key);
    let mut form =
        form_of(visit, Frame::new(visit, "rules", title), &rule.app, filled.input, filled.faults, true);
    let href = rule_href(&rule.app, &rule.row.key);
    let has = |node: &NodeState| node.has(&rule.app, rule.version.unsigned_abs());
    form.live = Some(match rule.is_app_disabled {
        true => ("warn", t.app_disabled.to_owned()),
        false => live(visit.lang, &console.control.nodes().nodes_of(&rule.app), read.now_ms, has),
    });
    form.crumb = format!("{} / {}", t.limits, t.edit_rule);
    form.delete_href = may_edit.then(|| format!("{href}/delete"));
    form.action.clone_from(&href);
    form.href = href;
    form.states = states(form.c, &rule.row.state);
    form.state = match rule.is_app_disabled {
        true => ("off".to_owned(), t.app_disabled),
        false => (rule.row.state.clone(), super::rules::state_text(visit.lang, &rule.row.state)),
    };
    // The chart of a trial has its place.
    if read.compared.is_none() && lately.sum().offered() > 0 {
        let clock = |at| visit.time_as(at, "%H:%M:%S");
        form.chart = Some(per_second(lately, &chart_words(visit.lang), t.lately.to_owned(), clock));
    }
    let events = &console.control.live().events;
    form.after = events.id(&events.watch().borrow());
    form.past = past_views(visit, &rule.app, &read.past);
    form.etag = Some(rule.etag);
    form.button = t.save;
    form.may_edit = may_edit;
    form.notice.clone_from(&filled.notice);
    let compared = read.compared.as_ref();
    let suggestion = read.suggestion.as_ref();
    form.is_live = form.chart.is_some() || compared.is_some();
    form.trial = Some(TrialView::new(visit, &rule.row, compared, suggestion, filled.trial));
    let documents = compile::documents(&rule.app, std::slice::from_ref(&rule.row))?;
    form.yaml = Some(documents.into_iter().map(Document::into_yaml).collect());
    form.changed = visit.lang.changed(&rule.updated_by, &visit.time(rule.updated_at));
    form.versions_href = format!("/apps/{}/versions", encoded(&rule.app));
    page(status, &form)
}

/// The fields with their values and faults.
fn form_of(
    visit: &Visit,
    f: Frame,
    app: &str,
    input: &TableRuleInput,
    faults: &[FieldFault],
    is_there: bool,
) -> FormPage {
    let t = visit.lang.texts();
    let or = |value: &str, default: &str| if value.is_empty() { default } else { value }.to_owned();
    let faulted = |fields: Vec<Field>| -> Vec<Field> {
        fields.into_iter().map(|it| it.faulted(visit.lang, faults)).collect()
    };
    let main = vec![
        Field::text("app", t.app, t.app_hint, app).required().mono().listed("apps").fixed(is_there),
        Field::text("key", t.key, t.key_hint, &input.key).required().mono().fixed(is_there),
    ];
    let numbers = vec![
        Field::text("max_permits", t.max_permits, t.burst_hint, &input.max_permits).required().number(),
        Field::text("rate", t.rate, t.rate_hint, &input.rate).required().number(),
    ];
    let rest = vec![Field::text("description", t.description_label, t.description_hint, &input.description)];
    let states = [("on", t.state_on), ("shadow", t.state_shadow), ("off", t.state_off)];
    let sharings = [("exact", t.sharing_exact), ("leased", t.sharing_leased), ("local", t.sharing_local)];
    let failures = [("allow", t.failure_allow), ("deny", t.failure_deny), ("local", t.failure_local)];
    let payments = [("false", t.paid_ahead), ("true", t.paid_after)];
    let more = vec![
        Field::text("state", t.state, t.state_hint, &or(&input.state, "on")).of(&states),
        Field::text("per", t.per, t.per_hint, &input.per).mono(),
        Field::text("bucket", t.bucket, t.bucket_hint, &input.bucket).mono(),
        Field::text("need_permits", t.need_permits, t.need_hint, &or(&input.need_permits, "1")).number(),
        Field::text("pre_permits", t.pre_permits, t.pre_hint, &or(&input.pre_permits, "0")).number(),
        Field::text("post_paid", t.post_paid, t.post_paid_hint, &or(&input.post_paid, "false")).of(&payments),
        Field::text("g", t.g, t.g_hint, &or(&input.g, "1")).number(),
        Field::text("u", t.u, t.g_hint, &or(&input.u, "1")).number(),
        Field::text("sharing", t.sharing, t.sharing_hint, &or(&input.sharing, "exact")).of(&sharings),
        Field::text("trial_max_permits", t.trial_burst, t.trial_burst_hint, &input.trial_max_permits)
            .number(),
        Field::text("trial_rate", t.trial_rate, t.trial_rate_hint, &input.trial_rate).number(),
        Field::text("on_store_failure", t.failure, t.failure_hint, &or(&input.on_store_failure, "allow"))
            .of(&failures),
    ];
    let extras = Field::text("extras", t.extras, t.extras_hint, &input.extras).area();
    let is_more = |it: &FieldFault| more.iter().any(|field| field.name == it.field) || it.field == "extras";
    let usual = ["", "0", "1", "on", "false", "exact", "allow"];
    let is_used = !input.extras.is_empty() || more.iter().any(|it| !usual.contains(&&*it.value));
    let is_more_open = faults.iter().any(is_more) || is_used;
    FormPage {
        crumb: String::new(),
        live: None,
        delete_href: None,
        notice: None,
        action: String::new(),
        etag: None,
        main: faulted(main),
        numbers: faulted(numbers),
        preset: visit.field("preset").to_owned(),
        rest: faulted(rest),
        is_more_open,
        more: faulted(more),
        extras: extras.faulted(visit.lang, faults),
        terms: None,
        may_edit: true,
        button: "",
        yaml: None,
        changed: String::new(),
        versions_href: String::new(),
        href: String::new(),
        states: Vec::new(),
        past: Vec::new(),
        apps: Vec::new(),
        state: (String::new(), ""),
        chart: None,
        trial: None,
        as_table: visit.lang.traffic().as_table,
        is_live: false,
        after: String::new(),
        c: Texts::of(visit.lang),
        f,
    }
}
