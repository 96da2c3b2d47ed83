//! The first admin: made by a code that the first start prints, once. There is no default password.

use subtle::ConstantTimeEq as _;
use tollgate_db::{Tx, insert, query_any, query_value};
use tollgate_model::Role;
use tollgate_model::hash::sha256;

use crate::access::actor::{EVERY_APP, Who};
use crate::access::users::{self, User};
use crate::error::ControlError;

/// Lifetime of a code.
pub const VALID_MS: i64 = 24 * 3_600_000;

/// Whether there is no user yet, so that the first admin can be made.
///
/// # Errors
/// [`ControlError::Db`].
pub fn is_open(tx: &mut dyn Tx) -> Result<bool, ControlError> {
    Ok(!query_any(tx, "SELECT 1 FROM users LIMIT 1", &[])?)
}

/// Makes `code` the only valid one, if there is no user yet. Returns whether it is.
///
/// # Errors
/// [`ControlError::Db`].
pub fn issue(tx: &mut dyn Tx, code: &str) -> Result<bool, ControlError> {
    if !is_open(tx)? {
        return Ok(false);
    }
    for (name, value) in [("setup_code", sha256(code)), ("setup_code_at", tx.now_ms().to_string())] {
        insert!(tx, "settings" {
            name,
            value,
            etag: 1,
        }, "ON CONFLICT (name) DO UPDATE SET value = excluded.value, etag = settings.etag + 1")?;
    }
    Ok(true)
}

/// # Errors
/// [`ControlError::WrongCode`] unless `code` is the valid one and there is no user.
pub fn must_be_valid(tx: &mut dyn Tx, code: &str) -> Result<(), ControlError> {
    let mut setting = |name: &str| -> Result<Option<String>, ControlError> {
        Ok(query_value(tx, "SELECT value FROM settings WHERE name = $1", &[name.into()])?)
    };
    let hash = setting("setup_code")?;
    let at = setting("setup_code_at")?;
    let (Some(hash), Some(at)) = (hash, at.and_then(|at| at.parse::<i64>().ok())) else {
        return Err(ControlError::WrongCode);
    };
    let is_right: bool = sha256(code).as_bytes().ct_eq(hash.as_bytes()).into();
    let age = tx.now_ms() - at;
    if is_right && age < VALID_MS && is_open(tx)? { Ok(()) } else { Err(ControlError::WrongCode) }
}

/// Makes the first admin and uses the code up.
pub(crate) fn first_admin(
    tx: &mut dyn Tx,
    ip: &str,
    code: &str,
    name: &str,
    password_hash: &str,
) -> Result<User, ControlError> {
    must_be_valid(tx, code)?;
    let setup = Who { name: "setup".to_owned(), ip: ip.to_owned(), ..Who::system() }.acting();
    let user = users::create(tx, &setup, name, Some(password_hash))?;
    users::set_role(tx, &setup, &user.name, EVERY_APP, Some(Role::Admin))?;
    tx.execute("DELETE FROM settings WHERE name IN ('setup_code', 'setup_code_at')", &[])?;
    Ok(user)
}
