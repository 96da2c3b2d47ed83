//! The pages. Each reads its visit, calls `control`, and fills a template.

mod access;
mod audit;
mod confirm;
mod nodes;
mod rule_form;
mod rules;
mod shortcuts;
mod table;
mod users;
mod versions;

pub(crate) use access::with_login;

use askama::Template;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};
use tollgate_control::{ControlError, setup};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::frame::{Frame, page};
use crate::web::{Failure, Visit, query_of, redirect};

/// A page, by what it does.
#[derive(Clone, Copy, Debug)]
pub enum Page {
    /// To the first page.
    Home,
    /// The form of the login.
    Login,
    /// Logs in.
    LogIn,
    /// Logs out.
    LogOut,
    /// The form of the first admin.
    Setup,
    /// Makes the first admin.
    SetUp,
    /// Language, theme and shortcuts.
    Prefer,
    /// The keys of the keyboard.
    Shortcuts,
    /// The list of rules.
    Rules,
    /// The form of a new rule.
    NewRule,
    /// Creates a rule.
    CreateRule,
    /// The form of a rule.
    Rule,
    /// Changes a rule.
    ChangeRule,
    /// Asks whether to delete a rule.
    ConfirmDelete,
    /// Deletes a rule.
    DeleteRule,
    /// Versions.
    Versions,
    /// Asks whether to roll back.
    ConfirmRollback,
    /// Rolls back.
    RollBack,
    /// Nodes.
    Nodes,
    /// Users.
    Users,
    /// Adds a user.
    CreateUser,
    /// Disables or enables a user.
    ChangeUser,
    /// The audit.
    Audit,
}

/// Every page: method, path, what it does.
pub(crate) static PAGES: &[(Method, &str, Page)] = &[
    (Method::GET, "/", Page::Home),
    (Method::GET, "/login", Page::Login),
    (Method::POST, "/login", Page::LogIn),
    (Method::POST, "/logout", Page::LogOut),
    (Method::GET, "/setup", Page::Setup),
    (Method::POST, "/setup", Page::SetUp),
    (Method::POST, "/preferences", Page::Prefer),
    (Method::GET, "/shortcuts", Page::Shortcuts),
    (Method::GET, "/rules", Page::Rules),
    (Method::GET, "/rules/new", Page::NewRule),
    (Method::POST, "/rules/new", Page::CreateRule),
    (Method::GET, "/apps/{app}/rules/{key}", Page::Rule),
    (Method::POST, "/apps/{app}/rules/{key}", Page::ChangeRule),
    (Method::GET, "/apps/{app}/rules/{key}/delete", Page::ConfirmDelete),
    (Method::POST, "/apps/{app}/rules/{key}/delete", Page::DeleteRule),
    (Method::GET, "/versions", Page::Versions),
    (Method::GET, "/apps/{app}/versions", Page::Versions),
    (Method::GET, "/apps/{app}/versions/{version}/rollback", Page::ConfirmRollback),
    (Method::POST, "/apps/{app}/versions/{version}/rollback", Page::RollBack),
    (Method::GET, "/nodes", Page::Nodes),
    (Method::GET, "/users", Page::Users),
    (Method::POST, "/users", Page::CreateUser),
    (Method::POST, "/users/{name}/state", Page::ChangeUser),
    (Method::GET, "/audit", Page::Audit),
];

pub(crate) async fn answer(console: &Console, page: Page, visit: &Visit) -> Result<Reply, Failure> {
    match page {
        Page::Home => Ok(redirect("/rules")),
        Page::Login => access::login(console, visit).await,
        Page::LogIn => access::log_in(console, visit).await,
        Page::LogOut => access::log_out(console, visit).await,
        Page::Setup => access::setup(console, visit).await,
        Page::SetUp => access::set_up(console, visit).await,
        Page::Prefer => Ok(access::prefer(console, visit)),
        Page::Shortcuts => shortcuts::show(visit),
        Page::Rules => rules::list(console, visit).await,
        Page::NewRule => rule_form::new(console, visit).await,
        Page::CreateRule => rule_form::create(console, visit).await,
        Page::Rule => rule_form::edit(console, visit).await,
        Page::ChangeRule => rule_form::change(console, visit).await,
        Page::ConfirmDelete => confirm::ask_delete(console, visit, None).await,
        Page::DeleteRule => confirm::delete(console, visit).await,
        Page::Versions => versions::list(console, visit).await,
        Page::ConfirmRollback => confirm::ask_rollback(console, visit, None).await,
        Page::RollBack => confirm::roll_back(console, visit).await,
        Page::Nodes => nodes::list(console, visit).await,
        Page::Users => users::list(console, visit, &[]).await,
        Page::CreateUser => users::create(console, visit).await,
        Page::ChangeUser => users::change(console, visit).await,
        Page::Audit => audit::list(console, visit).await,
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    f: Frame,
    text: String,
    status: u16,
    request_id: String,
    back: &'static str,
    back_text: &'static str,
}

/// The page that says what failed.
pub(crate) async fn failed(console: &Console, visit: &Visit, failure: Failure) -> Reply {
    let t = visit.lang.texts();
    let mut retry_after = None;
    let (status, title, text) = match failure {
        Failure::NoLogin => {
            let is_open = console.control.read(setup::is_open).await.unwrap_or(false);
            let back = if visit.is_safe { &*visit.target } else { "" };
            return redirect(&if is_open {
                "/setup".to_owned()
            } else {
                query_of("/login", &[("back", back)])
            });
        }
        Failure::NoPage | Failure::Control(ControlError::NotFound { .. }) => {
            (StatusCode::NOT_FOUND, t.not_found, t.not_found_text.to_owned())
        }
        Failure::Control(ControlError::NoRight { need, app }) => {
            let text = format!("{} {} · {app}", t.no_right_text, users::role_text(visit.lang, need));
            (StatusCode::FORBIDDEN, t.no_right, text)
        }
        Failure::Control(ControlError::TooMany { seconds }) => {
            retry_after = Some(seconds);
            (StatusCode::TOO_MANY_REQUESTS, t.failed, visit.lang.too_many(seconds))
        }
        Failure::Control(ControlError::Invalid(faults)) => {
            let texts: Vec<_> = faults.iter().map(|it| visit.lang.fault(&it.fault)).collect();
            (StatusCode::UNPROCESSABLE_ENTITY, t.bad_request, texts.join(" · "))
        }
        Failure::Control(error @ ControlError::Cap { .. }) => {
            (StatusCode::CONFLICT, t.failed, error.to_string())
        }
        Failure::Bad(detail) => (StatusCode::BAD_REQUEST, t.bad_request, detail),
        Failure::Foreign(detail) => {
            tracing::warn!(request = %visit.request_id, %detail, "rejected a request from another site");
            (StatusCode::FORBIDDEN, t.bad_request, t.cross_site.to_owned())
        }
        Failure::Body(problem) => (problem.status, t.bad_request, problem.detail),
        Failure::NoMatch => (StatusCode::PRECONDITION_REQUIRED, t.bad_request, String::new()),
        Failure::Control(error) => {
            tracing::error!(request = %visit.request_id, %error, "a page failed");
            (StatusCode::SERVICE_UNAVAILABLE, t.failed, t.failed_text.to_owned())
        }
        Failure::Page(error) => {
            tracing::error!(request = %visit.request_id, %error, "a template failed");
            (StatusCode::INTERNAL_SERVER_ERROR, t.failed, t.failed_text.to_owned())
        }
    };
    let (back, back_text) =
        if visit.actor.is_some() { ("/rules", t.back_to_list) } else { ("/login", t.login) };
    let problem = ProblemPage {
        f: Frame::new(visit, "", title),
        text,
        status: status.as_u16(),
        request_id: visit.request_id.clone(),
        back,
        back_text,
    };
    let mut reply = page(status, &problem).unwrap_or_else(|_| {
        let mut bare = Reply::default();
        *bare.status_mut() = status;
        bare
    });
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}
