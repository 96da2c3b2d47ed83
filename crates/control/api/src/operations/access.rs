//! The user itself, users, tokens, the audit, settings.

use crate::calls::{AccessCall as C, Call};
use crate::describe::{Describe as _, creates, replies, replies_text};
use crate::params::{
    AuditExportQuery, AuditQuery, LinkBody, MeBody, PageQuery, PasswordBody, RoleBody, SetupBody, StateBody,
    TokenBody, UserBody,
};
use crate::rows::{ApiOperation, delete, get, patch, post, put};
use crate::views::{
    AuditChain, Done, Entries, Logins, Me, Name, NewToken, Roles, Settings, Token, Tokens, User, UserLink,
    Users,
};

const SETUP: &str = r#"{
    "code": "0000000000000000000000000000000000000000000000000000000000000000",
    "name": "ann", "password": "a long passphrase"
}"#;
const LINK: &str = r#"{
    "code": "0000000000000000000000000000000000000000000000000000000000000000",
    "password": "a long passphrase", "end_tokens": true
}"#;
const ME: &str = r#"{"locale": "zh", "theme": "dark", "zone": "Asia/Shanghai"}"#;
const PASSWORD: &str = r#"{"current": "a long passphrase", "password": "another passphrase"}"#;
const USER: &str = r#"{"name": "bob", "app": "*", "role": "viewer"}"#;
const TOKEN: &str =
    r#"{"name": "ci", "kind": "api", "rights": [{"app": "*", "role": "viewer"}], "days": 30}"#;
const SETTINGS: &str =
    r#"{"language": "", "login_idle_minutes": 720, "login_days": 7, "token_days": 90, "approvals": 0}"#;

pub(super) fn rows() -> Vec<ApiOperation> {
    let mut rows = own();
    rows.extend(users());
    rows.extend(tokens());
    rows.extend(whole_plane());
    rows
}

/// Beginning, and the user itself.
fn own() -> Vec<ApiOperation> {
    vec![
        post("/api/v1/setup", Call::Access(C::SetUp), "setUp", "Creates the first admin and logs in", || {
            creates::<Name>().takes_body::<SetupBody>(SETUP)
        }),
        post(
            "/api/v1/link",
            Call::Access(C::RedeemLink),
            "redeemLink",
            "Sets the password of the user of a one-time link, and logs in",
            || replies::<Done>().takes_body::<LinkBody>(LINK),
        ),
        get(
            "/api/v1/me",
            Call::Access(C::Me),
            "getMe",
            "Returns the user of the login or the token",
            replies::<Me>,
        ),
        patch(
            "/api/v1/me",
            Call::Access(C::ChangeMe),
            "changeMe",
            "Changes preferences; needs If-Match",
            || replies::<Me>().or_stale::<Me>().takes_body::<MeBody>(ME),
        ),
        post(
            "/api/v1/me/password",
            Call::Access(C::ChangePassword),
            "changePassword",
            "Changes the password and ends all other logins; needs a login",
            || replies::<Done>().takes_body::<PasswordBody>(PASSWORD),
        ),
        get(
            "/api/v1/me/logins",
            Call::Access(C::MyLogins),
            "listLogins",
            "Lists the user's own logins",
            replies::<Logins>,
        ),
        delete(
            "/api/v1/me/logins/{id}",
            Call::Access(C::EndLogin),
            "endLogin",
            "Ends a login",
            replies::<Done>,
        ),
    ]
}

fn users() -> Vec<ApiOperation> {
    vec![
        get("/api/v1/users", Call::Access(C::Users), "listUsers", "Lists the users by name", || {
            replies::<Users>().queried_by::<PageQuery>()
        }),
        post(
            "/api/v1/users",
            Call::Access(C::CreateUser),
            "createUser",
            "Adds a user, and returns the one-time link for the password",
            || creates::<UserLink>().takes_body::<UserBody>(USER),
        ),
        get(
            "/api/v1/users/{name}",
            Call::Access(C::User),
            "getUser",
            "Returns a user with its ETag",
            replies::<User>,
        ),
        patch(
            "/api/v1/users/{name}",
            Call::Access(C::ChangeUser),
            "changeUser",
            "Disables or enables a user; needs If-Match. Logins and tokens end at once",
            || replies::<User>().or_stale::<User>().takes_body::<StateBody>(r#"{"state": "disabled"}"#),
        ),
        put(
            "/api/v1/users/{name}/roles/{app}",
            Call::Access(C::SetRole),
            "setRole",
            "Gives a user a role in an app or `*`; needs If-Match",
            || replies::<User>().or_stale::<User>().takes_body::<RoleBody>(r#"{"role": "editor"}"#),
        ),
        delete(
            "/api/v1/users/{name}/roles/{app}",
            Call::Access(C::RemoveRole),
            "removeRole",
            "Takes the role in an app or `*` away; needs If-Match",
            || replies::<User>().or_stale::<User>(),
        ),
        post(
            "/api/v1/users/{name}/link",
            Call::Access(C::ResetPassword),
            "resetPassword",
            "Ends password and logins of a user, and returns a one-time link; needs If-Match",
            || creates::<UserLink>().or_stale::<User>(),
        ),
        get(
            "/api/v1/roles",
            Call::Access(C::Roles),
            "listRoles",
            "Lists the roles, the least first",
            replies::<Roles>,
        ),
    ]
}

fn tokens() -> Vec<ApiOperation> {
    vec![
        get(
            "/api/v1/tokens",
            Call::Access(C::Tokens),
            "listTokens",
            "Lists own tokens; admins see all",
            || replies::<Tokens>().queried_by::<PageQuery>(),
        ),
        post(
            "/api/v1/tokens",
            Call::Access(C::CreateToken),
            "createToken",
            "Makes a token, which is returned this once; needs a login",
            || creates::<NewToken>().takes_body::<TokenBody>(TOKEN),
        ),
        get(
            "/api/v1/tokens/{id}",
            Call::Access(C::Token),
            "getToken",
            "Returns a token without its secret",
            replies::<Token>,
        ),
        delete(
            "/api/v1/tokens/{id}",
            Call::Access(C::RevokeToken),
            "revokeToken",
            "Ends a token at once",
            replies::<Token>,
        ),
    ]
}

/// The audit and the settings.
fn whole_plane() -> Vec<ApiOperation> {
    vec![
        get(
            "/api/v1/audit",
            Call::Access(C::Audit),
            "listAudit",
            "Lists audit entries, the newest first",
            || replies::<Entries>().queried_by::<AuditQuery>(),
        ),
        get(
            "/api/v1/audit/export",
            Call::Access(C::ExportAudit),
            "exportAudit",
            "Returns entries as NDJSON, the oldest first; `Link` leads to the next part",
            || replies_text("application/x-ndjson").queried_by::<AuditExportQuery>(),
        ),
        get(
            "/api/v1/audit/chain",
            Call::Access(C::Chain),
            "verifyAudit",
            "Verifies the whole audit",
            replies::<AuditChain>,
        ),
        get(
            "/api/v1/settings",
            Call::Access(C::Settings),
            "getSettings",
            "Returns the settings",
            replies::<Settings>,
        ),
        put(
            "/api/v1/settings",
            Call::Access(C::ChangeSettings),
            "changeSettings",
            "Replaces the settings; needs If-Match",
            || replies::<Settings>().or_stale::<Settings>().takes_body::<Settings>(SETTINGS),
        ),
    ]
}
