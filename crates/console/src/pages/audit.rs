//! The audit: who changed what when, and whether the chain is whole.

use hyper::StatusCode;
use tollgate_control::Role;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::audit::{self, Chain, Entry, Filter};
use tollgate_http_kit::Reply;

use super::sections::{Form, Section, SectionsPage};
use super::table::{Cell, cell};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::{access, grouped};
use crate::web::{Failure, Visit, query_of};

/// Entries of a page.
const SIZE: i64 = 50;

/// The names of the filter's fields.
const FILTER: [&str; 6] = ["app", "actor", "target", "action", "from", "until"];

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, t, a) = (visit.claim()?, visit.lang.texts(), access::Texts::of(visit.lang));
    let text = |name: &str| visit.parameter(name).to_owned();
    let instant = |name: &str| match visit.parameter(name) {
        "" => Some(0),
        text => visit.instant(text),
    };
    let (from, until) = (instant("from"), instant("until"));
    let filter = Filter {
        app: text("app"),
        actor: text("actor"),
        target: text("target"),
        action: text("action"),
        from: from.unwrap_or(0),
        until: until.unwrap_or(0),
    };
    let before = visit.number("before", 0);
    let asked = filter.clone();
    let read = console.control.read_as(&claim, move |tx, actor| audit::find(tx, actor, &asked, before, SIZE));
    let entries = read.await?;
    let is_admin = visit.who()?.may(Role::Admin, EVERY_APP);
    let f = Frame::new(visit, "audit", t.audit);
    let mut list = SectionsPage::new(f, format!("{} / {}", t.system, t.audit));
    if is_admin && before == 0 {
        let chain = console.control.audit_chain(&claim).await?;
        list.live = Some(match chain {
            Chain::Whole(count) => ("ok", format!("{} · {}", t.chain_whole, grouped(count))),
            Chain::Cut(found, acknowledged) => {
                let (from, to) = (grouped(found + 1), grouped(acknowledged));
                ("warn", format!("{} {from} – {to}", t.chain_cut))
            }
            Chain::BrokenAt(seq) => ("warn", format!("{} {seq}", t.chain_broken)),
        });
        list.tool = Some(("/api/v1/audit/export".to_owned(), a.export));
    }
    let mut inputs = vec![
        Field::text("app", t.app, "", visit.parameter("app")).mono(),
        Field::text("actor", t.actor, "", visit.parameter("actor")),
        Field::text("action", t.action, "", visit.parameter("action")).mono(),
        Field::text("target", t.target, "", visit.parameter("target")).mono(),
        Field::text("from", a.from_time, a.time_hint, visit.parameter("from")),
        Field::text("until", a.until_time, a.time_hint, visit.parameter("until")),
    ];
    for (name, at) in [("from", from), ("until", until)] {
        let input = inputs.iter_mut().find(|it| it.name == name && at.is_none());
        if let Some(input) = input {
            input.fault = Some(a.bad_time.to_owned());
        }
    }
    let last = entries.last().filter(|it| it.seq > 1 && entries.len() as i64 == SIZE);
    let more = last.map(|it| {
        let seq = it.seq.to_string();
        let mut parameters = FILTER.map(|name| (name, visit.parameter(name))).to_vec();
        parameters.push(("before", &seq));
        (query_of("/audit", &parameters), t.older)
    });
    let above = vec![Form { action: "/audit".to_owned(), inputs, button: a.filter, ..Form::default() }];
    list.sections = vec![Section {
        above,
        head: vec![
            ("#", true),
            (t.time, false),
            (t.actor, false),
            (t.action, false),
            (t.target, false),
            (t.change, false),
            (t.from, false),
        ],
        rows: entries.iter().map(|entry| row(visit, entry)).collect(),
        empty: (t.no_entries, ""),
        more,
        ..Section::default()
    }];
    page(StatusCode::OK, &list)
}

fn row(visit: &Visit, entry: &Entry) -> Vec<Cell> {
    vec![
        cell(grouped(entry.seq)).class("n").title(&entry.hash),
        cell(visit.time(entry.at)).class("time").title(entry.at.to_string()),
        cell(&entry.actor).href(query_of("/audit", &[("actor", &entry.actor)])).title(&entry.via),
        if entry.action == "rejected" {
            cell(access::Texts::of(visit.lang).rejected).tag("tag off")
        } else {
            cell(&entry.action).tag("mono")
        },
        cell(&entry.target).tag("mono").class("name"),
        cell(difference(entry)).class("text mono"),
        cell(&entry.ip).class("time").title(&entry.request_id),
    ]
}

/// Members that name a change set or a content by a long number; the export has them.
const IDENTITIES: [&str; 3] = ["change", "content_sha256", "sha256"];

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
    for (name, new) in after.iter().filter(|it| !IDENTITIES.contains(&&**it.0)) {
        match before.get(name) {
            Some(old) if old == new => {}
            Some(serde_json::Value::Null) => parts.push(format!("{name} {}", shown(new))),
            Some(old) => parts.push(format!("{name} {} → {}", shown(old), shown(new))),
            None if entry.before.is_some() => parts.push(format!("{name} {}", shown(new))),
            None if ["rate", "max_permits", "state", "name", "app", "role", "status", "kind"]
                .contains(&&**name) =>
            {
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
