//! Rules as JSON.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use serde_json::{Value, json};
use tollgate_control::ControlError;
use tollgate_control::fields::in_words;
use tollgate_control::publishing::Intent;
use tollgate_control::rules::{self, Query, Rule, Sort};
use tollgate_http_kit::{Reply, reply};

use super::body::{RuleBody, read};
use super::etag::{if_match, tagged};
use super::files::waits;
use crate::console::Console;
use crate::web::{Failure, Visit, encoded};

pub(super) async fn list(console: &Console, visit: &Visit, app: String) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let sort = match visit.parameter("sort") {
        "" | "key" => Sort::Key,
        "rate" => Sort::Rate,
        "updated" => Sort::Updated,
        _ => return Err(Failure::Bad("unknown `sort`: expected key, rate or updated".to_owned())),
    };
    let number = |name: &str, default: i64, max: i64| match visit.parameter(name) {
        "" => Ok(default),
        text => text.parse().ok().filter(|it| (1..=max).contains(it)).ok_or_else(|| {
            Failure::Bad(format!("invalid `{name}`: expected a whole number from 1 to {max}"))
        }),
    };
    let (page, size) = (number("page", 1, i64::from(u32::MAX))?, number("size", 100, 500)?);
    let state = match visit.parameter("state") {
        state @ ("" | "on" | "shadow" | "off") => state.to_owned(),
        _ => return Err(Failure::Bad("unknown `state`: expected on, shadow or off".to_owned())),
    };
    let query = Query { app, search: visit.parameter("search").to_owned(), state, sort, page, size };
    let found = console.control.read_as(&claim, move |tx, actor| rules::list(tx, actor, &query)).await?;
    let rules: Vec<Value> = found.rules.iter().map(shown).collect();
    let body = json!({
        "rules": rules, "page": found.page, "size": size, "matching": found.matching, "total": found.total,
    });
    Ok(reply::json(StatusCode::OK, &body))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, app) = (visit.claim()?, visit.segment(3));
    let input = read::<RuleBody>(visit)?.input(None)?;
    let (name, key) = (app.clone(), input.key.clone());
    let intent = intent(visit)?;
    let done = console
        .change(visit, move |tx, actor| rules::propose_create(tx, actor, &name, &input, intent))
        .await?;
    if done.published_version.is_none() {
        return Ok(waits(&done));
    }
    let rule = console.control.read_as(&claim, move |tx, actor| rules::get(tx, actor, &app, &key)).await?;
    let mut reply = tagged(StatusCode::CREATED, &shown(&rule), rule.etag);
    let place = format!("/api/v1/apps/{}/rules/{}", encoded(&rule.app), encoded(&rule.row.key));
    if let Ok(place) = HeaderValue::try_from(place) {
        reply.headers_mut().insert(LOCATION, place);
    }
    Ok(reply)
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let rule = current(console, visit).await?;
    Ok(tagged(StatusCode::OK, &shown(&rule), rule.etag))
}

async fn current(console: &Console, visit: &Visit) -> Result<Rule, Failure> {
    let (claim, app, key) = (visit.claim()?, visit.segment(3), visit.segment(5));
    Ok(console.control.read_as(&claim, move |tx, actor| rules::get(tx, actor, &app, &key)).await?)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let (app, etag) = (visit.segment(3), if_match(visit)?);
    let input = read::<RuleBody>(visit)?.input(Some(visit.segment(5)))?;
    let intent = intent(visit)?;
    match console
        .change(visit, move |tx, actor| rules::propose_update(tx, actor, &app, etag, &input, intent))
        .await
    {
        Ok(Some(done)) if done.published_version.is_none() => Ok(waits(&done)),
        Ok(_) => {
            let rule = current(console, visit).await?;
            Ok(tagged(StatusCode::OK, &shown(&rule), rule.etag))
        }
        Err(ControlError::Stale { .. }) => stale(console, visit).await,
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn delete(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let (app, key, etag) = (visit.segment(3), visit.segment(5), if_match(visit)?);
    let intent = intent(visit)?;
    match console
        .change(visit, move |tx, actor| rules::propose_delete(tx, actor, &app, &key, etag, intent))
        .await
    {
        Ok(done) => match done.published_version {
            Some(version) => Ok(reply::json(StatusCode::OK, &json!({"version": version}))),
            None => Ok(waits(&done)),
        },
        Err(ControlError::Stale { .. }) => stale(console, visit).await,
        Err(error) => Err(error.into()),
    }
}

/// `draft=true` makes a draft of what would be published.
fn intent(visit: &Visit) -> Result<Intent, Failure> {
    match visit.parameter("draft") {
        "" | "false" => Ok(Intent::Publish),
        "true" => Ok(Intent::Draft),
        _ => Err(Failure::Bad("invalid `draft`: expected true or false".to_owned())),
    }
}

/// 412 with the newer object, so that a client can merge and repeat.
async fn stale(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let now = current(console, visit).await?;
    Ok(tagged(StatusCode::PRECONDITION_FAILED, &shown(&now), now.etag))
}

fn shown(rule: &Rule) -> Value {
    let row = &rule.row;
    json!({
        "app": rule.app, "key": row.key, "rate": row.rate, "max_permits": row.max_permits,
        "need_permits": row.need_permits, "pre_permits": row.pre_permits,
        "post_paid": row.post_paid, "g": in_words(row.g_micro),
        "u": in_words(row.u_micro), "extras": row.extras, "description": row.description, "per": row.per,
        "bucket": row.bucket,
        "sharing": row.sharing, "on_store_failure": row.on_store_failure, "state": row.state,
        "app_disabled": rule.is_app_disabled,
        "trial_rate": row.trial.map(|it| it.rate), "trial_max_permits": row.trial.map(|it| it.max_permits),
        "version": rule.version, "updated_at": rule.updated_at, "updated_by": rule.updated_by,
    })
}
