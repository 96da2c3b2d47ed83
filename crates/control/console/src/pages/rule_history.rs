//! The history of a rule: decisions live and over time, most limited keys, numbers from its traffic.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::history::{self, History, HistoryQuery, Scope, Suggestion, TopQuery};
use tollgate_control::{ControlError, Role, rules};
use tollgate_http_kit::Reply;

use super::hrefs::rule_href;
use super::parts::{Tab, chart_words};
use super::top::{Limited, limited};
use crate::chart::{Chart, compared, per_second, percent, rate};
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::traffic::{SPANS, Texts};
use crate::texts::{Lang, grouped, trial};
use crate::web::{Failure, Visit, query_of};

/// From this span on, times are shown with their day.
const DAY_MS: i64 = 86_400_000;
const TEN_SECONDS: i64 = 10_000;

#[derive(Template)]
#[template(path = "rule_history.html")]
struct HistoryPage {
    f: Frame,
    w: &'static Texts,
    after: String,
    href: String,
    is_gone: bool,
    spans: Vec<Tab>,
    sums: Vec<Sum>,
    has_traffic: bool,
    chart: Chart,
    /// Denials in force and in trial, if there is or was a trial.
    trial: Option<Chart>,
    n: &'static trial::Texts,
    keys: Vec<Limited>,
    suggested: Option<(String, Option<String>)>,
    is_per_value: bool,
}

/// Decisions of one kind.
struct Sum {
    name: &'static str,
    count: String,
    /// The share of all requests; empty where that says nothing.
    share: String,
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let w = visit.lang.traffic();
    let app = visit.segment(1);
    let key = visit.segment(3);
    let span = SPANS.iter().find(|it| it.name == visit.parameter("span")).unwrap_or(&SPANS[1]);
    let span_ms = span.ms;
    let scope = Scope::Rule(app.clone(), format!("key={key}"));
    let asked_app = app.clone();
    let asked_key = key.clone();
    let read = console.control.read_as(&claim, move |tx, actor| {
        let to_ms = tx.now_ms() - TEN_SECONDS;
        let query = HistoryQuery { scope: scope.clone(), from_ms: to_ms - span_ms, to_ms, step_ms: 0 };
        let found = history::history(tx, actor, &query)?;
        let top = TopQuery { scope: scope.clone(), search: String::new(), span_ms, limit: 10 };
        let top = history::top_keys(tx, actor, &top)?;
        let rule = match rules::get(tx, actor, &asked_app, &asked_key) {
            Ok(rule) => Some(rule),
            Err(ControlError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let suggestion = match &rule {
            Some(_) => history::suggestion(tx, actor, &asked_app, &asked_key)?,
            None => None,
        };
        Ok((found, top, rule, suggestion))
    });
    let (found, top, rule, suggestion) = read.await?;
    if rule.is_none() && found.sum().offered() == 0 {
        return Err(Failure::NoPage);
    }
    let href = rule_href(&app, &key);
    let form = if span_ms >= DAY_MS { "%m-%d %H:%M" } else { "%H:%M:%S" };
    let spans = SPANS.iter().map(|it| Tab {
        text: it.text(visit.lang),
        href: query_of(&format!("{href}/history"), &[("span", it.name)]),
        is_here: it.name == span.name,
    });
    // Also of a trial that has ended, as long as its counts are within the span.
    let has_trial = found.sum().both_denied > 0 || rule.as_ref().is_some_and(|it| it.row.trial.is_some());
    let events = &console.control.live().events;
    let may_edit = visit.who()?.may(Role::Editor, &app);
    let history = HistoryPage {
        f: Frame::new(visit, "rules", format!("{app} / {key}")),
        after: events.id(&events.watch().borrow()),
        is_gone: rule.is_none(),
        spans: spans.collect(),
        sums: sums(visit.lang, &found, has_trial),
        has_traffic: found.sum().offered() > 0,
        chart: per_second(&found, &chart_words(visit.lang), w.per_second.to_owned(), |at| {
            visit.time_as(at, form)
        }),
        trial: has_trial.then(|| {
            compared(&found, visit.lang, visit.lang.trial().per_second.to_owned(), |at| {
                visit.time_as(at, form)
            })
        }),
        n: visit.lang.trial(),
        keys: limited(top),
        suggested: suggestion.map(|it| suggested(visit.lang, &it, &href, may_edit)),
        is_per_value: rule.is_some_and(|it| !it.row.per.is_empty()),
        href,
        w,
    };
    page(StatusCode::OK, &history)
}

/// The sums of a span: requests, and their outcomes.
fn sums(lang: Lang, found: &History, has_trial: bool) -> Vec<Sum> {
    let w = lang.traffic();
    let sum = found.sum();
    let all = sum.offered().max(1);
    let share =
        |part: i64| if sum.offered() == 0 { String::new() } else { percent(part.min(all) * 10_000 / all) };
    let part = |name, part: i64| Sum { name, count: grouped(part), share: share(part) };
    let mut sums = vec![
        Sum { name: w.offered, count: grouped(sum.offered()), share: String::new() },
        part(w.admitted, sum.admitted),
        part(w.denied, sum.denied),
        part(w.shadow_denied, sum.shadow_denied),
        part(w.near, sum.near),
        part(w.degraded, sum.degraded),
    ];
    if has_trial {
        sums.insert(4, part(lang.trial().denied_in_trial, sum.trial_denied()));
    }
    sums
}

/// The suggestion in words, and the form filled in with it.
fn suggested(lang: Lang, suggestion: &Suggestion, href: &str, may_edit: bool) -> (String, Option<String>) {
    let text = in_words(lang, suggestion);
    let per_second = suggestion.rate.to_string();
    let burst = suggestion.max_permits.to_string();
    let target = query_of(href, &[("rate", &per_second), ("max_permits", &burst)]);
    (text, may_edit.then_some(target))
}

/// A suggestion and what it rests on.
pub(super) fn in_words(lang: Lang, suggestion: &Suggestion) -> String {
    let Suggestion { peak_tenths, rate: per_second, max_permits, seconds } = suggestion;
    lang.suggested(&rate(*peak_tenths), seconds / 60, *per_second, *max_permits)
}
