//! Reservations, in short words.

use std::time::Duration;

use tollgate_core::{RetryAfter, Timestamp};
use tollgate_limiter::{
    Descriptor, Ending, Entry, LimitOverride, Limiter, Request, ReservationId, ReserveError, ReserveTerms,
    Scratch, SettleError,
};
use tollgate_store::{Store, block_on};

use super::{Ask, entries, of};

/// Result of an attempt to reserve.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) id: Option<ReservationId>,
    pub(crate) delay: Duration,
    pub(crate) retry_after: Vec<RetryAfter>,
}

/// A limiter that is asked for reservations.
pub(crate) struct Desk<S: Store>(pub(crate) Limiter<S>);

/// Now or not at all, for a minute.
pub(crate) const NOW: ReserveTerms = ReserveTerms { max_wait: Duration::ZERO, ttl: Duration::from_secs(60) };

pub(crate) fn waiting(max_wait: Duration) -> ReserveTerms {
    ReserveTerms { max_wait, ..NOW }
}

impl<S: Store> Desk<S> {
    pub(crate) fn try_reserve(
        &self,
        asks: &[Ask<'_>],
        hits: u64,
        terms: ReserveTerms,
        now: Timestamp,
    ) -> Result<Got, ReserveError> {
        let lists: Vec<Vec<Entry<'_>>> = asks.iter().map(|ask| entries(ask.entries)).collect();
        let limit = |ask: &Ask<'_>| {
            ask.limit.map(|(requests_per_unit, unit)| LimitOverride { requests_per_unit, unit })
        };
        let descriptors: Vec<Descriptor<'_>> = asks
            .iter()
            .zip(&lists)
            .map(|(ask, entries)| Descriptor { entries, hits: ask.hits, limit: limit(ask) })
            .collect();
        let request = Request { domain: "d", descriptors: &descriptors, hits };
        let mut scratch = Scratch::new();
        let reserved = block_on(self.0.reserve(&request, terms, now, &mut scratch))?;
        assert_eq!(reserved.id.is_some(), reserved.answer.is_admitted());
        let retry_after = reserved.answer.descriptors().map(|it| it.retry_after()).collect();
        Ok(Got { id: reserved.id, delay: reserved.delay, retry_after })
    }

    pub(crate) fn reserve(&self, entries: &str, hits: u64, terms: ReserveTerms, now: Timestamp) -> Got {
        self.try_reserve(&[of(entries)], hits, terms, now).expect("there is room")
    }

    /// Number of permits left.
    pub(crate) fn left(&self, of: &str, now: Timestamp) -> u64 {
        let reports = block_on(self.0.inspect("d", &entries(of), now)).expect("there is a counter");
        reports.iter().map(|it| it.decision.remaining()).min().expect("a limit")
    }

    pub(crate) fn commit(
        &self,
        id: ReservationId,
        actual: Option<u64>,
        now: Timestamp,
    ) -> Result<(Ending, u64, u64), SettleError> {
        let settled = block_on(self.0.commit(id, actual, now))?;
        Ok((settled.ending, settled.reserved, settled.used))
    }

    pub(crate) fn cancel(
        &self,
        id: ReservationId,
        now: Timestamp,
    ) -> Result<(Ending, u64, u64), SettleError> {
        let settled = block_on(self.0.cancel(id, now))?;
        Ok((settled.ending, settled.reserved, settled.used))
    }
}
