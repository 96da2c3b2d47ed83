//! The audit: who changed what when, and whether the chain is whole.

use hyper::StatusCode;
use tollgate_control::audit::{self, Chain, Entry};
use tollgate_http_kit::Reply;

use super::table::{Cell, TablePage, cell};
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::grouped;
use crate::web::{Failure, Visit, query_of};

/// Entries of a page.
const SIZE: usize = 50;

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let actor = visit.actor()?;
    let (app, by) = (visit.parameter("app").to_owned(), visit.parameter("actor").to_owned());
    let (asked_app, asked_by, before) = (app.clone(), by.clone(), visit.number("before", 0));
    let read = console.control.read(move |tx| {
        let entries = audit::list(tx, &actor, &asked_app, &asked_by, before, SIZE as i64)?;
        // The whole chain is walked on the first page only.
        let chain = if asked_app.is_empty() && before == 0 { Some(audit::verify(tx, &actor)?) } else { None };
        Ok((entries, chain))
    });
    let (entries, chain) = read.await?;
    let t = visit.lang.texts();
    let mut list = TablePage::new(Frame::new(visit, "audit", t.audit), format!("{} / {}", t.system, t.audit));
    list.live = chain.map(|chain| match chain {
        Chain::Whole(count) => ("ok", format!("{} · {}", t.chain_whole, grouped(count))),
        Chain::BrokenAt(seq) => ("warn", format!("{} {seq}", t.chain_broken)),
    });
    list.empty = (t.no_entries, "", String::new());
    list.head = vec![
        ("#", true),
        (t.time, false),
        (t.actor, false),
        (t.action, false),
        (t.target, false),
        (t.change, false),
        (t.from, false),
    ];
    let last = entries.last().map(|entry| entry.seq);
    list.more = last
        .filter(|seq| *seq > 1 && entries.len() == SIZE)
        .map(|seq| query_of("/audit", &[("app", &app), ("actor", &by), ("before", &seq.to_string())]));
    list.rows = entries.iter().map(|entry| row(visit, entry)).collect();
    page(StatusCode::OK, &list)
}

fn row(visit: &Visit, entry: &Entry) -> Vec<Cell> {
    vec![
        cell(grouped(entry.seq)).class("n").title(&entry.hash),
        cell(visit.time(entry.at)).class("time").title(entry.at.to_string()),
        cell(&entry.actor).href(query_of("/audit", &[("actor", &entry.actor)])),
        cell(&entry.action).tag("mono"),
        cell(&entry.target).tag("mono"),
        cell(difference(entry)).class("text"),
        cell(&entry.ip).class("time").title(&entry.request_id),
    ]
}

/// The members that differ, as `rate 5 → 8`.
fn difference(entry: &Entry) -> String {
    let read = |text: &Option<String>| -> serde_json::Map<String, serde_json::Value> {
        text.as_deref().and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default()
    };
    let (before, after) = (read(&entry.before), read(&entry.after));
    let shown = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut parts = Vec::new();
    for (name, new) in &after {
        match before.get(name) {
            Some(old) if old == new => {}
            Some(serde_json::Value::Null) => parts.push(format!("{name} {}", shown(new))),
            Some(old) => parts.push(format!("{name} {} → {}", shown(old), shown(new))),
            None if entry.before.is_some() => parts.push(format!("{name} {}", shown(new))),
            None if ["rate", "max_permits", "state", "name", "app", "role"].contains(&&**name) => {
                parts.push(format!("{name} {}", shown(new)));
            }
            None => {}
        }
    }
    if !entry.reason.is_empty() {
        parts.push(entry.reason.clone());
    }
    tollgate_human_text::clip_to(&parts.join(" · "), 400)
}
