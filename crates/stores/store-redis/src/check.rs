//! Whether a server is fit to keep counters: checked at startup, and reported with the remedy.

use tokio::time::timeout;
use tollgate_redis_link::{Cause, Connection, Reply, ServerError, ServerIndex, Shared, Value, explain};

use crate::config::RedisConfig;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Counters may be lost where the operator may not expect it; logged once.
    Warn,
    /// The store must not be used with this server.
    Reject,
    /// The server could not be checked: it is down, or the login failed. It may be checked later.
    Unknown,
}

/// Something about a server that the operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Decides whether the server may be used.
    pub severity: Severity,
    /// The finding, its consequence, and the remedy; names the server, never a password.
    pub message: String,
}

impl Finding {
    fn of(error: &ServerError) -> Self {
        let severity = match error.cause {
            Cause::Misconfigured => Severity::Reject,
            _ => Severity::Unknown,
        };
        Self { severity, message: error.why.to_string() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Commands that the scripts use and older servers lack.
const NEEDED: [&str; 3] = ["PEXPIRETIME", "EVALSHA", "SCRIPT"];

/// Checks all servers that keep counters, whether they are up or not.
pub(crate) async fn all_servers(shared: &Shared, config: &RedisConfig) -> Vec<Finding> {
    let topology = shared.topology();
    let dialer = shared.dialer();
    if let Err(error) = topology.learn(dialer).await {
        return vec![Finding::of(&error)];
    }
    let mut findings = Vec::new();
    for node in topology.masters() {
        match one_server(shared, config, node).await {
            Ok(found) => findings.extend(found),
            Err(error) => findings.push(Finding::of(&error)),
        }
    }
    findings
}

async fn one_server(
    shared: &Shared,
    config: &RedisConfig,
    node: ServerIndex,
) -> Result<Vec<Finding>, ServerError> {
    let topology = shared.topology();
    let dialer = shared.dialer();
    let address = topology.find(node, dialer).await?;
    let mut connection = dialer.open_master(&address).await?;
    // A server that is too slow now must be fit, too.
    let limit = dialer.patience();
    let late = |_| ServerError::new(Cause::Silent, format!("{address}: no answer within {limit:?}"));
    let mut found = timeout(limit, look(&mut connection, config)).await.map_err(late)??;
    found.extend(dialer.probe(&mut connection).await.err().as_ref().map(Finding::of));
    Ok(found)
}

/// Checks one server that is connected and logged in.
pub(crate) async fn look(
    connection: &mut Connection,
    config: &RedisConfig,
) -> Result<Vec<Finding>, ServerError> {
    let mut commands: Vec<&[u8]> = vec![b"COMMAND", b"INFO"];
    commands.extend(NEEDED.map(str::as_bytes));
    let save: &[&[u8]] = &[b"CONFIG", b"GET", b"save"];
    let replies = connection.ask(&[&[b"INFO"], save, &commands]).await?;
    let name = connection.name().clone();
    let [info, save, known] = replies.as_slice() else { return Ok(Vec::new()) };
    let info = match info {
        Reply::Value(value) => value.text().unwrap_or_default(),
        Reply::Error(error) => {
            let (cause, why) = explain(error, config.link.login.username.as_deref());
            return Err(ServerError::new(cause, format!("{name}: {why}")));
        }
    };
    Ok(judge(&name, info, saves(save), missing(known).as_deref(), config))
}

/// `INFO VERBATIM` and `CONFIG GET save` are read; a server that hides its configuration is assumed to save.
fn saves(reply: &Reply) -> bool {
    let rule = match reply {
        Reply::Value(Value::Map(pairs)) => pairs.first().and_then(|(_, rule)| rule.text()),
        Reply::Value(Value::Array(parts)) => parts.get(1).and_then(Value::text),
        _ => None,
    };
    rule.is_none_or(|rule| !rule.is_empty())
}

/// The first needed command that the server lacks.
fn missing(reply: &Reply) -> Option<String> {
    let Reply::Value(Value::Array(known)) = reply else { return None };
    let lacks =
        |info: &Value| matches!(info, Value::Nil) || matches!(info, Value::Array(parts) if parts.is_empty());
    known.iter().position(lacks).and_then(|at| NEEDED.get(at)).map(|name| (*name).to_owned())
}

fn judge(name: &str, info: &str, saves: bool, missing: Option<&str>, config: &RedisConfig) -> Vec<Finding> {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let mut findings = Vec::new();
    let mut find = |severity, message: String| findings.push(Finding { severity, message });
    if let Some(command) = missing {
        let version = field("redis_version").unwrap_or("of an unknown version");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let why = if major.is_some_and(|major| major >= 7) {
            format!(
                "the command {command} is disabled there (rename-command), and counters need it; enable it"
            )
        } else {
            format!(
                "Redis {version} is too old: it lacks the command {command}; Redis 7.0 or later, or Valkey, is needed"
            )
        };
        find(Severity::Reject, format!("{name}: {why}"));
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        let what = format!(
            "{name}: maxmemory-policy is {policy}, so counters vanish when its memory is full, and each that does gives its caller a \
             whole new quota"
        );
        if config.allow_eviction {
            find(Severity::Warn, what);
        } else {
            find(
                Severity::Reject,
                format!(
                    "{what}; set maxmemory-policy to noeviction, or accept it with --store-allow-eviction"
                ),
            );
        }
    }
    if field("role") == Some("master") && field("connected_slaves") == Some("0") {
        find(
            Severity::Warn,
            format!("{name}: has no replica: while it is down every rule follows its on_store_failure"),
        );
    }
    if field("aof_enabled") == Some("0") && !saves {
        find(
            Severity::Warn,
            format!("{name}: keeps nothing on disk (no appendonly, no save): a restart forgets all counters"),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(allow_eviction: bool) -> RedisConfig {
        let mut config = RedisConfig::parse_url("redis://h").expect("a URL");
        config.allow_eviction = allow_eviction;
        config
    }

    #[test]
    fn what_endangers_counters_is_found() {
        let fit = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
        let found = |info: &str, saves, missing, allow| {
            let findings = judge("r:1", info, saves, missing, &config(allow));
            findings.into_iter().map(|it| (it.severity, it.message)).collect::<Vec<_>>()
        };
        assert_eq!(found(fit, false, None, false), []);
        for (info, saves, missing, allow, severity, words) in [
            (fit, true, Some("PEXPIRETIME"), false, Severity::Reject, "PEXPIRETIME is disabled there"),
            (
                &fit.replace("7.0.15", "6.2.14"),
                true,
                Some("PEXPIRETIME"),
                false,
                Severity::Reject,
                "Redis 6.2.14 is too old: it lacks the command PEXPIRETIME; Redis 7.0 or later, or Valkey",
            ),
            (
                &fit.replace("noeviction", "allkeys-lru"),
                true,
                None,
                false,
                Severity::Reject,
                "--store-allow-eviction",
            ),
            (&fit.replace("noeviction", "volatile-ttl"), true, None, true, Severity::Warn, "volatile-ttl"),
            (&fit.replace("slaves:1", "slaves:0"), true, None, false, Severity::Warn, "no replica"),
            (
                &fit.replace("aof_enabled:1", "aof_enabled:0"),
                false,
                None,
                false,
                Severity::Warn,
                "nothing on disk",
            ),
        ] {
            let findings = found(info, saves, missing, allow);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].0, severity);
            assert!(findings[0].1.contains(words), "{findings:?}");
        }
    }
}
