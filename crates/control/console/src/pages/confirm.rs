//! Questions before something is taken away: deleting a rule, rolling back.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::publishing::Intent;
use tollgate_control::versions::RuleDiff;
use tollgate_control::{Content, ControlError, Role, apps, rules, versions};
use tollgate_http_kit::Reply;

use super::change_forms::after;
use super::diffs::one_line;
use super::hrefs::rule_href;
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::grouped;
use crate::web::{Failure, Outcome, Visit, encoded, query_of, redirect, unless_stale};

/// Most rules that a rollback has a box for; a form has 200 fields at most.
const MOST_PICKS: usize = 100;
/// Begins the names of the boxes of rules.
const PICK: &str = "pick:";

#[derive(Template)]
#[template(path = "confirm.html")]
pub(super) struct ConfirmPage {
    pub(super) f: Frame,
    pub(super) crumb: String,
    pub(super) fault: Option<String>,
    pub(super) action: String,
    pub(super) question: &'static str,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) consequence: &'static str,
    pub(super) etag: i64,
    pub(super) asks_reason: bool,
    pub(super) button: &'static str,
    pub(super) back: String,
    /// Another way to answer.
    pub(super) second: Option<Second>,
    pub(super) picks: Vec<Pick>,
    /// Above the rules.
    pub(super) picks_title: String,
    /// Fields to send again.
    pub(super) hidden: Vec<(String, String)>,
}

/// A button that sends a field with its own value.
pub(super) struct Second {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) text: String,
}

/// A rule that is changed.
pub(super) struct Pick {
    /// The field that picks it; empty where all rules are changed together.
    pub(super) field: String,
    pub(super) key: String,
    /// The change in one line.
    pub(super) change: String,
}

pub(super) async fn ask_delete(
    console: &Console,
    visit: &Visit,
    fault: Option<String>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    let read = console.control.read_as(&claim, move |tx, actor| {
        actor.must(Role::Editor, &app)?;
        rules::get(tx, actor, &app, &key)
    });
    let rule = read.await?;
    let t = visit.lang.texts();
    let href = rule_href(&rule.app, &rule.row.key);
    let facts = vec![
        (t.app, rule.app.clone()),
        (t.key, rule.row.key.clone()),
        (t.max_permits, grouped(rule.row.max_permits)),
        (t.rate_long, format!("{} {}", grouped(rule.row.rate), t.per_second)),
        (t.description, rule.row.description.clone()),
    ];
    let status = if fault.is_some() { StatusCode::PRECONDITION_FAILED } else { StatusCode::OK };
    let confirm = ConfirmPage {
        f: Frame::new(visit, "rules", t.delete_rule),
        crumb: format!("{} / {}", t.limits, t.delete_rule),
        fault,
        action: format!("{href}/delete"),
        question: t.delete_question,
        facts,
        consequence: t.delete_consequence,
        etag: rule.etag,
        second: None,
        picks: Vec::new(),
        picks_title: String::new(),
        asks_reason: false,
        hidden: Vec::new(),
        button: t.delete,
        back: "/rules".to_owned(),
    };
    page(status, &confirm)
}

pub(super) async fn delete(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let intent = Intent::Publish;
    let removed =
        console.commit(visit, move |tx, actor| rules::propose_delete(tx, actor, &app, &key, etag, intent));
    match unless_stale(removed.await)? {
        Some(done) => Ok(after(&done, "/rules")),
        None => ask_delete(console, visit, Some(visit.lang.texts().stale_delete.to_owned())).await,
    }
}

pub(super) async fn ask_rollback(
    console: &Console,
    visit: &Visit,
    fault: Option<String>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let to = visit.segment(3);
    let number: i64 = to.parse().map_err(|_| Failure::NoPage)?;
    let read = console.control.read_as(&claim, move |tx, actor| {
        let app = apps::get(tx, actor, Role::Editor, &app)?;
        let is_there = (1..app.version).contains(&number);
        let diffs = if is_there {
            versions::difference(tx, actor, &app.name, app.version, number)?
        } else {
            Vec::new()
        };
        Ok((app, diffs))
    });
    let (app, diffs) = read.await?;
    if !(1..app.version).contains(&number) {
        return Err(ControlError::NotFound { what: "version", name: to }.into());
    }
    let t = visit.lang.texts();
    let status = if fault.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let versions = format!("/apps/{}/versions", encoded(&app.name));
    let side = |content: &Option<Content>| content.as_ref().map(Content::json);
    // More rules than the page names come back together: those beyond would be left out.
    let has_boxes = diffs.len() <= MOST_PICKS;
    let pick = |it: &RuleDiff| {
        let before = side(&it.before);
        let after = side(&it.after);
        let object = |side: &Option<serde_json::Value>| side.as_ref().and_then(|it| it.as_object().cloned());
        let change = one_line(visit.lang, object(&before).as_ref(), object(&after).as_ref());
        let field = if has_boxes { format!("{PICK}{}", it.key) } else { String::new() };
        Pick { field, key: it.key.clone(), change }
    };
    let picks = diffs.iter().take(MOST_PICKS).map(pick).collect();
    let confirm = ConfirmPage {
        f: Frame::new(visit, "versions", t.rollback),
        crumb: format!("{} / {} / {}", t.limits, t.versions, app.name),
        fault,
        action: format!("{versions}/{}/rollback", encoded(&to)),
        question: t.rollback_question,
        facts: vec![(t.app, app.name), (t.current, app.version.to_string()), (t.rollback, to)],
        consequence: t.rollback_consequence,
        etag: app.version,
        second: None,
        picks,
        picks_title: visit.lang.rules_change(diffs.len(), has_boxes),
        asks_reason: true,
        hidden: Vec::new(),
        button: t.rollback,
        back: versions,
    };
    page(status, &confirm)
}

pub(super) async fn roll_back(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(1);
    let to = visit.segment(3).parse().map_err(|_| Failure::NoPage)?;
    let base = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let reason = visit.field("reason").to_owned();
    let name = app.clone();
    let picked: Vec<String> = visit.fields(PICK).into_iter().map(|(name, _)| name.to_owned()).collect();
    // Everything comes back without the boxes.
    let is_all = visit.field("picks") != "yes";
    let rolled = console.commit(visit, move |tx, actor| {
        let only = (!is_all).then_some(&*picked);
        versions::restore(tx, actor, &app, (base, to), only, &reason)
    });
    match Outcome::of(rolled.await)? {
        Outcome::Done(version) => {
            Ok(redirect(&query_of("/rules", &[("saved", &name), ("version", &version.to_string())])))
        }
        Outcome::Invalid(faults) => {
            let texts: Vec<_> = faults.iter().map(|it| visit.lang.fault(&it.fault)).collect();
            let t = visit.lang.texts();
            let fault = [t.reason, &texts.join(" · ")].join(t.colon);
            ask_rollback(console, visit, Some(fault)).await
        }
        Outcome::Stale => {
            ask_rollback(console, visit, Some(visit.lang.texts().stale_delete.to_owned())).await
        }
    }
}
