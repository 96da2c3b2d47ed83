//! The slots of one key: the number in use, and the line of callers that wait for slots.
//!
//! A free slot is taken without a lock, unless callers wait. A guard that gives slots up hands them to the
//! first in line, under the lock of the queue. A caller that joins the line announces that before it looks
//! for free slots a last time, so that either it finds slots that were given up meanwhile, or the guard finds
//! that it waits. Not here: guards, and what keeps the rooms of a keyed limiter.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tollgate_core::Timestamp;

use super::error::{EnterError, NoSlot};
use crate::waiting::queue::Ticket;
use crate::waiting::shared::{Locked, Waiting};
use crate::waiting::waiter::{Leaving, Standing, Taken, Waiter, WaiterKind};

/// Parts of the map of rooms, each behind a lock of its own.
const PARTS: usize = 16;

/// State that all rooms of a limiter share.
#[derive(Debug)]
pub(crate) struct SharedByRooms {
    limit: AtomicU64,
    /// Whether new callers join in front of those that wait.
    pub(crate) last_first: AtomicBool,
    /// Most slots of one key that were in use at the same time.
    peak: AtomicU64,
    pub(crate) waiting: Waiting,
}

impl SharedByRooms {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            last_first: AtomicBool::new(false),
            peak: AtomicU64::new(0),
            waiting: Waiting::new(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Sets the limit, which is read under the lock. `room` finds the room of a key with waiters.
    pub(crate) fn set_limit(&self, limit: impl FnOnce() -> u64, room: impl Fn(&[u8]) -> Arc<Room>) {
        let mut queue = self.waiting.lock();
        let limit = limit();
        self.limit.store(limit, SeqCst);
        for key in queue.keys() {
            for stands in queue.line_in_order(&key) {
                if stands.cost > limit {
                    let waker = queue.fail(stands.ticket, Leaving::NeverFits);
                    queue.wake(waker);
                }
            }
            room(&key).serve(&mut queue);
        }
    }
}

/// The slots of one key. A limiter without keys has one room.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) shared: Arc<SharedByRooms>,
    key: Box<[u8]>,
    in_use: AtomicU64,
    /// The map that contains it.
    rooms: Weak<Rooms>,
}

impl Room {
    /// The room of a limiter without keys.
    pub(crate) fn only(limit: u64) -> Self {
        let shared = Arc::new(SharedByRooms::new(limit));
        Self { shared, key: Box::default(), in_use: AtomicU64::new(0), rooms: Weak::new() }
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Relaxed)
    }

    /// Takes `n` free slots, unless callers wait for slots of this room.
    pub(crate) fn try_enter(&self, n: u64) -> Result<(), NoSlot> {
        let waiting = self.shared.waiting.count();
        if waiting > 0 {
            let queue = self.shared.waiting.lock();
            if queue.first_of(&self.key).is_some() {
                return Err(self.no_slot(n, queue.waiting()));
            }
        }
        if self.take(n) { Ok(()) } else { Err(self.no_slot(n, waiting)) }
    }

    /// Takes a slot even if no slot is free.
    pub(crate) fn enter_beyond(&self) {
        let in_use = self.in_use.fetch_add(1, SeqCst) + 1;
        if in_use > self.shared.peak() {
            self.shared.peak.fetch_max(in_use, Relaxed);
        }
    }

    fn no_slot(&self, asked: u64, waiting: usize) -> NoSlot {
        NoSlot { asked, in_use: self.in_use(), limit: self.shared.limit(), waiting }
    }

    /// Takes `n` free slots, or a place in the line for them.
    pub(crate) fn enter(self: &Arc<Self>, n: u64) -> Result<Option<SlotWait>, EnterError> {
        if self.try_enter(n).is_ok() {
            return Ok(None);
        }
        let mut queue = self.shared.waiting.lock();
        let limit = self.shared.limit();
        if n > limit {
            return Err(EnterError::NeverFits { limit });
        }
        queue.announce();
        if queue.first_of(&self.key).is_none() && self.take(n) {
            return Ok(None);
        }
        if queue.waiting() >= self.shared.waiting.most() {
            return Err(EnterError::QueueFull { waiting: queue.waiting() });
        }
        let waiter = Waiter::without_deadline(n, WaiterKind::Slots);
        let ticket = match self.shared.last_first.load(Relaxed) {
            true => queue.join_in_front(&self.key, waiter),
            false => queue.join(&self.key, waiter, Timestamp::NEVER),
        };
        Ok(Some(SlotWait { room: Arc::clone(self), ticket: Some(ticket), n }))
    }

    /// Gives up `n` slots, to the first in line if there is one.
    pub(crate) fn leave(&self, n: u64) {
        self.in_use.fetch_sub(n, SeqCst);
        if self.shared.waiting.count() > 0 {
            self.serve(&mut self.shared.waiting.lock());
        }
    }

    fn take(&self, n: u64) -> bool {
        let limit = self.shared.limit.load(SeqCst);
        let more = |in_use: u64| in_use.checked_add(n).filter(|after| *after <= limit || n == 0);
        let Ok(before) = self.in_use.try_update(SeqCst, SeqCst, more) else { return false };
        if before + n > self.shared.peak() {
            self.shared.peak.fetch_max(before + n, Relaxed);
        }
        true
    }

    /// Hands free slots to the callers in line, as far as they go.
    fn serve(&self, queue: &mut Locked<'_>) {
        while let Some(first) = queue.first_of(&self.key)
            && self.take(first.cost)
        {
            let waker = queue.serve(first.line, Taken { at: Timestamp::ZERO, reset_ns: 0, limit: 0 });
            queue.wake(waker);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(rooms) = self.rooms.upgrade() {
            rooms.forget(self);
        }
    }
}

/// A place in the line. Dropped, it is given up, with the slots.
#[derive(Debug)]
pub(crate) struct SlotWait {
    room: Arc<Room>,
    ticket: Option<Ticket>,
    n: u64,
}

impl SlotWait {
    /// Whether the caller has its slots; if not, `waker` is woken then.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), EnterError>> {
        let shared = &self.room.shared;
        shared.waiting.poll(&mut self.ticket, waker).map(|waiter| match waiter.map(|waiter| waiter.state) {
            Some(Standing::Served(_)) => Ok(()),
            _ => Err(EnterError::NeverFits { limit: shared.limit() }),
        })
    }
}

impl Drop for SlotWait {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut queue = self.room.shared.waiting.lock();
        let waiter = queue.collect(ticket);
        if waiter.as_ref().is_some_and(|waiter| matches!(waiter.state, Standing::Served(_))) {
            self.room.in_use.fetch_sub(self.n, SeqCst);
        }
        self.room.serve(&mut queue); // those behind it may fit
        drop(queue);
        drop(waiter); // its waker may be the last of a task
    }
}

type RoomShard = HashMap<Box<[u8]>, Weak<Room>>;

/// The rooms of a keyed limiter that are in use; each is forgotten when its last guard or waiter goes.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) shared: Arc<SharedByRooms>,
    hasher: RandomState,
    parts: [Mutex<RoomShard>; PARTS],
}

impl Rooms {
    pub(crate) fn new(limit: u64) -> Self {
        let shared = Arc::new(SharedByRooms::new(limit));
        Self { shared, hasher: RandomState::new(), parts: Default::default() }
    }

    fn part(&self, key: &[u8]) -> &Mutex<RoomShard> {
        &self.parts[(self.hasher.hash_one(key) % PARTS as u64) as usize]
    }

    /// The room of `key`, if it is in use or has waiters.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Room>> {
        self.part(key).lock().get(key).and_then(Weak::upgrade)
    }

    /// The room of `key`.
    pub(crate) fn room(self: &Arc<Self>, key: &[u8]) -> Arc<Room> {
        let mut part = self.part(key).lock();
        if let Some(room) = part.get(key).and_then(Weak::upgrade) {
            return room;
        }
        let shared = Arc::clone(&self.shared);
        let in_use = AtomicU64::new(0);
        let room = Arc::new(Room { shared, key: key.into(), in_use, rooms: Arc::downgrade(self) });
        part.insert(key.into(), Arc::downgrade(&room));
        room
    }

    /// Number of keys whose rooms are in use or have waiters.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Removes an unused room from the map, unless a newer one has its place.
    fn forget(&self, room: &Room) {
        let mut part = self.part(&room.key).lock();
        if part.get(&*room.key).is_some_and(|it| std::ptr::eq(it.as_ptr(), room)) {
            part.remove(&*room.key);
        }
    }
}
