//! The keys that were limited most, and requests that no rule limits.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::history::{self, Scope, TopKey, TopQuery, UNMATCHED};
use tollgate_control::{Role, apps};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::grouped;
use crate::texts::traffic::{SPANS, Span, Texts};
use crate::web::{Failure, Visit, encoded, query_of};

const DAY_MS: i64 = 86_400_000;

#[derive(Template)]
#[template(path = "top.html")]
struct TopPage {
    f: Frame,
    w: &'static Texts,
    after: String,
    apps: Vec<(String, bool)>,
    rule: String,
    search: String,
    spans: Vec<SpanOption>,
    keys: Vec<Limited>,
    unlimited: Vec<UnlimitedRow>,
    names: Vec<String>,
}

/// A span of time to choose.
struct SpanOption {
    name: &'static str,
    text: &'static str,
    is_chosen: bool,
}

/// Requests that no rule limits.
struct UnlimitedRow {
    domain: String,
    what: &'static str,
    admitted: String,
    denied: String,
}

/// A key that was limited, and where to find more.
pub(super) struct Limited {
    pub(super) found: TopKey,
    pub(super) denied: String,
    pub(super) rule_href: String,
    pub(super) look_up: String,
}

pub(super) fn limited(keys: Vec<TopKey>) -> Vec<Limited> {
    let limited = |found: TopKey| {
        let first = found.rule.split(" \u{2192} ").next().unwrap_or_default();
        let rule_href = match first.strip_prefix("key=") {
            Some(key) => format!("/apps/{}/rules/{}/history", encoded(&found.domain), encoded(key)),
            None => String::new(),
        };
        // The values of the descriptor are those of the rule's levels, in their order.
        let mut values = found.key.split(", ");
        let mut parameters = vec![("domain", found.domain.clone())];
        for level in found.rule.split(" \u{2192} ") {
            let value = values.next().unwrap_or_default();
            let name = level.split_once('=').map_or(level, |(name, _)| name);
            parameters.push(("entry", format!("{name}={value}")));
        }
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (*name, &**value)).collect();
        let look_up = query_of("/keys", &parameters);
        Limited { denied: grouped(found.denied), rule_href, look_up, found }
    };
    keys.into_iter().map(limited).collect()
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let w = visit.lang.traffic();
    let app = visit.parameter("app").to_owned();
    let rule = visit.parameter("rule").to_owned();
    let search = visit.parameter("search").to_owned();
    let asked = visit.parameter("span");
    // Rows are kept for seven days.
    let span = SPANS[..5].iter().find(|it| it.name == asked).unwrap_or(&SPANS[1]);
    let scope = match (app.is_empty(), rule.is_empty()) {
        (true, _) => Scope::All,
        (_, true) => Scope::App(app.clone()),
        _ => Scope::Rule(app.clone(), rule.clone()),
    };
    let query = TopQuery { scope, search: search.clone(), span_ms: span.ms, limit: 100 };
    let read = console.control.read_as(&claim, move |tx, actor| {
        let keys = history::top_keys(tx, actor, &query)?;
        let is_over_all = actor.may(Role::Viewer, EVERY_APP);
        Ok((keys, history::unlimited(tx, actor, DAY_MS)?, apps::names(tx, actor)?, is_over_all))
    });
    let (keys, unlimited, all, is_over_all) = read.await?;
    let figures = if is_over_all { console.control.live().figures() } else { Default::default() };
    let mut names: Vec<String> = figures.into_values().flat_map(|it| it.unknown_domains).collect();
    names.sort();
    names.dedup();
    names.truncate(100);
    let events = &console.control.live().events;
    let option =
        |it: &Span| SpanOption { name: it.name, text: it.text(visit.lang), is_chosen: it.name == span.name };
    let row = |it: history::Unlimited| UnlimitedRow {
        what: if it.rule == UNMATCHED { w.unmatched } else { w.unknown_domain },
        domain: it.domain,
        admitted: grouped(it.counts.admitted),
        denied: grouped(it.counts.denied),
    };
    let top = TopPage {
        f: Frame::new(visit, "top", w.top),
        after: events.id(&events.watch().borrow()),
        apps: all.into_iter().map(|(name, _)| (name.clone(), name == app)).collect(),
        spans: SPANS[..5].iter().map(option).collect(),
        keys: limited(keys),
        unlimited: unlimited.into_iter().map(row).collect(),
        names,
        rule,
        search,
        w,
    };
    page(StatusCode::OK, &top)
}
