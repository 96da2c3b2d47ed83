//! The pages that say why a request was not answered as asked: with the status that is true, the number of
//! the request, and what to do next.

use askama::Template;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use tollgate_control::{ControlError, apps, rules, setup, users};
use tollgate_db::DbError;
use tollgate_http_kit::Reply;
use tollgate_human_text::nearest;

use super::hrefs::{rollout_href, rule_href};
use super::users::role_text;
use crate::console::{Console, OLD_NODES};
use crate::frame::{Frame, page};
use crate::texts::{access, rollouts};
use crate::web::{Failure, Visit, query_of, redirect, status_of};

/// The content of both kinds of page.
struct Card {
    text: String,
    facts: Vec<(&'static str, String)>,
    /// The likely target, and its path.
    near: Option<(String, String)>,
    /// The same form again, with a choice that lets it pass: where it goes, its fields, and the button.
    again: Option<Again>,
    status: u16,
    request_id: String,
    back: &'static str,
    back_text: &'static str,
}

/// A form to send again.
struct Again {
    action: String,
    fields: Vec<(String, String)>,
    button: &'static str,
}

/// For those without a login.
#[derive(Template)]
#[template(path = "problem.html")]
struct Alone {
    f: Frame,
    p: Card,
}

/// For users: beside the menu.
#[derive(Template)]
#[template(path = "problem_inside.html")]
struct Inside {
    f: Frame,
    p: Card,
}

/// The status and the texts of such a page.
struct FailurePage {
    status: StatusCode,
    title: &'static str,
    text: String,
    facts: Vec<(&'static str, String)>,
    near: Option<(String, String)>,
    again: Option<Again>,
    retry_after: Option<u64>,
}

impl FailurePage {
    fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            title,
            text: text.into(),
            facts: Vec::new(),
            near: None,
            again: None,
            retry_after: None,
        }
    }
}

/// The page that says what failed.
pub(crate) async fn failed(console: &Console, visit: &Visit, failure: Failure) -> Reply {
    if let Failure::NoLogin = failure {
        let is_open = console.control.read(setup::is_open).await.unwrap_or(false);
        let back = if visit.is_safe { &*visit.target } else { "" };
        let login = query_of("/login", &[("back", back)]);
        return redirect(if is_open { "/setup" } else { &login });
    }
    let said = say(console, visit, failure).await;
    let t = visit.lang.texts();
    let is_user = visit.who.is_some();
    let (back, back_text) = if is_user { ("/rules", t.back_to_list) } else { ("/login", t.login) };
    let f = Frame::new(visit, "", said.title);
    let p = Card {
        text: said.text,
        facts: said.facts,
        near: said.near,
        again: said.again,
        status: said.status.as_u16(),
        request_id: visit.request_id.clone(),
        back,
        back_text,
    };
    let shown =
        if is_user { page(said.status, &Inside { f, p }) } else { page(said.status, &Alone { f, p }) };
    let mut reply = shown.unwrap_or_else(|_| {
        let mut bare = Reply::default();
        *bare.status_mut() = said.status;
        bare
    });
    if let Some(seconds) = said.retry_after {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

async fn say(console: &Console, visit: &Visit, failure: Failure) -> FailurePage {
    let t = visit.lang.texts();
    match failure {
        Failure::NoPage => {
            let near = near_page(visit);
            FailurePage { near, ..FailurePage::new(StatusCode::NOT_FOUND, t.not_found, t.not_found_text) }
        }
        Failure::Control(error) => of_control(console, visit, error).await,
        Failure::NoLogin | Failure::NoToken => {
            FailurePage::new(StatusCode::UNAUTHORIZED, t.no_right, String::new())
        }
        Failure::Bad(detail) => FailurePage::new(StatusCode::BAD_REQUEST, t.bad_request, detail),
        Failure::Foreign(detail) => {
            tracing::warn!(request = %visit.request_id, %detail, "rejected a request from another site");
            FailurePage::new(StatusCode::FORBIDDEN, t.bad_request, t.cross_site)
        }
        Failure::Body(problem) => FailurePage::new(problem.status, t.bad_request, problem.detail),
        Failure::NoMatch => FailurePage::new(StatusCode::PRECONDITION_REQUIRED, t.bad_request, t.failed_text),
        Failure::Page(error) => {
            tracing::error!(request = %visit.request_id, %error, "a template failed");
            FailurePage::new(StatusCode::INTERNAL_SERVER_ERROR, t.failed, t.failed_text)
        }
        Failure::Panic => {
            tracing::error!(request = %visit.request_id, "a page panicked");
            FailurePage::new(StatusCode::INTERNAL_SERVER_ERROR, t.failed, t.failed_text)
        }
    }
}

/// Its own text and facts with the status that every error has; otherwise the text of the error, or none.
async fn of_control(console: &Console, visit: &Visit, error: ControlError) -> FailurePage {
    let t = visit.lang.texts();
    let a = access::Texts::of(visit.lang);
    let status = status_of(&error).0;
    match error {
        ControlError::NotFound { what, name } => {
            let near = near_object(console, visit, what, &name).await;
            FailurePage { near, ..FailurePage::new(status, t.not_found, t.not_found_text) }
        }
        ControlError::NoRight { need, app } => {
            let granters = console.control.read(users::granters).await.unwrap_or_default();
            let granters = if granters.is_empty() { a.no_granter.to_owned() } else { granters.join(", ") };
            let needed = format!("{} · {app}", role_text(visit.lang, need));
            let facts = vec![(a.needed_role, needed), (a.can_grant, granters)];
            FailurePage { facts, ..FailurePage::new(status, t.no_right, t.no_right_text) }
        }
        ControlError::LoginOnly => FailurePage::new(status, t.no_right, a.login_only),
        ControlError::TooMany { seconds } => {
            let text = visit.lang.too_many(seconds);
            FailurePage { retry_after: Some(seconds), ..FailurePage::new(status, t.failed, text) }
        }
        ControlError::Invalid(faults) => {
            let texts: Vec<_> = faults.iter().map(|it| visit.lang.fault(&it.fault)).collect();
            FailurePage::new(status, t.bad_request, texts.join(" · "))
        }
        ControlError::OldNodes { level, nodes } => old_nodes(visit, level, &nodes),
        ControlError::RolloutOpen { app, .. } => {
            let r = rollouts::Texts::of(visit.lang);
            let near = Some((rollout_href(&app), r.show_open.to_owned()));
            FailurePage { near, ..FailurePage::new(status, t.failed, r.is_open) }
        }
        ControlError::Stale { .. } => FailurePage::new(status, t.failed, t.failed_text),
        error @ ControlError::Faulty(_) => FailurePage::new(status, t.bad_request, error.to_string()),
        error @ (ControlError::OwnChange | ControlError::NotAuthor { .. }) => {
            FailurePage::new(status, t.no_right, error.to_string())
        }
        ControlError::Db(DbError::Gone { .. }) => {
            tracing::error!(request = %visit.request_id, %error, "a change was rejected");
            FailurePage::new(status, t.failed, a.database_gone)
        }
        ControlError::Db(DbError::DiskFull) => {
            tracing::error!(request = %visit.request_id, "the disk is full");
            FailurePage::new(status, t.failed, a.disk_full)
        }
        error if status.is_client_error() || status == StatusCode::BAD_GATEWAY => {
            FailurePage::new(status, t.failed, error.to_string())
        }
        error => {
            tracing::error!(request = %visit.request_id, %error, "a page failed");
            FailurePage::new(status, t.failed, t.failed_text)
        }
    }
}

/// Nodes cannot read the rules: the same form again, with a button that leaves them out.
fn old_nodes(visit: &Visit, level: u32, nodes: &[String]) -> FailurePage {
    let t = visit.lang.texts();
    let sent = visit.fields("").into_iter();
    let mut fields: Vec<_> = sent.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    fields.push((OLD_NODES.to_owned(), "leave".to_owned()));
    let again = Again { action: visit.target.clone(), fields, button: t.leave_old_nodes };
    let facts = vec![(t.language_level, level.to_string()), (t.nodes, nodes.join(", "))];
    FailurePage {
        facts,
        again: Some(again),
        ..FailurePage::new(StatusCode::CONFLICT, t.old_nodes, t.old_nodes_text)
    }
}

/// The page whose path is nearest to the one that was asked for.
fn near_page(visit: &Visit) -> Option<(String, String)> {
    let paths: Vec<&str> = visit.screens.iter().copied().filter(|path| !path.contains('{')).collect();
    let near = nearest(&visit.path_in_lower_case(), &paths).filter(|it| it.is_near)?;
    Some((near.name.to_owned(), near.name.to_owned()))
}

/// The object of this kind whose name is nearest, among those that the actor may see.
async fn near_object(console: &Console, visit: &Visit, what: &str, name: &str) -> Option<(String, String)> {
    let claim = visit.claim().ok()?;
    let near = |names: &[String], name: &str| {
        let names: Vec<&str> = names.iter().map(|it| &**it).collect();
        nearest(name, &names).filter(|it| it.is_near).map(|it| it.name.to_owned())
    };
    match what {
        "app" => {
            let apps = console.control.read_as(&claim, move |tx, actor| apps::names(tx, actor)).await.ok()?;
            let names: Vec<_> = apps.into_iter().map(|(name, _)| name).collect();
            let app = near(&names, name)?;
            Some((app.clone(), query_of("/rules", &[("app", &app)])))
        }
        "rule" => {
            let (app, key) = name.split_once(' ')?;
            let of = app.to_owned();
            let keys =
                console.control.read_as(&claim, move |tx, actor| rules::keys(tx, actor, &of)).await.ok()?;
            let key = near(&keys, key)?;
            Some((format!("{app} {key}"), rule_href(app, &key)))
        }
        "user" => {
            let users =
                console.control.read_as(&claim, |tx, actor| users::page(tx, actor, "", 500)).await.ok()?;
            let names: Vec<_> = users.into_iter().map(|it| it.name).collect();
            let user = near(&names, name)?;
            Some((user.clone(), super::users::href(&user)))
        }
        _ => None,
    }
}
