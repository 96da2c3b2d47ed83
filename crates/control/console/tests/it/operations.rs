//! Every operation of the surface: how it is called, and who may. A new one fails the tests until it is here.

use tollgate_control::Role;

/// Who may call an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// Everybody who reaches the port.
    Anyone,
    /// Every user, and every token.
    User,
    /// Those with this role in any app.
    Somewhere(Role),
    /// Those with this role in the app `SIP_HOTEL`.
    InApp(Role),
    /// Those with this role over all apps.
    Everywhere(Role),
}

/// Further conditions on the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a login or a token.
    Any,
    /// By a login only.
    Login,
    /// By its author; others with the role may be refused.
    Author,
}

use Role::{Admin, Approver, Editor, Viewer};
use Way::{Any, Author, Login};
use Who::{Anyone, Everywhere, InApp, Somewhere, User};

/// An operation: method and path of the table; path, body and etag of a call that succeeds; who may call it.
/// `{token}` and `{login}` are ids of the admin's own, `{override}` of any; the etag is that of a GET of its
/// path, or of the path that is named.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) body: &'static str,
    pub(crate) etag_of: &'static str,
    pub(crate) who: Who,
    pub(crate) way: Way,
}

const fn get(name: &'static str, target: &'static str, who: Who) -> Operation {
    Operation { name, target, body: "", etag_of: "", who, way: Any }
}

const fn post(name: &'static str, target: &'static str, body: &'static str, who: Who) -> Operation {
    Operation { name, target, body, etag_of: "", who, way: Any }
}

const fn put(
    name: &'static str,
    target: &'static str,
    etag_of: &'static str,
    body: &'static str,
    who: Who,
) -> Operation {
    Operation { name, target, body, etag_of, who, way: Any }
}

const fn by_author(operation: Operation) -> Operation {
    Operation { way: Author, ..operation }
}

const fn by_login(operation: Operation) -> Operation {
    Operation { way: Login, ..operation }
}

const APP: &str = "/api/v1/apps/SIP_HOTEL";
const RULE: &str = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
const BOB: &str = "/api/v1/users/bob";

/// In an order in which each succeeds.
pub(crate) const API: &[Operation] = &[
    get("GET /openapi.json", "/openapi.json", Anyone),
    post(
        "POST /api/v1/login",
        "/api/v1/login",
        r#"{"name":"ann","password":"correct horse battery"}"#,
        Anyone,
    ),
    get("GET /api/v1/apps", "/api/v1/apps", User),
    post("POST /api/v1/apps", "/api/v1/apps", r#"{"app":"NEW"}"#, Everywhere(Admin)),
    get("GET /api/v1/apps/{app}", APP, InApp(Viewer)),
    put("PUT /api/v1/apps/{app}", APP, APP, r#"{"description":"hotels"}"#, InApp(Admin)),
    get("GET /api/v1/rules", "/api/v1/rules", User),
    get("GET /api/v1/apps/{app}/rules", "/api/v1/apps/SIP_HOTEL/rules", InApp(Viewer)),
    post(
        "POST /api/v1/apps/{app}/rules",
        "/api/v1/apps/SIP_HOTEL/rules",
        r#"{"key":"more","max_permits":10}"#,
        InApp(Editor),
    ),
    get("GET /api/v1/apps/{app}/rules/{key}", RULE, InApp(Viewer)),
    put("PUT /api/v1/apps/{app}/rules/{key}", RULE, RULE, r#"{"max_permits":11,"rate":3}"#, InApp(Editor)),
    put("DELETE /api/v1/apps/{app}/rules/{key}", RULE, RULE, "", InApp(Editor)),
    get(
        "GET /api/v1/apps/{app}/rules/{key}/suggestion",
        "/api/v1/apps/SIP_HOTEL/rules/second/suggestion",
        InApp(Viewer),
    ),
    get(
        "GET /api/v1/apps/{app}/rules/{key}/trial",
        "/api/v1/apps/SIP_HOTEL/rules/second/trial",
        InApp(Viewer),
    ),
    get("GET /api/v1/history", "/api/v1/history", User),
    get("GET /api/v1/keys/top", "/api/v1/keys/top", User),
    get("GET /api/v1/problems", "/api/v1/problems", User),
    get("GET /api/v1/unlimited", "/api/v1/unlimited", User),
    get("GET /api/v1/events", "/api/v1/events", User),
    get("GET /api/v1/apps/{app}/live", "/api/v1/apps/SIP_HOTEL/live?key=second", InApp(Viewer)),
    get("GET /api/v1/keys/scan", "/api/v1/keys/scan?domain=SIP_HOTEL", InApp(Viewer)),
    get("GET /api/v1/keys", "/api/v1/keys?domain=SIP_HOTEL&entry=key%3Dsecond", InApp(Viewer)),
    put("DELETE /api/v1/keys", "/api/v1/keys?domain=SIP_HOTEL&entry=key%3Dsecond", "", "", InApp(Editor)),
    post(
        "POST /api/v1/overrides",
        "/api/v1/overrides",
        r#"{"domain":"SIP_HOTEL","entries":["key=second"],"action":"block","minutes":60,"reason":"floods"}"#,
        InApp(Editor),
    ),
    get("GET /api/v1/overrides", "/api/v1/overrides", User),
    put("DELETE /api/v1/overrides/{id}", "/api/v1/overrides/{override}", "", "", InApp(Editor)),
    get("GET /api/v1/nodes", "/api/v1/nodes", User),
    get("GET /api/v1/me", "/api/v1/me", User),
    by_login(put("DELETE /api/v1/me/logins/{id}", "/api/v1/me/logins/{login}", "", "", User)),
    by_login(put("PATCH /api/v1/me", "/api/v1/me", "/api/v1/me", r#"{"theme":"dark"}"#, User)),
    by_login(post(
        "POST /api/v1/me/password",
        "/api/v1/me/password",
        r#"{"current":"correct horse battery","password":"correct horse battery"}"#,
        User,
    )),
    get("GET /api/v1/me/logins", "/api/v1/me/logins", User),
    get("GET /api/v1/users", "/api/v1/users?limit=2", Everywhere(Admin)),
    by_login(post("POST /api/v1/users", "/api/v1/users", r#"{"name":"eve"}"#, Everywhere(Admin))),
    get("GET /api/v1/users/{name}", BOB, Everywhere(Admin)),
    put("PATCH /api/v1/users/{name}", BOB, BOB, r#"{"state":"active"}"#, Everywhere(Admin)),
    put(
        "PUT /api/v1/users/{name}/roles/{app}",
        "/api/v1/users/bob/roles/SIP_HOTEL",
        BOB,
        r#"{"role":"editor"}"#,
        Everywhere(Admin),
    ),
    put(
        "DELETE /api/v1/users/{name}/roles/{app}",
        "/api/v1/users/bob/roles/SIP_HOTEL",
        BOB,
        "",
        Everywhere(Admin),
    ),
    by_login(put("POST /api/v1/users/{name}/link", "/api/v1/users/bob/link", BOB, "", Everywhere(Admin))),
    get("GET /api/v1/roles", "/api/v1/roles", User),
    get("GET /api/v1/tokens", "/api/v1/tokens", User),
    by_login(post(
        "POST /api/v1/tokens",
        "/api/v1/tokens",
        r#"{"name":"ci","rights":[{"app":"SIP_HOTEL","role":"viewer"}]}"#,
        InApp(Viewer),
    )),
    get("GET /api/v1/tokens/{id}", "/api/v1/tokens/{token}", User),
    by_login(put("DELETE /api/v1/tokens/{id}", "/api/v1/tokens/{token}", "", "", User)),
    get("GET /api/v1/audit", "/api/v1/audit?limit=3", Everywhere(Admin)),
    get("GET /api/v1/audit/export", "/api/v1/audit/export", Everywhere(Admin)),
    get("GET /api/v1/audit/chain", "/api/v1/audit/chain", Everywhere(Admin)),
    get("GET /api/v1/settings", "/api/v1/settings", User),
    put(
        "PUT /api/v1/settings",
        "/api/v1/settings",
        "/api/v1/settings",
        r#"{"language":"en","login_idle_minutes":720,"login_days":7,"token_days":30,"approvals":0}"#,
        Everywhere(Admin),
    ),
    put("DELETE /api/v1/apps/{app}", APP, APP, "", InApp(Admin)),
    post("POST /api/v1/logout", "/api/v1/logout", "", User),
];

/// Called by other tests, since they succeed once only.
pub(crate) const ONCE: &[&str] = &["POST /api/v1/setup", "POST /api/v1/link"];

const DRAFT: &str = r#"{"app":"SIP_HOTEL","title":"t","comment":"","ops":[{"op":"put","key":"drafted","rule":{"key":"drafted","max_permits":5}}]}"#;
const ROLLOUT: &str = "/api/v1/apps/SIP_HOTEL/rollout";
const CHANGE: &str = "/api/v1/changes/{change}";
const FILE: &str = "/api/v1/apps/SIP_HOTEL/files/extra";
pub(crate) const FILE_BODY: &str =
    r#"{"text":"domain: extra\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n"}"#;

/// Those that do not all succeed on a prepared app: they are called for rights, and for replies as described.
/// `{change}` is the id of a draft.
pub(crate) const LOOSE: &[Operation] = &[
    get("GET /api/v1/changes", "/api/v1/changes", User),
    post("POST /api/v1/changes", "/api/v1/changes", DRAFT, InApp(Editor)),
    get("GET /api/v1/changes/{id}", CHANGE, InApp(Viewer)),
    by_author(put("PUT /api/v1/changes/{id}", CHANGE, CHANGE, DRAFT, InApp(Editor))),
    get("GET /api/v1/changes/{id}/diff", "/api/v1/changes/{change}/diff", InApp(Viewer)),
    post("POST /api/v1/changes/{id}/check", "/api/v1/changes/{change}/check", "", InApp(Viewer)),
    by_author(put(
        "POST /api/v1/changes/{id}/submit",
        "/api/v1/changes/{change}/submit",
        CHANGE,
        "",
        InApp(Editor),
    )),
    by_author(put(
        "POST /api/v1/changes/{id}/approve",
        "/api/v1/changes/{change}/approve",
        CHANGE,
        "",
        InApp(Approver),
    )),
    by_author(put(
        "POST /api/v1/changes/{id}/reject",
        "/api/v1/changes/{change}/reject",
        CHANGE,
        "",
        InApp(Approver),
    )),
    put("POST /api/v1/changes/{id}/publish", "/api/v1/changes/{change}/publish", CHANGE, "", InApp(Editor)),
    by_author(put(
        "POST /api/v1/changes/{id}/abandon",
        "/api/v1/changes/{change}/abandon",
        CHANGE,
        "",
        InApp(Editor),
    )),
    put(
        "POST /api/v1/changes/{id}/comment",
        "/api/v1/changes/{change}/comment",
        CHANGE,
        r#"{"comment":"x"}"#,
        InApp(Editor),
    ),
    by_author(put(
        "POST /api/v1/changes/{id}/resolve",
        "/api/v1/changes/{change}/resolve",
        CHANGE,
        r#"{"choices":[]}"#,
        InApp(Editor),
    )),
    post("POST /api/v1/check", "/api/v1/check", DRAFT, InApp(Viewer)),
    get("GET /api/v1/nodes/{node}", "/api/v1/nodes/none", User),
    put("DELETE /api/v1/nodes/{node}", "/api/v1/nodes/none", "", "", Everywhere(Admin)),
    get("GET /api/v1/apps/{app}/frozen", "/api/v1/apps/SIP_HOTEL/frozen", InApp(Viewer)),
    post("POST /api/v1/apps/{app}/force", "/api/v1/apps/SIP_HOTEL/force", r#"{"reason":"x"}"#, InApp(Admin)),
    post(
        "POST /api/v1/apps/{app}/take-over",
        "/api/v1/apps/SIP_HOTEL/take-over",
        r#"{"node":"none","reason":"x"}"#,
        InApp(Admin),
    ),
    get("GET /api/v1/rollouts", "/api/v1/rollouts", User),
    get("GET /api/v1/apps/{app}/rollout", ROLLOUT, InApp(Viewer)),
    put(
        "POST /api/v1/apps/{app}/rollout/pause",
        "/api/v1/apps/SIP_HOTEL/rollout/pause",
        ROLLOUT,
        "",
        InApp(Approver),
    ),
    put(
        "POST /api/v1/apps/{app}/rollout/resume",
        "/api/v1/apps/SIP_HOTEL/rollout/resume",
        ROLLOUT,
        "",
        InApp(Approver),
    ),
    put(
        "POST /api/v1/apps/{app}/rollout/advance",
        "/api/v1/apps/SIP_HOTEL/rollout/advance",
        ROLLOUT,
        "",
        InApp(Approver),
    ),
    put(
        "POST /api/v1/apps/{app}/rollout/withdraw",
        "/api/v1/apps/SIP_HOTEL/rollout/withdraw",
        ROLLOUT,
        r#"{"reason":"x"}"#,
        InApp(Approver),
    ),
    get("GET /rollouts", "/rollouts", User),
    get("GET /apps/{app}/rollout", "/apps/SIP_HOTEL/rollout", InApp(Viewer)),
    post("POST /apps/{app}/rollout", "/apps/SIP_HOTEL/rollout", "action=pause&etag=1", InApp(Approver)),
    get("GET /apps/{app}/frozen", "/apps/SIP_HOTEL/frozen", InApp(Viewer)),
    post("POST /apps/{app}/frozen", "/apps/SIP_HOTEL/frozen", "action=force&reason=x", InApp(Admin)),
    post("POST /api/v1/preview", "/api/v1/preview", DRAFT, InApp(Viewer)),
    get("GET /api/v1/traces", "/api/v1/traces", Somewhere(Editor)),
    get("GET /api/v1/apps/{app}/files", "/api/v1/apps/SIP_HOTEL/files", InApp(Viewer)),
    post("POST /api/v1/apps/{app}/files", "/api/v1/apps/SIP_HOTEL/files", FILE_BODY, InApp(Editor)),
    get("GET /api/v1/apps/{app}/files/{domain}", FILE, InApp(Viewer)),
    put("PUT /api/v1/apps/{app}/files/{domain}", FILE, FILE, FILE_BODY, InApp(Editor)),
    get(
        "GET /api/v1/explain",
        "/api/v1/explain?app=SIP_HOTEL&domain=SIP_HOTEL&entry=key%3Dsecond",
        InApp(Viewer),
    ),
    get("GET /api/v1/apps/{app}/versions", "/api/v1/apps/SIP_HOTEL/versions", InApp(Viewer)),
    get("GET /api/v1/apps/{app}/versions/{version}", "/api/v1/apps/SIP_HOTEL/versions/1", InApp(Viewer)),
    get(
        "GET /api/v1/apps/{app}/versions/{version}/diff",
        "/api/v1/apps/SIP_HOTEL/versions/2/diff?against=1",
        InApp(Viewer),
    ),
    put(
        "POST /api/v1/apps/{app}/versions/{version}/rollback",
        "/api/v1/apps/SIP_HOTEL/versions/1/rollback",
        "/api/v1/apps/SIP_HOTEL/versions",
        r#"{"reason":"why"}"#,
        InApp(Editor),
    ),
    get("GET /api/v1/export", "/api/v1/export?app=SIP_HOTEL", InApp(Viewer)),
    get("GET /apps/{app}/settings", "/apps/SIP_HOTEL/settings", InApp(Viewer)),
    post("POST /apps/{app}/settings", "/apps/SIP_HOTEL/settings", "approvals=0&etag=1", InApp(Admin)),
    post("POST /rules/bulk", "/rules/bulk", "action=off", User),
    get("GET /files", "/files", User),
    get("GET /files/new", "/files/new?app=SIP_HOTEL", Somewhere(Editor)),
    post(
        "POST /files/new",
        "/files/new",
        "app=SIP_HOTEL&text=domain%3A+more%0Adescriptors%3A+%5B%5D%0A&action=save",
        InApp(Editor),
    ),
    get("GET /apps/{app}/files", "/apps/SIP_HOTEL/files", InApp(Viewer)),
    get("GET /apps/{app}/files/{domain}", "/apps/SIP_HOTEL/files/extra", InApp(Viewer)),
    post(
        "POST /apps/{app}/files/{domain}",
        "/apps/SIP_HOTEL/files/extra",
        "text=domain%3A+extra%0Adescriptors%3A%0A++-+%7Bkey%3A+user%2C+rate_limit%3A+%7Brate%3A+6%2Fminute%7D%7D%0A\
         &action=save&etag=1",
        InApp(Editor),
    ),
    post(
        "POST /apps/{app}/rules/{key}/state",
        "/apps/SIP_HOTEL/rules/second/state",
        "state=shadow&etag=2",
        InApp(Editor),
    ),
    post(
        "POST /apps/{app}/rules/{key}/trial",
        "/apps/SIP_HOTEL/rules/second/trial",
        "action=start&try_rate=9&try_max_permits=19&etag=2",
        InApp(Editor),
    ),
    get("GET /apps/{app}/rules/{key}/yaml", "/apps/SIP_HOTEL/rules/second/yaml", InApp(Viewer)),
    post(
        "POST /apps/{app}/rules/{key}/yaml",
        "/apps/SIP_HOTEL/rules/second/yaml",
        "text=key%3A+second%0Amax_permits%3A+7%0A&etag=2&action=save",
        InApp(Editor),
    ),
    get("GET /changes", "/changes", User),
    get("GET /changes/{id}", "/changes/{change}", InApp(Viewer)),
    post("POST /changes/{id}", "/changes/{change}", "action=comment&comment=x&etag=1", InApp(Editor)),
    get("GET /apps/{app}/versions/diff", "/apps/SIP_HOTEL/versions/diff?version=2&against=1", InApp(Viewer)),
    get("GET /apps/{app}/versions/{version}/diff", "/apps/SIP_HOTEL/versions/2/diff", InApp(Viewer)),
    put("DELETE /api/v1/apps/{app}/files/{domain}", FILE, FILE, "", InApp(Editor)),
    post("POST /api/v1/import", "/api/v1/import", "tollgate: 1\napp: SIP_HOTEL\ncar: []\n", InApp(Editor)),
];

/// A rule's form, an app's page and the like: a form succeeds or is shown again, which is no refusal.
pub(crate) const PAGES: &[Operation] = &[
    get("GET /", "/", User),
    get("GET /login", "/login", Anyone),
    post("POST /login", "/login", "name=ann&password=correct+horse+battery", Anyone),
    get("GET /setup", "/setup", Anyone),
    post("POST /setup", "/setup", "code=x&name=a&password=b&again=c", Anyone),
    get("GET /link", "/link?code=x", Anyone),
    post("POST /link", "/link", "code=x&password=b&again=c", Anyone),
    post("POST /preferences", "/preferences", "theme=dark&back=/rules", Anyone),
    get("GET /shortcuts", "/shortcuts", User),
    get("GET /rules", "/rules", User),
    get("GET /rules/new", "/rules/new?app=SIP_HOTEL", Somewhere(Editor)),
    post(
        "POST /rules/new",
        "/rules/new",
        "app=SIP_HOTEL&key=other&max_permits=10&rate=1&terms=yes&action=save",
        InApp(Editor),
    ),
    get("GET /apps/{app}/rules/{key}", "/apps/SIP_HOTEL/rules/pushGeo", InApp(Viewer)),
    post(
        "POST /apps/{app}/rules/{key}",
        "/apps/SIP_HOTEL/rules/pushGeo",
        "max_permits=10&rate=2&etag=1&action=save",
        InApp(Editor),
    ),
    get("GET /apps/{app}/rules/{key}/delete", "/apps/SIP_HOTEL/rules/pushGeo/delete", InApp(Editor)),
    post(
        "POST /apps/{app}/rules/{key}/delete",
        "/apps/SIP_HOTEL/rules/pushGeo/delete",
        "etag=1",
        InApp(Editor),
    ),
    get("GET /versions", "/versions", User),
    get("GET /apps/{app}/versions", "/apps/SIP_HOTEL/versions", InApp(Viewer)),
    get("GET /apps/{app}/versions/{version}/rollback", "/apps/SIP_HOTEL/versions/1/rollback", InApp(Editor)),
    post(
        "POST /apps/{app}/versions/{version}/rollback",
        "/apps/SIP_HOTEL/versions/1/rollback",
        "etag=2&reason=why",
        InApp(Editor),
    ),
    get("GET /nodes", "/nodes", User),
    get("GET /nodes/{id}", "/nodes/none", User),
    post("POST /nodes/{id}/remove", "/nodes/none/remove", "x=1", Everywhere(Admin)),
    get("GET /examples", "/examples", User),
    get("GET /apps/{app}/rules/{key}/history", "/apps/SIP_HOTEL/rules/second/history", InApp(Viewer)),
    get("GET /apps/{app}/rules/{key}/replay", "/apps/SIP_HOTEL/rules/second/replay", InApp(Editor)),
    post(
        "POST /apps/{app}/rules/{key}/replay",
        "/apps/SIP_HOTEL/rules/second/replay",
        "trace=none&max_permits=10&rate=1",
        InApp(Editor),
    ),
    get("GET /top", "/top", User),
    get("GET /keys", "/keys", User),
    get("GET /keys/scan", "/keys/scan?domain=SIP_HOTEL", InApp(Viewer)),
    post("POST /keys/reset", "/keys/reset", "domain=SIP_HOTEL&entries=key%3Dsecond", InApp(Editor)),
    get("GET /overrides", "/overrides", User),
    post(
        "POST /overrides",
        "/overrides",
        "domain=SIP_HOTEL&entries=key%3Dsecond&action=block&minutes=60&reason=floods",
        InApp(Editor),
    ),
    post("POST /overrides/{id}/end", "/overrides/{override}/end", "end=1", InApp(Editor)),
    get("GET /users", "/users", Everywhere(Admin)),
    post("POST /users", "/users", "name=eve&role=viewer&app=*", Everywhere(Admin)),
    get("GET /users/{name}", "/users/bob", Everywhere(Admin)),
    post("POST /users/{name}/state", "/users/bob/state", "state=disabled", Everywhere(Admin)),
    post("POST /users/{name}/roles", "/users/bob/roles", "app=X&role=editor", Everywhere(Admin)),
    post("POST /users/{name}/roles/remove", "/users/bob/roles/remove", "app=X", Everywhere(Admin)),
    post("POST /users/{name}/link", "/users/bob/link", "", Everywhere(Admin)),
    get("GET /me", "/me", User),
    post("POST /me", "/me", "locale=en&theme=dark&zone=", User),
    post("POST /me/password", "/me/password", "current=x&password=y&again=z", User),
    post("POST /me/logins/{id}/end", "/me/logins/0000000000000000/end", "", User),
    get("GET /tokens", "/tokens", User),
    post("POST /tokens", "/tokens", "name=n&kind=api&role=viewer&apps=SIP_HOTEL&days=", InApp(Viewer)),
    post("POST /tokens/{id}/revoke", "/tokens/{token}/revoke", "", User),
    get("GET /settings", "/settings", Everywhere(Admin)),
    post(
        "POST /settings",
        "/settings",
        "etag=0&language=en&login_idle_minutes=720&login_days=7&token_days=30&approvals=0",
        Everywhere(Admin),
    ),
    get("GET /audit", "/audit", Everywhere(Admin)),
    post("POST /logout", "/logout", "", Anyone),
];

/// The API calls that replace each page's form. The API can do everything that the console can.
pub(crate) const TWINS: &[(&str, &[&str])] = &[
    ("POST /login", &["POST /api/v1/login"]),
    ("POST /logout", &["POST /api/v1/logout"]),
    ("POST /setup", &["POST /api/v1/setup"]),
    ("POST /link", &["POST /api/v1/link"]),
    ("POST /preferences", &["PATCH /api/v1/me"]),
    ("POST /rules/new", &["POST /api/v1/apps/{app}/rules"]),
    ("POST /apps/{app}/rules/{key}", &["PUT /api/v1/apps/{app}/rules/{key}"]),
    ("POST /apps/{app}/rules/{key}/delete", &["DELETE /api/v1/apps/{app}/rules/{key}"]),
    ("POST /apps/{app}/rules/{key}/state", &["PUT /api/v1/apps/{app}/rules/{key}"]),
    (
        "POST /apps/{app}/rules/{key}/trial",
        &["PUT /api/v1/apps/{app}/rules/{key}", "GET /api/v1/apps/{app}/rules/{key}/trial"],
    ),
    ("POST /apps/{app}/rules/{key}/replay", &["POST /api/v1/preview", "GET /api/v1/traces"]),
    ("POST /apps/{app}/rules/{key}/yaml", &["POST /api/v1/changes", "POST /api/v1/check"]),
    ("POST /rules/bulk", &["POST /api/v1/changes", "GET /api/v1/export"]),
    (
        "POST /apps/{app}/versions/{version}/rollback",
        &["POST /api/v1/apps/{app}/versions/{version}/rollback"],
    ),
    ("POST /apps/{app}/settings", &["PUT /api/v1/apps/{app}", "DELETE /api/v1/apps/{app}"]),
    (
        "POST /apps/{app}/rollout",
        &[
            "POST /api/v1/apps/{app}/rollout/pause",
            "POST /api/v1/apps/{app}/rollout/resume",
            "POST /api/v1/apps/{app}/rollout/advance",
            "POST /api/v1/apps/{app}/rollout/withdraw",
        ],
    ),
    ("POST /apps/{app}/frozen", &["POST /api/v1/apps/{app}/force", "POST /api/v1/apps/{app}/take-over"]),
    ("POST /files/new", &["POST /api/v1/apps/{app}/files", "POST /api/v1/check", "GET /api/v1/explain"]),
    (
        "POST /apps/{app}/files/{domain}",
        &[
            "PUT /api/v1/apps/{app}/files/{domain}",
            "DELETE /api/v1/apps/{app}/files/{domain}",
            "POST /api/v1/preview",
            "GET /api/v1/explain",
        ],
    ),
    (
        "POST /changes/{id}",
        &[
            "PUT /api/v1/changes/{id}",
            "POST /api/v1/changes/{id}/submit",
            "POST /api/v1/changes/{id}/approve",
            "POST /api/v1/changes/{id}/reject",
            "POST /api/v1/changes/{id}/publish",
            "POST /api/v1/changes/{id}/abandon",
            "POST /api/v1/changes/{id}/comment",
            "POST /api/v1/changes/{id}/resolve",
            "POST /api/v1/changes/{id}/check",
        ],
    ),
    ("POST /users", &["POST /api/v1/users"]),
    ("POST /users/{name}/state", &["PATCH /api/v1/users/{name}"]),
    ("POST /users/{name}/roles", &["PUT /api/v1/users/{name}/roles/{app}"]),
    ("POST /users/{name}/roles/remove", &["DELETE /api/v1/users/{name}/roles/{app}"]),
    ("POST /users/{name}/link", &["POST /api/v1/users/{name}/link"]),
    ("POST /me", &["PATCH /api/v1/me"]),
    ("POST /me/password", &["POST /api/v1/me/password"]),
    ("POST /me/logins/{id}/end", &["DELETE /api/v1/me/logins/{id}"]),
    ("POST /tokens", &["POST /api/v1/tokens"]),
    ("POST /tokens/{id}/revoke", &["DELETE /api/v1/tokens/{id}"]),
    ("POST /settings", &["PUT /api/v1/settings"]),
    ("POST /keys/reset", &["DELETE /api/v1/keys"]),
    ("POST /overrides", &["POST /api/v1/overrides"]),
    ("POST /overrides/{id}/end", &["DELETE /api/v1/overrides/{id}"]),
    ("POST /nodes/{id}/remove", &["DELETE /api/v1/nodes/{node}"]),
];
