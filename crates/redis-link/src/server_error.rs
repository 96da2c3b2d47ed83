//! What keeps a server from being used, in words for an operator. Not here: what became of anybody's permits.

use std::sync::Arc;

/// Why a connection cannot be had, or not any longer. Names the server; never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    pub(crate) why: Arc<str>,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The network: try again.
    Network,
    /// It did not answer in time: try again.
    Silent,
    /// It is up and cannot work now (loading, busy, a replica, slots without a node): try again, or another server.
    NotNow,
    /// It answers what no change of mood will change: login, wrong protocol, wrong database, too old.
    Wrong,
}

impl Trouble {
    pub(crate) fn new(kind: Kind, why: impl Into<Arc<str>>) -> Self {
        Self { kind, why: why.into() }
    }

    /// For a store's error.
    pub(crate) fn to_io(&self) -> std::io::Error {
        let kind = match self.kind {
            Kind::Network | Kind::NotNow => std::io::ErrorKind::NotConnected,
            Kind::Silent => std::io::ErrorKind::TimedOut,
            Kind::Wrong => std::io::ErrorKind::InvalidData,
        };
        std::io::Error::new(kind, self.why.to_string())
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// The first word of a server's error.
pub(crate) fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// What a server's error means, with what to do about it. `user` is who we are logged in as.
pub(crate) fn explain(error: &str, user: Option<&str>) -> (Kind, String) {
    let who = user.unwrap_or("default");
    let told = |kind, text: String| (kind, format!("{text} ({error})"));
    match code(error) {
        "NOAUTH" => told(Kind::Wrong, "it asks for a password and none is set".to_owned()),
        "WRONGPASS" => {
            told(Kind::Wrong, format!("it refuses the login of user `{who}`: wrong user or password"))
        }
        "NOPERM" => told(Kind::Wrong, not_allowed(who)),
        // Of what a script calls: Redis 7.0, and Valkey and later Redis.
        "ERR" if error.contains("The user executing the script") || error.contains("ACL failure in script") => {
            told(Kind::Wrong, not_allowed(who))
        }
        "NOPROTO" => told(Kind::Wrong, "it does not know RESP3; Redis 7.0 or later, or Valkey, is needed".to_owned()),
        "LOADING" => told(Kind::NotNow, "it is loading its data from disk".to_owned()),
        "BUSY" => told(
            Kind::NotNow,
            "it is busy with somebody's long script; SCRIPT KILL ends one that has written nothing"
                .to_owned(),
        ),
        "MASTERDOWN" => told(Kind::NotNow, "it is a replica that has lost its master".to_owned()),
        "READONLY" => told(Kind::NotNow, "it is a replica, which takes no writes".to_owned()),
        "CLUSTERDOWN" => told(Kind::NotNow, "the Cluster has slots without a node".to_owned()),
        "TRYAGAIN" => told(Kind::NotNow, "the keys are on their way to another node".to_owned()),
        "OOM" => told(
            Kind::NotNow,
            "its memory is full (maxmemory): raise maxmemory, or let counters end sooner".to_owned(),
        ),
        "MISCONF" => told(
            Kind::NotNow,
            "it cannot save to disk and takes no writes until it can: its disk is full or its folder is not writable"
                .to_owned(),
        ),
        "NOREPLICAS" => told(
            Kind::NotNow,
            "fewer replicas follow than min-replicas-to-write demands, so it takes no writes".to_owned(),
        ),
        "WRONGTYPE" => told(
            Kind::Wrong,
            "a key of ours holds a value of a foreign type; choose another prefix or delete it".to_owned(),
        ),
        "ERR" if lacks_a_command(error) && error.contains("SENTINEL") => told(
            Kind::Wrong,
            "it is no sentinel: give the sentinels' ports (mostly 26379), or write redis:// and the server itself".to_owned(),
        ),
        "ERR" if lacks_a_command(error) => {
            told(Kind::Wrong, "it lacks a command; Redis 7.0 or later, or Valkey, is needed".to_owned())
        }
        "ERR" if error.contains("DB index") => told(Kind::Wrong, "it has no such database".to_owned()),
        "ERR" if error.contains("SCRIPT KILL") => {
            told(Kind::NotNow, "the script was killed by somebody (SCRIPT KILL)".to_owned())
        }
        "ERR" if error.contains("AUTH") => told(Kind::Wrong, "it refuses the login".to_owned()),
        "ERR" if error.contains("max number of clients") => {
            told(Kind::NotNow, "it has as many clients as it may (maxclients)".to_owned())
        }
        "DENIED" => {
            told(Kind::Wrong, "it is in protected mode and takes no clients from other machines".to_owned())
        }
        _ => (Kind::NotNow, error.to_owned()),
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
