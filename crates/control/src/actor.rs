//! Who acts, and what they may do. Every function of this crate takes an [`Actor`].

use crate::error::ControlError;
use crate::role::Role;

/// The binding that holds for every app.
pub const EVERY_APP: &str = "*";

/// Who acts in one request.
#[derive(Clone, Debug)]
pub struct Actor {
    /// `user`, or `system` for what the program does by itself.
    pub kind: &'static str,
    /// The id of the user; empty for the system.
    pub user_id: String,
    /// The name of the user.
    pub name: String,
    /// Apps by name or [`EVERY_APP`], and the role there.
    pub roles: Vec<(String, Role)>,
    /// Where the request came from.
    pub ip: String,
    /// The request, as the log names it.
    pub request_id: String,
}

impl Actor {
    /// The program itself, which may do everything.
    #[must_use]
    pub fn system() -> Self {
        Self {
            kind: "system",
            user_id: String::new(),
            name: "tollgate".to_owned(),
            roles: vec![(EVERY_APP.to_owned(), Role::Admin)],
            ip: String::new(),
            request_id: String::new(),
        }
    }

    /// Whether the actor has at least `need` in `app`.
    #[must_use]
    pub fn may(&self, need: Role, app: &str) -> bool {
        self.roles.iter().any(|(bound, role)| (bound == EVERY_APP || bound == app) && *role >= need)
    }

    /// Whether the actor has at least `need` in every app.
    #[must_use]
    pub fn may_everywhere(&self, need: Role) -> bool {
        self.may(need, EVERY_APP)
    }

    /// # Errors
    /// [`ControlError::NoRight`] unless the actor has at least `need` in `app`.
    pub fn must(&self, need: Role, app: &str) -> Result<(), ControlError> {
        if self.may(need, app) {
            return Ok(());
        }
        Err(ControlError::NoRight { need, app: app.to_owned() })
    }
}
