//! What keeps a server from being used, in words for an operator. Not here: what became of a call.

use std::io;
use std::sync::Arc;

use tollgate_store::remote::Failure;

/// Why a connection cannot be opened, or cannot be used any longer. Names the server; never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// What to do about it.
    pub cause: Cause,
    /// In words for an operator.
    pub why: Arc<str>,
}

/// What to do about a [`ServerError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The network: try again.
    Network,
    /// The server did not answer in time: try again.
    Silent,
    /// The server is up and cannot work now (loading, busy, a replica, slots without a node): try again, or try another
    /// server.
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

    /// For a caller whose call was not sent because of it.
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

/// What a server's error means, and what to do about it. `user` is the user of the login.
#[must_use]
pub fn explain(error: &str, user: Option<&str>) -> (Cause, String) {
    let who = user.unwrap_or("default");
    let told = |kind, text: String| (kind, format!("{text} ({error})"));
    match code(error) {
        "NOAUTH" => told(Cause::Misconfigured, "it asks for a password and none is set".to_owned()),
        "WRONGPASS" => {
            told(Cause::Misconfigured, format!("it refuses the login of user `{who}`: wrong user or password"))
        }
        "NOPERM" => told(Cause::Misconfigured, not_allowed(who)),
        // Of what a script calls: Redis 7.0, and Valkey and later Redis.
        "ERR" if error.contains("The user executing the script") || error.contains("ACL failure in script") => {
            told(Cause::Misconfigured, not_allowed(who))
        }
        "NOPROTO" => told(Cause::Misconfigured, "it does not know RESP3; Redis 7.0 or later, or Valkey, is needed".to_owned()),
        "LOADING" => told(Cause::Unavailable, "it is loading its data from disk".to_owned()),
        "BUSY" => told(
            Cause::Unavailable,
            "it is busy with somebody's long script; SCRIPT KILL ends one that has written nothing"
                .to_owned(),
        ),
        "MASTERDOWN" => told(Cause::Unavailable, "it is a replica that has lost its master".to_owned()),
        "READONLY" => told(Cause::Unavailable, "it is a replica, which takes no writes".to_owned()),
        "CLUSTERDOWN" => told(Cause::Unavailable, "the Cluster has slots without a node".to_owned()),
        "TRYAGAIN" => told(Cause::Unavailable, "the keys are on their way to another node".to_owned()),
        "OOM" => told(
            Cause::Unavailable,
            "its memory is full (maxmemory): raise maxmemory, or let counters end sooner".to_owned(),
        ),
        "MISCONF" => told(
            Cause::Unavailable,
            "it cannot save to disk and takes no writes until it can: its disk is full or its folder is not writable"
                .to_owned(),
        ),
        "NOREPLICAS" => told(
            Cause::Unavailable,
            "fewer replicas follow than min-replicas-to-write demands, so it takes no writes".to_owned(),
        ),
        "WRONGTYPE" => told(
            Cause::Misconfigured,
            "a key of ours holds a value of a foreign type; choose another prefix or delete it".to_owned(),
        ),
        "ERR" if lacks_a_command(error) && error.contains("SENTINEL") => told(
            Cause::Misconfigured,
            "it is no sentinel: give the sentinels' ports (mostly 26379), or write redis:// and the server itself".to_owned(),
        ),
        "ERR" if lacks_a_command(error) => {
            told(Cause::Misconfigured, "it lacks a command; Redis 7.0 or later, or Valkey, is needed".to_owned())
        }
        "ERR" if error.contains("DB index") => told(Cause::Misconfigured, "it has no such database".to_owned()),
        "ERR" if error.contains("SCRIPT KILL") => {
            told(Cause::Unavailable, "the script was killed by somebody (SCRIPT KILL)".to_owned())
        }
        "ERR" if error.contains("AUTH") => told(Cause::Misconfigured, "it refuses the login".to_owned()),
        "ERR" if error.contains("max number of clients") => {
            told(Cause::Unavailable, "it has as many clients as it may (maxclients)".to_owned())
        }
        "DENIED" => {
            told(Cause::Misconfigured, "it is in protected mode and takes no clients from other machines".to_owned())
        }
        _ => (Cause::Unavailable, error.to_owned()),
    }
}

fn not_allowed(user: &str) -> String {
    format!(
        "user `{user}` may not do what a store of counters must: allow its keys (~tollgate:*) and \
         +@connection +@scripting +@read +@write +time +info +config|get +command|info +cluster|slots +cluster|info"
    )
}

/// As it is said of a client's command, and of one that a script calls.
fn lacks_a_command(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    error.contains("unknown command") || error.contains("unknown redis command")
}
