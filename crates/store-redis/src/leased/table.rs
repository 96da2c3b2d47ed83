//! The leased keys of one node, in shards behind locks that are held for one decision. Bounded: where a shard is full, what was used
//! longest ago makes room, and what it held goes back to the ledger.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_store::StoreError;

use super::{Hit, script};
use tollgate_lease::{LeaseRequest as Request, Mono, Node, Terms, Timing};

/// Locks, so that threads seldom meet.
pub(super) const SHARDS: usize = 64;
/// Numbers of nodes are below this: a double holds them.
const NODES: u64 = 1 << 53;

#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    most_a_shard: usize,
    nodes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) entries: HashMap<Arc<[u8]>, Box<Entry>>,
    /// The rule of the newest key, which the next one mostly shares.
    newest: Option<Arc<Rule>>,
    /// Keys that may hold something; each once.
    pub(super) awake: Vec<Arc<[u8]>>,
    /// Decisions made here.
    pub(super) local: u64,
    /// What the entries counted that are no more.
    pub(super) lost: u64,
    pub(super) returned: u64,
    pub(super) evicted: u64,
}

/// What keys of one quota share.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) quota: Quota,
    pub(super) terms: Terms,
    /// As the script reads them.
    pub(super) packed: Vec<u8>,
}

/// One key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Arc<[u8]>,
    pub(super) redis_key: Vec<u8>,
    pub(super) rule: Arc<Rule>,
    pub(super) node: Node,
    /// The request under way: whose, and its number.
    pub(super) flying: Option<(u64, u64)>,
    /// No request ahead of need before this: the last one failed.
    pub(super) quiet_until: Mono,
    /// Those who wait for a grant, in order of arrival.
    pub(super) waiters: VecDeque<Waiter>,
    /// Those whose take goes to the ledger, in order of arrival.
    pub(super) central: VecDeque<Waiter>,
    /// It is among those that may hold something.
    pub(super) is_awake: bool,
    /// Number of tasks that send them.
    pub(super) tellers: usize,
    /// The time of day as it was last known, and when that was.
    pub(super) wall: (Timestamp, Mono),
    pub(super) used: Mono,
}

/// A caller who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) cost: Cost,
    pub(super) hit: Hit,
    pub(super) to: oneshot::Sender<Result<Decision, StoreError>>,
    /// Its take was sent to the ledger.
    pub(super) sent: Arc<AtomicBool>,
    pub(super) by: tokio::time::Instant,
}

impl Table {
    /// For at most about so many keys.
    pub(super) fn new(most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let most_a_shard = most.div_ceil(SHARDS).max(1);
        Self { shards, hasher: RandomState::new(), most_a_shard, nodes: AtomicU64::new(0) }
    }

    pub(super) fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }

    pub(super) fn nth(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard])
    }

    pub(super) fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }

    pub(super) fn has_room(&self, shard: &Shard) -> bool {
        shard.entries.len() < self.most_a_shard
    }

    /// A new entry for `key`, with a number that no other ever had.
    pub(super) fn insert(&self, shard: &mut Shard, key: &[u8], redis_key: Vec<u8>, rule: Arc<Rule>) {
        let key: Arc<[u8]> = key.into();
        let id = self.hasher.hash_one((&key, self.nodes.fetch_add(1, Relaxed))) % NODES;
        let entry = Entry {
            key: key.clone(),
            redis_key,
            rule,
            node: Node::new(id),
            flying: None,
            quiet_until: Mono(0),
            waiters: VecDeque::new(),
            central: VecDeque::new(),
            is_awake: false,
            tellers: 0,
            wall: (Timestamp::from_nanos(0), Mono(0)),
            used: Mono(0),
        };
        shard.entries.insert(key, Box::new(entry));
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// What keys of this quota share. `None`: it cannot be leased.
    pub(super) fn rule(&mut self, quota: &Quota, timing: Timing) -> Option<Arc<Rule>> {
        if let Some(newest) = self.newest.as_ref().filter(|rule| rule.quota.is_equivalent_to(quota)) {
            return Some(newest.clone());
        }
        let terms = Terms::with(quota, timing)?;
        let rule = Arc::new(Rule { quota: quota.clone(), packed: script::pack(&terms), terms });
        self.newest = Some(rule.clone());
        Some(rule)
    }

    /// Takes out a quarter of what can go: what was used longest ago. What they held is to be given back by the requests.
    pub(super) fn make_room(&mut self, now: Mono) -> Vec<(Entry, Request)> {
        let mut used: Vec<Mono> =
            self.entries.values().filter(|entry| entry.is_at_rest()).map(|entry| entry.used).collect();
        if used.is_empty() {
            return Vec::new();
        }
        let quarter = used.len().div_ceil(4) - 1;
        let (_, until, _) = used.select_nth_unstable(quarter);
        let until = *until;
        let before = self.entries.len();
        let returns = self.take_out(now, |entry| entry.used <= until);
        self.evicted += (before - self.entries.len()) as u64;
        returns
    }

    /// Takes out those at rest of which `which` is true; what they held is to be given back by the requests.
    pub(super) fn take_out(&mut self, now: Mono, which: impl Fn(&Entry) -> bool) -> Vec<(Entry, Request)> {
        let out: Vec<_> = self.entries.extract_if(|_, entry| entry.is_at_rest() && which(entry)).collect();
        let mut returns = Vec::new();
        for (_, mut entry) in out {
            let request = entry.node.give_up(&entry.rule.terms, now);
            self.lost += entry.node.lapsed();
            self.returned += entry.node.given_back();
            returns.extend(request.map(|request| (*entry, request)));
        }
        returns
    }
}

impl Entry {
    /// Nothing is under way, nobody waits.
    fn is_at_rest(&self) -> bool {
        self.flying.is_none() && self.tellers == 0 && self.waiters.is_empty()
    }

    /// The time of day.
    pub(super) fn wall_at(&self, now: Mono) -> Timestamp {
        let (then, at) = self.wall;
        then + std::time::Duration::from_nanos(now.0.saturating_sub(at.0))
    }

    /// Switches to a quota that counts in another way. The request returns what is held.
    pub(super) fn change(&mut self, rule: Arc<Rule>, now: Mono) -> Option<Request> {
        self.rule = rule;
        self.flying = None;
        self.node.change(&self.rule.terms, now)
    }
}
