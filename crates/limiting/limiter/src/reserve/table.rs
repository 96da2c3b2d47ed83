//! The open reservations of a limiter: bounded; expired ones are removed by later calls.
//!
//! Sixteen parts, each behind its own lock, which is held for a few dozen instructions. Each call drops at
//! most a few expired ones of its part; a call that finds no place drops up to some thousands, until
//! there is one. Settled ones are remembered for a while, so that a repeated call gets the same result; they
//! are capped as well. Not here: how large the share of a caller is (`shares`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_observe::ReservationStats;
use tollgate_policy::{Entry as PolicyEntry, Unit};
use tollgate_store::{Origin, Sharing};

use super::{ReservationId, Settled};
use crate::scratch::Item;
use crate::shares::{Holder, ReservationShare, Room, Shares};

const PARTS: usize = 16;
/// Expired reservations that a call drops on its way.
const DROPPED_A_CALL: usize = 4;
/// Expired reservations that a call without a place drops from each part: some thousands, within about a
/// millisecond.
const DROPPED_FOR_PLACE: usize = 256;
/// Bytes of keys that a reservation may remember.
pub(crate) const LONGEST_KEYS: usize = 8 << 10;
/// Bytes for each possible reservation, on average; a reservation with one short key takes half of that.
const BYTES_EACH: u64 = 1024;
/// Bytes of a reservation besides its items: its entries in the map, in the list of ends and in the shares,
/// and the allocations.
const OVERHEAD_BYTES: u64 = 256 + size_of::<Held>() as u64;
/// Shortest time for which a settled reservation is remembered, if there is room.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The counter in which permits are held.
#[derive(Clone, Debug)]
pub(crate) struct HeldItem {
    pub(crate) key: Box<[u8]>,
    pub(crate) quota: QuotaRef,
    /// Permits held in this counter.
    pub(crate) cost: Cost,
    /// Permits that each hit takes.
    pub(crate) each: u64,
    /// Its descriptor has no number of hits of its own, so it uses the hits that the request uses.
    pub(crate) is_scaled: bool,
    /// Number of nodes by which this node's share was calculated, since the store did not answer; `None`
    /// where the store answered.
    pub(crate) share_of: Option<u32>,
    /// Decision of the counter when the permits were taken.
    pub(crate) said: Decision,
}

/// The quota of a counter, or where to find it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuotaRef {
    /// A limit of a rule; its place in the rules of that generation, and its identity in all generations.
    Rule { identity: u64, place: u32, limit: u32 },
    /// The limit that came with the request.
    Override { requests_per_unit: u32, unit: Unit, sharing: Sharing, origin: Origin },
}

/// An open reservation.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) holder: Holder,
    /// Bytes that it takes of the table.
    pub(crate) bytes: u64,
    pub(crate) domain: Box<str>,
    /// Generation of the rules by which it was made.
    pub(crate) generation: u64,
    pub(crate) items: Box<[HeldItem]>,
    pub(crate) reserved: u64,
    pub(crate) made_at: Timestamp,
    /// The instant from which the permits may be used.
    pub(crate) starts_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Most bytes that a reservation of `items` in `domain` takes of the table.
pub(crate) fn bytes_of(domain: &str, items: &[Item]) -> u64 {
    let items = items.iter().map(|item| (size_of::<HeldItem>() + item.key.len()) as u64);
    OVERHEAD_BYTES + items.sum::<u64>() + domain.len() as u64
}

/// Result of a look-up.
pub(crate) enum Found {
    /// It was open and is settled now; the caller carries it out.
    Open(Box<Held>, Settled),
    /// It was settled before.
    Settled(Settled),
    /// It does not exist.
    Unknown,
}

#[derive(Debug)]
enum TableEntry {
    Open(Box<Held>),
    Settled(Settled),
}

#[derive(Debug, Default)]
struct TableShard {
    entries: HashMap<u128, TableEntry>,
    open: usize,
    /// The ends of the open reservations. Entries of settled ones are skipped, and removed once they are the
    /// majority.
    ends: BinaryHeap<Reverse<(Timestamp, u128)>>,
    /// Settled reservations, oldest first, and the ends of their remembrance.
    settled: VecDeque<(Timestamp, u128)>,
}

/// The open reservations, and those settled recently.
#[derive(Debug)]
pub(crate) struct ReservationTable {
    parts: [Mutex<TableShard>; PARTS],
    shares: Shares,
    most: usize,
    live: AtomicUsize,
    bytes: AtomicU64,
    pub(crate) events: Events,
}

/// Events of reservations, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) made: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Not made, because the table was full.
    pub(crate) full: AtomicU64,
    /// Not made, because the caller had its share.
    pub(crate) caller_share: AtomicU64,
    /// Not made, because the domain had its share.
    pub(crate) domain_share: AtomicU64,
}

/// A place that is kept free for one reservation; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    table: &'a ReservationTable,
    pub(crate) holder: Holder,
    pub(crate) bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.table.free(self.holder, self.bytes);
    }
}

/// Reason why there is no place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoPlace {
    /// All places are taken.
    Full,
    /// The holder `has` its share of what is `free`.
    Share { of: ReservationShare, has: Room, free: Room },
}

impl ReservationTable {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            parts: Default::default(),
            shares: Shares::default(),
            most,
            live: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            events: Events::default(),
        }
    }

    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Number of open reservations, including expired ones that no call has removed yet.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Relaxed) as u64
    }

    /// Bytes that the open ones take, and may take.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), BYTES_EACH.saturating_mul(self.most as u64))
    }

    /// Numbers for an observer.
    pub(crate) fn stats(&self) -> ReservationStats {
        let (bytes, max_bytes) = self.bytes();
        let Events { made, committed, cancelled, expired, full, caller_share, domain_share } = &self.events;
        ReservationStats {
            open: self.live(),
            max: self.most() as u64,
            bytes,
            max_bytes,
            made: made.load(Relaxed),
            committed: committed.load(Relaxed),
            cancelled: cancelled.load(Relaxed),
            expired: expired.load(Relaxed),
            full: full.load(Relaxed),
            caller_share: caller_share.load(Relaxed),
            domain_share: domain_share.load(Relaxed),
        }
    }

    /// The holder of a reservation in `domain`, by the first entry.
    pub(crate) fn holder(&self, domain: &str, first: Option<&PolicyEntry<'_>>) -> Holder {
        self.shares.holder(domain, first)
    }

    /// Keeps a place of `bytes` free.
    pub(crate) fn place(&self, holder: Holder, bytes: u64, now: Timestamp) -> Result<Place<'_>, NoPlace> {
        let mut result = self.try_place(holder, bytes);
        for part in &self.parts {
            if result.is_ok() {
                return result;
            }
            self.drop_expired(&mut lock(part), now, DROPPED_FOR_PLACE);
            result = self.try_place(holder, bytes);
        }
        if let Err(why) = &result {
            let event = match why {
                NoPlace::Full => &self.events.full,
                NoPlace::Share { of: ReservationShare::Caller, .. } => &self.events.caller_share,
                NoPlace::Share { of: ReservationShare::Domain, .. } => &self.events.domain_share,
            };
            event.fetch_add(1, Relaxed);
        }
        result
    }

    fn try_place(&self, holder: Holder, bytes: u64) -> Result<Place<'_>, NoPlace> {
        let (used_bytes, most_bytes) = self.bytes();
        if used_bytes >= most_bytes {
            return Err(NoPlace::Full);
        }
        let count = |live| (live < self.most).then(|| live + 1);
        let live = self.live.try_update(Relaxed, Relaxed, count).map_err(|_| NoPlace::Full)?;
        let free = Room { places: (self.most - live) as u64, bytes: most_bytes - used_bytes };
        if let Err((of, has)) = self.shares.take(holder, Room { places: 1, bytes }, free) {
            self.live.fetch_sub(1, Relaxed);
            return Err(NoPlace::Share { of, has, free });
        }
        self.bytes.fetch_add(bytes, Relaxed);
        Ok(Place { table: self, holder, bytes })
    }

    /// Gives up the place of a reservation that takes `bytes`.
    fn free(&self, holder: Holder, bytes: u64) {
        self.live.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
        self.shares.give_back(holder, Room { places: 1, bytes });
    }

    /// Puts a reservation into the place that was kept for it.
    pub(crate) fn insert(&self, place: Place<'_>, id: ReservationId, held: Held) {
        std::mem::forget(place);
        self.events.made.fetch_add(1, Relaxed);
        let mut part = self.part(id);
        self.drop_expired(&mut part, held.made_at, DROPPED_A_CALL);
        part.ends.push(Reverse((held.expires_at, id.0)));
        part.entries.insert(id.0, TableEntry::Open(Box::new(held)));
        part.open += 1;
    }

    /// Settles an open reservation by `settle`, once; returns the result of an earlier call if it is settled
    /// already.
    pub(crate) fn settle(
        &self,
        id: ReservationId,
        now: Timestamp,
        settle: impl FnOnce(&Held) -> Settled,
    ) -> Found {
        let mut part = self.part(id);
        self.drop_expired(&mut part, now, DROPPED_A_CALL);
        let settled = match part.entries.get(&id.0) {
            Some(TableEntry::Settled(settled)) => return Found::Settled(*settled),
            Some(TableEntry::Open(held)) if held.expires_at > now => settle(held),
            _ => return Found::Unknown,
        };
        let Some(TableEntry::Open(held)) = part.entries.insert(id.0, TableEntry::Settled(settled)) else {
            return Found::Unknown;
        };
        self.close(&mut part, held.holder, held.bytes);
        part.settled.push_back((now + REMEMBERED, id.0));
        // The cap holds for settled reservations too.
        if part.settled.len() > self.most.div_ceil(PARTS) {
            part.forget_oldest();
        }
        Found::Open(held, settled)
    }

    /// Marks a settled reservation as not carried out everywhere.
    pub(crate) fn degrade(&self, id: ReservationId) {
        if let Some(TableEntry::Settled(settled)) = self.part(id).entries.get_mut(&id.0) {
            settled.is_degraded = true;
        }
    }

    fn part(&self, id: ReservationId) -> MutexGuard<'_, TableShard> {
        lock(&self.parts[(id.0 % PARTS as u128) as usize])
    }

    fn drop_expired(&self, part: &mut TableShard, now: Timestamp, most: usize) {
        for _ in 0..most {
            if part.settled.front().is_some_and(|(until, _)| *until <= now) {
                part.forget_oldest();
            }
            let Some(&Reverse((_, id))) = part.ends.peek().filter(|Reverse((end, _))| *end <= now) else {
                break;
            };
            part.ends.pop();
            if let Some(TableEntry::Open(held)) = part.entries.get(&id) {
                let holder = held.holder;
                let bytes = held.bytes;
                self.events.expired.fetch_add(1, Relaxed);
                self.close(part, holder, bytes);
                part.entries.remove(&id);
            }
        }
    }

    /// Notes that a reservation of `bytes` is no longer open.
    fn close(&self, part: &mut TableShard, holder: Holder, bytes: u64) {
        self.free(holder, bytes);
        part.open -= 1;
        if part.ends.len() > 2 * part.open + 64 {
            let TableShard { ends, entries, .. } = part;
            ends.retain(|Reverse((_, id))| matches!(entries.get(id), Some(TableEntry::Open(_))));
        }
    }
}

impl TableShard {
    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.settled.pop_front() {
            self.entries.remove(&id);
        }
    }
}

fn lock(part: &Mutex<TableShard>) -> MutexGuard<'_, TableShard> {
    part.lock()
}
