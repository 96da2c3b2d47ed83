//! Which roles a user has where.

use std::str::FromStr as _;

use tollgate_db::{Tx, row, select};
use tollgate_model::Role;

use crate::error::ControlError;

row! {
    struct Binding { app: String, role: String }
}

pub(crate) fn roles_of(tx: &mut dyn Tx, user_id: &str) -> Result<Vec<(String, Role)>, ControlError> {
    let bindings = select!(Binding: "FROM role_bindings WHERE user_id = $1 ORDER BY app");
    let bindings = bindings.all(tx, &[user_id.into()])?;
    let mut roles = Vec::with_capacity(bindings.len());
    for Binding { app, role } in bindings {
        if let Ok(role) = Role::from_str(&role) {
            roles.push((app, role)); // an unknown role grants nothing
        }
    }
    Ok(roles)
}
