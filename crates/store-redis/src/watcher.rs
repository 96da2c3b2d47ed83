//! The task that watches a store: is it up and fit, who is the master, which node keeps which slot, how many nodes of ours live.
//! Not here: decisions, which have connections of their own.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use redis::Value;
use tokio::runtime::Handle;
use tokio::time::{Duration, sleep, timeout};

use crate::check::{self, Severity};
use crate::config::Servers;
use crate::connection::{Address, Connection, text};
use crate::hub::Hub;
use crate::reply::Reply;
use crate::trouble::{Kind, Trouble, explain};

/// Shortest time between two looks, however often somebody doubts.
const SHORTEST: Duration = Duration::from_millis(100);

/// Begins to watch, in the runtime that the caller is in; does nothing when somebody does already, or outside of a runtime.
pub(crate) fn start(hub: &Arc<Hub>) {
    if hub.watched.load(Relaxed) {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    if hub.watched.swap(true, Relaxed) {
        return;
    }
    let watcher = Watcher {
        hub: hub.clone(),
        witness: hub.next_witness(),
        id: format!("{:016x}", RandomState::new().build_hasher().finish()),
        connection: None,
        master: None,
        looked: false,
        warned: false,
        pause: SHORTEST,
    };
    runtime.spawn(watcher.run());
}

struct Watcher {
    hub: Arc<Hub>,
    witness: u64,
    /// By which other nodes know this one.
    id: String,
    connection: Option<Connection>,
    /// Whom the sentinels named last.
    master: Option<Address>,
    /// This connection's server was looked at.
    looked: bool,
    warned: bool,
    pause: Duration,
}

/// With its runtime ends the task; another may begin.
impl Drop for Watcher {
    fn drop(&mut self) {
        self.hub.watched.store(false, Relaxed);
        self.hub.health().gone(self.witness);
    }
}

impl Watcher {
    async fn run(mut self) {
        let beat = self.hub.config().node_timeout / 3;
        while !self.hub.has_ended() {
            let had_connection = self.connection.is_some();
            let mut round = self.round().await;
            if round.is_err() && had_connection {
                // What was open may have been closed long ago; that alone means nothing.
                self.connection = None;
                round = self.round().await;
            }
            let wait = match &round {
                Ok(()) => {
                    self.hub.health().up(self.witness);
                    self.pause = SHORTEST;
                    beat
                }
                Err(trouble) => {
                    self.connection = None;
                    self.hub.health().down(self.witness, &trouble.why);
                    self.pause = (self.pause * 2).min(self.hub.config().breaker.longest_pause).max(SHORTEST);
                    self.pause
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.hub.ending.notified() => {}
                () = async {
                    self.hub.topology().doubted.notified().await;
                    sleep(SHORTEST).await;
                } => {}
            }
        }
        // Those who share what this node held need not wait until it counts as dead.
        let key = self.nodes_key();
        if let Some(connection) = &mut self.connection {
            let gone: [&[u8]; 3] = [b"ZREM", key.as_bytes(), self.id.as_bytes()];
            timeout(SHORTEST, connection.ask_one(&gone)).await.ok();
        }
    }

    fn nodes_key(&self) -> String {
        format!("{}nodes", self.hub.config().prefix)
    }

    async fn round(&mut self) -> Result<(), Trouble> {
        let hub = self.hub.clone();
        let (dialer, topology) = (hub.dialer(), hub.topology());
        topology.learn(dialer).await?;
        let key = self.nodes_key();
        let node = topology
            .node_of(topology.slot(key.as_bytes()))
            .ok_or_else(|| Trouble::new(Kind::NotNow, "the Cluster has slots without a node"))?;
        if self.connection.is_none() || matches!(hub.config().servers, Servers::Sentinel { .. }) {
            let address = topology.find(node, dialer).await?;
            if self.master.as_ref() != Some(&address) {
                if self.master.is_some() && matches!(hub.config().servers, Servers::Sentinel { .. }) {
                    tracing::info!(store = %hub.context().name, "the master is {address} now");
                    topology.new_master();
                }
                self.master = Some(address.clone());
                self.connection = None;
            }
            if self.connection.is_none() {
                self.connection = Some(dialer.open(&address).await?);
                self.looked = false;
            }
        }
        let limit = dialer.patience();
        let silent =
            || Trouble::new(Kind::Silent, format!("{}: no answer within {limit:?}", hub.config().servers));
        timeout(limit, self.look()).await.map_err(|_| silent())??;
        timeout(limit, self.beat(&key)).await.map_err(|_| silent())?
    }

    /// Sees once a connection whether the server is fit; warns once.
    async fn look(&mut self) -> Result<(), Trouble> {
        let Some(connection) = self.connection.as_mut().filter(|_| !self.looked) else { return Ok(()) };
        let findings = check::look(connection, self.hub.config()).await?;
        let refused = findings.iter().find(|finding| finding.severity == Severity::Refuse);
        self.hub.bar(refused.map(|finding| Trouble::new(Kind::Wrong, finding.message.as_str())));
        if let Some(finding) = refused {
            return Err(Trouble::new(Kind::Wrong, finding.message.as_str()));
        }
        if !std::mem::replace(&mut self.warned, true) {
            for finding in &findings {
                tracing::warn!(store = %self.hub.context().name, "{finding}");
            }
        }
        self.looked = true;
        Ok(())
    }

    /// Tells that this node lives, and hears how many do. By the server's clock.
    async fn beat(&mut self, key: &str) -> Result<(), Trouble> {
        let Some(connection) = self.connection.as_mut() else { return Ok(()) };
        let user = self.hub.config().login.username.as_deref();
        let told = |name: &str, error: &str| {
            let (kind, why) = explain(error, user);
            Trouble::new(kind, format!("{name}: {why}"))
        };
        let now = match connection.ask_one(&[b"TIME"]).await? {
            Reply::Value(Value::Array(parts)) => {
                parts.first().and_then(text).and_then(|seconds| seconds.parse::<u64>().ok())
            }
            Reply::Error(error) => return Err(told(connection.name(), &error)),
            Reply::Value(_) => None,
        };
        let now = now.ok_or_else(|| told(connection.name(), "an unexpected answer to TIME"))?;
        let alive = self.hub.config().node_timeout.as_secs().max(1);
        let (now, dead) = (now.to_string(), now.saturating_sub(alive + 1).to_string());
        let (key, id, lives) = (key.as_bytes(), self.id.as_bytes(), (10 * alive).to_string());
        let replies = connection
            .ask(&[
                &[b"ZADD", key, now.as_bytes(), id],
                &[b"ZREMRANGEBYSCORE", key, b"-inf", dead.as_bytes()],
                &[b"EXPIRE", key, lives.as_bytes()],
                &[b"ZCARD", key],
            ])
            .await?;
        match (replies.first(), replies.last()) {
            (_, Some(Reply::Value(Value::Int(nodes)))) => {
                let nodes = u64::try_from(*nodes).unwrap_or(1).max(1);
                self.hub.context().counters.live_nodes.store(nodes, Relaxed);
                Ok(())
            }
            (Some(Reply::Error(error)), _) | (_, Some(Reply::Error(error))) => {
                Err(told(connection.name(), error))
            }
            _ => Err(told(connection.name(), "an unexpected answer to ZCARD")),
        }
    }
}
