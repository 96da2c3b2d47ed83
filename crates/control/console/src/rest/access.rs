//! Access: the user itself, users, tokens, the audit, settings.

mod audit;
mod me;
mod settings;
mod tokens;
mod users;

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::{Value, json};
use tollgate_http_kit::Reply;
use tollgate_http_kit::openapi::{Description, parameter, schema};

use super::schema::{
    ERRORS, creates, flag, int, limit, list, maybe, object, one_of, or_stale, replies, text,
};
use crate::console::Console;
use crate::web::{Failure, Visit};

/// An operation of this part.
#[derive(Clone, Copy, Debug)]
pub enum AccessCall {
    SetUp,
    RedeemLink,
    Me,
    ChangeMe,
    ChangePassword,
    MyLogins,
    EndLogin,
    Users,
    CreateUser,
    User,
    ChangeUser,
    SetRole,
    RemoveRole,
    ResetPassword,
    Roles,
    Tokens,
    CreateToken,
    Token,
    RevokeToken,
    Audit,
    ExportAudit,
    Chain,
    Settings,
    ChangeSettings,
}

/// An operation: method, path, what it is, its id, what it does, what it takes and replies.
pub(super) struct Row(
    pub(super) Method,
    pub(super) &'static str,
    pub(super) AccessCall,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) fn() -> Description,
);

use AccessCall as C;

pub(super) static ROWS: &[Row] = &[
    Row(Method::POST, "/api/v1/setup", C::SetUp, "setUp", "Creates the first admin and logs in", || {
        let body = object(&[("code", text()), ("name", text()), ("password", text())], &[]);
        let example = json!({"code": "0".repeat(64), "name": "ann", "password": "a long passphrase"});
        creates(object(&[("name", text())], &[])).takes(body, example)
    }),
    Row(
        Method::POST,
        "/api/v1/link",
        C::RedeemLink,
        "redeemLink",
        "Sets the password of the user of a one-time link, and logs in",
        || {
            let body = object(&[("code", text()), ("password", text())], &[("end_tokens", flag())]);
            let example =
                json!({"code": "0".repeat(64), "password": "a long passphrase", "end_tokens": true});
            replies(object(&[], &[])).takes(body, example)
        },
    ),
    Row(Method::GET, "/api/v1/me", C::Me, "getMe", "Returns the user of the login or the token", || {
        replies(schema("Me"))
    }),
    Row(Method::PATCH, "/api/v1/me", C::ChangeMe, "changeMe", "Changes preferences; needs If-Match", || {
        let body = object(&[], &[("locale", text()), ("theme", text()), ("zone", text())]);
        let example = json!({"locale": "zh", "theme": "dark", "zone": "Asia/Shanghai"});
        or_stale(replies(schema("Me")), schema("Me")).takes(body, example)
    }),
    Row(
        Method::POST,
        "/api/v1/me/password",
        C::ChangePassword,
        "changePassword",
        "Changes the password and ends all other logins; needs a login",
        || {
            let body = object(&[("current", text()), ("password", text())], &[("end_tokens", flag())]);
            let example = json!({"current": "a long passphrase", "password": "another passphrase"});
            replies(object(&[], &[])).takes(body, example)
        },
    ),
    Row(Method::GET, "/api/v1/me/logins", C::MyLogins, "listLogins", "Lists the user's own logins", || {
        replies(object(&[("logins", list(schema("Login")))], &[]))
    }),
    Row(Method::DELETE, "/api/v1/me/logins/{id}", C::EndLogin, "endLogin", "Ends a login", || {
        replies(object(&[], &[]))
    }),
    Row(Method::GET, "/api/v1/users", C::Users, "listUsers", "Lists the users by name", || {
        let after = parameter("cursor", false, text(), None, "`next` of the reply before");
        let members = [("users", list(schema("User"))), ("next", maybe(&text()))];
        replies(object(&members, &[])).with([limit(), after])
    }),
    Row(
        Method::POST,
        "/api/v1/users",
        C::CreateUser,
        "createUser",
        "Adds a user, and returns the one-time link for the password",
        || {
            let body = object(&[("name", text())], &[("app", text()), ("role", text())]);
            let example = json!({"name": "bob", "app": "*", "role": "viewer"});
            let members = [("user", schema("User")), ("link", text()), ("link_until", maybe(&int()))];
            creates(object(&members, &[])).takes(body, example)
        },
    ),
    Row(Method::GET, "/api/v1/users/{name}", C::User, "getUser", "Returns a user with its ETag", || {
        replies(schema("User"))
    }),
    Row(
        Method::PATCH,
        "/api/v1/users/{name}",
        C::ChangeUser,
        "changeUser",
        "Disables or enables a user; needs If-Match. Logins and tokens end at once",
        || {
            let body = object(&[("state", one_of(&["active", "disabled"]))], &[]);
            or_stale(replies(schema("User")), schema("User")).takes(body, json!({"state": "disabled"}))
        },
    ),
    Row(
        Method::PUT,
        "/api/v1/users/{name}/roles/{app}",
        C::SetRole,
        "setRole",
        "Gives a user a role in an app or `*`; needs If-Match",
        || {
            let body = object(&[("role", one_of(&["viewer", "editor", "approver", "admin"]))], &[]);
            or_stale(replies(schema("User")), schema("User")).takes(body, json!({"role": "editor"}))
        },
    ),
    Row(
        Method::DELETE,
        "/api/v1/users/{name}/roles/{app}",
        C::RemoveRole,
        "removeRole",
        "Takes the role in an app or `*` away; needs If-Match",
        || or_stale(replies(schema("User")), schema("User")),
    ),
    Row(
        Method::POST,
        "/api/v1/users/{name}/link",
        C::ResetPassword,
        "resetPassword",
        "Ends password and logins of a user, and returns a one-time link; needs If-Match",
        || {
            let members = [("user", schema("User")), ("link", text()), ("link_until", maybe(&int()))];
            or_stale(creates(object(&members, &[])), schema("User"))
        },
    ),
    Row(Method::GET, "/api/v1/roles", C::Roles, "listRoles", "Lists the roles, the least first", || {
        let role = object(&[("role", text()), ("may", text())], &[]);
        replies(object(&[("roles", list(role))], &[]))
    }),
    Row(Method::GET, "/api/v1/tokens", C::Tokens, "listTokens", "Lists own tokens; admins see all", || {
        let after = parameter("cursor", false, text(), None, "`next` of the reply before");
        let members = [("tokens", list(schema("Token"))), ("next", maybe(&text()))];
        replies(object(&members, &[])).with([limit(), after])
    }),
    Row(
        Method::POST,
        "/api/v1/tokens",
        C::CreateToken,
        "createToken",
        "Makes a token, which is returned this once; needs a login",
        || {
            let right = object(&[("app", text()), ("role", text())], &[]);
            let body = object(
                &[("name", text())],
                &[
                    ("kind", one_of(&["api", "node", "join"])),
                    ("rights", list(right)),
                    ("days", maybe(&int())),
                ],
            );
            let rights = json!([{"app": "*", "role": "viewer"}]);
            creates(object(&[("token", schema("Token")), ("secret", text())], &[]))
                .takes(body, json!({"name": "ci", "kind": "api", "rights": rights, "days": 30}))
        },
    ),
    Row(
        Method::GET,
        "/api/v1/tokens/{id}",
        C::Token,
        "getToken",
        "Returns a token without its secret",
        || replies(schema("Token")),
    ),
    Row(Method::DELETE, "/api/v1/tokens/{id}", C::RevokeToken, "revokeToken", "Ends a token at once", || {
        replies(schema("Token"))
    }),
    Row(Method::GET, "/api/v1/audit", C::Audit, "listAudit", "Lists audit entries, the newest first", || {
        let filter = |name: &str, about: &str| parameter(name, false, text(), None, about);
        let number = |name: &str, about: &str| parameter(name, false, int(), None, about);
        let members = [("entries", list(schema("Entry"))), ("next", maybe(&text()))];
        replies(object(&members, &[])).with([
            limit(),
            filter("cursor", "`next` of the reply before"),
            filter("app", "Of this app"),
            filter("actor", "By this user"),
            filter("target", "Whose object contains this"),
            filter("action", "Whose action begins with this"),
            number("from", "From this time on, in milliseconds UTC"),
            number("until", "Before this time, in milliseconds UTC"),
        ])
    }),
    Row(
        Method::GET,
        "/api/v1/audit/export",
        C::ExportAudit,
        "exportAudit",
        "Returns entries as NDJSON, the oldest first; `Link` leads to the next part",
        || {
            let after = parameter("after", false, int(), None, "The last entry that is there already");
            Description::text("application/x-ndjson").fails(ERRORS).with([after])
        },
    ),
    Row(Method::GET, "/api/v1/audit/chain", C::Chain, "verifyAudit", "Verifies the whole audit", || {
        replies(object(&[("is_whole", flag()), ("entries", int()), ("broken_at", maybe(&int()))], &[]))
    }),
    Row(Method::GET, "/api/v1/settings", C::Settings, "getSettings", "Returns the settings", || {
        replies(schema("Settings"))
    }),
    Row(
        Method::PUT,
        "/api/v1/settings",
        C::ChangeSettings,
        "changeSettings",
        "Replaces the settings; needs If-Match",
        || {
            let example = json!(tollgate_control::Settings::default());
            or_stale(replies(schema("Settings")), schema("Settings")).takes(schema("Settings"), example)
        },
    ),
];

pub(super) fn schemas() -> BTreeMap<&'static str, Value> {
    let right = object(&[("app", text()), ("role", text())], &[]);
    let me = [
        ("name", text()),
        ("locale", text()),
        ("theme", text()),
        ("zone", text()),
        ("roles", list(right.clone())),
        ("token", text()),
    ];
    let user = [
        ("name", text()),
        ("state", one_of(&["active", "disabled"])),
        ("has_password", flag()),
        ("link_until", maybe(&int())),
        ("last_login_at", maybe(&int())),
        ("roles", list(right.clone())),
    ];
    let login = [
        ("id", text()),
        ("created_at", int()),
        ("last_seen", int()),
        ("expires_at", int()),
        ("ip", text()),
        ("agent", text()),
        ("is_this", flag()),
    ];
    let token = [
        ("id", text()),
        ("kind", one_of(&["api", "node", "join"])),
        ("name", text()),
        ("prefix", text()),
        ("owner", maybe(&text())),
        ("rights", list(right)),
        ("created_at", int()),
        ("expires_at", maybe(&int())),
        ("last_used_at", maybe(&int())),
        ("revoked_at", maybe(&int())),
        ("is_valid", flag()),
    ];
    let entry = [
        ("seq", int()),
        ("at", int()),
        ("actor_kind", one_of(&["user", "token", "system", "unknown"])),
        ("actor", text()),
        ("via", text()),
        ("ip", text()),
        ("request_id", text()),
        ("action", text()),
        ("target", text()),
        ("app", maybe(&text())),
        ("before", maybe(&text())),
        ("after", maybe(&text())),
        ("reason", text()),
        ("prev_hash", text()),
        ("hash", text()),
    ];
    let settings = [
        ("language", one_of(&["", "zh", "en"])),
        ("login_idle_minutes", int()),
        ("login_days", int()),
        ("token_days", int()),
        ("approvals", int()),
    ];
    BTreeMap::from([
        ("Me", object(&me, &[])),
        ("User", object(&user, &[])),
        ("Login", object(&login, &[])),
        ("Token", object(&token, &[])),
        ("Entry", object(&entry, &[])),
        ("Settings", object(&settings, &[])),
    ])
}

pub(super) async fn answer(console: &Console, call: AccessCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        C::SetUp => me::set_up(console, visit).await,
        C::RedeemLink => me::redeem_link(console, visit).await,
        C::Me => me::get(console, visit).await,
        C::ChangeMe => me::change(console, visit).await,
        C::ChangePassword => me::change_password(console, visit).await,
        C::MyLogins => me::logins(console, visit).await,
        C::EndLogin => me::end_login(console, visit).await,
        C::Users => users::list(console, visit).await,
        C::CreateUser => users::create(console, visit).await,
        C::User => users::get(console, visit).await,
        C::ChangeUser => users::change(console, visit).await,
        C::SetRole => users::set_role(console, visit).await,
        C::RemoveRole => users::remove_role(console, visit).await,
        C::ResetPassword => users::reset(console, visit).await,
        C::Roles => users::roles(visit),
        C::Tokens => tokens::list(console, visit).await,
        C::CreateToken => tokens::create(console, visit).await,
        C::Token => tokens::get(console, visit).await,
        C::RevokeToken => tokens::revoke(console, visit).await,
        C::Audit => audit::list(console, visit).await,
        C::ExportAudit => audit::export(console, visit).await,
        C::Chain => audit::chain(console, visit).await,
        C::Settings => settings::get(console, visit).await,
        C::ChangeSettings => settings::change(console, visit).await,
    }
}
