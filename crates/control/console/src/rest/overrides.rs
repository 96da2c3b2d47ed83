//! Overrides as JSON.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::overrides::{self, Override, OverrideInput};
use tollgate_control::{Fault, FieldFaults};
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use crate::blocking::met;
use crate::console::Console;
use crate::web::{Failure, Visit};

/// The body of an override.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OverrideBody {
    domain: String,
    entries: Vec<String>,
    action: String,
    minutes: Value,
    reason: String,
    whole_domain: bool,
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let search = visit.parameter("search").to_owned();
    let limit = visit.number("limit", 100);
    if !(1..=overrides::MAX_LISTED).contains(&limit) {
        return Err(Failure::Bad("invalid `limit`: expected a whole number from 1 to 500".to_owned()));
    }
    let listed = console.control.read_as(&claim, move |tx, actor| overrides::list(tx, actor, &search, limit));
    let (found, total) = listed.await?;
    let overrides: Vec<Value> = found.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"overrides": overrides, "total": total})))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let OverrideBody { domain, entries, action, minutes, reason, whole_domain } = read(visit)?;
    // A member that was forgotten does not block everybody.
    if entries.is_empty() && !whole_domain {
        let mut faults = FieldFaults::default();
        faults.add("entries", Fault::WholeDomain);
        return Err(faults.check().map_or_else(Failure::from, |()| Failure::NoPage));
    }
    let minutes = match minutes {
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
        _ => {
            let mut faults = FieldFaults::default();
            faults.add("minutes", Fault::Whole { min: 1, max: overrides::MAX_MINUTES });
            return Err(faults.check().map_or_else(Failure::from, |()| Failure::NoPage));
        }
    };
    let input = OverrideInput { domain, entries, action, minutes, reason };
    let made = console.control.create_override(&claim, input).await?;
    let met = met(console, &made).await;
    let mut body = shown(&made);
    (body["rules"], body["rules_met"]) = (json!(met.rules), json!(met.total));
    Ok(reply::json(StatusCode::CREATED, &body))
}

pub(super) async fn end(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let ended = console.control.end_override(&visit.claim()?, &visit.segment(3)).await?;
    Ok(reply::json(StatusCode::OK, &shown(&ended)))
}

fn shown(one: &Override) -> Value {
    let entries: Vec<_> = one.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    json!({
        "id": one.id, "domain": one.domain, "entries": entries, "action": one.action.name(),
        "until": one.until, "reason": one.reason, "author": one.author, "created_at": one.created_at,
    })
}
