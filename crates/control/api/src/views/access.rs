//! Users, their roles and logins, and the settings.

use serde::{Deserialize, Serialize};
use tollgate_control::me::{self, MyLogin};
use tollgate_control::{Role, Who, users};
use utoipa::ToSchema;

use crate::words;

/// The name of the user that is logged in.
#[derive(Debug, Serialize, ToSchema)]
pub struct Name {
    pub name: String,
}

/// A role in an app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Right {
    /// An app, or `*`.
    pub app: String,
    #[schema(schema_with = words::role)]
    pub role: &'static str,
}

impl Right {
    pub(crate) fn all(roles: Vec<(String, Role)>) -> Vec<Self> {
        roles.into_iter().map(|(app, role)| Self { app, role: role.name() }).collect()
    }
}

/// The user of the login or the token.
#[derive(Debug, Serialize, ToSchema)]
pub struct Me {
    pub name: String,
    /// Empty for the language that the browser prefers.
    pub locale: String,
    pub theme: String,
    /// Empty for that of the server.
    pub zone: String,
    pub roles: Vec<Right>,
    /// The token that was used; empty for a login.
    pub token: String,
}

impl Me {
    /// `me` as they call.
    #[must_use]
    pub fn new(who: &Who, me: me::Me) -> Self {
        Self {
            name: me.name,
            locale: me.preferences.locale,
            theme: me.preferences.theme,
            zone: me.preferences.zone,
            roles: Right::all(who.roles.clone()),
            token: who.via.clone(),
        }
    }
}

/// A login of the user's own.
#[derive(Debug, Serialize, ToSchema)]
pub struct Login {
    pub id: String,
    pub created_at: i64,
    pub last_seen: i64,
    pub expires_at: i64,
    pub ip: String,
    /// The browser or program, as it names itself.
    pub agent: String,
    /// The login of this request.
    pub is_this: bool,
}

impl From<MyLogin> for Login {
    fn from(it: MyLogin) -> Self {
        let MyLogin { id, created_at, last_seen, expires_at, ip, agent, is_this } = it;
        Self { id, created_at, last_seen, expires_at, ip, agent, is_this }
    }
}

/// The user's own logins.
#[derive(Debug, Serialize, ToSchema)]
pub struct Logins {
    pub logins: Vec<Login>,
}

/// A user and the roles it has.
#[derive(Debug, Serialize, ToSchema)]
pub struct User {
    pub name: String,
    #[schema(schema_with = words::active_or_disabled)]
    pub state: String,
    pub has_password: bool,
    /// The end of the one-time link; null without one.
    #[schema(required)]
    pub link_until: Option<i64>,
    /// Null before the first login.
    #[schema(required)]
    pub last_login_at: Option<i64>,
    pub roles: Vec<Right>,
}

impl From<users::User> for User {
    fn from(user: users::User) -> Self {
        Self {
            name: user.name,
            state: user.state,
            has_password: user.has_password,
            link_until: user.link_until,
            last_login_at: user.last_login_at,
            roles: Right::all(user.roles),
        }
    }
}

/// Users by name.
#[derive(Debug, Serialize, ToSchema)]
pub struct Users {
    pub users: Vec<User>,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// A user, and the path of the one-time link for the password, which is returned this once.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserLink {
    pub user: User,
    pub link: String,
    #[schema(required)]
    pub link_until: Option<i64>,
}

/// A role and its rights.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoleInWords {
    #[schema(schema_with = words::role)]
    pub role: &'static str,
    /// The rights of the role, in words.
    pub may: &'static str,
}

/// The roles, the least first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Roles {
    pub roles: Vec<RoleInWords>,
}

/// The settings that change while the program runs; in a body, those that are left out have their defaults.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(from = "tollgate_control::Settings")]
pub struct Settings {
    /// The language of users who chose none; empty for the one that the browser prefers.
    #[schema(schema_with = words::language)]
    pub language: String,
    /// A login ends after this long without a request.
    pub login_idle_minutes: i64,
    /// A login ends after this long in any case.
    pub login_days: i64,
    /// Days that a token is valid unless its maker says otherwise.
    pub token_days: i64,
    /// Approvals that changes of a new app need.
    pub approvals: i64,
}

impl From<tollgate_control::Settings> for Settings {
    fn from(it: tollgate_control::Settings) -> Self {
        let tollgate_control::Settings { language, login_idle_minutes, login_days, token_days, approvals } =
            it;
        Self { language, login_idle_minutes, login_days, token_days, approvals }
    }
}

impl From<Settings> for tollgate_control::Settings {
    fn from(it: Settings) -> Self {
        let Settings { language, login_idle_minutes, login_days, token_days, approvals } = it;
        Self { language, login_idle_minutes, login_days, token_days, approvals }
    }
}
