//! The leased keys of one node, in shards behind locks that are held for one decision. Bounded: where a shard
//! is full, the least recently used keys make room, and their permits go back to the ledger.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::Quota;
use tollgate_lease::{LeaseRequest, Mono, Node, Terms, Timing};

use super::clock::Moment;
use super::ledger_script;
use super::take::WaitingTake;

/// Number of shards, each with a lock, so that threads seldom meet.
pub(super) const SHARDS: usize = 64;
/// Node ids are below this: a double holds them.
const NODE_IDS: u64 = 1 << 53;

#[derive(Debug)]
pub(super) struct LeaseTable {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    most_per_shard: usize,
}

#[derive(Debug)]
pub(super) struct Shard {
    pub(super) keys: HashMap<Arc<[u8]>, Box<LeasedKey>>,
    /// Draws the id of each new key's node.
    node_ids: Rng,
    /// The terms of the newest key, which the next one usually shares.
    newest: Option<Arc<SharedTerms>>,
    /// Keys that may hold something; each once.
    pub(super) watched: Vec<Arc<[u8]>>,
    /// Decisions made here.
    pub(super) local_decisions: u64,
    /// Counts of keys that have left the table.
    pub(super) lapsed: u64,
    pub(super) given_back: u64,
    pub(super) evicted: u64,
}

/// The shared part of all keys of one quota.
#[derive(Debug)]
pub(super) struct SharedTerms {
    pub(super) quota: Quota,
    pub(super) terms: Terms,
    /// The terms as the script reads them.
    pub(super) packed: Vec<u8>,
}

/// One key of the table.
#[derive(Debug)]
pub(super) struct LeasedKey {
    pub(super) key: Arc<[u8]>,
    pub(super) redis_key: Vec<u8>,
    pub(super) shared: Arc<SharedTerms>,
    pub(super) node: Node,
    /// The lease request in flight.
    pub(super) in_flight: Option<RequestId>,
    /// No request ahead of need before this instant: the last one failed.
    pub(super) pause_until: Mono,
    /// Takes that wait for a grant, in order of arrival.
    pub(super) waiting: VecDeque<WaitingTake>,
    /// Takes that the ledger decides, in order of arrival.
    pub(super) central: VecDeque<WaitingTake>,
    /// Number of tasks that send those takes.
    pub(super) central_tasks: usize,
    /// It is in [`Shard::watched`].
    pub(super) is_watched: bool,
    /// The last known time of day.
    pub(super) clock: Moment,
    pub(super) used: Mono,
}

/// A request of a node: request ids count up, and a node that starts anew has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId {
    node: u64,
    pub(super) seq: u64,
}

impl RequestId {
    pub(super) const fn of(request: &LeaseRequest) -> Self {
        Self { node: request.node, seq: request.seq }
    }
}

impl LeaseTable {
    /// A table of about `most` keys.
    pub(super) fn new(most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect();
        let most_per_shard = most.div_ceil(SHARDS).max(1);
        Self { shards, hasher: RandomState::new(), most_per_shard }
    }

    #[inline]
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
        shard.keys.len() < self.most_per_shard
    }

    /// Adds `key`, with a node id of its own.
    pub(super) fn insert(
        &self,
        shard: &mut Shard,
        key: &[u8],
        redis_key: Vec<u8>,
        shared: Arc<SharedTerms>,
        now: Moment,
    ) {
        let key: Arc<[u8]> = key.into();
        let entry = LeasedKey {
            key: key.clone(),
            redis_key,
            shared,
            node: Node::new(shard.node_ids.u64(..NODE_IDS)),
            in_flight: None,
            pause_until: Mono(0),
            waiting: VecDeque::new(),
            central: VecDeque::new(),
            central_tasks: 0,
            is_watched: false,
            clock: now,
            used: now.mono,
        };
        shard.keys.insert(key, Box::new(entry));
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock()
}

impl Shard {
    fn new() -> Self {
        // Nodes on other machines must not draw the same ids.
        let seed = getrandom::u64().unwrap_or_else(|_| fastrand::u64(..));
        Self {
            keys: HashMap::new(),
            node_ids: Rng::with_seed(seed),
            newest: None,
            watched: Vec::new(),
            local_decisions: 0,
            lapsed: 0,
            given_back: 0,
            evicted: 0,
        }
    }

    /// The shared part of all keys of this quota; `None` if it cannot be leased.
    pub(super) fn shared_terms(&mut self, quota: &Quota, timing: Timing) -> Option<Arc<SharedTerms>> {
        if let Some(newest) = self.newest.as_ref().filter(|shared| shared.quota.is_equivalent_to(quota)) {
            return Some(newest.clone());
        }
        let terms = Terms::with(quota, timing)?;
        let packed = ledger_script::pack(&terms);
        let shared = Arc::new(SharedTerms { quota: quota.clone(), terms, packed });
        self.newest = Some(shared.clone());
        Some(shared)
    }

    /// Removes a quarter of the idle keys: the least recently used ones. The requests give their permits
    /// back.
    pub(super) fn make_room(&mut self, now: Mono) -> Vec<(LeasedKey, LeaseRequest)> {
        let mut used: Vec<Mono> =
            self.keys.values().filter(|key| key.is_idle()).map(|key| key.used).collect();
        if used.is_empty() {
            return Vec::new();
        }
        let quarter = used.len().div_ceil(4) - 1;
        let (_, until, _) = used.select_nth_unstable(quarter);
        let until = *until;
        let before = self.keys.len();
        let returns = self.remove_idle(now, |key| key.used <= until);
        self.evicted += (before - self.keys.len()) as u64;
        returns
    }

    /// Removes the idle keys of which `which` is true. The requests give their permits back.
    pub(super) fn remove_idle(
        &mut self,
        now: Mono,
        which: impl Fn(&LeasedKey) -> bool,
    ) -> Vec<(LeasedKey, LeaseRequest)> {
        let removed: Vec<_> = self.keys.extract_if(|_, key| key.is_idle() && which(key)).collect();
        let mut returns = Vec::new();
        for (_, mut key) in removed {
            let request = key.node.give_up(&key.shared.terms, now);
            self.lapsed += key.node.lapsed();
            self.given_back += key.node.given_back();
            returns.extend(request.map(|request| (*key, request)));
        }
        returns
    }
}

impl LeasedKey {
    /// True when nothing is in flight and no caller waits.
    fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.central_tasks == 0 && self.waiting.is_empty()
    }

    /// Permits that callers wait for: of the first, and of all together. Callers that have left do not count.
    pub(super) fn permits_waited_for(&self) -> (u64, u64) {
        let stay = self.waiting.iter().filter(|waiter| !waiter.to.is_closed());
        let mut costs = stay.map(|waiter| waiter.take.cost.permits());
        let first = costs.next().unwrap_or(0);
        (first, costs.fold(first, u64::saturating_add))
    }

    /// Notes a caller at `now`.
    #[inline]
    pub(super) fn note_use(&mut self, now: Moment) {
        self.used = now.mono;
        self.clock = now;
    }

    /// Switches to a quota that counts in another way. The request returns the permits held.
    pub(super) fn change(&mut self, shared: Arc<SharedTerms>, now: Mono) -> Option<LeaseRequest> {
        self.shared = shared;
        self.in_flight = None;
        self.node.change(&self.shared.terms, now)
    }
}
