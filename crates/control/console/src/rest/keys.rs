//! Keys as JSON: what nodes count, resetting it, those that a store lists, and the buckets of an app's
//! request classes.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate_control::history;
use tollgate_control::keys::{Answers, Counter, MAX_KEYS, Question};
use tollgate_http_kit::{Reply, reply};

use crate::console::Console;
use crate::web::{Failure, Visit};

fn question(visit: &Visit) -> Question {
    Question { domain: visit.parameter("domain").to_owned(), entries: visit.parameters("entry") }
}

pub(super) async fn inspect(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let _place = console.rooms.look_up(visit)?;
    let answers = console.control.inspect_key(&visit.claim()?, &question(visit)).await?;
    Ok(reply::json(StatusCode::OK, &shown(&answers)))
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let _place = console.rooms.look_up(visit)?;
    let answers = console.control.reset_key(&visit.claim()?, &question(visit)).await?;
    Ok(reply::json(StatusCode::OK, &shown(&answers)))
}

pub(super) async fn scan(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let cursor = visit.parameter("cursor");
    let _place = console.rooms.look_up(visit)?;
    let found = console.control.scan_keys(&visit.claim()?, &question(visit), cursor).await?;
    let keys: Vec<Value> = found
        .keys
        .iter()
        .map(|it| {
            let entries = it.entries.as_ref();
            let entries = entries
                .map(|all| all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>());
            json!({"key": it.key, "kept": it.kept, "counted": it.counted, "entries": entries})
        })
        .collect();
    let body = json!({"keys": keys, "next": found.next, "none": found.none, "live_nodes": found.live});
    Ok(reply::json(StatusCode::OK, &body))
}

pub(super) async fn live(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, keys) = (visit.claim()?, visit.segment(3), visit.parameters("key"));
    if !(1..=MAX_KEYS).contains(&keys.len()) {
        return Err(Failure::Bad("expected ?key=KEY, once for each of 1 to 100 keys".to_owned()));
    }
    let asked: Vec<_> = keys.iter().map(|key| (app.clone(), key.clone())).collect();
    let used =
        console.control.read_as(&claim, move |tx, actor| history::last_used(tx, actor, &asked)).await?;
    let _place = console.rooms.look_up(visit)?;
    let found = console.control.live_keys(&claim, &app, &keys).await?;
    let keys: Vec<Value> = keys
        .iter()
        .zip(&found)
        .map(|(key, answers)| {
            let tokens = answers.tokens(0);
            let used = used.iter().find(|it| it.key == *key).map(|it| it.used_ms);
            json!({
                "key": key, "tokens": tokens.map(|it| it.0), "tokens_most": tokens.map(|it| it.1),
                "nodes": answers.nodes.len(), "local": answers.is_local,
                "last_used": used,
            })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({"app": app, "keys": keys})))
}

fn shown(answers: &Answers) -> Value {
    let known = answers.known();
    let nodes: Vec<Value> = answers
        .nodes
        .iter()
        .map(|it| match &it.known {
            Ok(known) => {
                json!({"node": it.node, "limits": known.limits.iter().map(counter).collect::<Vec<_>>()})
            }
            Err(error) => json!({"node": it.node, "error": error}),
        })
        .collect();
    let overridden = known.and_then(|it| it.overridden.as_ref());
    json!({
        "rule": known.and_then(|it| it.rule.as_ref()), "none": known.and_then(|it| it.none.as_ref()),
        "override": overridden.map(|it| json!({"action": it.action, "left_ms": it.left_ms})),
        "local": answers.is_local, "live_nodes": answers.live, "nodes": nodes,
        "app_disabled": answers.is_app_disabled,
    })
}

fn counter(counter: &Counter) -> Value {
    json!({
        "limit": counter.limit, "counter": counter.key, "max": counter.max, "tokens": counter.tokens,
        "reset_after_ms": counter.reset_after_ms, "tracked": counter.tracked, "local": counter.local,
        "degraded": counter.degraded,
    })
}
