//! Errors that keep a server from being used, in words for an operator. Not here: the outcome of a call.

use std::io;
use std::sync::Arc;

use tollgate_store::remote::Failure;

/// The reason why a connection cannot be opened, or cannot be used any longer. Names the server; never holds
/// a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The class of the error, which determines the remedy.
    pub cause: Cause,
    /// The reason in words for an operator.
    pub why: Arc<str>,
}

/// The class of a [`ServerError`], which determines the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The network: try again.
    Network,
    /// The server did not answer in time: try again.
    Silent,
    /// The server is up and cannot work now (loading, busy, a replica, slots without a node): try again, or
    /// try another server.
    Unavailable,
    /// Misconfiguration (login, protocol, database, version): trying again will not help.
    Misconfigured,
}

impl ServerError {
    /// An error with its cause, in words for an operator.
    #[must_use]
    pub fn new(cause: Cause, why: impl Into<Arc<str>>) -> Self {
        Self { cause, why: why.into() }
    }

    /// The error for a caller whose call was not sent because of it.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        let kind = match self.cause {
            Cause::Network | Cause::Unavailable => io::ErrorKind::NotConnected,
            Cause::Silent => io::ErrorKind::TimedOut,
            Cause::Misconfigured => io::ErrorKind::InvalidData,
        };
        Failure::not_sent(kind, self.why.clone())
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// The first word of a server's error.
#[must_use]
pub fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// The meaning of a server's error, and the remedy. `user` is the user of the login.
#[must_use]
pub fn explain(error: &str, user: Option<&str>) -> (Cause, String) {
    let user = user.unwrap_or("default");
    let explained = |cause, text: &str| (cause, format!("{text} ({error})"));
    match code(error) {
        "NOAUTH" => explained(Cause::Misconfigured, "it requires a password, and no password is set"),
        "WRONGPASS" => explained(
            Cause::Misconfigured,
            &format!("it rejects the login of user `{user}`: wrong user or password"),
        ),
        "NOPERM" => explained(Cause::Misconfigured, &not_allowed(user)),
        // Errors from commands that a script calls: Redis 7.0, and Valkey and later Redis.
        "ERR"
            if error.contains("The user executing the script") || error.contains("ACL failure in script") =>
        {
            explained(Cause::Misconfigured, &not_allowed(user))
        }
        "NOPROTO" => explained(
            Cause::Misconfigured,
            "it does not know RESP3; Redis 7.0 or later, or Valkey, is needed",
        ),
        "LOADING" => explained(Cause::Unavailable, "it is loading its data from disk"),
        "BUSY" => explained(
            Cause::Unavailable,
            "it is busy with a long script; SCRIPT KILL ends one that has written nothing",
        ),
        "MASTERDOWN" => explained(Cause::Unavailable, "it is a replica that has lost its master"),
        "READONLY" => explained(Cause::Unavailable, "it is a replica, which rejects writes"),
        "CLUSTERDOWN" => explained(Cause::Unavailable, "the Cluster has slots without a node"),
        "TRYAGAIN" => explained(Cause::Unavailable, "the keys are moving to another node"),
        "OOM" => explained(
            Cause::Unavailable,
            "its memory is full (maxmemory): raise maxmemory, or let counters end sooner",
        ),
        "MISCONF" => explained(
            Cause::Unavailable,
            "it cannot save to disk and rejects writes until it can: its disk is full or its folder is not writable",
        ),
        "NOREPLICAS" => explained(
            Cause::Unavailable,
            "fewer replicas follow than min-replicas-to-write demands, so it rejects writes",
        ),
        "WRONGTYPE" => explained(
            Cause::Misconfigured,
            "a key of ours holds a value of another type; choose another prefix or delete it",
        ),
        "ERR" if lacks_a_command(error) && error.contains("SENTINEL") => explained(
            Cause::Misconfigured,
            "it is not a sentinel: give the sentinels' ports (usually 26379), or write redis:// and the server itself",
        ),
        "ERR" if lacks_a_command(error) => {
            explained(Cause::Misconfigured, "it lacks a command; Redis 7.0 or later, or Valkey, is needed")
        }
        "ERR" if error.contains("DB index") => {
            explained(Cause::Misconfigured, "it does not have that database")
        }
        "ERR" if error.contains("SCRIPT KILL") => {
            explained(Cause::Unavailable, "the script was killed by an operator (SCRIPT KILL)")
        }
        "ERR" if error.contains("AUTH") => explained(Cause::Misconfigured, "it rejects the login"),
        "ERR" if error.contains("max number of clients") => {
            explained(Cause::Unavailable, "it has reached its maximum of clients (maxclients)")
        }
        "DENIED" => {
            explained(Cause::Misconfigured, "it is in protected mode and rejects clients from other machines")
        }
        _ => (Cause::Unavailable, error.to_owned()),
    }
}

fn not_allowed(user: &str) -> String {
    format!(
        "user `{user}` lacks permissions that a store of counters needs: allow its keys (~tollgate:*) and \
         +@connection +@scripting +@read +@write +time +info +config|get +command|info +cluster|slots +cluster|info"
    )
}

/// True for an unknown command of a client, and for one that a script calls.
fn lacks_a_command(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    error.contains("unknown command") || error.contains("unknown redis command")
}
