//! One-time links: a user chooses a password with one, so that no one else ever knows it.

use serde_json::json;
use tollgate_db::{Tx, query_value};
use tollgate_model::Role;
use tollgate_model::hash::sha256;

use crate::access::actor::{Actor, EVERY_APP, Who};
use crate::access::tokens;
use crate::access::users::{self, User};
use crate::audit::{self, Note};
use crate::error::ControlError;

/// Lifetime of a link.
pub const VALID_MS: i64 = 72 * 3_600_000;

/// The fate of a user's tokens for the API when the user chooses a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// They stay valid.
    Kept,
    /// They end: somebody else may have them too.
    Ended,
}

/// Makes `code` the only way in for a user: the old password and all earlier logins end. Needs admin of every
/// app.
pub(crate) fn issue(tx: &mut dyn Tx, actor: &Actor, name: &str, code: &str) -> Result<User, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    actor.must_be_logged_in()?;
    let user = users::get(tx, actor, name)?;
    let until = tx.now_ms() + VALID_MS;
    tx.execute(
        "UPDATE users SET link_sha256 = $1, link_until = $2, password_hash = NULL, etag = etag + 1 \
         WHERE id = $3",
        &[sha256(code).into(), until.into(), (&user.id).into()],
    )?;
    tx.execute("DELETE FROM logins WHERE user_id = $1", &[(&user.id).into()])?;
    let after = Some(json!({"link_until": until}));
    audit::append(tx, actor, Note { action: "user.link", target: user.name, after, ..Note::default() })?;
    users::get(tx, actor, name)
}

/// The user whose link holds `code`.
///
/// # Errors
/// [`ControlError::WrongLink`] when there is none, when it has expired, or when the user is disabled.
pub fn user_of(tx: &mut dyn Tx, code: &str) -> Result<User, ControlError> {
    let values = [sha256(code).into(), tx.now_ms().into()];
    let name = query_value::<String>(
        tx,
        "SELECT name FROM users WHERE link_sha256 = $1 AND link_until > $2 AND state = 'active'",
        &values,
    )?;
    users::find(tx, &name.ok_or(ControlError::WrongLink)?)?.ok_or(ControlError::WrongLink)
}

/// Sets the password of the user whose link holds `code`, and uses the link up.
pub(crate) fn redeem(
    tx: &mut dyn Tx,
    ip: &str,
    code: &str,
    password_hash: &str,
    held: Held,
) -> Result<User, ControlError> {
    let user = user_of(tx, code)?;
    set_password(tx, &user.id, password_hash)?;
    let who = Who {
        kind: "user",
        user_id: user.id.clone(),
        name: user.name.clone(),
        ip: ip.to_owned(),
        roles: user.roles.clone(),
        ..Who::system()
    };
    note_password(tx, &who.acting(), held)?;
    Ok(user)
}

/// Ends the actor's tokens of the API, if that is wanted, and records that the password was changed.
pub(crate) fn note_password(tx: &mut dyn Tx, actor: &Actor, held: Held) -> Result<(), ControlError> {
    let ended = if held == Held::Ended { tokens::end_all(tx, &actor.user_id)? } else { 0 };
    let target = actor.name.clone();
    let after = (ended > 0).then(|| json!({"tokens_ended": ended}));
    audit::append(tx, actor, Note { action: "user.password", target, after, ..Note::default() })
}

/// Whether the user has tokens of the API in force: then a new password is the moment to ask about them.
///
/// # Errors
/// [`ControlError::Db`].
pub fn has_tokens(tx: &mut dyn Tx, user: &User) -> Result<bool, ControlError> {
    tokens::has_any(tx, &user.id)
}

/// Sets a password; a link that is open ends.
pub(crate) fn set_password(tx: &mut dyn Tx, user_id: &str, hash: &str) -> Result<(), ControlError> {
    tx.execute(
        "UPDATE users SET password_hash = $1, link_sha256 = NULL, link_until = NULL, etag = etag + 1 \
         WHERE id = $2",
        &[hash.into(), user_id.into()],
    )?;
    Ok(())
}
