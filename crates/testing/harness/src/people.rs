//! Users, without a login: rights are assumed, as no database would grant them so quickly.

use tollgate_control::{Role, Who};

/// Good enough for every check of passwords.
pub const PASSWORD: &str = "correct horse battery";

/// A user with a role in one app, or in all by `*`. Id and name are the same.
#[must_use]
pub fn user(name: &str, role: Role, app: &str) -> Who {
    Who { roles: vec![(app.to_owned(), role)], ..stranger(name) }
}

/// A user without any role.
#[must_use]
pub fn stranger(name: &str) -> Who {
    let roles = Vec::new();
    Who { kind: "user", user_id: name.to_owned(), name: name.to_owned(), roles, ..Who::system() }
}
