//! A rule on a recorded trace: what other numbers would have done to it.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::rules::Rule;
use tollgate_control::table_rule::TableRule;
use tollgate_control::{FieldFault, ModelError, Role, compile, rules};
use tollgate_http_kit::Reply;
use tollgate_replay::{Language, Previewed, RuleReport, SideReport, Timeline};

use super::hrefs::rule_href;
use crate::chart::{self, Chart, Curve, drawn};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::replaying::{NotReplayed, ReplayJob, Trace};
use crate::texts::replay::Texts;
use crate::texts::{Lang, grouped};
use crate::web::{Failure, Visit, query_of};

/// From this span on, times are shown with their day.
const DAY_NS: u64 = 86_400_000_000_000;
/// Traces whose times are below count from their own beginning.
const YEAR_3_NS: u64 = 100_000_000_000_000_000;

#[derive(Template)]
#[template(path = "rule_replay.html")]
struct ReplayPage {
    f: Frame,
    l: &'static Texts,
    href: String,
    notice: Option<(&'static str, String)>,
    /// Where traces are, if there is none.
    folder: String,
    traces: Vec<(String, String)>,
    trace: String,
    numbers: Vec<Field>,
    map: String,
    found: Option<ReplayView>,
    use_href: String,
}

/// The result of a replay, as the page shows it.
struct ReplayView {
    notes: Vec<String>,
    has_change: bool,
    rows: Vec<FoundRow>,
    chart: Option<Chart>,
    top: Vec<(String, String)>,
}

/// A number of a replay, with the rules of now and with those that are tried.
struct FoundRow {
    name: &'static str,
    now: String,
    then: String,
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (rule, traces) = read(console, visit).await?;
    let trace = traces.first().map(|it| it.name.clone()).unwrap_or_default();
    let mut form = form_of(console, visit, &rule, traces, &rule.row, &trace);
    for field in &mut form.numbers {
        // Numbers of a link, such as a suggestion.
        if !visit.parameter(field.name).is_empty() {
            visit.parameter(field.name).clone_into(&mut field.value);
        }
    }
    page(StatusCode::OK, &form)
}

pub(super) async fn run(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (rule, traces) = read(console, visit).await?;
    let l = Texts::of(visit.lang);
    let mut input = rule.row.to_input();
    (input.rate, input.max_permits) = (visit.field("rate").to_owned(), visit.field("max_permits").to_owned());
    let trace = visit.field("trace").to_owned();
    let table_rule = match input.check() {
        Ok(table_rule) => table_rule,
        Err(ModelError::Invalid(faults)) => {
            let mut form = form_of(console, visit, &rule, traces, &rule.row, &trace);
            fill(&mut form, visit, &faults);
            return page(StatusCode::UNPROCESSABLE_ENTITY, &form);
        }
        Err(error) => return Err(error.into()),
    };
    let mut form = form_of(console, visit, &rule, traces, &table_rule, &trace);
    fill(&mut form, visit, &[]);
    // The whole log is this rule's traffic, unless the mapping says which part is.
    let entries = format!("descriptors=key=\"{}\" {}", table_rule.key, table_rule.per);
    let given = visit.field("map").lines().map(str::trim).filter(|line| !line.is_empty());
    let map = std::iter::once(entries).chain(given.map(str::to_owned)).collect();
    // A rule that is off or in shadow mode is replayed as if it were on: that is the question.
    let on = |table_rule: &TableRule| TableRule { state: "on".to_owned(), ..table_rule.clone() };
    let documents = |table_rule: &TableRule| compile::documents(&rule.app, &[on(table_rule)]);
    let is_same = (table_rule.rate, table_rule.max_permits) == (rule.row.rate, rule.row.max_permits);
    let after = if is_same { None } else { Some(documents(&table_rule)?) };
    let asked = ReplayJob { trace, map, before: documents(&rule.row)?, after };
    let replayed = console.replay(asked).await;
    console.must(visit, Role::Editor, &rule.app).await?; // a replay takes its time
    let status = match replayed {
        Ok(previewed) => {
            form.found = Some(found(visit, l, &previewed));
            let rate = table_rule.rate.to_string();
            let burst = table_rule.max_permits.to_string();
            if !is_same {
                form.use_href = query_of(&form.href, &[("rate", &rate), ("max_permits", &burst)]);
            }
            StatusCode::OK
        }
        Err(NotReplayed::Unknown) => {
            form.notice = Some(("bad", l.unknown.to_owned()));
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(NotReplayed::Busy) => {
            form.notice = Some(("warn", l.busy.to_owned()));
            StatusCode::SERVICE_UNAVAILABLE
        }
        Err(NotReplayed::Why(why)) => {
            form.notice = Some(("bad", why));
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    page(status, &form)
}

async fn read(console: &Console, visit: &Visit) -> Result<(Rule, Vec<Trace>), Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    let read = console.control.read_as(&claim, move |tx, actor| {
        actor.must(Role::Editor, &app)?; // a trace has the clients of every app in it
        rules::get(tx, actor, &app, &key)
    });
    Ok((read.await?, console.traces().await))
}

fn form_of(
    console: &Console,
    visit: &Visit,
    rule: &Rule,
    traces: Vec<Trace>,
    table_rule: &TableRule,
    trace: &str,
) -> ReplayPage {
    let t = visit.lang.texts();
    let l = Texts::of(visit.lang);
    let folder = console.settings.traces.as_ref().map_or_else(String::new, |it| it.display().to_string());
    let texts = |it: Trace| {
        let text = format!("{} ({})", it.name, Lang::size(it.bytes));
        (it.name, text)
    };
    ReplayPage {
        f: Frame::new(visit, "rules", format!("{} / {}", rule.app, rule.row.key)),
        l,
        href: rule_href(&rule.app, &rule.row.key),
        notice: None,
        folder,
        traces: traces.into_iter().map(texts).collect(),
        trace: trace.to_owned(),
        numbers: vec![
            Field::text("max_permits", t.max_permits, t.burst_hint, &table_rule.max_permits.to_string())
                .number(),
            Field::text("rate", t.rate, t.rate_hint, &table_rule.rate.to_string()).number(),
        ],
        map: String::new(),
        found: None,
        use_href: String::new(),
    }
}

/// The input, with its faults.
fn fill(form: &mut ReplayPage, visit: &Visit, faults: &[FieldFault]) {
    visit.field("map").clone_into(&mut form.map);
    let numbers = std::mem::take(&mut form.numbers).into_iter();
    let entered = |field: Field| Field { value: visit.field(field.name).to_owned(), ..field };
    form.numbers = numbers.map(|it| entered(it).faulted(visit.lang, faults)).collect();
}

fn found(visit: &Visit, l: &'static Texts, previewed: &Previewed) -> ReplayView {
    let report = &previewed.report;
    let now = report.rules.first();
    let then = report.rules.get(1);
    let lang = match visit.lang {
        Lang::Zh => Language::Zh,
        Lang::En => Language::En,
    };
    let mut notes: Vec<_> = previewed.notes.iter().map(|it| it.text(lang)).collect();
    if previewed.is_partial {
        notes.insert(0, l.partial.to_owned());
    }
    let requests = count(report.lines.requests);
    let mut rows = vec![FoundRow { name: l.requests, now: requests.clone(), then: requests }];
    let of = |side: Option<&SideReport>, show: &dyn Fn(&RuleReport) -> String| {
        side.and_then(|it| it.rules.first()).map_or_else(String::new, show)
    };
    let mut row = |name, show: &dyn Fn(&RuleReport) -> String| {
        rows.push(FoundRow { name, now: of(now, show), then: of(then, show) });
    };
    row(l.admitted, &|it| part(it.admitted, it.offered));
    row(l.denied, &|it| part(it.denied, it.offered));
    row(l.near, &|it| part(it.near, it.offered));
    row(l.keys, &|it| count(it.keys));
    row(l.keys_denied, &|it| count(it.keys_denied));
    // The exact log has the rate as its limit, per second, and knows no burst.
    row(l.by_burst, &|it| part(it.wrongly_admitted, it.compared));
    row(l.needlessly, &|it| part(it.wrongly_denied, it.compared));
    row(l.worst, &|it| it.worst_windows.first().map_or_else(String::new, |worst| count(worst.admitted)));
    row(l.suggested, &|it| it.suggested.first().map_or_else(String::new, |it| count(it.burst)));
    if let Some(it) = report.difference {
        for (name, requests) in [(l.newly_denied, it.newly_denied), (l.newly_admitted, it.newly_admitted)] {
            let then = part(requests, report.lines.requests);
            rows.push(FoundRow { name, now: String::new(), then });
        }
    }
    let shown = then.or(now).and_then(|it| it.rules.first());
    let top = shown.map_or_else(Vec::new, |rule| {
        rule.top_denied.iter().map(|it| (it.key.clone(), count(it.denied))).collect()
    });
    ReplayView {
        notes,
        has_change: then.is_some(),
        rows,
        chart: report.timeline.as_ref().map(|it| over_time(visit, l, it, then.is_some())),
        top,
    }
}

fn over_time(visit: &Visit, l: &'static Texts, timeline: &Timeline, has_change: bool) -> Chart {
    let step_ms = i64::try_from(timeline.span_ns / 1_000_000).unwrap_or(i64::MAX);
    let begin_ms = i64::try_from(timeline.begin_ns / 1_000_000).unwrap_or(i64::MAX);
    let rates = |of: fn(&tollgate_replay::Span) -> u64| -> Vec<i64> {
        let counts = timeline.spans.iter().map(|it| i64::try_from(of(it)).unwrap_or(i64::MAX));
        counts.map(|count| chart::tenths(count, step_ms)).collect()
    };
    let mut curves: Vec<Curve> =
        vec![("", l.offered, rates(|it| it.offered)), ("bad", l.denied_now, rates(|it| it.denied))];
    if has_change {
        curves.push(("warn", l.denied_then, rates(|it| it.denied_b)));
    }
    let times: Vec<i64> = (0..timeline.spans.len())
        .map(|nth| begin_ms.saturating_add(step_ms.saturating_mul(nth as i64)))
        .collect();
    let whole_ns = timeline.span_ns.saturating_mul(timeline.spans.len() as u64);
    let form = if whole_ns >= DAY_NS { "%m-%d %H:%M" } else { "%H:%M:%S" };
    let is_of_today = timeline.begin_ns >= YEAR_3_NS;
    let clock = |at_ms: i64| {
        if is_of_today { visit.time_as(at_ms, form) } else { format!("{} s", grouped(at_ms / 1_000)) }
    };
    let rows = times.iter().enumerate().map(|(nth, &at_ms)| {
        let span = timeline.spans.get(nth).copied().unwrap_or_default();
        let mut cells = vec![count(span.offered), count(span.denied)];
        cells.extend(has_change.then(|| count(span.denied_b)));
        chart::ChartRow { time: clock(at_ms), at_ms, cells }
    });
    let mut head = vec![l.time, l.offered, l.denied_now];
    head.extend(has_change.then_some(l.denied_then));
    Chart { head, rows: rows.collect(), ..drawn(l.over_time.to_owned(), &curves, &times, &clock) }
}

fn count(count: u64) -> String {
    grouped(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A count, with its share.
fn part(part: u64, whole: u64) -> String {
    let share = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{} ({})", count(part), chart::percent(i64::try_from(share).unwrap_or(i64::MAX)))
}
