//! The overview: what is admitted and denied now, the keys that are limited most, nodes, and problems.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::change_set::{self, Query};
use tollgate_control::history::{self, History, HistoryQuery, Scope, TopKey, TopQuery};
use tollgate_control::{Health, apps};
use tollgate_http_kit::Reply;

use super::parts::chart_words;
use super::problem_list::{ProblemLine, lines};
use super::top::{Limited, limited};
use crate::chart::{Chart, drawable, per_second, percent, rate, spark, tenths};
use crate::console::Console;
use crate::frame::{Frame, all_live, page};
use crate::texts::traffic::Texts;
use crate::texts::{Lang, nav};
use crate::web::{Failure, Visit};

/// The figures of the overview.
const SPAN_MS: i64 = 900_000;
const STEP_MS: i64 = 10_000;
/// Nodes report every five seconds; without a report for longer, the page says how old its data are.
const STALE_MS: i64 = 20_000;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    f: Frame,
    w: &'static Texts,
    after: String,
    live: (&'static str, String),
    stale: Option<String>,
    has_nodes: bool,
    /// The command that joins a node.
    join: String,
    /// Apps that are disabled.
    disabled: Vec<String>,
    has_traffic: bool,
    admitted: Figure,
    denied: Figure,
    share: (String, String),
    /// The key and how often.
    most: Option<(String, String)>,
    chart: Chart,
    problems: Vec<ProblemLine>,
    top: Vec<Limited>,
    /// Live, unresponsive, lost.
    nodes: (usize, usize, usize),
    /// Change sets that wait, the newest first.
    changes: Vec<super::changes::ChangeRow>,
}

/// A number with a small curve: text, line, area.
struct Figure {
    text: String,
    line: String,
    area: String,
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let w = visit.lang.traffic();
    let after = {
        let events = &console.control.live().events;
        events.id(&events.watch().borrow())
    };
    let read = console.control.read_as(&claim, move |tx, actor| {
        let now_ms = tx.now_ms();
        // Reports of the last ten seconds are not complete.
        let to_ms = (now_ms - STEP_MS).div_euclid(STEP_MS) * STEP_MS;
        let query = HistoryQuery { scope: Scope::All, from_ms: to_ms - SPAN_MS, to_ms, step_ms: STEP_MS };
        let found = history::history(tx, actor, &query)?;
        let top = TopQuery { scope: Scope::All, search: String::new(), span_ms: SPAN_MS, limit: 5 };
        let top = history::top_keys(tx, actor, &top)?;
        let open = Query { state: "open".to_owned(), limit: 5, ..Query::default() };
        let changes = change_set::list(tx, actor, &open)?;
        let disabled = apps::names(tx, actor)?.into_iter().filter(|(_, is_disabled)| *is_disabled);
        let disabled: Vec<String> = disabled.map(|(name, _)| name).collect();
        Ok((now_ms, found, top, history::as_of(tx)?, changes, disabled))
    });
    let (now_ms, found, top, as_of, changes, disabled) = read.await?;
    let problems = console.control.problems(&claim).await?;
    let nodes = console.control.nodes().nodes_of("");
    let count = |health| nodes.iter().filter(|node| node.health(now_ms) == health).count();
    let stale = as_of.filter(|at| now_ms - at > STALE_MS).map(|at| visit.lang.as_of(&visit.time(at)));
    let top = limited(top);
    let overview = OverviewPage {
        f: Frame::new(visit, "overview", nav::Texts::of(visit.lang).overview),
        after,
        live: all_live(console, visit.lang, now_ms),
        stale,
        has_nodes: !nodes.is_empty(),
        join: super::nodes::join(console, visit),
        disabled,
        has_traffic: found.sum().offered() > 0,
        admitted: figure(&found, |it| it.counts.admitted + it.counts.shadow_denied),
        denied: figure(&found, |it| it.counts.denied),
        share: share(visit, &found),
        most: top.first().map(|it| most(visit.lang, it)),
        chart: chart(visit, &found),
        problems: lines(visit, &problems),
        top,
        nodes: (count(Health::Live), count(Health::Unresponsive), count(Health::Lost)),
        changes: changes.iter().map(|it| super::changes::row(visit, it)).collect(),
        w,
    };
    page(StatusCode::OK, &overview)
}

fn chart(visit: &Visit, found: &History) -> Chart {
    let w = visit.lang.traffic();
    let label = [w.per_second, w.last_15_min].join(visit.lang.texts().comma);
    per_second(found, &chart_words(visit.lang), label, |at| visit.time_as(at, "%H:%M:%S"))
}

fn figure(found: &History, of: impl Fn(&history::Point) -> i64) -> Figure {
    let rates: Vec<i64> = drawable(found).iter().map(|it| tenths(of(it), it.span_ms)).collect();
    let (line, area) = spark(&rates);
    Figure { text: rate(rates.last().copied().unwrap_or_default()), line, area }
}

/// The denied share of the span, and its peak.
fn share(visit: &Visit, found: &History) -> (String, String) {
    let Some(share) = found.sum().denied_share() else { return ("–".to_owned(), String::new()) };
    let shares = found.points.iter().filter_map(|it| Some((it.counts.denied_share()?, it.at_ms)));
    let peak = shares.max_by_key(|(share, at)| (*share, -at)).filter(|(share, _)| *share > 0);
    let peak = peak.map(|(share, at)| visit.lang.peak(share, &visit.time_as(at, "%H:%M:%S")));
    (percent(share), peak.unwrap_or_default())
}

fn most(lang: Lang, limited: &Limited) -> (String, String) {
    let TopKey { key, rule, domain, denied, .. } = &limited.found;
    // A rule of one key says nothing that the key does not.
    let of = if *rule == format!("key={key}") { domain } else { rule };
    (key.clone(), lang.denied_times(of, *denied))
}
