//! The task that watches a store: is it up and fit, who is the master, which node keeps which slot, how many nodes of ours live.
//! Not here: decisions, which have connections of their own.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};

use redis::Value;
use tokio::runtime::Handle;
use tokio::time::{Duration, sleep, timeout};

use crate::check::{self, Severity};
use crate::config::Servers;
use crate::connection::{Address, Connection};
use crate::hub::Hub;
use crate::reply::Reply;
use crate::script::Script;
use crate::trouble::{Kind, Trouble, code, explain};
use tollgate_store::remote::jittered;

/// Shortest time between two looks, however often somebody doubts.
const SHORTEST: Duration = Duration::from_millis(100);

static NODES: LazyLock<Script> = LazyLock::new(|| Script::of(&[include_str!("lua/nodes.lua")]));

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
        seen: (0, 0),
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
    /// Calls asked and not answered in time, as of the last look.
    seen: (u64, u64),
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
            self.look_at_calls();
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
                    jittered(self.pause)
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

    /// Whether calls are answered in time, though the server answers.
    fn look_at_calls(&mut self) {
        let context = self.hub.context();
        let counters = &context.counters;
        let (asked, silent) = (counters.asked.load(Relaxed), counters.silent.load(Relaxed));
        let round_trip = Duration::from_micros(counters.round_trip_us.load(Relaxed));
        let more = (asked.saturating_sub(self.seen.0), silent.saturating_sub(self.seen.1));
        self.seen = (asked, silent);
        self.hub.health().calls(more.0, more.1, round_trip, context.deadline);
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

    /// Tells that this node lives, and hears how many do, by the server's clock. By a script that writes: what keeps the server from
    /// deciding (full memory, a right that is missing) is found here, too.
    async fn beat(&mut self, key: &str) -> Result<(), Trouble> {
        let Some(connection) = self.connection.as_mut() else { return Ok(()) };
        let alive = self.hub.config().node_timeout.as_secs().max(1).to_string();
        let (sha, source) = (NODES.sha().as_bytes(), NODES.source().as_bytes());
        let call: &[&[u8]] = &[b"EVALSHA", sha, b"1", key.as_bytes(), self.id.as_bytes(), alive.as_bytes()];
        let mut reply = connection.ask_one(call).await?;
        if matches!(&reply, Reply::Error(error) if code(error) == "NOSCRIPT") {
            reply = match connection.ask_one(&[b"SCRIPT", b"LOAD", source]).await? {
                Reply::Value(_) => connection.ask_one(call).await?,
                refused => refused,
            };
        }
        let (kind, why) = match reply {
            Reply::Value(Value::Int(nodes)) => {
                let nodes = u64::try_from(nodes).unwrap_or(1).max(1);
                self.hub.context().counters.live_nodes.store(nodes, Relaxed);
                return Ok(());
            }
            Reply::Value(_) => (Kind::NotNow, "an unexpected answer".to_owned()),
            Reply::Error(error) => explain(&error, self.hub.config().login.username.as_deref()),
        };
        Err(Trouble::new(kind, format!("{}: {why}, when {key} was written", connection.name())))
    }
}
