//! Nodes: what each has in force, and why not.

use hyper::StatusCode;
use tollgate_control::NodeApp;
use tollgate_http_kit::Reply;

use super::table::{Cell, TablePage, cell};
use crate::console::Console;
use crate::frame::{Frame, live, page};
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let actor = visit.actor()?;
    let t = visit.lang.texts();
    let now_ms = console.control.read(|tx| Ok(tx.now_ms())).await?;
    let nodes = console.control.nodes().nodes();
    let published = console.control.published().borrow().clone();
    let mut list = TablePage::new(Frame::new(visit, "nodes", t.nodes), format!("{} / {}", t.fleet, t.nodes));
    list.live = Some(live(visit.lang, &nodes, now_ms, |node| {
        published.apps.iter().all(|it| node.has(&it.app, it.version))
    }));
    let command = "tollgate serve --control http://127.0.0.1:8070".to_owned();
    list.empty = (t.no_nodes, t.no_nodes_text, command);
    list.head = vec![
        (t.node, false),
        (t.state, false),
        (t.apps_on_node, false),
        (t.address, false),
        (t.software, false),
        (t.last_seen, false),
    ];
    for node in &nodes {
        let is_live = node.is_live(now_ms);
        // An app that the actor may not see is not named.
        let apps = node.apps.iter().filter(|it| actor.may(tollgate_control::Role::Viewer, &it.app));
        let apps: Vec<String> = apps.map(in_words).collect();
        let state: Cell = cell(if is_live { t.node_live } else { t.node_lost });
        list.rows.push(vec![
            cell(&node.name).title(&node.id),
            state.tag(if is_live { "tag on" } else { "tag off" }),
            cell(apps.join(" · ")).class("text"),
            cell(&node.address).class("time"),
            cell(&node.software).class("time"),
            cell(visit.time(node.last_seen_ms)).class("time").title(node.last_seen_ms.to_string()),
        ]);
    }
    page(StatusCode::OK, &list)
}

fn in_words(app: &NodeApp) -> String {
    let NodeApp { app, wanted, acked, fault, .. } = app;
    let fault = fault.as_ref().map_or_else(String::new, |it| format!(": {it}"));
    if wanted == acked {
        format!("{app} {acked}{fault}")
    } else {
        format!("{app} {acked} → {wanted}{fault}")
    }
}
