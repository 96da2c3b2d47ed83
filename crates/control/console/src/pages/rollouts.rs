//! Rollouts: the list, and one with its steps, gates, figures and nodes, and what an operator can do.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::rollout::{Ask, Plan, Sides, Stage, State, Tally, Verdict};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::{ControlError, FieldFault, NodeState, Observed, Role};
use tollgate_http_kit::Reply;

use super::hrefs::rollout_href;
use super::parts::{Button, Check};
use super::table::{TablePage, cell};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::overrides::left;
use crate::texts::rollouts::{Texts, count, share, stage, state, step, why};
use crate::texts::{Lang, grouped};
use crate::web::{Failure, Outcome, Visit, encoded, redirect};

/// Rollouts of the list.
const LISTED: i64 = 100;
/// Nodes of a rollout, the most urgent.
const NODES: usize = 200;

#[derive(Template)]
#[template(path = "rollout.html")]
struct RolloutPage {
    f: Frame,
    r: &'static Texts,
    app: String,
    after: String,
    state: (&'static str, &'static str),
    notice: Option<(&'static str, String)>,
    /// Class and text of why it is not going on.
    why: Option<(&'static str, String)>,
    steps: Vec<StepView>,
    gates: Vec<Check>,
    figures: Vec<Figures>,
    nodes: Vec<NodeRow>,
    /// The number of nodes in each stage.
    counts: String,
    facts: Vec<(&'static str, String)>,
    diff_href: String,
    may: bool,
    is_open: bool,
    action: String,
    etag: i64,
    reason: String,
    fault: Option<String>,
    buttons: Vec<Button>,
}

/// A step of the plan.
struct StepView {
    class: &'static str,
    name: String,
    /// Its time, or what it waits for.
    detail: String,
}

/// Decisions of one side during a step.
struct Figures {
    step: String,
    side: &'static str,
    decisions: String,
    denied: String,
    degraded: String,
}

struct NodeRow {
    href: String,
    name: String,
    class: &'static str,
    stage: &'static str,
    acked: String,
    fault: String,
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let r = Texts::of(visit.lang);
    let t = visit.lang.texts();
    let found =
        console.control.read_as(&claim, move |tx, actor| rollouts::list(tx, actor, "", LISTED)).await?;
    let mut list =
        TablePage::new(Frame::new(visit, "rollouts", r.title), format!("{} / {}", t.limits, r.title));
    list.lead = r.about;
    list.empty = (r.empty, r.empty_text, String::new());
    list.head = vec![
        (t.app, false),
        (r.version, true),
        (r.state, false),
        (r.step, false),
        (r.why, false),
        (r.author, false),
        (r.started, false),
    ];
    let mut shown = Vec::new();
    for it in &found {
        let (text, tag) = state(visit.lang, it.progress.state);
        // The page of an app shows its last one.
        let is_last = !shown.contains(&&it.app);
        shown.push(&it.app);
        let name = cell(&it.app).class("mono");
        list.rows.push(vec![
            if is_last { name.href(rollout_href(&it.app)) } else { name },
            cell(grouped(it.to_version)).class("n"),
            cell(text).tag(tag),
            cell(step_now(visit.lang, it)),
            cell(it.progress.why.as_ref().map_or_else(String::new, |it| why(visit.lang, it))).class("text"),
            cell(&it.author),
            cell(visit.time(it.created_at)).class("time").title(it.created_at.to_string()),
        ]);
    }
    page(StatusCode::OK, &list)
}

/// Such as `2 / 4 · 10 %`.
fn step_now(lang: Lang, rollout: &Rollout) -> String {
    let at = rollout.progress.step;
    let of = rollout.plan.steps.len();
    let name = rollout.plan.steps.get(at).map_or_else(String::new, |it| step(lang, it));
    format!("{} / {of} · {name}", at + 1)
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    shown(console, visit, StatusCode::OK, None, None).await
}

async fn shown(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    notice: Option<(&'static str, String)>,
    fault: Option<String>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let r = Texts::of(visit.lang);
    let read =
        console.control.read_as(&claim, move |tx, actor| Ok((rollouts::get(tx, actor, &app)?, tx.now_ms())));
    let (it, now_ms) = read.await?;
    let is_open = it.progress.state.is_open();
    let observed = if is_open { console.control.observed(&it.app) } else { None }.unwrap_or_default();
    let nodes = console.control.stages(&it, now_ms);
    let may = visit.who()?.may(Role::Approver, &it.app);
    let events = &console.control.live().events;
    let why_class = if it.progress.state == State::Halted { "warn" } else { "bad" };
    let title = format!("{} · {} {}", it.app, r.version, grouped(it.to_version));
    let shown = RolloutPage {
        f: Frame::new(visit, "rollouts", title),
        r,
        after: events.id(&events.watch().borrow()),
        state: state(visit.lang, it.progress.state),
        notice,
        why: it.progress.why.as_ref().map(|it| (why_class, why(visit.lang, it))),
        steps: steps(visit, &it, &observed, now_ms),
        gates: if is_open { gates(visit.lang, &it, &observed, &nodes, now_ms) } else { Vec::new() },
        figures: figures(visit.lang, &it, &observed),
        counts: counts(visit.lang, &nodes),
        nodes: nodes.iter().take(NODES).map(|(node, at)| node_row(visit.lang, &it.app, node, *at)).collect(),
        facts: facts(visit, &it),
        diff_href: format!("/apps/{}/versions/{}/diff", encoded(&it.app), it.to_version),
        may,
        is_open,
        action: rollout_href(&it.app),
        etag: it.etag,
        reason: if fault.is_some() { visit.field("reason").to_owned() } else { String::new() },
        fault,
        buttons: buttons(r, &it),
        app: it.app,
    };
    page(status, &shown)
}

fn steps(visit: &Visit, it: &Rollout, observed: &Observed, now_ms: i64) -> Vec<StepView> {
    let r = Texts::of(visit.lang);
    let ended = |index: usize| it.ended.iter().find(|end| end.step == index && end.begun_at.is_some());
    let one = |(index, named): (usize, _)| {
        let done = |ended_at: i64| format!("{} {}", r.done_at, visit.time_as(ended_at, "%H:%M:%S"));
        let (class, detail) = match (it.progress.state, index.cmp(&it.progress.step)) {
            (State::Done, _) | (_, std::cmp::Ordering::Less) => {
                ("done", ended(index).map_or_else(String::new, |end| done(end.ended_at)))
            }
            (_, std::cmp::Ordering::Greater) => ("", r.waits.to_owned()),
            (State::Withdrawn, _) => ("bad", r.withdrawn.to_owned()),
            (State::Halted, _) => ("bad", r.halted.to_owned()),
            (State::Paused, _) => ("now", r.paused.to_owned()),
            (State::Running, _) if it.progress.step_at.is_none() => ("now", r.waits_for_nodes.to_owned()),
            (State::Running, _) if waits_for_reports(observed, now_ms) => {
                ("now", r.waits_for_reports.to_owned())
            }
            (State::Running, _) => {
                let left_ms = observed.soaked_at.map_or(0, |at| at - now_ms);
                ("now", left(visit.lang, left_ms))
            }
        };
        StepView { class, name: step(visit.lang, named), detail }
    };
    it.plan.steps.iter().enumerate().map(one).collect()
}

/// The soak time is over, and reports about its last seconds are on their way.
fn waits_for_reports(observed: &Observed, now_ms: i64) -> bool {
    observed.unreported > 0 && observed.soaked_at.is_some_and(|at| now_ms >= at)
}

fn gates(
    lang: Lang,
    it: &Rollout,
    observed: &Observed,
    nodes: &[(NodeState, Stage)],
    now_ms: i64,
) -> Vec<Check> {
    let r = Texts::of(lang);
    let count_of = |stage: Stage| nodes.iter().filter(|(_, at)| *at == stage).count();
    let have = count_of(Stage::Candidate);
    let waiting = count_of(Stage::Waiting);
    let rejected = count_of(Stage::Rejected);
    let Sides { chosen, others } = &observed.sides;
    let verdict = observed.sides.verdict();
    let compared = |name, of: fn(&Tally) -> Option<u64>, bad: Verdict, is_judged: bool| match verdict {
        Verdict::TooFew => Check { class: "", name, outcome: r.too_few.to_owned() },
        _ => {
            let class = if verdict == bad {
                "bad"
            } else if is_judged {
                "ok"
            } else {
                ""
            };
            Check { class, name, outcome: format!("{} / {}", share(of(chosen)), share(of(others))) }
        }
    };
    let denies_more = verdict == Verdict::DeniesMore;
    let denied = compared(r.gate_denied, Tally::denied_share, Verdict::DeniesMore, true);
    let degraded = compared(r.gate_degraded, Tally::degraded_share, Verdict::DegradesMore, !denies_more);
    let left_ms = observed.soaked_at.map(|at| at - now_ms);
    let (soaked, outcome) = match left_ms.filter(|_| it.progress.state == State::Running) {
        Some(ms) if ms > 0 => ("", left(lang, ms)),
        Some(_) if waits_for_reports(observed, now_ms) => ("", r.waits_for_reports.to_owned()),
        Some(_) => ("ok", left(lang, it.plan.soak_s * 1_000)),
        None => ("", left(lang, it.plan.soak_s * 1_000)),
    };
    let acknowledged = match (have, waiting) {
        (0, 0) => "",
        (_, 0) => "ok",
        _ => "warn",
    };
    let of_all = format!("{have} / {}", have + waiting);
    let accepted = if rejected == 0 { "ok" } else { "bad" };
    vec![
        Check { class: acknowledged, name: r.gate_acknowledged, outcome: of_all },
        Check { class: accepted, name: r.gate_accepted, outcome: rejected.to_string() },
        denied,
        degraded,
        Check { class: soaked, name: r.gate_soaked, outcome },
    ]
}

fn figures(lang: Lang, it: &Rollout, observed: &Observed) -> Vec<Figures> {
    let r = Texts::of(lang);
    let both = |step: &str, sides: &Sides| {
        [(r.chosen, sides.chosen), (r.others, sides.others)].map(|(side, tally)| Figures {
            step: step.to_owned(),
            side,
            decisions: count(tally.decisions),
            denied: share(tally.denied_share()),
            degraded: share(tally.degraded_share()),
        })
    };
    let mut all = Vec::new();
    if it.progress.state.is_open() {
        all.extend(both(r.this_step, &observed.sides));
    }
    for end in it.ended.iter().rev().filter(|end| end.begun_at.is_some()) {
        let name = it.plan.steps.get(end.step).map_or_else(String::new, |it| step(lang, it));
        all.extend(both(&name, &end.sides));
    }
    all
}

/// The number of nodes in each stage, such as `waiting 2 · new version 100`, and of those not listed.
fn counts(lang: Lang, nodes: &[(NodeState, Stage)]) -> String {
    let count_of = |at: Stage| nodes.iter().filter(|(_, it)| *it == at).count();
    let counted = Stage::ALL.into_iter().map(|at| (stage(lang, at).0, count_of(at)));
    let mut parts: Vec<_> = counted.filter(|it| it.1 > 0).map(|(name, n)| format!("{name} {n}")).collect();
    if nodes.len() > NODES {
        parts.push(Texts::of(lang).first_nodes.replace("{}", &NODES.to_string()));
    }
    parts.join(" · ")
}

fn node_row(lang: Lang, app: &str, node: &NodeState, at: Stage) -> NodeRow {
    let (text, class) = stage(lang, at);
    let held = node.apps.iter().find(|it| it.app == app);
    NodeRow {
        href: format!("/nodes/{}", encoded(&node.id)),
        name: if node.name.is_empty() { node.id.clone() } else { node.name.clone() },
        class,
        stage: text,
        acked: held.map_or_else(|| "–".to_owned(), |it| it.acked.to_string()),
        fault: held.and_then(|it| it.fault.clone()).unwrap_or_default(),
    }
}

fn facts(visit: &Visit, it: &Rollout) -> Vec<(&'static str, String)> {
    let r = Texts::of(visit.lang);
    let mut facts = vec![
        (r.from_version, grouped(it.from_version)),
        (r.to_version, grouped(it.to_version)),
        (r.plan, plan_text(visit.lang, &it.plan)),
        (r.soak, left(visit.lang, it.plan.soak_s * 1_000)),
        (r.on_failure, if it.plan.auto_rollback { r.auto } else { r.manual }.to_owned()),
        (r.author, it.author.clone()),
        (r.started, visit.time(it.created_at)),
    ];
    if let Some(version) = it.withdrawn_version {
        facts.insert(2, (r.outcome_version, grouped(version)));
    }
    facts
}

/// A plan in one line.
pub(super) fn plan_text(lang: Lang, plan: &Plan) -> String {
    if plan.is_at_once() {
        return Texts::of(lang).at_once.to_owned();
    }
    let steps: Vec<String> = plan.steps.iter().map(|it| step(lang, it)).collect();
    steps.join(" → ")
}

/// The inputs of a plan.
pub(super) fn plan_fields(lang: Lang, faults: &[FieldFault], value: impl Fn(&str) -> String) -> Vec<Field> {
    let r = Texts::of(lang);
    let answers = [("yes", r.auto), ("no", r.manual)];
    let inputs = vec![
        Field::text("steps", r.steps, r.steps_hint, &value("steps")).area(),
        Field::text("soak_s", r.soak_s, r.soak_hint, &value("soak_s")).number(),
        Field::text("auto_rollback", r.on_failure, "", &value("auto_rollback")).of(&answers),
    ];
    inputs.into_iter().map(|it| it.faulted(lang, faults)).collect()
}

fn buttons(r: &Texts, it: &Rollout) -> Vec<Button> {
    let is_last = it.progress.step + 1 >= it.plan.steps.len();
    let text = if is_last { r.finish } else { r.advance };
    let first = match it.progress.state {
        State::Running => Button { value: "pause", class: "btn", text: r.pause },
        State::Paused | State::Halted => Button { value: "resume", class: "btn primary", text: r.resume },
        State::Done | State::Withdrawn => return Vec::new(),
    };
    let advance = Button { value: "advance", class: "btn", text };
    let withdraw = Button { value: "withdraw", class: "btn danger", text: r.withdraw };
    vec![first, advance, withdraw]
}

pub(super) async fn act(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let r = Texts::of(visit.lang);
    let etag: i64 = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let ask = match visit.field("action") {
        "pause" => Ask::Pause,
        "resume" => Ask::Resume,
        "advance" => Ask::Advance,
        "withdraw" => Ask::Withdraw(visit.field("reason").to_owned()),
        _ => return Err(Failure::Bad("unknown action".to_owned())),
    };
    let asked = console.control.ask_rollout(&claim, &app, etag, ask).await;
    let (status, notice, fault) = match Outcome::of(asked) {
        Ok(Outcome::Done(_)) => return Ok(redirect(&rollout_href(&app))),
        Ok(Outcome::Invalid(faults)) => {
            let fault = faults.first().map(|it| visit.lang.fault(&it.fault));
            (StatusCode::UNPROCESSABLE_ENTITY, None, fault)
        }
        Ok(Outcome::Stale) => (StatusCode::PRECONDITION_FAILED, Some(("warn", r.stale.to_owned())), None),
        Err(Failure::Control(ControlError::WrongRolloutState { .. })) => {
            (StatusCode::CONFLICT, Some(("bad", r.wrong_state.to_owned())), None)
        }
        Err(failure) => return Err(failure),
    };
    shown(console, visit, status, notice, fault).await
}
