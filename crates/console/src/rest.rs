//! The REST API under `/api/v1`: the same functions as the pages, as JSON.

mod apps;
mod body;
mod etag;
mod keys;
mod overrides;
mod problem;
mod rules;

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_http_kit::openapi::{self, About, Description, parameter};
use tollgate_http_kit::{Access, Operation, Reply, reply};

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
    /// The buckets of an app's rules.
    LiveKeys,
    /// What nodes count for a key.
    Key,
    /// Resets a key.
    ResetKey,
    /// Blocks and allowances.
    Overrides,
    /// Blocks or allows.
    CreateOverride,
    /// Ends a block or an allowance.
    EndOverride,
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
        "/api/v1/apps/{app}/live",
        Call::LiveKeys,
        "liveKeys",
        "Returns the permits that rules of an app have now",
    ),
    (Method::GET, "/api/v1/keys", Call::Key, "inspectKey", "Returns what nodes count for a key"),
    (Method::DELETE, "/api/v1/keys", Call::ResetKey, "resetKey", "Resets the counters of a key"),
    (
        Method::GET,
        "/api/v1/overrides",
        Call::Overrides,
        "listOverrides",
        "Lists blocks and allowances in force",
    ),
    (
        Method::POST,
        "/api/v1/overrides",
        Call::CreateOverride,
        "createOverride",
        "Blocks or allows a key, a caller or a domain for a time",
    ),
    (
        Method::DELETE,
        "/api/v1/overrides/{id}",
        Call::EndOverride,
        "endOverride",
        "Ends a block or an allowance before its time",
    ),
];

/// The rows of the surface's table.
pub(crate) fn operations<R>(route: impl Fn(Call) -> R) -> Vec<Operation<R>> {
    let row =
        |(method, path, call, id, summary): &(Method, &'static str, Call, &'static str, &'static str)| {
            Operation {
                method: method.clone(),
                path,
                route: route(*call),
                access: Access::Anyone,
                id,
                summary,
                describe: match call {
                    Call::CreateRule | Call::ChangeRule => || {
                        let example = json!({"key": "pushGeoHotelList", "max_permits": 100, "rate": 50});
                        described().takes(json!({"type": "object"}), example)
                    },
                    Call::CreateApp | Call::ChangeApp => || {
                        let example = json!({"app": "SIP_HOTEL", "description": "hotel supplier interface"});
                        described().takes(json!({"type": "object"}), example)
                    },
                    Call::LogIn => || {
                        let example = json!({"name": "ann", "password": "a long passphrase"});
                        described().takes(json!({"type": "object"}), example)
                    },
                    Call::CreateOverride => || {
                        let example = json!({
                            "domain": "SIP_HOTEL", "entries": ["key=pushGeoHotelList"], "action": "block",
                            "minutes": 60, "reason": "floods the supplier",
                        });
                        described().takes(json!({"type": "object"}), example)
                    },
                    Call::Overrides => || {
                        let number = || json!({"type": "integer"});
                        described().with([
                            parameter(
                                "search",
                                false,
                                openapi::string(),
                                None,
                                "Part of domain, entries or reason",
                            ),
                            parameter("limit", false, number(), None, "Rows, 1 to 500"),
                        ])
                    },
                    Call::Key | Call::ResetKey => || {
                        described().with([
                            parameter("domain", true, openapi::string(), None, "The domain"),
                            parameter("entry", true, openapi::string(), None, "key=value, once per entry"),
                        ])
                    },
                    Call::LiveKeys => || {
                        let text = "A rule's key, once for each of up to 100";
                        described().with([parameter("key", true, openapi::string(), None, text)])
                    },
                    Call::Rules | Call::AppRules => || {
                        let number = || json!({"type": "integer"});
                        described().with([
                            parameter(
                                "search",
                                false,
                                openapi::string(),
                                None,
                                "Part of app, key or description",
                            ),
                            parameter("sort", false, openapi::string(), None, "key, rate or updated"),
                            parameter("page", false, number(), None, "From 1"),
                            parameter("size", false, number(), None, "Rows of a page, 1 to 500"),
                        ])
                    },
                    _ => described,
                },
            }
        };
    ROWS.iter().map(row).collect()
}

fn described() -> Description {
    Description::json(json!({"type": "object"})).fails(&[400, 401, 403, 404, 409, 412, 422, 428, 429, 503])
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
        Call::LiveKeys => keys::live(console, visit).await,
        Call::Key => keys::inspect(console, visit).await,
        Call::ResetKey => keys::reset(console, visit).await,
        Call::Overrides => overrides::list(console, visit).await,
        Call::CreateOverride => overrides::create(console, visit).await,
        Call::EndOverride => overrides::end(console, visit).await,
    }
}

fn description() -> Value {
    let about = About {
        title: "Tollgate control API",
        version: env!("CARGO_PKG_VERSION"),
        description: "Apps and rules of the control plane",
    };
    let problem = json!({"type": "object", "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "detail": {"type": "string"}, "request_id": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object", "properties": {
            "pointer": {"type": "string"}, "message": {"type": "string"}}}}}});
    let schemas = BTreeMap::from([("Problem".to_owned(), problem)]);
    openapi::document(about, &operations(|call| call), &schemas)
}
