//! The audit: who changed what when, and whether the chain is whole.

use hyper::StatusCode;
use serde_json::{Map, Value};
use tollgate_control::Role;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::audit::{self, AuditEntry, Chain, Filter};
use tollgate_http_kit::Reply;

use super::diffs::{one_line, shown};
use super::hrefs::{change_href, file_href, rule_href};
use super::sections::{Form, Section, SectionsPage};
use super::table::{Cell, cell};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::{Lang, access, grouped, overrides};
use crate::web::{Failure, Visit, query_of};

/// Entries of a page.
const SIZE: i64 = 50;

/// The names of the filter's fields.
const FILTER: [&str; 6] = ["app", "actor", "target", "action", "from", "until"];

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let a = access::Texts::of(visit.lang);
    let text = |name: &str| visit.parameter(name).to_owned();
    let instant = |name: &str| match visit.parameter(name) {
        "" => Some(0),
        text => visit.instant(text),
    };
    let from = instant("from");
    let until = instant("until");
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
                let missing = match found < acknowledged {
                    true => format!("{} – {}", grouped(found + 1), grouped(acknowledged)),
                    false => format!("> {}", grouped(found)), // changes without an entry of their own
                };
                ("warn", format!("{} {missing}", t.chain_cut))
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

fn row(visit: &Visit, entry: &AuditEntry) -> Vec<Cell> {
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
        cell("").lines(lines_of(visit, entry)).class("text mono"),
        cell(&entry.ip).class("time").title(&entry.request_id),
    ]
}

/// Members that name a change set or a content by a long number; the export has them.
const IDENTITIES: [&str; 3] = ["change", "content_sha256", "sha256"];

/// Most lines of one entry; the change set or the version has the others.
const MOST_LINES: usize = 20;

/// The changes of an entry, a line for each rule, with its link.
fn lines_of(visit: &Visit, entry: &AuditEntry) -> Vec<(String, String)> {
    let read = |text: &Option<String>| text.as_deref().and_then(|it| serde_json::from_str::<Value>(it).ok());
    let before = read(&entry.before);
    let after = read(&entry.after);
    let mut lines = Vec::new();
    let app = entry.app.as_deref().unwrap_or_default();
    let all = after.as_ref().and_then(|it| it["changes"].as_array());
    if let Some(changes) = all {
        let published = after.as_ref().map(|it| &it["published"]);
        let id = published.and_then(|it| it["change"].as_str()).unwrap_or_default();
        let title = published.and_then(|it| it["title"].as_str()).unwrap_or_default();
        if !id.is_empty() {
            lines.push((if title.is_empty() { id } else { title }.to_owned(), change_href(id)));
        }
        for change in changes.iter().take(MOST_LINES) {
            let key = change["key"].as_str().unwrap_or_default();
            let href = if change["kind"] == "file" { file_href(app, key) } else { rule_href(app, key) };
            let text = one_line(visit.lang, object(&change["before"]), object(&change["after"]));
            // A rule that was deleted has no page.
            lines.push((
                format!("{key}: {text}"),
                if change["after"].is_null() { String::new() } else { href },
            ));
        }
        if changes.len() > MOST_LINES {
            lines.push((format!("… {}", changes.len() - MOST_LINES), String::new()));
        }
    } else {
        let text = difference(visit.lang, entry, before.as_ref(), after.as_ref());
        let key = entry.target.strip_prefix(app).and_then(|it| it.strip_prefix('/')).unwrap_or_default();
        let is_there = !key.is_empty() && !entry.action.ends_with(".delete");
        let href = match &*entry.action {
            action if action.starts_with("rule.") && is_there => rule_href(app, key),
            action if action.starts_with("file.") && is_there => file_href(app, key),
            _ => String::new(),
        };
        lines.push((if text.is_empty() && !href.is_empty() { key.to_owned() } else { text }, href));
    }
    if !entry.reason.is_empty() {
        lines.push((entry.reason.clone(), String::new()));
    }
    lines.retain(|it| !it.0.is_empty());
    lines
}

fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

/// The rows that another program has edited, each with its table and its key.
fn rows(after: &Map<String, Value>) -> String {
    let rows = after.get("first").and_then(Value::as_array).into_iter().flatten();
    let of = |row: &Value| format!("{} {}", shown(&row["table"]), shown(&row["key"]));
    rows.map(of).collect::<Vec<_>>().join(" · ")
}

/// The members that differ, as `rate 5 → 8`.
fn difference(lang: Lang, entry: &AuditEntry, before: Option<&Value>, after: Option<&Value>) -> String {
    let empty = Map::new();
    let before = before.and_then(object).unwrap_or(&empty);
    let after = after.and_then(object).unwrap_or(&empty);
    if entry.action == "override.create" {
        let o = overrides::Texts::of(lang);
        let what = if after.get("action").is_some_and(|it| it == "allow") { o.allow } else { o.block };
        // Older entries have the end instead of minutes.
        let until = after.get("until").and_then(Value::as_i64).unwrap_or(entry.at);
        let ms = after.get("minutes").and_then(Value::as_i64).map_or(until - entry.at, |it| it * 60_000);
        return format!("{what} · {}", overrides::left(lang, ms));
    }
    if entry.action == "database.edited" {
        return tollgate_human_text::clip_to(&rows(after), 400);
    }
    let mut parts = Vec::new();
    for (name, new) in after.iter().filter(|it| !IDENTITIES.contains(&&**it.0)) {
        match before.get(name) {
            Some(old) if old == new => {}
            Some(Value::Null) => parts.push(format!("{name} {}", shown(new))),
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
    tollgate_human_text::clip_to(&parts.join(" · "), 400)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_that_another_program_edited_are_named() {
        let after =
            json!({"rows": 2, "first": [{"table": "car", "key": "'a'"}, {"table": "apps", "key": "'b'"}]});
        assert_eq!(rows(after.as_object().expect("an object")), "car 'a' · apps 'b'");
        assert_eq!(rows(&Map::new()), "");
    }
}
