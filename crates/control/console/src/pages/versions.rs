//! Apps and their versions.

use hyper::StatusCode;
use tollgate_control::{Role, apps, versions};
use tollgate_http_kit::Reply;

use super::hrefs::{change_href, settings_href};
use super::table::{TablePage, cell};
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::{changes::Texts, grouped};
use crate::web::{Failure, Visit, encoded};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    if visit.segment(0) == "apps" { of_app(console, visit).await } else { of_all(console, visit).await }
}

async fn of_all(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let apps = console.control.read_as(&claim, move |tx, actor| apps::list(tx, actor)).await?;
    let frame = Frame::new(visit, "versions", t.versions);
    let mut list = TablePage::new(frame, format!("{} / {}", t.limits, t.versions));
    list.empty = (t.no_apps, t.empty_text, String::new());
    list.head =
        vec![(t.app, false), (t.state, false), (t.version, true), (t.rules_count, true), (t.time, false)];
    for app in apps {
        list.rows.push(vec![
            cell(&app.name).href(format!("/apps/{}/versions", encoded(&app.name))),
            if app.state == "disabled" { cell(t.app_disabled).tag("tag off") } else { cell(t.active) },
            cell(grouped(app.version)).class("n"),
            cell(grouped(app.rules)).class("n"),
            cell(visit.time(app.updated_at)).class("time").title(app.updated_at.to_string()),
        ]);
    }
    page(StatusCode::OK, &list)
}

async fn of_app(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let name = visit.segment(1);
    let t = visit.lang.texts();
    let c = Texts::of(visit.lang);
    let may_edit = visit.who()?.may(Role::Editor, &name);
    let asked = name.clone();
    let read = console.control.read_as(&claim, move |tx, actor| {
        let is_disabled = apps::get(tx, actor, Role::Viewer, &asked)?.state == "disabled";
        Ok((versions::list(tx, actor, &asked, 200)?, is_disabled))
    });
    let (versions, is_disabled) = read.await?;
    let title = format!("{name} · {}", t.versions);
    let mut list =
        TablePage::new(Frame::new(visit, "versions", title), format!("{} / {}", t.limits, t.versions));
    list.aside = Some((c.settings, settings_href(&name)));
    list.live = is_disabled.then(|| ("warn", t.app_disabled.to_owned()));
    list.empty = (t.no_versions, t.no_versions_text, String::new());
    list.head = vec![
        (t.version, true),
        (t.kind, false),
        (t.comment, false),
        (t.author, false),
        (t.time, false),
        ("", false),
        ("", false),
    ];
    for (index, it) in versions.iter().enumerate() {
        let last = if index == 0 {
            cell(t.current).tag("tag on")
        } else if may_edit {
            cell(t.rollback).href(format!("/apps/{}/versions/{}/rollback", encoded(&name), it.version))
        } else {
            cell("")
        };
        let kind = match &*it.kind {
            "rollback" => t.kind_rollback,
            "withdraw" => t.kind_withdraw,
            _ => t.kind_publish,
        };
        list.rows.push(vec![
            cell(grouped(it.version)).class("n").title(&it.sha256),
            cell(kind),
            match &it.change_id {
                Some(id) => cell(&it.comment).class("text").href(change_href(id)),
                None => cell(&it.comment).class("text"),
            },
            cell(&it.author),
            cell(visit.time(it.created_at)).class("time").title(it.created_at.to_string()),
            cell(c.diff_link).href(format!("/apps/{}/versions/{}/diff", encoded(&name), it.version)),
            last,
        ]);
    }
    page(StatusCode::OK, &list)
}
