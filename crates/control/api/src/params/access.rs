//! Bodies and queries of users, tokens and the audit.

use serde::Deserialize;
use serde_json::Value;
use tollgate_control::audit::Filter;
use utoipa::{IntoParams, ToSchema};

use crate::query::{Query, Read, digits, limit, text};
use crate::words;

/// Name and password to log in with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginBody {
    pub name: String,
    pub password: String,
}

/// The first admin.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupBody {
    /// The setup code that the server prints.
    pub code: String,
    pub name: String,
    pub password: String,
}

/// The password of the user of a one-time link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkBody {
    /// The code in the link.
    pub code: String,
    pub password: String,
    /// The user's tokens end, too.
    #[serde(default)]
    pub end_tokens: bool,
}

/// Preferences; those that are left out stay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MeBody {
    /// `zh`, `en`, or empty for the language that the browser prefers.
    #[schema(nullable = false)]
    pub locale: Option<String>,
    /// `light`, `dark`, or empty.
    #[schema(nullable = false)]
    pub theme: Option<String>,
    /// The name of a time zone, or empty for that of the server.
    #[schema(nullable = false)]
    pub zone: Option<String>,
}

/// A new password.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordBody {
    /// The password until now.
    pub current: String,
    pub password: String,
    /// The user's tokens end, too.
    #[serde(default)]
    pub end_tokens: bool,
}

/// A new user, perhaps with a role.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserBody {
    pub name: String,
    /// The app of the role; `*`, which is every app, unless given.
    #[serde(default = "every_app")]
    pub app: String,
    #[serde(default)]
    pub role: String,
}

fn every_app() -> String {
    "*".to_owned()
}

/// The state of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateBody {
    #[schema(schema_with = words::active_or_disabled)]
    pub state: String,
}

/// The role that a user gets in an app.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBody {
    #[schema(schema_with = words::role)]
    pub role: String,
}

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    pub name: String,
    #[schema(schema_with = words::token_kind)]
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub rights: Vec<RightBody>,
    /// Days until it expires.
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub days: Value,
}

/// A role of a token in an app.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RightBody {
    /// An app, or `*`.
    pub app: String,
    pub role: String,
}

/// Entries of the audit that are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Entries of the reply, 1 to 500; 100 unless given.
    #[param(required = false, example = 10)]
    pub limit: i64,
    /// `next` of the reply before.
    #[param(required = false, value_type = String)]
    pub cursor: i64,
    /// Entries about this app.
    #[param(required = false)]
    pub app: String,
    /// Entries of this user.
    #[param(required = false)]
    pub actor: String,
    /// Entries whose object contains this.
    #[param(required = false)]
    pub target: String,
    /// Entries whose action begins with this.
    #[param(required = false)]
    pub action: String,
    /// From this time on, in milliseconds UTC.
    #[param(required = false)]
    pub from: i64,
    /// Before this time, in milliseconds UTC.
    #[param(required = false)]
    pub until: i64,
}

impl AuditQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self {
            limit: limit(query)?,
            from: digits(query, "from", 0, 0, i64::MAX)?,
            until: digits(query, "until", 0, 0, i64::MAX)?,
            cursor: digits(query, "cursor", 0, 1, i64::MAX)?,
            app: text(query, "app"),
            actor: text(query, "actor"),
            target: text(query, "target"),
            action: text(query, "action"),
        })
    }

    /// The entries that it asks for, without its part of the list.
    #[must_use]
    pub fn filter(self) -> Filter {
        let Self { app, actor, target, action, from, until, .. } = self;
        Filter { app, actor, target, action, from, until }
    }
}

/// A part of the export of the audit.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditExportQuery {
    /// The last entry that is there already.
    #[param(required = false)]
    pub after: i64,
}

impl AuditExportQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { after: digits(query, "after", 0, 0, i64::MAX)? })
    }
}
