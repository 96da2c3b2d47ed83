//! The watcher's questions to a server: whether it is fit to keep counters, and how many nodes are alive,
//! this one included.

use std::sync::{Arc, LazyLock};

use tokio::time::Duration;
use tollgate_redis_link::{
    Cause, Connection, Probe, Reply, Script, ServerError, Unfit, Value, code, explain,
};
use tollgate_store::StoreName;
use tollgate_store::remote::Stat;

use crate::check::{self, Severity};
use crate::config::RedisConfig;

static NODES: LazyLock<Script> = LazyLock::new(|| Script::of(&[include_str!("lua/nodes.lua")]));

/// This node among those that share the counters.
pub(crate) struct Heartbeat {
    config: Arc<RedisConfig>,
    store: StoreName,
    live_nodes: Arc<Stat>,
    /// The key of the set of nodes.
    key: String,
    /// The name by which other nodes know this one.
    id: String,
    has_warned: bool,
}

impl Heartbeat {
    pub(crate) fn new(config: &Arc<RedisConfig>, store: &StoreName, live_nodes: &Arc<Stat>) -> Self {
        let mut id = [0; 8];
        if getrandom::fill(&mut id).is_err() {
            id = fastrand::u64(..).to_ne_bytes(); // worse, and still unlikely to be another node's
        }
        Self {
            config: config.clone(),
            store: store.clone(),
            live_nodes: live_nodes.clone(),
            key: format!("{}nodes", config.prefix),
            id: format!("{:016x}", u64::from_ne_bytes(id)),
            has_warned: false,
        }
    }
}

impl Probe for Heartbeat {
    fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    fn interval(&self) -> Duration {
        self.config.node_timeout / 3
    }

    /// Rejects an unfit server; logs a warning only at the first check.
    async fn check(&mut self, connection: &mut Connection) -> Result<(), Unfit> {
        let findings = check::look(connection, &self.config).await?;
        if let Some(finding) = findings.iter().find(|finding| finding.severity == Severity::Reject) {
            return Err(Unfit::Barred(ServerError::new(Cause::Misconfigured, finding.message.as_str())));
        }
        if !std::mem::replace(&mut self.has_warned, true) {
            for finding in &findings {
                tracing::warn!(store = %self.store, "{finding}");
            }
        }
        Ok(())
    }

    /// Sends a sign of life; learns the number of live nodes, by the server's clock. The script writes, so
    /// that faults that keep the server from deciding (full memory, a missing permission) are found here,
    /// too.
    async fn heartbeat(&mut self, connection: &mut Connection) -> Result<(), ServerError> {
        let alive = self.config.node_timeout.as_secs().max(1).to_string();
        let sha = NODES.sha().as_bytes();
        let source = NODES.source().as_bytes();
        let key = self.key.as_bytes();
        let id = self.id.as_bytes();
        let call: &[&[u8]] = &[b"EVALSHA", sha, b"1", key, id, alive.as_bytes()];
        let mut reply = connection.ask_one(call).await?;
        if matches!(&reply, Reply::Error(error) if code(error) == "NOSCRIPT") {
            reply = match connection.ask_one(&[b"SCRIPT", b"LOAD", source]).await? {
                Reply::Value(_) => connection.ask_one(call).await?,
                rejected => rejected,
            };
        }
        let (cause, why) = match reply {
            Reply::Value(Value::Int(nodes)) => {
                self.live_nodes.set(u64::try_from(nodes).unwrap_or(1).max(1));
                return Ok(());
            }
            Reply::Value(_) => (Cause::Unavailable, "an unexpected reply".to_owned()),
            Reply::Error(error) => explain(&error, self.config.link.login.username.as_deref()),
        };
        Err(ServerError::new(cause, format!("{}: {why}, when {} was written", connection.name(), self.key)))
    }

    /// Nodes that share the permits of this one need not wait until it counts as dead.
    async fn leave(&mut self, connection: &mut Connection) {
        let gone: [&[u8]; 3] = [b"ZREM", self.key.as_bytes(), self.id.as_bytes()];
        connection.ask_one(&gone).await.ok();
    }
}
