//! Time series, most limited keys, suggestions, problems.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate_control::actor::EVERY_APP;
use tollgate_control::history::{self, Counts, HistoryQuery, Scope, TopQuery};
use tollgate_control::{ControlError, Role, trials};
use tollgate_http_kit::openapi::{self, parameter};
use tollgate_http_kit::{Reply, reply};

use crate::console::Console;
use crate::web::{Failure, Visit};

const HOUR_MS: i64 = 3_600_000;

/// The parameters of time series and of keys.
pub(super) fn parameters() -> [Value; 9] {
    let number = || json!({"type": "integer"});
    [
        parameter("app", false, openapi::string(), None, "Of this app; without, of all that you may see"),
        parameter("rule", false, openapi::string(), None, "Of this rule and those below it: `key=pushGeo`"),
        parameter("domain", false, openapi::string(), None, "Of a domain of the nodes' own files"),
        parameter("from", false, number(), None, "History: ms UTC; an hour before `to` by default"),
        parameter("to", false, number(), None, "History: ms UTC; now by default"),
        parameter("step", false, number(), None, "History: ms of one point, rounded up"),
        parameter("span", false, number(), None, "Keys: how far back, in ms; an hour by default"),
        parameter("search", false, openapi::string(), None, "Keys: a part of the key"),
        parameter("limit", false, number(), None, "Keys: 1 to 500"),
    ]
}

/// A whole number of the query, or `default` if it is not there.
fn whole(visit: &Visit, name: &str, default: i64) -> Result<i64, Failure> {
    match visit.parameter(name) {
        "" => Ok(default),
        text => text.parse().ok().filter(|it| *it >= 0).ok_or_else(|| {
            Failure::Bad(format!("invalid `{name}`: expected a whole number of milliseconds"))
        }),
    }
}

fn scope(visit: &Visit) -> Result<Scope, Failure> {
    let of = |name: &str| visit.parameter(name).to_owned();
    match (of("app"), of("domain"), of("rule")) {
        (app, domain, _) if !app.is_empty() && !domain.is_empty() => {
            Err(Failure::Bad("send `app` or `domain`, not both".to_owned()))
        }
        (app, domain, rule) if app.is_empty() && domain.is_empty() && !rule.is_empty() => {
            Err(Failure::Bad("`rule` needs `app` or `domain`".to_owned()))
        }
        (app, _, rule) if !app.is_empty() && !rule.is_empty() => Ok(Scope::Rule(app, rule)),
        (app, ..) if !app.is_empty() => Ok(Scope::App(app)),
        (_, domain, rule) if !domain.is_empty() => Ok(Scope::Domain(domain, rule)),
        _ => Ok(Scope::All),
    }
}

pub(super) async fn series(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, scope) = (visit.claim()?, scope(visit)?);
    let (from, to, step_ms) = (whole(visit, "from", -1)?, whole(visit, "to", -1)?, whole(visit, "step", 0)?);
    let read = console.control.read_as(&claim, move |tx, actor| {
        let to_ms = if to < 0 { tx.now_ms() } else { to };
        let from_ms = if from < 0 { to_ms - HOUR_MS } else { from };
        let query = HistoryQuery { scope: scope.clone(), from_ms, to_ms, step_ms };
        Ok((history::history(tx, actor, &query)?, history::as_of(tx)?))
    });
    let (found, as_of) = read.await?;
    let point = |it: &history::Point| {
        let mut point = counted(&it.counts);
        (point["at"], point["ms"]) = (it.at_ms.into(), it.span_ms.into());
        point
    };
    let points: Vec<Value> = found.points.iter().map(point).collect();
    let body = json!({"step": found.step_ms, "as_of": as_of, "sum": counted(&found.sum()), "points": points});
    Ok(reply::json(StatusCode::OK, &body))
}

pub(super) fn counted(counts: &Counts) -> Value {
    json!({
        "admitted": counts.admitted, "denied": counts.denied, "shadow_denied": counts.shadow_denied,
        "both_denied": counts.both_denied, "degraded": counts.degraded, "near": counts.near,
    })
}

pub(super) async fn top(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let (span_ms, limit) = (whole(visit, "span", HOUR_MS)?, whole(visit, "limit", 100)?);
    if limit == 0 || limit > 500 {
        return Err(Failure::Bad("invalid `limit`: expected a whole number from 1 to 500".to_owned()));
    }
    let query =
        TopQuery { scope: scope(visit)?, search: visit.parameter("search").to_owned(), span_ms, limit };
    let keys = console.control.read_as(&claim, move |tx, actor| history::top_keys(tx, actor, &query)).await?;
    let shown = |it: &history::TopKey| json!({"domain": it.domain, "rule": it.rule, "key": it.key, "denied": it.denied});
    let keys: Vec<Value> = keys.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"keys": keys})))
}

pub(super) async fn suggestion(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, key) = (visit.claim()?, visit.segment(3), visit.segment(5));
    let found =
        console.control.read_as(&claim, move |tx, actor| history::suggestion(tx, actor, &app, &key)).await?;
    let body = found.map_or(Value::Null, |it| {
        json!({
            "rate": it.rate, "max_permits": it.max_permits, "seconds": it.seconds,
            "peak_per_second": format!("{}.{}", it.peak_tenths / 10, it.peak_tenths % 10),
        })
    });
    Ok(reply::json(StatusCode::OK, &json!({"suggestion": body})))
}

/// The numbers that a rule tries, and what they and those in force have denied.
pub(super) async fn trial(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app, key) = (visit.claim()?, visit.segment(3), visit.segment(5));
    let found =
        console.control.read_as(&claim, move |tx, actor| trials::compared(tx, actor, &app, &key)).await?;
    let body = found.map_or(Value::Null, |it| {
        let sum = it.history.sum();
        json!({
            "rate": it.trial.rate, "max_permits": it.trial.max_permits, "is_running": it.is_running,
            "since": it.since_ms, "offered": sum.offered(), "denied": sum.denied,
            "trial_denied": sum.trial_denied(), "both_denied": sum.both_denied,
        })
    });
    Ok(reply::json(StatusCode::OK, &json!({"trial": body})))
}

pub(super) async fn problems(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let found = console.control.problems(&visit.claim()?).await?;
    let shown = |it: &tollgate_control::problems::Problem| {
        json!({
            "kind": it.kind.name(), "app": it.app, "node": it.node, "node_name": it.node_name,
            "since": it.since_ms, "value": it.value, "detail": it.detail,
        })
    };
    let problems: Vec<Value> = found.iter().map(shown).collect();
    Ok(reply::json(StatusCode::OK, &json!({"total": problems.len(), "problems": problems})))
}

/// Requests that no rule limits, and faults of the rule files of nodes.
pub(super) async fn unlimited(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, span_ms) = (visit.claim()?, whole(visit, "span", 24 * HOUR_MS)?);
    let read = console.control.read_as(&claim, move |tx, actor| {
        Ok((history::unlimited(tx, actor, span_ms)?, actor.may(Role::Viewer, EVERY_APP)))
    });
    let (found, is_over_all) = read.await?;
    let requests: Vec<Value> = found
        .iter()
        .map(|it| {
            json!({
                "domain": it.domain, "what": it.rule.trim_matches(['(', ')']), "admitted": it.counts.admitted,
                "denied": it.counts.denied,
            })
        })
        .collect();
    let mut body = json!({"requests": requests});
    if is_over_all {
        let figures = console.control.live().figures();
        let faulty = figures.iter().filter(|(_, it)| !it.rules_error.is_empty());
        let faults: Vec<Value> =
            faulty.map(|(node, it)| json!({"node": node, "fault": it.rules_error})).collect();
        let mut names: Vec<&String> = figures.values().flat_map(|it| &it.unknown_domains).collect();
        names.sort();
        names.dedup();
        body["unknown_domains"] = json!(names);
        body["rule_faults"] = Value::from(faults);
    }
    Ok(reply::json(StatusCode::OK, &body))
}

/// The newest point of what the actor may see, for an event.
pub(super) async fn newest(console: &Console, visit: &Visit) -> Result<Value, ControlError> {
    let claim = visit.claim().map_err(|_| ControlError::NoLogin)?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        // The last row that is complete.
        let to_ms = (tx.now_ms() - 10_000).div_euclid(10_000) * 10_000;
        let query = HistoryQuery { scope: Scope::All, from_ms: to_ms - 10_000, to_ms, step_ms: 10_000 };
        history::history(tx, actor, &query)
    });
    let found = read.await?;
    let Some(point) = found.points.first() else { return Ok(Value::Null) };
    let mut body = counted(&point.counts);
    (body["at"], body["step"]) = (point.at_ms.into(), found.step_ms.into());
    Ok(body)
}
