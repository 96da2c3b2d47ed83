//! One action for several rows of the list: a change set for each app.

use std::collections::BTreeMap;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::{Content, ControlError, RuleKind, rules, table_rule_yaml};
use tollgate_db::Tx;
use tollgate_http_kit::{Reply, reply};

use super::confirm::ConfirmPage;
use super::hrefs::change_href;
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::web::{Failure, Outcome, Visit, query_of, redirect};

/// Keys and etags of an app.
type Picked = Vec<(String, i64)>;

pub(super) async fn act(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let picked = picked_in(visit);
    if picked.is_empty() {
        return Ok(redirect(&query_of("/rules", &[("bulk", "none")])));
    }
    let action = match visit.field("action") {
        "export" => return export(console, visit, picked).await,
        "on" => "on",
        "shadow" => "shadow",
        "off" => "off",
        "delete" => return ask_delete(visit, &picked),
        "delete-now" => "delete",
        _ => return Err(Failure::Bad("unknown action".to_owned())),
    };
    let count = picked.len();
    let mut last = None;
    for (app, rows) in picked {
        let done = console.commit(visit, move |tx, actor| {
            let ops = ops_for(tx, actor, &app, &rows, action)?;
            publishing::propose(
                tx,
                actor,
                &app,
                &ChangeInput { ops, ..ChangeInput::default() },
                Intent::Publish,
            )
        });
        match Outcome::of(done.await) {
            Ok(Outcome::Done(done)) => last = Some(done),
            // Nothing to change: all of them are in that state already.
            Ok(Outcome::Invalid(faults)) if faults.iter().all(|it| it.field == "ops") => {}
            Ok(Outcome::Invalid(faults)) => return Err(ControlError::Invalid(faults).into()),
            Ok(Outcome::Stale)
            | Err(Failure::Control(ControlError::Conflict(_) | ControlError::NotFound { .. })) => {
                return Ok(redirect(&query_of("/rules", &[("bulk", "stale")])));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(match last {
        None => redirect("/rules"),
        Some(done) => match done.published_version {
            Some(version) => {
                redirect(&query_of("/rules", &[("saved", &done.app), ("version", &version.to_string())]))
            }
            None if count == 1 => redirect(&change_href(&done.id)),
            None => redirect("/changes"),
        },
    })
}

/// Asks before rows are deleted, and names each.
fn ask_delete(visit: &Visit, picked: &BTreeMap<String, Picked>) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let mut hidden = vec![("action".to_owned(), "delete-now".to_owned())];
    let mut facts = Vec::new();
    for (app, rows) in picked {
        let keys: Vec<&str> = rows.iter().map(|(key, _)| &**key).collect();
        facts.push((t.app, app.clone()));
        facts.push((t.key, keys.join(", ")));
        hidden.extend(rows.iter().map(|(key, etag)| (format!("pick:{app}/{key}"), etag.to_string())));
    }
    let confirm = ConfirmPage {
        f: Frame::new(visit, "rules", t.delete_rule),
        crumb: format!("{} / {}", t.limits, t.delete_rule),
        fault: None,
        action: "/rules/bulk".to_owned(),
        question: t.delete_question,
        facts,
        consequence: t.delete_consequence,
        etag: 0,
        second: None,
        picks: Vec::new(),
        picks_title: String::new(),
        asks_reason: false,
        button: t.delete,
        back: "/rules".to_owned(),
        hidden,
    };
    page(StatusCode::OK, &confirm)
}

/// The rules that were ticked, by app.
fn picked_in(visit: &Visit) -> BTreeMap<String, Picked> {
    let mut picked: BTreeMap<String, Picked> = BTreeMap::new();
    for (name, etag) in visit.fields("pick:") {
        // Names of apps have no slashes.
        if let (Some((app, key)), Ok(etag)) = (name.split_once('/'), etag.parse()) {
            picked.entry(app.to_owned()).or_default().push((key.to_owned(), etag));
        }
    }
    picked
}

fn ops_for(
    tx: &mut dyn Tx,
    by: &tollgate_control::Actor,
    app: &str,
    rows: &Picked,
    action: &str,
) -> Result<Vec<OpInput>, ControlError> {
    let mut ops = Vec::with_capacity(rows.len());
    for (key, etag) in rows {
        let rule = rules::get(tx, by, app, key)?;
        let content = Content::TableRule(Box::new(rule.row));
        let after = match action {
            "delete" => None,
            state if content.state() == state => continue,
            state => Some(content.with_state(state)),
        };
        ops.push(OpInput { kind: RuleKind::TableRule, key: key.clone(), base: Some(*etag), after });
    }
    Ok(ops)
}

/// The rows as a file of YAML documents.
async fn export(
    console: &Console,
    visit: &Visit,
    picked: BTreeMap<String, Picked>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        let mut text = String::new();
        for (app, rows) in &picked {
            for (key, _) in rows {
                let rule = rules::get(tx, actor, app, key)?;
                text.push_str(&format!("--- # {app}\n{}", table_rule_yaml::write(&rule.row.to_input())));
            }
        }
        Ok(text)
    });
    let yaml = HeaderValue::from_static("application/yaml");
    let mut reply = reply::reply(StatusCode::OK, yaml, read.await?);
    let name = HeaderValue::from_static("attachment; filename=\"limits.yaml\"");
    reply.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(reply)
}
