//! Users and their roles. Only admins of every app see or change them.

use std::str::FromStr as _;

use serde_json::json;
use tollgate_db::{Row, Tx};

use crate::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::car;
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::ids::id;
use crate::published::Change;
use crate::role::Role;

/// Most users.
pub const MAX_USERS: i64 = 10_000;

/// A user. The hash of the password stays in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Never changes.
    pub id: String,
    /// For logging in.
    pub name: String,
    /// `active`, `disabled`.
    pub state: String,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub last_login_at: Option<i64>,
    /// Apps by name or `*`, and the role there.
    pub roles: Vec<(String, Role)>,
}

/// What a user's name may be: as people type it, in lower case.
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

/// All users, by name. Needs admin of every app.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor) -> Result<Vec<User>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let rows = tx.query("SELECT id, name, state, etag, last_login_at FROM users ORDER BY name", &[])?;
    rows.iter().map(|row| read(tx, row)).collect()
}

pub(crate) fn find(tx: &mut dyn Tx, name: &str) -> Result<Option<User>, ControlError> {
    let row = tx.query_one(
        "SELECT id, name, state, etag, last_login_at FROM users WHERE name = $1",
        &[name.into()],
    )?;
    row.map(|row| read(tx, &row)).transpose()
}

fn read(tx: &mut dyn Tx, row: &Row) -> Result<User, ControlError> {
    let id = row.text(0)?;
    let roles = roles(tx, &id)?;
    Ok(User {
        id,
        name: row.text(1)?,
        state: row.text(2)?,
        etag: row.int(3)?,
        last_login_at: row.opt_int(4)?,
        roles,
    })
}

pub(crate) fn roles(tx: &mut dyn Tx, user_id: &str) -> Result<Vec<(String, Role)>, ControlError> {
    let rows =
        tx.query("SELECT app, role FROM role_bindings WHERE user_id = $1 ORDER BY app", &[user_id.into()])?;
    let mut roles = Vec::with_capacity(rows.len());
    for row in rows {
        if let Ok(role) = Role::from_str(&row.text(1)?) {
            roles.push((row.text(0)?, role)); // an unknown role grants nothing
        }
    }
    Ok(roles)
}

/// Adds a user without roles. `password_hash` is what the service made of a password. Needs admin of every
/// app.
pub(crate) fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    password_hash: &str,
) -> Result<Change<User>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let name = user_name(name).map_err(|fault| invalid("name", fault))?;
    if find(tx, &name)?.is_some() {
        return Err(invalid("name", Fault::Duplicate));
    }
    let count = tx.query_one("SELECT COUNT(*) FROM users", &[])?.map_or(Ok(0), |row| row.int(0))?;
    if count >= MAX_USERS {
        return Err(ControlError::Cap { what: "users", max: MAX_USERS });
    }
    let id = id(tx.now_ms())?;
    tx.execute(
        "INSERT INTO users (id, name, display, password_hash, state, etag, created_at, last_login_at) \
         VALUES ($1, $2, $2, $3, 'active', 1, $4, NULL)",
        &[(&id).into(), (&name).into(), password_hash.into(), tx.now_ms().into()],
    )?;
    let after = Some(json!({"name": name, "state": "active"}));
    audit::append(tx, actor, Note { action: "user.create", target: name.clone(), after, ..Note::default() })?;
    let user = User { id, name, state: "active".to_owned(), etag: 1, last_login_at: None, roles: Vec::new() };
    Ok(Change { value: user, documents: None })
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
) -> Result<Change<()>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let user = get(tx, name)?;
    let mut faults = FieldFaults::default();
    let app = if app == EVERY_APP { Ok(app.to_owned()) } else { car::app_name(app) };
    let app = faults.take("app", app, String::new());
    faults.check()?;
    let before = user.roles.iter().find(|(bound, _)| *bound == app).map(|(_, role)| *role);
    if app == EVERY_APP && before == Some(Role::Admin) && role != Some(Role::Admin) {
        must_leave_an_admin(tx, &user, "role")?;
    }
    match role {
        Some(role) => tx.execute(
            "INSERT INTO role_bindings (user_id, app, role) VALUES ($1, $2, $3) \
             ON CONFLICT (user_id, app) DO UPDATE SET role = $3",
            &[(&user.id).into(), (&app).into(), role.name().into()],
        )?,
        None => tx.execute(
            "DELETE FROM role_bindings WHERE user_id = $1 AND app = $2",
            &[(&user.id).into(), (&app).into()],
        )?,
    };
    let shown = |role: Option<Role>| Some(json!({"app": app, "role": role.map(Role::name)}));
    let note = Note {
        action: "user.role",
        target: user.name,
        before: shown(before),
        after: shown(role),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    Ok(Change { value: (), documents: None })
}

/// Enables or disables a user. Disabling ends all logins at once. Needs admin of every app.
///
/// # Errors
/// [`ControlError`].
pub fn set_active(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    is_active: bool,
) -> Result<Change<()>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let user = get(tx, name)?;
    if !is_active {
        must_leave_an_admin(tx, &user, "state")?;
    }
    let state = if is_active { "active" } else { "disabled" };
    tx.execute(
        "UPDATE users SET state = $2, etag = etag + 1 WHERE id = $1",
        &[(&user.id).into(), state.into()],
    )?;
    if !is_active {
        tx.execute("DELETE FROM logins WHERE user_id = $1", &[(&user.id).into()])?;
    }
    let (before, after) = (Some(json!({"state": user.state})), Some(json!({"state": state})));
    let note = Note { action: "user.state", target: user.name, before, after, ..Note::default() };
    audit::append(tx, actor, note)?;
    Ok(Change { value: (), documents: None })
}

fn get(tx: &mut dyn Tx, name: &str) -> Result<User, ControlError> {
    find(tx, name)?.ok_or_else(|| ControlError::NotFound { what: "user", name: name.to_owned() })
}

/// Whether an admin over all apps remains active without `user`.
fn must_leave_an_admin(tx: &mut dyn Tx, user: &User, field: &'static str) -> Result<(), ControlError> {
    let others = tx.query_one(
        "SELECT COUNT(*) FROM users JOIN role_bindings ON role_bindings.user_id = users.id \
         WHERE users.state = 'active' AND app = '*' AND role = 'admin' AND users.id <> $1",
        &[(&user.id).into()],
    )?;
    let others = others.map_or(Ok(0), |row| row.int(0))?;
    let is_admin = user.roles.iter().any(|(app, role)| app == EVERY_APP && *role == Role::Admin);
    if is_admin && others == 0 { Err(invalid(field, Fault::LastAdmin)) } else { Ok(()) }
}
