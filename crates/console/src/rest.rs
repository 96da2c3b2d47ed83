//! The REST API under `/api/v1`: the same functions as the pages, as JSON.

mod access;
mod apps;
mod body;
mod etag;
mod events;
mod history;
mod lists;
mod problem;
mod rules;
mod schema;
mod shapes;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_http_kit::openapi::{self, About, Description, parameter};
use tollgate_http_kit::{Access, Operation, Reply, reply};

pub use problem::PROBLEMS;
pub(crate) use problem::failed;

use crate::console::Console;
use crate::web::{Failure, Visit};

/// An operation of the API.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// The description of the API.
    OpenApi,
    /// Begins a login.
    LogIn,
    /// Ends the login.
    LogOut,
    /// The apps.
    Apps,
    /// Creates an app.
    CreateApp,
    /// An app.
    App,
    /// Changes an app.
    ChangeApp,
    /// Disables an app.
    DisableApp,
    /// Rules of all apps.
    Rules,
    /// Rules of an app.
    AppRules,
    /// Creates a rule.
    CreateRule,
    /// A rule.
    Rule,
    /// Changes a rule.
    ChangeRule,
    /// Deletes a rule.
    DeleteRule,
    /// Users, tokens, audit, settings.
    Access(access::AccessCall),
    /// Time series.
    History,
    /// The keys that were denied most.
    TopKeys,
    /// Numbers for a rule from its traffic.
    Suggestion,
    /// What is wrong now.
    Problems,
    /// Requests that no rule limits.
    Unlimited,
    /// Server-sent events.
    Events,
}

/// Method, path, call, id, summary.
static ROWS: &[(Method, &str, Call, &str, &str)] = &[
    (Method::GET, "/openapi.json", Call::OpenApi, "openapi", "This description"),
    (Method::POST, "/api/v1/login", Call::LogIn, "login", "Begins a login and sets its cookie"),
    (Method::POST, "/api/v1/logout", Call::LogOut, "logout", "Ends the login"),
    (Method::GET, "/api/v1/apps", Call::Apps, "listApps", "Lists the apps"),
    (Method::POST, "/api/v1/apps", Call::CreateApp, "createApp", "Creates an app"),
    (Method::GET, "/api/v1/apps/{app}", Call::App, "getApp", "Returns an app with its ETag"),
    (Method::PUT, "/api/v1/apps/{app}", Call::ChangeApp, "changeApp", "Changes an app; needs If-Match"),
    (
        Method::DELETE,
        "/api/v1/apps/{app}",
        Call::DisableApp,
        "disableApp",
        "Disables an app: its rules leave the nodes; needs If-Match",
    ),
    (Method::GET, "/api/v1/rules", Call::Rules, "searchRules", "Lists the rules of all apps"),
    (Method::GET, "/api/v1/apps/{app}/rules", Call::AppRules, "listRules", "Lists the rules of an app"),
    (
        Method::POST,
        "/api/v1/apps/{app}/rules",
        Call::CreateRule,
        "createRule",
        "Creates a rule, which is published at once",
    ),
    (Method::GET, "/api/v1/apps/{app}/rules/{key}", Call::Rule, "getRule", "Returns a rule with its ETag"),
    (
        Method::PUT,
        "/api/v1/apps/{app}/rules/{key}",
        Call::ChangeRule,
        "changeRule",
        "Replaces a rule; needs If-Match",
    ),
    (
        Method::DELETE,
        "/api/v1/apps/{app}/rules/{key}",
        Call::DeleteRule,
        "deleteRule",
        "Deletes a rule; needs If-Match",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/rules/{key}/suggestion",
        Call::Suggestion,
        "suggestNumbers",
        "Returns a rate and a burst from the traffic of the last hour, or null",
    ),
    (Method::GET, "/api/v1/history", Call::History, "history", "Returns what was decided over time"),
    (Method::GET, "/api/v1/keys/top", Call::TopKeys, "topKeys", "Lists the keys that were denied most"),
    (Method::GET, "/api/v1/problems", Call::Problems, "problems", "Lists what is wrong now"),
    (
        Method::GET,
        "/api/v1/unlimited",
        Call::Unlimited,
        "unlimited",
        "Lists requests that no rule limits, unknown domains, and faults of the nodes' own rule files",
    ),
    (
        Method::GET,
        "/api/v1/events",
        Call::Events,
        "events",
        "Server-sent events of these topics; a reader comes back with Last-Event-ID",
    ),
];

/// The rows of the surface's table.
pub(crate) fn operations<R>(route: impl Fn(Call) -> R) -> Vec<Operation<R>> {
    let row = |(method, path, call, id, summary): &(
        Method,
        &'static str,
        Call,
        &'static str,
        &'static str,
    )| {
        Operation {
            method: method.clone(),
            path,
            route: route(*call),
            access: Access::Anyone,
            id,
            summary,
            describe: match call {
                Call::LogIn => shapes::log_in,
                Call::LogOut => shapes::log_out,
                Call::Apps => shapes::apps,
                Call::CreateApp => shapes::create_app,
                Call::App => shapes::one_app,
                Call::ChangeApp => shapes::change_app,
                Call::DisableApp => shapes::disable_app,
                Call::Rules | Call::AppRules => shapes::rules,
                Call::CreateRule => shapes::create_rule,
                Call::Rule => shapes::one_rule,
                Call::ChangeRule => shapes::change_rule,
                Call::DeleteRule => shapes::delete_rule,
                Call::History | Call::TopKeys => || described().with(history::parameters()),
                Call::Unlimited => || {
                    let span = "How far back, in ms; a day by default";
                    described().with([parameter("span", false, json!({"type": "integer"}), None, span)])
                },
                Call::Events => || {
                    let topics =
                        "Some of history, nodes, changes, rollouts, problems, with commas; all by default";
                    let after = "What was seen, for readers that cannot send Last-Event-ID";
                    described().with([
                        parameter("topics", false, openapi::string(), None, topics),
                        parameter("after", false, openapi::string(), None, after),
                    ])
                },
                _ => described,
            },
        }
    };
    let access = |access::Row(method, path, call, id, summary, describe): &access::Row| Operation {
        method: method.clone(),
        path,
        route: route(Call::Access(*call)),
        access: Access::Anyone,
        id,
        summary,
        describe: *describe,
    };
    ROWS.iter().map(row).chain(access::ROWS.iter().map(access)).collect()
}

fn described() -> Description {
    schema::replies(json!({"type": "object"}))
}

pub(crate) async fn answer(console: &Console, call: Call, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        Call::OpenApi => Ok(reply::json(StatusCode::OK, &description())),
        Call::LogIn => apps::log_in(console, visit).await,
        Call::LogOut => apps::log_out(console, visit).await,
        Call::Apps => apps::list(console, visit).await,
        Call::CreateApp => apps::create(console, visit).await,
        Call::App => apps::get(console, visit).await,
        Call::ChangeApp => apps::change(console, visit).await,
        Call::DisableApp => apps::disable(console, visit).await,
        Call::Rules => rules::list(console, visit, String::new()).await,
        Call::AppRules => rules::list(console, visit, visit.segment(3)).await,
        Call::CreateRule => rules::create(console, visit).await,
        Call::Rule => rules::get(console, visit).await,
        Call::ChangeRule => rules::change(console, visit).await,
        Call::DeleteRule => rules::delete(console, visit).await,
        Call::Access(call) => access::answer(console, call, visit).await,
        Call::History => history::series(console, visit).await,
        Call::TopKeys => history::top(console, visit).await,
        Call::Suggestion => history::suggestion(console, visit).await,
        Call::Problems => history::problems(console, visit).await,
        Call::Unlimited => history::unlimited(console, visit).await,
        Call::Events => events::wait(console, visit).await,
    }
}

fn description() -> Value {
    let about = About {
        title: "Tollgate control API",
        version: env!("CARGO_PKG_VERSION"),
        description: "Apps and rules of the control plane",
    };
    let schemas = shapes::named().into_iter().chain(access::schemas());
    let schemas = schemas.map(|(name, schema)| (name.to_owned(), schema)).collect();
    openapi::document(about, &operations(|call| call), &schemas)
}
