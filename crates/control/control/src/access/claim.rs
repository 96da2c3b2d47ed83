//! The login or token of a request, without rights. These are resolved in the transaction that needs them.

use tollgate_db::Tx;
use tollgate_model::hash::sha256;

use crate::access::actor::{Actor, Who};
use crate::access::entered::{Entered, Origin};
use crate::access::preferences::Preferences;
use crate::access::token_text::is_token;
use crate::access::{logins, tokens};
use crate::error::ControlError;

/// The sender of a request as the request names it, and where it came from.
#[derive(Clone, Debug)]
pub struct Claim {
    proof: Proof,
    ip: String,
    request_id: String,
}

#[derive(Clone, Debug)]
enum Proof {
    /// The program itself, under this name.
    Program(String),
    /// A login, by the SHA-256 of its cookie.
    Login(String),
    /// A token of the API, by its SHA-256.
    Token(String),
    /// These roles, whatever the database says.
    #[cfg(feature = "assumed-rights")]
    Assumed(Who),
}

impl Claim {
    /// The program itself, which may do everything. `name` is that of the audit.
    #[must_use]
    pub fn program(name: &str) -> Self {
        Self { proof: Proof::Program(name.to_owned()), ip: String::new(), request_id: String::new() }
    }

    /// That of the cookie of a login.
    #[must_use]
    pub fn login(cookie: &str, from: Origin<'_>) -> Self {
        // No other length is a cookie of ours: its hash is that of none.
        let hash = if cookie.len() == 64 { sha256(cookie) } else { String::new() };
        Self { proof: Proof::Login(hash), ip: from.ip.to_owned(), request_id: from.request_id.to_owned() }
    }

    /// That of a token of the API.
    #[must_use]
    pub fn token(text: &str, from: Origin<'_>) -> Self {
        let hash = if is_token(text) { sha256(text) } else { String::new() };
        Self { proof: Proof::Token(hash), ip: from.ip.to_owned(), request_id: from.request_id.to_owned() }
    }

    /// These roles, whatever the database says: for tests.
    #[cfg(feature = "assumed-rights")]
    #[must_use]
    pub fn assumed(who: &Who) -> Self {
        let ip = who.ip.clone();
        let request_id = who.request_id.clone();
        Self { proof: Proof::Assumed(who.clone()), ip, request_id }
    }

    /// Who it is from and what they may do, as of this transaction.
    ///
    /// # Errors
    /// [`ControlError::NoLogin`] or [`ControlError::NoToken`] if the login or the token has ended, or its
    /// user is disabled.
    pub fn resolve(&self, tx: &mut dyn Tx) -> Result<Actor, ControlError> {
        let ended = || {
            if matches!(self.proof, Proof::Token(_)) { ControlError::NoToken } else { ControlError::NoLogin }
        };
        Ok(self.enter(tx)?.ok_or_else(ended)?.who.acting())
    }

    pub(crate) fn enter(&self, tx: &mut dyn Tx) -> Result<Option<Entered>, ControlError> {
        let mut entered = match &self.proof {
            Proof::Program(name) => {
                let who = Who { name: name.clone(), ..Who::system() };
                Some(Entered { who, preferences: Preferences::default(), is_stale: false })
            }
            Proof::Login(hash) => logins::resume(tx, hash)?,
            Proof::Token(hash) => tokens::resume(tx, hash)?,
            #[cfg(feature = "assumed-rights")]
            Proof::Assumed(who) => {
                Some(Entered { who: who.clone(), preferences: Preferences::default(), is_stale: false })
            }
        };
        if let Some(Entered { who, .. }) = &mut entered {
            (who.ip, who.request_id) = (self.ip.clone(), self.request_id.clone());
        }
        Ok(entered)
    }

    /// Records that the login or the token was used now.
    pub(crate) fn touch(&self, tx: &mut dyn Tx) -> Result<(), ControlError> {
        match &self.proof {
            Proof::Program(_) => Ok(()),
            #[cfg(feature = "assumed-rights")]
            Proof::Assumed(_) => Ok(()),
            Proof::Login(hash) => logins::touch(tx, hash),
            Proof::Token(hash) => tokens::touch_by_hash(tx, hash),
        }
    }
}
