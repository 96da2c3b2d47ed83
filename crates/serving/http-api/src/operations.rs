//! The one table of what this surface answers: requests are routed by it, and the start page and
//! `/openapi.json` are made of it.

use hyper::Method;
use tollgate_http_kit::{Access, Operation};

use crate::describe;

/// Operations of [`HttpApi`](crate::HttpApi).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// One request or a batch.
    Check,
    /// Permits held for a while.
    Reserve,
    /// The actual use of a reservation.
    Commit,
    /// A reservation that is not needed.
    Cancel,
    /// A slot of a limit on concurrency.
    Acquire,
    /// A slot that is not needed any more.
    Release,
    /// One request, by a limit that comes with it.
    Throttle,
    /// Which rule matches, and why.
    Explain,
    /// The counters of a descriptor.
    Keys,
    /// The rules in force, with their counts.
    Rules,
    /// The counts of the rules, as CSV.
    Usage,
    /// A check in the JSON of envoyproxy/ratelimit.
    PeerJson,
    Metrics,
    /// The process is alive.
    Health,
    /// Readiness, in the form of envoyproxy/ratelimit.
    PeerHealth,
    /// Readiness, with details.
    Ready,
    /// The rules in the format of envoyproxy/ratelimit.
    RuleDump,
    /// The description of this API.
    OpenApi,
    /// The start page.
    Page,
}

const CHECK: &str = "/v1/check";

/// Every operation; first the one that is called most.
pub(crate) static OPERATIONS: &[Operation<Route>] = &[
    Operation {
        method: Method::POST,
        path: CHECK,
        route: Route::Check,
        access: Access::Anyone,
        id: "check",
        summary: "May this request pass? One request, or a batch",
        describe: describe::check,
    },
    Operation {
        method: Method::GET,
        path: CHECK,
        route: Route::Check,
        access: Access::Anyone,
        id: "checkByQuery",
        summary: "May this request pass? For proxies that can only send a URL",
        describe: describe::check_by_query,
    },
    Operation {
        method: Method::POST,
        path: "/v1/reserve",
        route: Route::Reserve,
        access: Access::Anyone,
        id: "reserve",
        summary: "Hold permits for a while",
        describe: describe::reserve,
    },
    Operation {
        method: Method::POST,
        path: "/v1/commit",
        route: Route::Commit,
        access: Access::Anyone,
        id: "commit",
        summary: "Report how many held permits were used",
        describe: describe::commit,
    },
    Operation {
        method: Method::POST,
        path: "/v1/cancel",
        route: Route::Cancel,
        access: Access::Anyone,
        id: "cancel",
        summary: "Give held permits back",
        describe: describe::cancel,
    },
    Operation {
        method: Method::POST,
        path: "/v1/acquire",
        route: Route::Acquire,
        access: Access::Anyone,
        id: "acquire",
        summary: "Hold a slot of a limit on what runs at the same time, or renew it",
        describe: describe::acquire,
    },
    Operation {
        method: Method::POST,
        path: "/v1/release",
        route: Route::Release,
        access: Access::Anyone,
        id: "release",
        summary: "Give a slot back",
        describe: describe::release,
    },
    Operation {
        method: Method::POST,
        path: "/v1/throttle",
        route: Route::Throttle,
        access: Access::Anyone,
        id: "throttle",
        summary: "May this request pass? By a limit that comes with it, without rules",
        describe: describe::throttle,
    },
    Operation {
        method: Method::GET,
        path: "/v1/explain",
        route: Route::Explain,
        access: Access::Anyone,
        id: "explain",
        summary: "Which rule would apply, why, and the reply to a denied client",
        describe: describe::explain,
    },
    Operation {
        method: Method::GET,
        path: "/v1/keys",
        route: Route::Keys,
        access: Access::Admin,
        id: "inspectKey",
        summary: "The counters of one descriptor; those of all cannot be listed",
        describe: describe::keys,
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/keys",
        route: Route::Keys,
        access: Access::Admin,
        id: "resetKey",
        summary: "Reset the counters of a descriptor",
        describe: describe::keys,
    },
    Operation {
        method: Method::GET,
        path: "/v1/rules",
        route: Route::Rules,
        access: Access::Admin,
        id: "rules",
        summary: "The rules in force, with their counts",
        describe: describe::rules,
    },
    Operation {
        method: Method::GET,
        path: "/v1/usage",
        route: Route::Usage,
        access: Access::Admin,
        id: "usage",
        summary: "Decisions by rule since the process started, as CSV",
        describe: describe::usage,
    },
    Operation {
        method: Method::POST,
        path: "/json",
        route: Route::PeerJson,
        access: Access::Anyone,
        id: "shouldRateLimit",
        summary: "May this request pass? Compatible with envoyproxy/ratelimit",
        describe: describe::peer_json,
    },
    Operation {
        method: Method::GET,
        path: "/metrics",
        route: Route::Metrics,
        access: Access::Anyone,
        id: "metrics",
        summary: "Metrics for Prometheus",
        describe: describe::metrics,
    },
    Operation {
        method: Method::GET,
        path: "/healthz",
        route: Route::Health,
        access: Access::Anyone,
        id: "health",
        summary: "The process is alive",
        describe: describe::health,
    },
    Operation {
        method: Method::GET,
        path: "/healthcheck",
        route: Route::PeerHealth,
        access: Access::Anyone,
        id: "peerHealth",
        summary: "Has rules and is not draining; compatible with envoyproxy/ratelimit",
        describe: describe::peer_health,
    },
    Operation {
        method: Method::GET,
        path: "/readyz",
        route: Route::Ready,
        access: Access::Anyone,
        id: "ready",
        summary: "Has rules and is not draining; with details",
        describe: describe::ready,
    },
    Operation {
        method: Method::GET,
        path: "/debug/rlconfig",
        route: Route::RuleDump,
        access: Access::Admin,
        id: "ruleDump",
        summary: "The rules in force, in the format of envoyproxy/ratelimit",
        describe: describe::rule_dump,
    },
    Operation {
        method: Method::GET,
        path: "/rlconfig",
        route: Route::RuleDump,
        access: Access::Admin,
        id: "peerRuleDump",
        summary: "The same, at the path of envoyproxy/ratelimit",
        describe: describe::rule_dump,
    },
    Operation {
        method: Method::GET,
        path: "/openapi.json",
        route: Route::OpenApi,
        access: Access::Anyone,
        id: "openApi",
        summary: "This description",
        describe: describe::open_api,
    },
    Operation {
        method: Method::GET,
        path: "/",
        route: Route::Page,
        access: Access::Anyone,
        id: "page",
        summary: "A page for people: what runs here",
        describe: describe::page,
    },
];
