//! Logins: a cookie of 256 random bits, of which the database has the SHA-256.

use tollgate_db::{Tx, insert, row, select};
use tollgate_model::hash::sha256;

use crate::access::actor::{Actor, Who};
use crate::access::bindings::roles_of;
use crate::access::entered::Entered;
use crate::access::preferences::Preferences;
use crate::access::settings;
use crate::audit::{self, Note};
use crate::error::ControlError;

/// No login is longer, whatever the settings say.
pub const LONGEST_MS: i64 = 30 * 24 * 3_600_000;

/// Age that the record of the last request may have. Far less than the shortest `login_idle_minutes`, which
/// is 5, so that a login that is used stays.
const SEEN_MS: i64 = 60_000;

/// Logins of a user; the oldest ends when there are more.
const MAX_LOGINS: i64 = 20;

/// Begins a login of a user whose password was right. `actor` says who and from where.
pub(crate) fn begin(tx: &mut dyn Tx, actor: &Actor, agent: &str, secret: &str) -> Result<(), ControlError> {
    let now = tx.now_ms();
    let user_id = &*actor.user_id;
    let (idle_ms, longest_ms) = times(tx)?;
    tx.execute(
        "DELETE FROM logins WHERE expires_at <= $1 OR last_seen <= $2",
        &[now.into(), (now - idle_ms).into()],
    )?;
    tx.execute(
        "DELETE FROM logins WHERE user_id = $1 AND sha256 NOT IN \
         (SELECT sha256 FROM logins WHERE user_id = $1 ORDER BY created_at DESC LIMIT $2)",
        &[user_id.into(), (MAX_LOGINS - 1).into()],
    )?;
    insert!(tx, "logins" {
        sha256: sha256(secret),
        user_id,
        created_at: now,
        last_seen: now,
        expires_at: now + longest_ms,
        ip: &actor.ip,
        agent,
    })?;
    tx.execute("UPDATE users SET last_login_at = $1 WHERE id = $2", &[now.into(), user_id.into()])?;
    let target = actor.name.clone();
    audit::append(tx, actor, Note { action: "login", target, ..Note::default() })
}

/// Longest idle time of a login, and its lifetime, in milliseconds.
pub(crate) fn times(tx: &mut dyn Tx) -> Result<(i64, i64), ControlError> {
    let (settings, _) = settings::get(tx)?;
    Ok((settings.login_idle_minutes * 60_000, (settings.login_days * 24 * 3_600_000).min(LONGEST_MS)))
}

row! {
    struct LoginRow {
        user_id: String = "users.id",
        name: String = "users.name",
        last_seen: i64 = "logins.last_seen",
        preferences: Preferences = Preferences::COLUMNS,
    }
}

/// The login of this hash, if it is valid.
pub(crate) fn resume(tx: &mut dyn Tx, hash: &str) -> Result<Option<Entered>, ControlError> {
    let now = tx.now_ms();
    let (idle_ms, _) = times(tx)?;
    let in_force = select!(LoginRow:
        "FROM logins JOIN users ON users.id = logins.user_id \
         WHERE logins.sha256 = $1 AND users.state = 'active' AND logins.expires_at > $2 \
         AND logins.last_seen > $3");
    let login = in_force.first(tx, &[hash.into(), now.into(), (now - idle_ms).into()])?;
    let Some(LoginRow { user_id, name, last_seen, preferences }) = login else { return Ok(None) };
    let roles = roles_of(tx, &user_id)?;
    let who = Who { kind: "user", user_id, name, roles, ..Who::system() };
    Ok(Some(Entered { who, preferences, is_stale: now - last_seen > SEEN_MS }))
}

/// Records that the login of this hash was used now.
pub(crate) fn touch(tx: &mut dyn Tx, hash: &str) -> Result<(), ControlError> {
    tx.execute("UPDATE logins SET last_seen = $1 WHERE sha256 = $2", &[tx.now_ms().into(), hash.into()])?;
    Ok(())
}

/// Ends the logins of a user except that of `secret`.
pub(crate) fn end_others(tx: &mut dyn Tx, user_id: &str, secret: &str) -> Result<(), ControlError> {
    let values = [user_id.into(), sha256(secret).into()];
    tx.execute("DELETE FROM logins WHERE user_id = $1 AND sha256 <> $2", &values)?;
    Ok(())
}

/// Ends a login.
///
/// # Errors
/// [`ControlError::Db`].
pub fn end(tx: &mut dyn Tx, actor: &Actor, secret: &str) -> Result<(), ControlError> {
    let ended = tx.execute("DELETE FROM logins WHERE sha256 = $1", &[sha256(secret).into()])?;
    if ended == 0 {
        return Ok(());
    }
    audit::append(tx, actor, Note { action: "logout", target: actor.name.clone(), ..Note::default() })
}
