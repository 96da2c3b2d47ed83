//! Which roles a user has where.

use std::str::FromStr as _;

use tollgate_db::Tx;

use crate::error::ControlError;
use crate::role::Role;

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
