//! Rollouts as JSON.

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::rollout::{Ask, Plan, Sides, Stage, State, Tally};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::{ControlError, NodeState};
use tollgate_http_kit::openapi::{Description, parameter, schema};
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use super::etag::{if_match, tagged};
use super::lists;
use super::schema::{flag, int, limit, list as list_of, maybe, object, one_of, or_stale, replies, text};
use crate::console::Console;
use crate::web::{Failure, Visit};

/// Nodes of a rollout, the most urgent.
const NODES: usize = 500;

/// An operation on rollouts.
#[derive(Clone, Copy, Debug)]
pub enum RolloutCall {
    /// Lists them.
    List,
    /// That of an app.
    Get,
    /// Begins no step for a while.
    Pause,
    /// Carries on.
    Resume,
    /// Begins the next step.
    Advance,
    /// Back to the content of before.
    Withdraw,
}

type Row = (Method, &'static str, RolloutCall, &'static str, &'static str);

/// Method, path, call, id, summary.
pub(super) static ROWS: &[Row] = &[
    (Method::GET, "/api/v1/rollouts", RolloutCall::List, "listRollouts", "Lists rollouts, the newest first"),
    (
        Method::GET,
        "/api/v1/apps/{app}/rollout",
        RolloutCall::Get,
        "getRollout",
        "Returns the rollout of an app that is open, or else the last one, with its ETag",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/rollout/pause",
        RolloutCall::Pause,
        "pauseRollout",
        "Begins no further step; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/rollout/resume",
        RolloutCall::Resume,
        "resumeRollout",
        "Carries on; the step is watched again from its beginning; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/rollout/advance",
        RolloutCall::Advance,
        "advanceRollout",
        "Begins the next step without waiting for the gates; after the last step the rollout is done",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/rollout/withdraw",
        RolloutCall::Withdraw,
        "withdrawRollout",
        "Publishes the content of before as a new version on all nodes; needs If-Match and a reason",
    ),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithdrawBody {
    reason: String,
}

pub(super) async fn answer(console: &Console, call: RolloutCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        RolloutCall::List => list(console, visit).await,
        RolloutCall::Get => {
            let (found, now_ms) = current(console, visit).await?;
            Ok(tagged(StatusCode::OK, &with_nodes(console, &found, now_ms), found.etag))
        }
        RolloutCall::Pause => ask(console, visit, Ask::Pause).await,
        RolloutCall::Resume => ask(console, visit, Ask::Resume).await,
        RolloutCall::Advance => ask(console, visit, Ask::Advance).await,
        RolloutCall::Withdraw => {
            visit.claim()?;
            if_match(visit)?;
            let WithdrawBody { reason } = read(visit)?;
            ask(console, visit, Ask::Withdraw(reason)).await
        }
    }
}

async fn current(console: &Console, visit: &Visit) -> Result<(Rollout, i64), Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let get =
        console.control.read_as(&claim, move |tx, actor| Ok((rollouts::get(tx, actor, &app)?, tx.now_ms())));
    Ok(get.await?)
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, most) = (visit.claim()?, lists::limit(visit)?);
    let app = visit.parameter("app").to_owned();
    let found =
        console.control.read_as(&claim, move |tx, actor| rollouts::list(tx, actor, &app, most)).await?;
    let all: Vec<Value> = found.iter().map(|it| shown(console, it)).collect();
    Ok(reply::json(StatusCode::OK, &json!({"rollouts": all})))
}

async fn ask(console: &Console, visit: &Visit, ask: Ask) -> Result<Reply, Failure> {
    let (claim, app, etag) = (visit.claim()?, visit.segment(3), if_match(visit)?);
    let asked = console.control.ask_rollout(&claim, &app, etag, ask).await;
    let (status, found, now_ms) = match asked {
        Ok(found) => {
            let now_ms = found.updated_at;
            (StatusCode::OK, found, now_ms)
        }
        Err(ControlError::Stale { .. }) => {
            let (found, now_ms) = current(console, visit).await?;
            (StatusCode::PRECONDITION_FAILED, found, now_ms)
        }
        Err(error) => return Err(error.into()),
    };
    Ok(tagged(status, &with_nodes(console, &found, now_ms), found.etag))
}

/// A plan as JSON.
pub(super) fn plan(plan: &Plan) -> Value {
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    json!({"steps": steps, "soak_s": plan.soak_s, "auto_rollback": plan.auto_rollback})
}

fn sides(sides: &Sides) -> Value {
    let tally = |it: &Tally| json!({"decisions": it.decisions, "denied": it.denied, "degraded": it.degraded});
    json!({"chosen": tally(&sides.chosen), "others": tally(&sides.others)})
}

fn shown(console: &Console, rollout: &Rollout) -> Value {
    let Rollout { progress, .. } = rollout;
    let observed = progress
        .state
        .is_open()
        .then(|| console.control.observed(&rollout.app))
        .flatten()
        .unwrap_or_default();
    let why = progress.why.as_ref().map(|why| {
        json!({
            "gate": why.name(), "nodes": why.nodes(), "detail": why.detail(),
            "figures": why.sides().map(sides),
        })
    });
    let ended: Vec<Value> = rollout
        .ended
        .iter()
        .map(|it| {
            json!({
                "step": it.step + 1, "begun_at": it.begun_at, "ended_at": it.ended_at,
                "figures": sides(&it.sides),
            })
        })
        .collect();
    json!({
        "app": rollout.app, "version": rollout.to_version, "from_version": rollout.from_version,
        "withdrawn_version": rollout.withdrawn_version, "state": progress.state.name(),
        "plan": plan(&rollout.plan), "step": progress.step + 1, "step_at": progress.step_at,
        "soaked_at": observed.soaked_at, "share": progress.reach.share, "why": why, "ended": ended,
        "unreported": observed.unreported, "figures": sides(&observed.sides), "author": rollout.author,
        "created_at": rollout.created_at, "updated_at": rollout.updated_at,
    })
}

fn with_nodes(console: &Console, rollout: &Rollout, now_ms: i64) -> Value {
    let mut shape = shown(console, rollout);
    let node = |(node, stage): (NodeState, Stage)| {
        let app = node.apps.iter().find(|it| it.app == rollout.app);
        json!({
            "id": node.id, "name": node.name, "stage": stage.name(),
            "acked": app.map_or(0, |it| it.acked), "fault": app.and_then(|it| it.fault.as_deref()),
        })
    };
    let stages = console.control.stages(rollout, now_ms);
    let count_of = |at: Stage| stages.iter().filter(|(_, it)| *it == at).count();
    let counts = Stage::ALL.map(|at| (at.name().to_owned(), json!(count_of(at))));
    shape["stages"] = Value::Object(counts.into_iter().collect());
    let nodes: Vec<Value> = stages.into_iter().take(NODES).map(node).collect();
    shape["nodes"] = nodes.into();
    shape
}

fn described_plan() -> Value {
    object(&[], &[("steps", list_of(text())), ("soak_s", int()), ("auto_rollback", flag())])
}

fn described_sides() -> Value {
    let tally = object(&[("decisions", int()), ("denied", int()), ("degraded", int())], &[]);
    object(&[("chosen", tally.clone()), ("others", tally)], &[])
}

fn described_rollout() -> Value {
    let stages = Stage::ALL.map(|at| (at.name(), int()));
    let end =
        [("step", int()), ("begun_at", maybe(&int())), ("ended_at", int()), ("figures", described_sides())];
    let gate =
        ["rejected", "not_acknowledged", "denies_more", "degrades_more", "blocked", "operator", "superseded"];
    let why = [
        ("gate", one_of(&gate)),
        ("nodes", list_of(text())),
        ("detail", text()),
        ("figures", maybe(&described_sides())),
    ];
    let node = [
        ("id", text()),
        ("name", text()),
        ("stage", one_of(&Stage::ALL.map(Stage::name))),
        ("acked", int()),
        ("fault", maybe(&text())),
    ];
    object(
        &[
            ("app", text()),
            ("version", int()),
            ("from_version", int()),
            ("withdrawn_version", maybe(&int())),
            ("state", one_of(&State::ALL.map(State::name))),
            ("plan", schema("Plan")),
            ("step", int()),
            ("step_at", maybe(&int())),
            ("soaked_at", maybe(&int())),
            ("unreported", int()),
            ("share", int()),
            ("why", maybe(&object(&why, &[]))),
            ("ended", list_of(object(&end, &[]))),
            ("figures", described_sides()),
            ("author", text()),
            ("created_at", int()),
            ("updated_at", int()),
        ],
        &[("stages", object(&stages, &[])), ("nodes", list_of(object(&node, &[])))],
    )
}

/// The schemas that others refer to, by name.
pub(super) fn named() -> [(&'static str, Value); 2] {
    [("Plan", described_plan()), ("Rollout", described_rollout())]
}

pub(super) fn described_list() -> Description {
    let app = parameter("app", false, text(), None, "Of this app only");
    replies(object(&[("rollouts", list_of(schema("Rollout")))], &[])).with([app, limit()])
}

pub(super) fn described() -> Description {
    replies(schema("Rollout"))
}

pub(super) fn described_ask() -> Description {
    or_stale(described(), schema("Rollout"))
}

pub(super) fn described_withdraw() -> Description {
    described_ask().takes(object(&[("reason", text())], &[]), json!({"reason": "too strict for agoda"}))
}

/// Takes a plan instead of that of the app.
pub(super) fn takes_plan(description: Description) -> Description {
    let example = json!({"rollout": {"steps": ["1 node", "10 %", "all"], "soak_s": 60}});
    description.takes(object(&[], &[("rollout", schema("Plan"))]), example)
}
