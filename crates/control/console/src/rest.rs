//! The REST API under `/api/v1`: the same functions as the pages, as JSON.

mod access;
mod apps;
mod body;
mod changes;
mod content;
mod etag;
mod events;
mod files;
mod frozen;
mod history;
mod keys;
mod lists;
mod nodes;
mod overrides;
mod problem;
mod rollouts;
mod rules;
mod schema;
mod shapes;
mod traffic_shapes;
mod transfer;
mod versions;

use std::sync::LazyLock;

use hyper::Method;
use serde_json::{Value, json};
use tollgate_http_kit::openapi::{self, About, Description, parameter};
use tollgate_http_kit::{Access, Operation, Reply};

use changes::ChangeCall;
pub use problem::PROBLEMS;
pub(crate) use problem::failed;
use schema::publishes;

use crate::assets;
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
    /// What a rule tries.
    Trial,
    /// What is wrong now.
    Problems,
    /// Requests that no rule limits.
    Unlimited,
    /// Server-sent events.
    Events,
    /// The buckets of an app's rules.
    LiveKeys,
    /// Keys of a domain.
    ScanKeys,
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
    /// Nodes.
    Nodes,
    /// A node.
    Node,
    /// Removes a node.
    RemoveNode,
    /// What nodes hold of a frozen app.
    Frozen,
    /// Puts what the database has of a frozen app in force.
    Force,
    /// Takes over what a node holds of a frozen app.
    TakeOver,
    /// Rollouts.
    Rollout(rollouts::RolloutCall),
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
    (
        Method::GET,
        "/api/v1/apps/{app}/rules/{key}/suggestion",
        Call::Suggestion,
        "suggestNumbers",
        "Returns a rate and a burst from the traffic of the last hour, or null",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/rules/{key}/trial",
        Call::Trial,
        "compareTrial",
        "Returns what the numbers of a trial and those in force have denied, or null",
    ),
    (Method::GET, "/api/v1/history", Call::History, "history", "Returns what was decided over time"),
    (Method::GET, "/api/v1/keys/top", Call::TopKeys, "topKeys", "Lists the keys that were denied most"),
    (
        Method::GET,
        "/api/v1/keys/scan",
        Call::ScanKeys,
        "scanKeys",
        "Lists the keys of a domain that a Redis store holds, at most 5,000 per reply",
    ),
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
    (Method::GET, "/api/v1/nodes", Call::Nodes, "listNodes", "Lists the nodes and what each has in force"),
    (Method::GET, "/api/v1/nodes/{node}", Call::Node, "getNode", "Returns a node by its id"),
    (
        Method::DELETE,
        "/api/v1/nodes/{node}",
        Call::RemoveNode,
        "removeNode",
        "Removes a node that does not report; it appears again if it attaches",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/frozen",
        Call::Frozen,
        "getFrozen",
        "Returns the versions of a frozen app: on nodes, and in the database",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/force",
        Call::Force,
        "forceApp",
        "Puts what the database has of a frozen app in place of what nodes hold",
    ),
    (
        Method::POST,
        "/api/v1/apps/{app}/take-over",
        Call::TakeOver,
        "takeOverApp",
        "Makes the rules of a frozen app those that a node holds",
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
                    Call::CreateOverride => traffic_shapes::create_override,
                    Call::Overrides => traffic_shapes::overrides,
                    Call::EndOverride => traffic_shapes::end_override,
                    Call::Nodes => nodes::described_list,
                    Call::Node | Call::RemoveNode => nodes::described,
                    Call::Frozen => frozen::described,
                    Call::Force => frozen::described_force,
                    Call::TakeOver => frozen::described_take_over,
                    Call::Key | Call::ResetKey => traffic_shapes::one_key,
                    Call::ScanKeys => traffic_shapes::scan_keys,
                    Call::LiveKeys => traffic_shapes::live_keys,
                    Call::History => traffic_shapes::history,
                    Call::TopKeys => traffic_shapes::top_keys,
                    Call::Suggestion => traffic_shapes::suggestion,
                    Call::Trial => traffic_shapes::trial,
                    Call::Problems => traffic_shapes::problems,
                    Call::Unlimited => traffic_shapes::unlimited,
                    Call::Events => traffic_shapes::events,
                    Call::Change(ChangeCall::List) => || {
                        let text = |name, about| parameter(name, false, openapi::string(), None, about);
                        described().with([
                            text("app", "Of this app only"),
                            text(
                                "state",
                                "draft, submitted, approved, published, rejected, abandoned or open",
                            ),
                            text("cursor", "`next` of the reply before"),
                            text("limit", "1 to 500"),
                        ])
                    },
                    Call::Change(ChangeCall::Create) => || publishes(takes(ChangeCall::Create)),
                    Call::Change(ChangeCall::Publish) => || publishes(rollouts::takes_plan(described())),
                    Call::Rollout(rollouts::RolloutCall::List) => rollouts::described_list,
                    Call::Rollout(rollouts::RolloutCall::Get) => rollouts::described,
                    Call::Rollout(rollouts::RolloutCall::Withdraw) => rollouts::described_withdraw,
                    Call::Rollout(_) => rollouts::described_ask,
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
                        publishes(described().with([parameter(
                            "dry_run",
                            false,
                            openapi::string(),
                            None,
                            about,
                        )]))
                    },
                    Call::Version(versions::VersionCall::RollBack) => || {
                        let example = json!({"reason": "too low for agoda"});
                        publishes(described().takes(json!({"type": "object"}), example))
                    },
                    Call::File(files::FileCall::Create | files::FileCall::Change) => || {
                        let text =
                            "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n";
                        publishes(described().takes(json!({"type": "object"}), json!({"text": text})))
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
    let mut operations: Vec<_> = ROWS.iter().map(row).collect();
    let changes = changes::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Change(*call), *id, *summary))
    });
    operations.extend(changes);
    let versions = versions::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Version(*call), *id, *summary))
    });
    operations.extend(versions);
    let rollouts = rollouts::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Rollout(*call), *id, *summary))
    });
    operations.extend(rollouts);
    let files = files::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::File(*call), *id, *summary))
    });
    operations.extend(files);
    let transfer = transfer::ROWS.iter().map(|(method, path, call, id, summary)| {
        row(&(method.clone(), *path, Call::Transfer(*call), *id, *summary))
    });
    operations.extend(transfer);
    operations.extend(access::ROWS.iter().map(access));
    operations
}

fn takes(call: ChangeCall) -> Description {
    described().takes(json!({"type": "object"}), changes::example(call))
}

fn described() -> Description {
    schema::replies(json!({"type": "object"}))
}

pub(crate) async fn answer(console: &Console, call: Call, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        Call::OpenApi => Ok(assets::made_once(&OPENAPI, visit.accepts_gzip)),
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
        Call::Trial => history::trial(console, visit).await,
        Call::Problems => history::problems(console, visit).await,
        Call::Unlimited => history::unlimited(console, visit).await,
        Call::Events => events::wait(console, visit).await,
        Call::LiveKeys => keys::live(console, visit).await,
        Call::ScanKeys => keys::scan(console, visit).await,
        Call::Key => keys::inspect(console, visit).await,
        Call::ResetKey => keys::reset(console, visit).await,
        Call::Overrides => overrides::list(console, visit).await,
        Call::CreateOverride => overrides::create(console, visit).await,
        Call::EndOverride => overrides::end(console, visit).await,
        Call::Nodes => nodes::list(console, visit).await,
        Call::Node => nodes::get(console, visit).await,
        Call::RemoveNode => nodes::remove(console, visit).await,
        Call::Frozen => frozen::get(console, visit).await,
        Call::Force => frozen::force(console, visit).await,
        Call::TakeOver => frozen::take_over(console, visit).await,
        Call::Change(call) => changes::answer(console, call, visit).await,
        Call::Rollout(call) => rollouts::answer(console, call, visit).await,
        Call::Version(call) => versions::answer(console, call, visit).await,
        Call::File(call) => files::answer(console, call, visit).await,
        Call::Transfer(call) => transfer::answer(console, call, visit).await,
    }
}

/// Made once: it is the same for all, and its size is that of the whole API.
static OPENAPI: LazyLock<assets::MadeOnce> =
    LazyLock::new(|| assets::MadeOnce::new("application/json", description().to_string()));

fn description() -> Value {
    let about = About {
        title: "Tollgate control API",
        version: env!("CARGO_PKG_VERSION"),
        description: "Apps and rules of the control plane",
    };
    let schemas = shapes::named().into_iter().chain(traffic_shapes::named());
    let schemas = schemas.chain(nodes::named()).chain(rollouts::named()).chain(access::schemas());
    let schemas = schemas.map(|(name, schema)| (name.to_owned(), schema)).collect();
    openapi::document(about, &operations(|call| call), &schemas)
}
