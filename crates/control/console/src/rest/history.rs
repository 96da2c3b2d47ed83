//! Time series, most limited keys, suggestions, problems.

use tollgate_api::params::{HistoryQuery, ScopeQuery, TopKeysQuery, UnlimitedQuery};
use tollgate_api::views;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::history::{self, Scope, TopQuery};
use tollgate_control::{ControlError, Role, trials};
use tollgate_http_kit::Reply;

use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn series(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let scope = ScopeQuery::read(visit)?.scope();
    let asked = HistoryQuery::read(visit)?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        let (from_ms, to_ms) = asked.span(tx.now_ms());
        let query = history::HistoryQuery { scope: scope.clone(), from_ms, to_ms, step_ms: asked.step };
        Ok((history::history(tx, actor, &query)?, history::as_of(tx)?))
    });
    let (found, as_of) = read.await?;
    Ok(ok(&views::History {
        step: found.step_ms,
        as_of,
        sum: found.sum().into(),
        points: found.points.iter().map(views::Point::from).collect(),
    }))
}

pub(super) async fn top(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let TopKeysQuery { span, search, limit } = TopKeysQuery::read(visit)?;
    let query = TopQuery { scope: ScopeQuery::read(visit)?.scope(), search, span_ms: span, limit };
    let keys = console.control.read_as(&claim, move |tx, actor| history::top_keys(tx, actor, &query)).await?;
    Ok(ok(&views::TopKeys { keys: keys.into_iter().map(views::TopKey::from).collect() }))
}

pub(super) async fn suggestion(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let key = visit.segment(5);
    let found =
        console.control.read_as(&claim, move |tx, actor| history::suggestion(tx, actor, &app, &key)).await?;
    Ok(ok(&views::Suggestion { suggestion: found.map(views::Numbers::from) }))
}

/// The numbers that a rule tries, and what they and those in force have denied.
pub(super) async fn trial(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let key = visit.segment(5);
    let found =
        console.control.read_as(&claim, move |tx, actor| trials::compared(tx, actor, &app, &key)).await?;
    Ok(ok(&views::TrialCompared { trial: found.map(views::TrialCounts::from) }))
}

pub(super) async fn problems(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let found = console.control.problems(&visit.claim()?).await?;
    let total = found.len();
    let problems = found.into_iter().map(views::CurrentProblem::from).collect();
    Ok(ok(&views::Problems { problems, total }))
}

/// Requests that no rule limits, and faults of the rule files of nodes.
pub(super) async fn unlimited(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let UnlimitedQuery { span } = UnlimitedQuery::read(visit)?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        Ok((history::unlimited(tx, actor, span)?, actor.may(Role::Viewer, EVERY_APP)))
    });
    let (found, is_over_all) = read.await?;
    let requests = found.into_iter().map(views::UnlimitedRequest::from).collect();
    let mut shown = views::Unlimited { requests, unknown_domains: None, rule_faults: None };
    if is_over_all {
        let figures = console.control.live().figures();
        let mut names: Vec<String> = figures.values().flat_map(|it| it.unknown_domains.clone()).collect();
        names.sort();
        names.dedup();
        shown.unknown_domains = Some(names);
        let faulty = figures.into_iter().filter(|(_, it)| !it.rules_error.is_empty());
        let faults = faulty.map(|(node, it)| views::DomainFault { node, fault: it.rules_error });
        shown.rule_faults = Some(faults.collect());
    }
    Ok(ok(&shown))
}

/// The newest point of what the actor may see, for an event.
pub(super) async fn newest(
    console: &Console,
    visit: &Visit,
) -> Result<Option<views::NewestPoint>, ControlError> {
    let claim = visit.claim().map_err(|_| ControlError::NoLogin)?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        // The last row that is complete.
        let to_ms = (tx.now_ms() - 10_000).div_euclid(10_000) * 10_000;
        let from_ms = to_ms - 10_000;
        let query = history::HistoryQuery { scope: Scope::All, from_ms, to_ms, step_ms: 10_000 };
        history::history(tx, actor, &query)
    });
    let found = read.await?;
    let newest = found.points.first();
    Ok(newest.map(|it| views::NewestPoint { at: it.at_ms, step: found.step_ms, counts: it.counts.into() }))
}
