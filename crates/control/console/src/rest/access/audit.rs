//! The audit: lists, export, and the state of the chain.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};
use serde_json::{Value, json};
use tollgate_control::audit::{self, Chain, Entry, Filter, MAX_EXPORT};
use tollgate_http_kit::{Reply, reply};

use crate::console::Console;
use crate::rest::lists::{limit, next, number};
use crate::web::{Failure, Visit};

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, limit) = (visit.claim()?, limit(visit)?);
    let text = |name| visit.parameter(name).to_owned();
    let filter = Filter {
        app: text("app"),
        actor: text("actor"),
        target: text("target"),
        action: text("action"),
        from: number(visit, "from", 0, 0, i64::MAX)?,
        until: number(visit, "until", 0, 0, i64::MAX)?,
    };
    let before = number(visit, "cursor", 0, 1, i64::MAX)?;
    let found = console
        .control
        .read_as(&claim, move |tx, actor| audit::find(tx, actor, &filter, before, limit))
        .await?;
    let next = next(&found, limit, |entry| entry.seq.to_string());
    let entries: Vec<Value> = found.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"entries": entries, "next": next})))
}

pub(super) async fn export(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, after) = (visit.claim()?, number(visit, "after", 0, 0, i64::MAX)?);
    let part =
        console.control.read_as(&claim, move |tx, actor| audit::export(tx, actor, after, MAX_EXPORT)).await?;
    let mut lines = String::new();
    for entry in &part {
        lines += &shown(entry).to_string();
        lines.push('\n');
    }
    let mut reply = reply::reply(StatusCode::OK, NDJSON, lines);
    if let Some(last) = part.last().filter(|_| part.len() as i64 == MAX_EXPORT) {
        let next = format!("</api/v1/audit/export?after={}>; rel=\"next\"", last.seq);
        if let Ok(next) = HeaderValue::try_from(next) {
            reply.headers_mut().insert(LINK, next);
        }
    }
    Ok(reply)
}

pub(super) async fn chain(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let chain = console.control.verify_audit(&visit.claim()?, |_, _| {}).await?;
    let body = match chain {
        Chain::Whole(entries) => json!({"is_whole": true, "entries": entries, "broken_at": null}),
        Chain::Cut(found, _) => {
            json!({"is_whole": false, "entries": found, "broken_at": found + 1})
        }
        Chain::BrokenAt(seq) => json!({"is_whole": false, "entries": seq - 1, "broken_at": seq}),
    };
    Ok(reply::json(StatusCode::OK, &body))
}

fn shown(entry: &Entry) -> Value {
    json!({
        "seq": entry.seq, "at": entry.at, "actor_kind": entry.actor_kind, "actor": entry.actor,
        "via": entry.via, "ip": entry.ip, "request_id": entry.request_id, "action": entry.action,
        "target": entry.target, "app": entry.app, "before": entry.before, "after": entry.after,
        "reason": entry.reason, "prev_hash": entry.prev_hash, "hash": entry.hash,
    })
}
