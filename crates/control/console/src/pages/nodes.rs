//! Nodes: what each has in force, and why not; and one node with all that it reported.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::{ControlError, Figures, Health, NodeApp, NodeState, Role, Who};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::frame::{Frame, all_live, page};
use crate::texts::nodes::Texts;
use crate::texts::{Lang, grouped};
use crate::web::{Failure, Visit, encoded, query_of, redirect};

#[derive(Template)]
#[template(path = "nodes.html")]
struct ListPage {
    f: Frame,
    d: &'static Texts,
    after: String,
    live: (&'static str, String),
    rows: Vec<NodeRow>,
    command: String,
    may_remove: bool,
}

struct NodeRow {
    href: String,
    id: String,
    name: String,
    /// Class of a tag, and its text.
    health: (&'static str, &'static str),
    labels: Vec<String>,
    /// The number of its apps that are as wanted, and those that are not.
    in_force: String,
    missing: Vec<AppMismatch>,
    /// The store, and whether it answers.
    store: Option<(String, bool)>,
    software: String,
    seen: String,
    seen_ms: i64,
    is_live: bool,
}

/// An app that is not as wanted.
struct AppMismatch {
    class: &'static str,
    text: String,
    why: String,
}

#[derive(Template)]
#[template(path = "node.html")]
struct NodePage {
    f: Frame,
    d: &'static Texts,
    after: String,
    health: (&'static str, &'static str),
    /// Name, value, and whether that is a name of something.
    facts: Vec<Fact>,
    faults: Vec<(&'static str, String)>,
    apps: Vec<AppRow>,
    /// Where the node is removed, if it may be.
    remove: Option<String>,
}

/// A fact of a node.
struct Fact {
    name: &'static str,
    value: String,
    is_code: bool,
}

impl Fact {
    const fn text(name: &'static str, value: String) -> Self {
        Self { name, value, is_code: false }
    }

    const fn code(name: &'static str, value: String) -> Self {
        Self { name, value, is_code: true }
    }
}

struct AppRow {
    app: String,
    href: String,
    acked: String,
    wanted: String,
    class: &'static str,
    state: &'static str,
    fault: String,
}

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let d = Texts::of(visit.lang);
    let (who, now_ms) = console.who(visit).await?;
    let nodes = console.control.nodes().nodes();
    let figures = console.control.live().figures();
    let list = ListPage {
        f: Frame::new(visit, "nodes", visit.lang.texts().nodes),
        d,
        after: after(console),
        live: all_live(console, visit.lang, now_ms),
        rows: nodes.iter().map(|node| row(visit, &who, node, figures.get(&node.id), now_ms)).collect(),
        command: join(console, visit),
        may_remove: who.may(Role::Admin, EVERY_APP),
    };
    page(StatusCode::OK, &list)
}

/// The command that joins a node: with the address and the token that the server knows.
pub(super) fn join(console: &Console, visit: &Visit) -> String {
    if !console.settings.join.is_empty() {
        return console.settings.join.clone();
    }
    let scheme = if console.settings.is_secure { "https" } else { "http" };
    format!("tollgate serve --control {scheme}://{} --control-token-file node-token", visit.host)
}

pub(super) async fn remove(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    console.control.remove_node(&visit.claim()?, &visit.segment(1)).await?;
    Ok(redirect("/nodes"))
}

fn row(visit: &Visit, who: &Who, node: &NodeState, figures: Option<&Figures>, now_ms: i64) -> NodeRow {
    let d = Texts::of(visit.lang);
    let apps: Vec<&NodeApp> = seen(who, node).collect();
    let is_missing = |it: &&&NodeApp| it.acked != it.wanted || it.fault.is_some();
    let missing = apps.iter().filter(is_missing).map(|it| AppMismatch {
        class: state(d, it).0,
        text: format!("{} {} → {}", it.app, it.acked, it.wanted),
        why: it.fault.clone().unwrap_or_default(),
    });
    let missing: Vec<_> = missing.collect();
    NodeRow {
        href: href(&node.id),
        id: node.id.clone(),
        name: node.name.clone(),
        health: health(visit.lang, node.health(now_ms)),
        labels: labels(node),
        // Its rules are unknown until it attaches.
        in_force: match node.is_connected || apps.iter().any(|it| it.acked > 0) {
            true => format!("{} / {}", apps.len() - missing.len(), apps.len()),
            false => d.unknown.to_owned(),
        },
        missing: if node.is_live(now_ms) { missing } else { Vec::new() },
        store: figures.and_then(|it| it.store.clone()).filter(|_| !who.roles.is_empty()),
        software: node.software.clone(),
        seen: visit.time(node.last_seen_ms),
        seen_ms: node.last_seen_ms,
        is_live: node.is_live(now_ms),
    }
}

/// Class of a tag, and its text.
const fn health(lang: Lang, health: Health) -> (&'static str, &'static str) {
    let t = lang.texts();
    match health {
        Health::Live => ("on", t.node_live),
        Health::Unresponsive => ("warn", t.node_unresponsive),
        Health::Lost => ("bad", t.node_lost),
    }
}

/// The apps of a node that the actor may see.
fn seen<'n>(who: &'n Who, node: &'n NodeState) -> impl Iterator<Item = &'n NodeApp> {
    node.apps.iter().filter(|it| who.may(Role::Viewer, &it.app))
}

/// The events that a page has seen.
fn after(console: &Console) -> String {
    let events = &console.control.live().events;
    events.id(&events.watch().borrow())
}

fn labels(node: &NodeState) -> Vec<String> {
    node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// Class of a tag, and its text.
fn state(d: &Texts, app: &NodeApp) -> (&'static str, &'static str) {
    match app {
        NodeApp { is_ahead: true, .. } => ("bad", d.ahead),
        NodeApp { fault: Some(_), .. } => ("bad", d.rejected),
        NodeApp { wanted, acked, .. } if wanted == acked => ("ok", d.up_to_date),
        _ => ("warn", d.behind),
    }
}

/// Its weight where nodes are counted.
const fn standing(d: &Texts, node: &NodeState) -> &'static str {
    match (node.is_new, node.is_bound) {
        (true, _) => d.is_new,
        (false, true) => d.proven,
        (false, false) => d.unbound,
    }
}

fn href(id: &str) -> String {
    format!("/nodes/{}", encoded(id))
}

pub(super) async fn one(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let d = Texts::of(visit.lang);
    let id = visit.segment(1);
    let (who, now_ms) = console.who(visit).await?;
    let node = console.control.nodes().nodes().into_iter().find(|it| it.id == id);
    let node = node.ok_or(ControlError::NotFound { what: "node", name: id.clone() })?;
    let figures = console.control.live().figures().remove(&id).unwrap_or_default();
    let or_none = |texts: &[String]| if texts.is_empty() { "–".to_owned() } else { texts.join(", ") };
    let store = match figures.store.as_ref().filter(|_| !who.roles.is_empty()) {
        None if who.roles.is_empty() => "–".to_owned(),
        Some((name, true)) => name.clone(),
        Some((name, false)) => format!("{name} · {}", d.store_down),
        None if !node.is_live(now_ms) => d.unknown.to_owned(),
        None => d.no_store.to_owned(),
    };
    let table_kb = i64::try_from(figures.table_bytes / 1_000).unwrap_or(i64::MAX);
    let is_store = figures.store.as_ref().is_some_and(|it| it.1) && !who.roles.is_empty();
    let stream = if node.is_connected { d.connected } else { d.away };
    let mut facts = vec![
        Fact::text(t.last_seen, visit.time(node.last_seen_ms)),
        Fact::text(d.stream, stream.to_owned()),
        Fact::code(d.labels, or_none(&labels(&node))),
        Fact::code(t.software, node.software.clone()),
        Fact::text(d.language, node.language.to_string()),
        Fact { is_code: is_store, ..Fact::text(d.store, store) },
        Fact::text(d.table, format!("{} kB", grouped(table_kb))),
        Fact::text(d.skew, format!("{} ms", grouped(node.skew_ms))),
        Fact::code(d.id, node.id.clone()),
        Fact::text(d.standing, standing(d, &node).to_owned()),
    ];
    let mut faults = Vec::new();
    // These may name machines, domains and files of other apps, as in the API.
    if who.may_everywhere(Role::Viewer) {
        facts.insert(2, Fact::code(t.address, node.address.clone()));
        facts.push(Fact::code(d.own_domains, or_none(&node.local_domains)));
        faults = vec![(d.state_error, figures.state_error), (d.rules_error, figures.rules_error)];
    }
    let app = |it: &NodeApp| {
        let (class, state) = state(d, it);
        AppRow {
            app: it.app.clone(),
            href: query_of("/rules", &[("app", &it.app)]),
            acked: it.acked.to_string(),
            wanted: it.wanted.to_string(),
            class,
            state,
            fault: it.fault.clone().unwrap_or_default(),
        }
    };
    let shown = NodePage {
        f: Frame::new(visit, "nodes", node.name.clone()),
        d,
        after: after(console),
        health: health(visit.lang, node.health(now_ms)),
        facts,
        faults: faults.into_iter().filter(|it| !it.1.is_empty()).collect(),
        apps: seen(&who, &node).map(app).collect(),
        remove: (who.may(Role::Admin, EVERY_APP) && !node.is_live(now_ms))
            .then(|| format!("{}/remove", href(&node.id))),
    };
    page(StatusCode::OK, &shown)
}
