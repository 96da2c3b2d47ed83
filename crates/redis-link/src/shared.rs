//! What all lanes of one store share: settings, health, topology, figures. Not here: anything that a decision waits for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};
use tollgate_store::StoreError;

use crate::config::{ConfigError, RedisConfig};
use crate::connection::Dialer;
use crate::flight::{Context, Item};
use crate::health::Health;
use crate::lane::Lane;
use crate::link::Link;
use crate::topology::Topology;
use crate::trouble::{Kind, Trouble};

/// Kinds of calls that must not hold each other up: each has connections of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A caller waits for what becomes of it.
    Decisions,
    /// Requests for leases and their returns.
    Leases,
}

#[derive(Debug)]
pub(crate) struct Hub {
    id: u64,
    config: Arc<RedisConfig>,
    context: Context,
    dialer: Dialer,
    health: Health,
    topology: Topology,
    witnesses: AtomicU64,
    links: Mutex<Vec<Weak<Link>>>,
    /// A task watches the store.
    pub(crate) watched: AtomicBool,
    /// The store may not be used: why.
    barred: Mutex<Option<Trouble>>,
    is_barred: AtomicBool,
    ended: AtomicBool,
    /// The end has come, for who watches.
    pub(crate) ending: Notify,
}

impl Hub {
    pub(crate) fn new(config: RedisConfig, context: Context) -> Result<Self, ConfigError> {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let config = Arc::new(config);
        Ok(Self {
            id: STORES.fetch_add(1, Relaxed),
            dialer: Dialer::new(config.clone())?,
            health: Health::new(context.name.as_str()),
            topology: Topology::new(config.servers.clone()),
            config,
            context,
            witnesses: AtomicU64::new(0),
            links: Mutex::default(),
            watched: AtomicBool::new(false),
            barred: Mutex::default(),
            is_barred: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ending: Notify::new(),
        })
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.config
    }

    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) const fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn next_witness(&self) -> u64 {
        self.witnesses.fetch_add(1, Relaxed)
    }

    pub(crate) fn add_link(&self, link: &Arc<Link>) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
        drop(links);
        if self.has_ended() {
            link.end();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Nobody uses the store any longer: its tasks end.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
        self.ending.notify_one();
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.end());
    }

    /// The store may not be used, or may again.
    pub(crate) fn bar(&self, why: Option<Trouble>) {
        self.is_barred.store(why.is_some(), Relaxed);
        *self.barred.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Puts an item into the queue of the link that leads to the keeper of `slot`. Waits only while a Cluster's nodes are not known yet.
    pub(crate) async fn send(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        slot: u16,
        item: Item,
        by: Instant,
    ) -> Result<(), StoreError> {
        self.send_as(Traffic::Decisions, lane, slot, item, by).await
    }

    /// As [`Hub::send`], for any kind of traffic.
    pub(crate) async fn send_as(
        self: &Arc<Self>,
        traffic: Traffic,
        lane: &Arc<Lane>,
        slot: u16,
        item: Item,
        by: Instant,
    ) -> Result<(), StoreError> {
        let refuse = |why: &Trouble| Err(self.context.unreachable(why));
        if self.is_barred.load(Relaxed)
            && let Some(why) = &*self.barred.lock().unwrap_or_else(PoisonError::into_inner)
        {
            return refuse(why);
        }
        let node = match self.topology.node_of(slot) {
            Some(node) => node,
            None => match self.find_node(slot, by).await {
                Ok(node) => node,
                Err(why) => return refuse(&why),
            },
        };
        let mut item = item;
        for _ in 0..2 {
            let link = lane.link(node, traffic);
            match link.push(item) {
                Ok(()) => return Ok(()),
                // It ended since it was looked up; there is a new one.
                Err((back, _)) if link.has_ended() => item = back,
                Err((_, why)) => return refuse(&why),
            }
        }
        refuse(&Trouble::new(Kind::NotNow, "the store ends"))
    }

    /// Waits until it is known who keeps a slot.
    async fn find_node(&self, slot: u16, by: Instant) -> Result<u16, Trouble> {
        let mut learnt = self.topology.watch();
        if let crate::StoreState::Down { why, .. } = self.health.state() {
            return Err(Trouble::new(Kind::NotNow, why));
        }
        self.topology.doubted.notify_one();
        let found = async {
            loop {
                if let Some(node) = self.topology.node_of(slot) {
                    return Some(node);
                }
                learnt.changed().await.ok()?;
            }
        };
        let unknown = || Trouble::new(Kind::NotNow, format!("it is not known yet who keeps slot {slot}"));
        timeout_at(by, found).await.ok().flatten().ok_or_else(unknown)
    }

    /// Waits for an answer. Those who answer always do, in time; only the end of a runtime leaves a question open.
    pub(crate) async fn hear<T>(
        &self,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.context.silent(self.context.deadline)),
        }
    }
}
