//! The one table of what this surface answers: requests are routed by it, and `/openapi.json` is made of it.

use hyper::Method;

/// What answers an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Check,
    Reserve,
    Commit,
    Cancel,
    Explain,
    Keys,
    Rules,
    PeerJson,
    Metrics,
    Health,
    PeerHealth,
    Ready,
    RuleDump,
    OpenApi,
    Page,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Anyone,
    /// The holder of the admin token; see `admin`.
    Admin,
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) route: Route,
    pub(crate) access: Access,
    /// In code that is generated from the description.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
}

const fn open(
    method: Method,
    path: &'static str,
    route: Route,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    Operation { method, path, route, access: Access::Anyone, id, summary }
}

const fn admin(
    method: Method,
    path: &'static str,
    route: Route,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    Operation { method, path, route, access: Access::Admin, id, summary }
}

/// Every operation. HEAD goes with GET, OPTIONS with all.
pub(crate) static OPERATIONS: &[Operation] = &[
    open(Method::POST, CHECK, Route::Check, "check", "May this request pass? One request, or a batch"),
    open(
        Method::GET,
        CHECK,
        Route::Check,
        "checkByQuery",
        "May this request pass? For proxies that can only ask with a URL",
    ),
    open(Method::POST, "/v1/reserve", Route::Reserve, "reserve", "Hold permits for a while"),
    open(Method::POST, "/v1/commit", Route::Commit, "commit", "Say how many held permits were used"),
    open(Method::POST, "/v1/cancel", Route::Cancel, "cancel", "Give held permits back"),
    open(
        Method::GET,
        "/v1/explain",
        Route::Explain,
        "explain",
        "Which rule would apply, why, and how it would refuse",
    ),
    admin(Method::GET, "/v1/keys", Route::Keys, "inspectKey", "What is counted for a descriptor"),
    admin(Method::DELETE, "/v1/keys", Route::Keys, "resetKey", "Forget what is counted for a descriptor"),
    admin(Method::GET, "/v1/rules", Route::Rules, "rules", "The rules in force, and what came of them"),
    open(
        Method::POST,
        "/json",
        Route::PeerJson,
        "shouldRateLimit",
        "May this request pass? As envoyproxy/ratelimit answers it",
    ),
    open(Method::GET, "/metrics", Route::Metrics, "metrics", "For Prometheus"),
    open(Method::GET, "/healthz", Route::Health, "health", "The process lives"),
    open(
        Method::GET,
        "/healthcheck",
        Route::PeerHealth,
        "peerHealth",
        "It has rules and is not draining; as envoyproxy/ratelimit answers it",
    ),
    open(Method::GET, "/readyz", Route::Ready, "ready", "It has rules and is not draining; with details"),
    admin(
        Method::GET,
        "/debug/rlconfig",
        Route::RuleDump,
        "ruleDump",
        "The rules in force, as envoyproxy/ratelimit lists them",
    ),
    admin(
        Method::GET,
        "/rlconfig",
        Route::RuleDump,
        "peerRuleDump",
        "The same, where envoyproxy/ratelimit has it",
    ),
    open(Method::GET, "/openapi.json", Route::OpenApi, "openApi", "This description"),
    open(Method::GET, "/", Route::Page, "page", "What runs here, for people"),
];

/// The path that is asked most, and so not looked for.
pub(crate) const CHECK: &str = "/v1/check";

/// The operations of a path.
pub(crate) fn at(path: &str) -> impl Iterator<Item = &'static Operation> + Clone {
    OPERATIONS.iter().filter(move |operation| operation.path == path)
}

/// What `Allow` says for a path.
pub(crate) fn allowed(operations: impl Iterator<Item = &'static Operation>) -> String {
    let mut methods = Vec::new();
    for operation in operations {
        methods.push(operation.method.as_str());
        if operation.method == Method::GET {
            methods.push("HEAD");
        }
    }
    methods.push("OPTIONS");
    methods.join(", ")
}
