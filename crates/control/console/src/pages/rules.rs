//! The list of rules: eight columns, pages, search, order, counts.

use std::collections::{HashMap, HashSet};

use askama::Template;
use hyper::StatusCode;
use tollgate_control::rules::{self, Query, Rule, Sort};
use tollgate_control::{InForce, Role, apps, history};
use tollgate_http_kit::Reply;

use super::hrefs::rule_href;
use crate::console::Console;
use crate::frame::{Frame, all_live, page};
use crate::texts::{Lang, changes, grouped};
use crate::web::{Failure, Visit, query_of};

/// Rows of a page, as people choose.
const SIZES: [i64; 4] = [10, 25, 50, 100];

#[derive(Template)]
#[template(path = "rules.html")]
struct RulesPage {
    f: Frame,
    c: &'static changes::Texts,
    /// Some row can be changed.
    may_change: bool,
    live: (&'static str, String),
    notice: Option<(&'static str, String)>,
    sizes: [i64; 4],
    size: i64,
    apps: Vec<String>,
    app: String,
    states: [(&'static str, &'static str); 3],
    state: String,
    search: String,
    sort: &'static str,
    sorted: (String, String),
    /// The reader's time zone, for times that a script writes.
    zone: String,
    rows: Vec<RuleRow>,
    total: i64,
    counts: String,
    page: i64,
    pages: Vec<(i64, String)>,
    previous: Option<String>,
    next: Option<String>,
}

/// A rule as the list shows it.
struct RuleRow {
    app: String,
    app_href: String,
    key: String,
    href: String,
    etag: i64,
    state: String,
    state_text: &'static str,
    burst: String,
    rate: String,
    /// Tokens, and the width of their bar of 64.
    tokens: Option<(String, i64)>,
    /// Counts each value of this entry separately, so that it has no single number of tokens.
    per: String,
    max_permits: i64,
    description: String,
    /// The time, and its milliseconds.
    used: Option<(String, i64)>,
    may_edit: bool,
    delete_href: String,
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let size = visit.number("size", 10);
    let size = if SIZES.contains(&size) { size } else { 10 };
    let (sort, order) = match visit.parameter("sort") {
        "rate" => ("rate", Sort::Rate),
        "updated" => ("updated", Sort::Updated),
        _ => ("key", Sort::Key),
    };
    let app = visit.parameter("app").to_owned();
    let search = visit.parameter("search").to_owned();
    let states = [("on", t.state_on), ("shadow", t.state_shadow), ("off", t.state_off)];
    let state = states.iter().find(|it| it.0 == visit.parameter("state")).map_or("", |it| it.0).to_owned();
    let query = Query {
        app: app.clone(),
        search: search.clone(),
        state: state.clone(),
        sort: order,
        page: visit.number("page", 1),
        size,
    };
    let who = visit.who()?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        let found = rules::list(tx, actor, &query)?;
        let keys: Vec<_> = found.rules.iter().map(|it| (it.app.clone(), it.row.key.clone())).collect();
        let used = history::last_used(tx, actor, &keys)?;
        Ok((found, used, apps::names(tx, actor)?, tx.now_ms()))
    });
    let (found, used, apps, now_ms) = read.await?;
    let used: HashMap<(&str, &str), i64> = used.iter().map(|it| ((&*it.app, &*it.key), it.used_ms)).collect();
    let rows = found.rules.iter().map(|rule| {
        let used = used.get(&(&*rule.app, &*rule.row.key)).copied();
        row(console, visit, rule, used, who.may(Role::Editor, &rule.app))
    });
    let rows: Vec<RuleRow> = rows.collect();
    let href = |page: i64, sort: &str| {
        let size = size.to_string();
        let page = page.to_string();
        let parameters = [
            ("app", &*app),
            ("state", &state),
            ("search", &search),
            ("sort", sort),
            ("size", &size),
            ("page", &page),
        ];
        query_of("/rules", &parameters)
    };
    let disabled =
        apps.iter().filter(|(_, is_disabled)| *is_disabled).map(|(name, _)| name.clone()).collect();
    let last = (found.matching - 1).max(0) / size + 1;
    let first = (found.page - 1) * size + 1;
    let shown = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let around = (found.page - 2).max(1)..=(found.page + 2).min(last);
    let list = RulesPage {
        f: Frame::new(visit, "rules", t.list_long),
        c: changes::Texts::of(visit.lang),
        may_change: rows.iter().any(|row| row.may_edit),
        live: all_live(console, visit.lang, now_ms),
        notice: notice(console, visit, &disabled, now_ms),
        sizes: SIZES,
        size,
        sort,
        sorted: (href(1, "key"), href(1, "rate")),
        counts: visit.lang.counts(first.min(found.matching), first + shown - 1, found.matching, found.total),
        rows,
        total: found.total,
        page: found.page,
        pages: around.map(|page| (page, href(page, sort))).collect(),
        previous: (found.page > 1).then(|| href(found.page - 1, sort)),
        next: (found.page < last).then(|| href(found.page + 1, sort)),
        apps: apps.into_iter().map(|(name, _)| name).collect(),
        app: app.clone(),
        states,
        state: state.clone(),
        search: search.clone(),
        zone: visit.zone.iana_name().unwrap_or("UTC").to_owned(),
    };
    page(StatusCode::OK, &list)
}

fn row(console: &Console, visit: &Visit, rule: &Rule, used: Option<i64>, may_edit: bool) -> RuleRow {
    let t = visit.lang.texts();
    let table_rule = &rule.row;
    let href = rule_href(&rule.app, &table_rule.key);
    let usage = console.control.nodes().usage(&rule.app, &table_rule.key);
    let width = |tokens: i64| tokens.clamp(0, table_rule.max_permits) * 64 / table_rule.max_permits.max(1);
    RuleRow {
        app_href: query_of("/rules", &[("app", &rule.app)]),
        app: rule.app.clone(),
        key: table_rule.key.clone(),
        delete_href: format!("{href}/delete"),
        href,
        etag: rule.etag,
        state_text: if rule.is_app_disabled {
            t.app_disabled
        } else {
            state_text(visit.lang, &table_rule.state)
        },
        state: if rule.is_app_disabled { "off".to_owned() } else { table_rule.state.clone() },
        burst: grouped(table_rule.max_permits),
        rate: format!("{} {}", grouped(table_rule.rate), t.per_second),
        tokens: usage.map(|it| (grouped(it.tokens), width(it.tokens))),
        per: table_rule.per.clone(),
        max_permits: table_rule.max_permits,
        description: table_rule.description.clone(),
        used: usage.map(|it| it.last_used_ms).or(used).map(|at| (visit.time(at), at)),
        may_edit,
    }
}

pub(super) fn state_text(lang: Lang, state: &str) -> &'static str {
    let t = lang.texts();
    match state {
        "on" => t.state_on,
        "shadow" => t.state_shadow,
        _ => t.state_off,
    }
}

/// The outcome of the page before, and where it is in force.
fn notice(
    console: &Console,
    visit: &Visit,
    disabled: &HashSet<String>,
    now_ms: i64,
) -> Option<(&'static str, String)> {
    let c = changes::Texts::of(visit.lang);
    match visit.parameter("bulk") {
        "none" => return Some(("info", c.nothing_selected.to_owned())),
        "stale" => return Some(("warn", c.bulk_stale.to_owned())),
        _ => {}
    }
    let app = visit.parameter("saved");
    let version = visit.number("version", 0);
    if tollgate_control::fields::app_name(app).is_err() || version < 1 {
        return None;
    }
    if disabled.contains(app) {
        return Some(("warn", visit.lang.saved(app, version, visit.lang.texts().app_disabled_text)));
    }
    let nodes = console.control.nodes().nodes_of(app);
    let found = InForce::of(&nodes, now_ms, |node| node.has(app, version.unsigned_abs()));
    let class = if found.is_everywhere() { "ok" } else { "warn" };
    Some((class, visit.lang.saved(app, version, &visit.lang.live(found))))
}
