//! Costs that are known only afterwards: a number is reserved, and the cost is committed some time later.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_limiter::{Limiter, ReservationId, ReserveTerms};
use tollgate_store::block_on;
use tollgate_store_memory::MemoryStore;
use utoipa::ToSchema;

/// Longer than any commit takes.
const TTL: Duration = Duration::from_secs(300);

/// The outcome of reserved permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Settled {
    pub reserved: u64,
    pub used: u64,
    /// Reserved permits that were not used.
    pub returned: u64,
    /// Permits used beyond those reserved.
    pub owed: u64,
}

/// Reservations that wait for their commits, in the order of their instants.
#[derive(Debug, Default)]
pub(crate) struct Reserving {
    after: Duration,
    open: VecDeque<(Timestamp, ReservationId, u64)>,
    pub(crate) settled: Settled,
}

impl Reserving {
    pub(crate) fn new(after: Duration) -> Self {
        Self { after, ..Self::default() }
    }

    pub(crate) const fn terms() -> ReserveTerms {
        ReserveTerms { max_wait: Duration::ZERO, ttl: TTL }
    }

    /// A reservation made at `now`, which will turn out to cost `actual`.
    pub(crate) fn made(&mut self, id: ReservationId, actual: u64, now: Timestamp) {
        self.open.push_back((now + self.after, id, actual));
    }

    /// Commits the reservations that are due by `now`.
    pub(crate) fn commit_due(&mut self, limiter: &Limiter<MemoryStore, ()>, now: Timestamp) {
        while let Some(&(due, id, actual)) = self.open.front()
            && due <= now
        {
            self.open.pop_front();
            // Permits that cannot be settled count as used.
            let Ok(settled) = block_on(limiter.commit(id, Some(actual), due)) else { continue };
            self.settled.reserved = self.settled.reserved.saturating_add(settled.reserved);
            self.settled.used = self.settled.used.saturating_add(settled.used);
            self.settled.returned = self.settled.returned.saturating_add(settled.returned());
            self.settled.owed = self.settled.owed.saturating_add(settled.owed());
        }
    }

    /// Commits all that is left.
    pub(crate) fn finish(&mut self, limiter: &Limiter<MemoryStore, ()>) {
        self.commit_due(limiter, Timestamp::from_nanos(u64::MAX));
    }
}
