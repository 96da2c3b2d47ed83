//! Rights of users.

use std::str::FromStr;

/// The rights of a user in an app; each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See everything of the app, except people.
    Viewer,
    /// Also change rules and roll back.
    Editor,
    /// Also approve the changes of others.
    Approver,
    /// Also change the app itself; over all apps: users.
    Admin,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Editor, Self::Approver, Self::Admin];

    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or(())
    }
}
