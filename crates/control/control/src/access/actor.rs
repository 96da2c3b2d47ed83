//! Who acts, and what they may do. Every function of this crate takes an [`Actor`].

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use tollgate_model::Role;

use crate::changes::known::Known;
use crate::error::ControlError;

/// The binding that holds for every app.
pub const EVERY_APP: &str = "*";

/// Who it is, and the roles they had when this was read. Pages show it, and the audit names it. No right
/// follows from it: no function takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// `user`; `token` for a program in the name of a user; `system` for what the program does by itself.
    pub kind: &'static str,
    /// The id of the user; empty for the system.
    pub user_id: String,
    /// The name of the user.
    pub name: String,
    /// The token that was used, as the audit names it; empty for a login.
    pub via: String,
    /// Apps by name or [`EVERY_APP`], and the role there.
    pub roles: Vec<(String, Role)>,
    /// Where the request came from.
    pub ip: String,
    /// The request, as the log names it.
    pub request_id: String,
}

impl Who {
    /// The program itself.
    #[must_use]
    pub fn system() -> Self {
        Self {
            kind: "system",
            user_id: String::new(),
            name: "tollgate".to_owned(),
            via: String::new(),
            roles: vec![(EVERY_APP.to_owned(), Role::Admin)],
            ip: String::new(),
            request_id: String::new(),
        }
    }

    /// Whether they had at least `need` in `app`.
    #[must_use]
    pub fn may(&self, need: Role, app: &str) -> bool {
        self.roles.iter().any(|(bound, role)| (bound == EVERY_APP || bound == app) && *role >= need)
    }

    /// Whether they had at least `need` in every app.
    #[must_use]
    pub fn may_everywhere(&self, need: Role) -> bool {
        self.may(need, EVERY_APP)
    }

    /// An actor with the roles that are written here.
    pub(crate) fn acting(self) -> Actor {
        Actor { who: self, known: None, _in_transaction: PhantomData }
    }

    /// An actor with the roles that are written here, for tests.
    #[cfg(feature = "assumed-rights")]
    #[must_use]
    pub fn assumed(&self) -> Actor {
        self.clone().acting()
    }
}

/// Who acts, inside a transaction: [`Claim::resolve`](crate::Claim::resolve) is the way to one.
///
/// It cannot leave the thread of its transaction, so that it is neither captured by the work of another one
/// nor held while something is waited for. A right that has ended meanwhile is thus not one.
///
/// ```compile_fail
/// # use tollgate_control::{Actor, Control, ControlError, Role, apps};
/// async fn late(control: &Control, actor: Actor) -> Result<(), ControlError> {
///     control.read(move |tx| apps::get(tx, &actor, Role::Viewer, "shop")).await.map(drop)
/// }
/// ```
///
/// The claim can:
///
/// ```
/// # use tollgate_control::{Claim, Control, ControlError, Role, apps};
/// async fn in_time(control: &Control, claim: &Claim) -> Result<(), ControlError> {
///     control.read_as(claim, |tx, actor| apps::get(tx, actor, Role::Viewer, "shop")).await.map(drop)
/// }
/// ```
#[derive(Debug)]
pub struct Actor {
    who: Who,
    /// Results of the rehearsal of a large change.
    known: Option<Arc<Known>>,
    /// Neither `Send` nor `Sync`.
    _in_transaction: PhantomData<*const ()>,
}

impl Deref for Actor {
    type Target = Who;

    fn deref(&self) -> &Who {
        &self.who
    }
}

impl Actor {
    /// The program itself, which may do everything.
    #[must_use]
    pub fn system() -> Self {
        Who::system().acting()
    }

    /// As they are, with what is known before a large change.
    pub(crate) fn with(&self, known: Arc<Known>) -> Self {
        Self { who: self.who.clone(), known: Some(known), _in_transaction: PhantomData }
    }

    pub(crate) fn known(&self) -> Option<&Known> {
        self.known.as_deref()
    }

    /// # Errors
    /// [`ControlError::NoRight`] unless the actor has at least `need` in `app`.
    pub fn must(&self, need: Role, app: &str) -> Result<(), ControlError> {
        if self.may(need, app) {
            return Ok(());
        }
        Err(ControlError::NoRight { need, app: app.to_owned() })
    }

    /// The apps that the actor may see, each between slashes, for statements that select by app. Names of
    /// apps have no slashes.
    pub(crate) fn apps(&self) -> String {
        self.roles.iter().fold("/".to_owned(), |apps, (app, _)| apps + "/" + app + "/")
    }

    /// # Errors
    /// [`ControlError::LoginOnly`] for a token: one that was stolen must not make others, or change
    /// passwords.
    pub fn must_be_logged_in(&self) -> Result<(), ControlError> {
        if self.kind == "token" { Err(ControlError::LoginOnly) } else { Ok(()) }
    }
}

/// The rights that both `own` and `granted` allow: a token never has more rights than its owner has now.
pub(crate) fn both(own: &[(String, Role)], granted: &[(String, Role)]) -> Vec<(String, Role)> {
    let mut roles = Vec::new();
    for (app, role) in own {
        for (bound, least) in granted {
            let narrower = if app == EVERY_APP { bound } else { app };
            if app == bound || app == EVERY_APP || bound == EVERY_APP {
                roles.push((narrower.clone(), *role.min(least)));
            }
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_what_both_it_and_its_owner_may() {
        let roles = |all: &[(&str, Role)]| -> Vec<(String, Role)> {
            all.iter().map(|(app, role)| ((*app).to_owned(), *role)).collect()
        };
        for (own, granted, want) in [
            (&[("*", Role::Admin)][..], &[("a", Role::Editor)][..], &[("a", Role::Editor)][..]),
            (&[("a", Role::Viewer)], &[("*", Role::Admin)], &[("a", Role::Viewer)]),
            (&[("a", Role::Editor)], &[("b", Role::Editor)], &[]),
            (&[("*", Role::Viewer)], &[("*", Role::Editor)], &[("*", Role::Viewer)]),
            (&[("a", Role::Admin)], &[], &[]),
            (&[], &[("*", Role::Admin)], &[]),
        ] {
            assert_eq!(both(&roles(own), &roles(granted)), roles(want), "{own:?} {granted:?}");
        }
    }
}
