//! Users and their roles. Only admins of every app see or change them.

use std::str::FromStr as _;

use serde_json::json;
use tollgate_db::{Tx, insert, query_int, query_values, row, select};
use tollgate_model::{Role, fields};

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::bindings::roles_of;
use crate::access::tokens;
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, invalid, must_match};
use crate::ids::new_id;
use crate::published::Committed;

pub const MAX_USERS: i64 = 10_000;

/// A user. The hash of the password stays in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The id never changes.
    pub id: String,
    /// For logging in.
    pub name: String,
    /// `active` or `disabled`.
    pub state: String,
    /// Whether a password is set. Without one, the user begins with a one-time link.
    pub has_password: bool,
    /// Until when a one-time link is valid, in milliseconds UTC.
    pub link_until: Option<i64>,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub last_login_at: Option<i64>,
    /// Apps by name or `*`, and the role there.
    pub roles: Vec<(String, Role)>,
}

/// Checks the name of a user, and returns it in lower case.
///
/// # Errors
/// A [`Fault`].
pub fn user_name(text: &str) -> Result<String, Fault> {
    let text = text.trim_matches(' ').to_ascii_lowercase();
    if text.is_empty() {
        return Err(Fault::Required);
    }
    if !text.chars().all(|it| it.is_ascii_alphanumeric() || "_.@-".contains(it)) {
        return Err(Fault::Characters { allowed: "A-Z a-z 0-9 _ . @ -" });
    }
    if text.len() > 64 { Err(Fault::TooLong { max: 64 }) } else { Ok(text) }
}

/// An app that a role is bound to, or `*`.
pub(crate) fn bound(app: &str) -> Result<String, Fault> {
    if app == EVERY_APP { Ok(app.to_owned()) } else { fields::app_name(app) }
}

/// A role by its name; none if that is empty.
pub(crate) fn role(name: &str) -> Result<Option<Role>, Fault> {
    if name.is_empty() {
        return Ok(None);
    }
    let expected = "viewer, editor, approver, admin";
    Role::from_str(name).map(Some).map_err(|()| Fault::Choice { expected })
}

/// All users, by name. Needs admin of every app.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor) -> Result<Vec<User>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let users = select!(UserRow: "FROM users ORDER BY name").all(tx, &[])?;
    users.into_iter().map(|row| row.with_roles(tx)).collect()
}

/// The users whose names come after `after`, at most `limit`, which is at most 500. Needs admin of every app.
///
/// # Errors
/// [`ControlError`].
pub fn page(tx: &mut dyn Tx, actor: &Actor, after: &str, limit: i64) -> Result<Vec<User>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let users = select!(UserRow: "FROM users WHERE name > $1 ORDER BY name LIMIT $2");
    let users = users.all(tx, &[after.into(), limit.clamp(1, 500).into()])?;
    users.into_iter().map(|row| row.with_roles(tx)).collect()
}

pub(crate) fn find(tx: &mut dyn Tx, name: &str) -> Result<Option<User>, ControlError> {
    let user = select!(UserRow: "FROM users WHERE name = $1").first(tx, &[name.into()])?;
    user.map(|row| row.with_roles(tx)).transpose()
}

row! {
    struct UserRow {
        id: String,
        name: String,
        state: String,
        etag: i64,
        last_login_at: Option<i64>,
        has_password: bool = "CASE WHEN password_hash IS NULL THEN 0 ELSE 1 END",
        link_until: Option<i64>,
    }
}

impl UserRow {
    fn with_roles(self, tx: &mut dyn Tx) -> Result<User, ControlError> {
        let Self { id, name, state, etag, last_login_at, has_password, link_until } = self;
        let roles = roles_of(tx, &id)?;
        Ok(User { id, name, state, etag, last_login_at, has_password, link_until, roles })
    }
}

/// Adds a user without roles. `password_hash` is what the service made of a password, if there is one yet.
/// Needs admin of every app.
pub(crate) fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    password_hash: Option<&str>,
) -> Result<User, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let name = user_name(name).map_err(|fault| invalid("name", fault))?;
    if find(tx, &name)?.is_some() {
        return Err(invalid("name", Fault::Duplicate));
    }
    let count = query_int(tx, "SELECT COUNT(*) FROM users", &[])?;
    if count >= MAX_USERS {
        return Err(ControlError::Cap { what: "users", max: MAX_USERS });
    }
    let id = new_id(tx.now_ms())?;
    insert!(tx, "users" {
        id: &id,
        name: &name,
        display: &name,
        password_hash: password_hash.map(str::to_owned),
        state: "active",
        etag: 1,
        created_at: tx.now_ms(),
        last_login_at: None::<i64>,
    })?;
    let after = Some(json!({"name": name, "state": "active"}));
    audit::append(tx, actor, Note { action: "user.create", target: name.clone(), after, ..Note::default() })?;
    Ok(User {
        id,
        name,
        state: "active".to_owned(),
        has_password: password_hash.is_some(),
        link_until: None,
        etag: 1,
        last_login_at: None,
        roles: Vec::new(),
    })
}

/// Gives a user a role in an app or `*`, or takes it away. Needs admin of every app.
///
/// # Errors
/// [`ControlError`]; [`Fault::LastAdmin`] when nobody could grant rights afterwards.
pub fn set_role(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    app: &str,
    role: Option<Role>,
) -> Result<Committed<()>, ControlError> {
    let user = get(tx, actor, name)?;
    let app = bound(app).map_err(|fault| invalid("app", fault))?;
    let before = user.roles.iter().find(|(bound, _)| *bound == app).map(|(_, role)| *role);
    if app == EVERY_APP && before == Some(Role::Admin) && role != Some(Role::Admin) {
        must_leave_an_admin(tx, &user, "role")?;
    }
    match role {
        Some(role) => insert!(tx, "role_bindings" {
            user_id: &user.id,
            app: &app,
            role: role.name(),
        }, "ON CONFLICT (user_id, app) DO UPDATE SET role = excluded.role")?,
        None => tx.execute(
            "DELETE FROM role_bindings WHERE user_id = $1 AND app = $2",
            &[(&user.id).into(), (&app).into()],
        )?,
    };
    tx.execute("UPDATE users SET etag = etag + 1 WHERE id = $1", &[(&user.id).into()])?;
    let shown = |role: Option<Role>| Some(json!({"app": app, "role": role.map(Role::name)}));
    let note = Note {
        action: "user.role",
        target: user.name,
        before: shown(before),
        after: shown(role),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    Ok(Committed { value: (), documents: None })
}

/// Enables or disables a user. Disabling ends all logins, tokens of the API and links at once. Needs admin of
/// every app.
///
/// # Errors
/// [`ControlError`].
pub fn set_active(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    is_active: bool,
) -> Result<Committed<()>, ControlError> {
    let user = get(tx, actor, name)?;
    if !is_active {
        must_leave_an_admin(tx, &user, "state")?;
    }
    let state = if is_active { "active" } else { "disabled" };
    tx.execute(
        "UPDATE users SET state = $1, etag = etag + 1 WHERE id = $2",
        &[state.into(), (&user.id).into()],
    )?;
    if !is_active {
        tx.execute("DELETE FROM logins WHERE user_id = $1", &[(&user.id).into()])?;
        tx.execute(
            "UPDATE users SET link_sha256 = NULL, link_until = NULL WHERE id = $1",
            &[(&user.id).into()],
        )?;
        tokens::end_all(tx, &user.id)?;
    }
    let before = Some(json!({"state": user.state}));
    let after = Some(json!({"state": state}));
    let note = Note { action: "user.state", target: user.name, before, after, ..Note::default() };
    audit::append(tx, actor, note)?;
    Ok(Committed { value: (), documents: None })
}

/// One user. Needs admin of every app.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, name: &str) -> Result<User, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    find(tx, name)?.ok_or_else(|| ControlError::NotFound { what: "user", name: name.to_owned() })
}

/// One user, who is as the caller read it. Needs admin of every app.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn get_at(tx: &mut dyn Tx, actor: &Actor, name: &str, etag: i64) -> Result<User, ControlError> {
    let user = get(tx, actor, name)?;
    must_match(etag, user.etag)?;
    Ok(user)
}

/// The names of active admins of every app, at most five: a user who lacks a role can ask them.
///
/// # Errors
/// [`ControlError::Db`].
pub fn granters(tx: &mut dyn Tx) -> Result<Vec<String>, ControlError> {
    let admins = "SELECT DISTINCT name FROM users JOIN role_bindings ON role_bindings.user_id = users.id \
         WHERE users.state = 'active' AND app = '*' AND role = 'admin' ORDER BY name LIMIT 5";
    Ok(query_values(tx, admins, &[])?)
}

row! {
    struct OtherAdmins { all: i64 = "COUNT(*)", with_password: i64 = "COUNT(password_hash)" }
}

/// Whether an admin over all apps remains active without `user`: one with a password, unless `user` has none
/// either: an invited user may never come.
fn must_leave_an_admin(tx: &mut dyn Tx, user: &User, field: &'static str) -> Result<(), ControlError> {
    let others = select!(OtherAdmins:
        "FROM users JOIN role_bindings ON role_bindings.user_id = users.id \
         WHERE users.state = 'active' AND app = '*' AND role = 'admin' AND users.id <> $1");
    let others = others.first(tx, &[(&user.id).into()])?;
    let others = others.map_or(0, |it| if user.has_password { it.with_password } else { it.all });
    let is_admin = user.roles.iter().any(|(app, role)| app == EVERY_APP && *role == Role::Admin);
    if is_admin && others == 0 { Err(invalid(field, Fault::LastAdmin)) } else { Ok(()) }
}
