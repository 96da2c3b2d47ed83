//! The REST API under `/api/v1`: the same functions as the pages, as JSON.

mod apps;
mod body;
mod changes;
mod content;
mod etag;
mod files;
mod problem;
mod rules;
mod transfer;
mod versions;

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_http_kit::openapi::{self, About, Description, parameter};
use tollgate_http_kit::{Access, Operation, Reply, reply};

use changes::ChangeCall;
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
    /// Change sets.
    Change(ChangeCall),
    /// Versions.
    Version(versions::VersionCall),
    /// Rule files.
    File(files::FileCall),
    /// Whole apps.
    Transfer(transfer::TransferCall),
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
                    Call::Change(ChangeCall::List) => || {
                        let text = |name, about| parameter(name, false, openapi::string(), None, about);
                        described().with([
                            text("app", "Of this app only"),
                            text(
                                "state",
                                "draft, submitted, approved, published, rejected, abandoned or open",
                            ),
                            text("cursor", "The `cursor` of the page before"),
                            text("limit", "1 to 500"),
                        ])
                    },
                    Call::Change(ChangeCall::Create) => || takes(ChangeCall::Create),
                    Call::Change(ChangeCall::Edit) => || takes(ChangeCall::Edit),
                    Call::Change(ChangeCall::Resolve) => || takes(ChangeCall::Resolve),
                    Call::Change(ChangeCall::CheckOps | ChangeCall::Preview) => {
                        || takes(ChangeCall::CheckOps)
                    }
                    Call::Change(
                        ChangeCall::Approve | ChangeCall::Reject | ChangeCall::Abandon | ChangeCall::Comment,
                    ) => || takes(ChangeCall::Comment),
                    Call::Version(versions::VersionCall::Diff) => || {
                        let about = "The version to compare with";
                        described().with([parameter("against", false, openapi::string(), None, about)])
                    },
                    Call::File(files::FileCall::Explain) => || {
                        let text = |name, about| parameter(name, true, openapi::string(), None, about);
                        described().with([
                            text("app", "The app"),
                            text("domain", "The domain of the request"),
                            text("entry", "key=value; once for each entry, in order"),
                        ])
                    },
                    Call::Transfer(transfer::TransferCall::Export) => {
                        || described().with([parameter("app", true, openapi::string(), None, "The app")])
                    }
                    Call::Transfer(transfer::TransferCall::Import) => || {
                        let about = "Only show the difference";
                        described().with([parameter("dry_run", false, openapi::string(), None, about)])
                    },
                    Call::Version(versions::VersionCall::RollBack) => || {
                        described().takes(json!({"type": "object"}), json!({"reason": "too low for agoda"}))
                    },
                    Call::File(files::FileCall::Create | files::FileCall::Change) => || {
                        let text =
                            "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n";
                        described().takes(json!({"type": "object"}), json!({"text": text}))
                    },
                    Call::LogIn => || {
                        let example = json!({"name": "ann", "password": "a long passphrase"});
                        described().takes(json!({"type": "object"}), example)
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
    let mut operations: Vec<_> = ROWS.iter().map(row).collect();
    let changes = changes::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Change(*call), *id, *summary))
    });
    operations.extend(changes);
    let versions = versions::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Version(*call), *id, *summary))
    });
    operations.extend(versions);
    let files = files::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::File(*call), *id, *summary))
    });
    operations.extend(files);
    let transfer = transfer::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Transfer(*call), *id, *summary))
    });
    operations.extend(transfer);
    operations
}

fn takes(call: ChangeCall) -> Description {
    described().takes(json!({"type": "object"}), changes::example(call))
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
        Call::Change(call) => changes::answer(console, call, visit).await,
        Call::Version(call) => versions::answer(console, call, visit).await,
        Call::File(call) => files::answer(console, call, visit).await,
        Call::Transfer(call) => transfer::answer(console, call, visit).await,
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
