//! Rules as JSON.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use tollgate_api::params::{DraftQuery, RuleBody, RulesQuery};
use tollgate_api::views;
use tollgate_control::publishing::Intent;
use tollgate_control::rules::{self, Query, Rule};
use tollgate_http_kit::Reply;

use super::body::read;
use super::etag::{if_match, tagged};
use super::files::waits;
use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit, encoded, unless_stale};

pub(super) async fn list(console: &Console, visit: &Visit, app: String) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let RulesQuery { search, state, sort, page, size } = RulesQuery::read(visit)?;
    let query = Query { app, search, state, sort, page, size };
    let found = console.control.read_as(&claim, move |tx, actor| rules::list(tx, actor, &query)).await?;
    Ok(ok(&views::Rules {
        rules: found.rules.into_iter().map(views::Rule::from).collect(),
        page: found.page,
        size,
        matching: found.matching,
        total: found.total,
    }))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let input = read::<RuleBody>(visit)?.input(None)?;
    let name = app.clone();
    let key = input.key.clone();
    let intent = intent_of(visit)?;
    let done = console
        .commit(visit, move |tx, actor| rules::propose_create(tx, actor, &name, &input, intent))
        .await?;
    if done.published_version.is_none() {
        return Ok(waits(done));
    }
    let rule = console.control.read_as(&claim, move |tx, actor| rules::get(tx, actor, &app, &key)).await?;
    let place = format!("/api/v1/apps/{}/rules/{}", encoded(&rule.app), encoded(&rule.row.key));
    let mut reply = shown(StatusCode::CREATED, rule);
    if let Ok(place) = HeaderValue::try_from(place) {
        reply.headers_mut().insert(LOCATION, place);
    }
    Ok(reply)
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    Ok(shown(StatusCode::OK, current(console, visit).await?))
}

async fn current(console: &Console, visit: &Visit) -> Result<Rule, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let key = visit.segment(5);
    Ok(console.control.read_as(&claim, move |tx, actor| rules::get(tx, actor, &app, &key)).await?)
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(3);
    let etag = if_match(visit)?;
    let input = read::<RuleBody>(visit)?.input(Some(visit.segment(5)))?;
    let intent = intent_of(visit)?;
    let changed =
        console.commit(visit, move |tx, actor| rules::propose_update(tx, actor, &app, etag, &input, intent));
    match unless_stale(changed.await)? {
        Some(Some(done)) if done.published_version.is_none() => Ok(waits(done)),
        Some(_) => get(console, visit).await,
        None => stale(console, visit).await,
    }
}

pub(super) async fn delete(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(3);
    let key = visit.segment(5);
    let etag = if_match(visit)?;
    let intent = intent_of(visit)?;
    let removed =
        console.commit(visit, move |tx, actor| rules::propose_delete(tx, actor, &app, &key, etag, intent));
    let Some(done) = unless_stale(removed.await)? else { return stale(console, visit).await };
    Ok(match done.published_version {
        Some(version) => ok(&views::PublishedVersion { version }),
        None => waits(done),
    })
}

fn intent_of(visit: &Visit) -> Result<Intent, Failure> {
    Ok(DraftQuery::read(visit)?.intent())
}

/// 412 with the newer object, so that a client can merge and repeat.
async fn stale(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    Ok(shown(StatusCode::PRECONDITION_FAILED, current(console, visit).await?))
}

fn shown(status: StatusCode, rule: Rule) -> Reply {
    let etag = rule.etag;
    tagged(status, &views::Rule::from(rule), etag)
}
