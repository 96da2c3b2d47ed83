//! State shared by all connections of a service, over all workers: the number of calls that wait, and the
//! bytes of incomplete messages.
//!
//! A call that is decided as soon as it has arrived needs no place here. A call that waits, for the rest of
//! its message or for its store, takes a place or fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tollgate_net::Budget;

use crate::limits::Limits;

/// Calls that a connection may always have waiting.
const ALWAYS: usize = 4;

/// The fewest streams that are announced to a connection.
const FEWEST_STREAMS: usize = 32;

/// The calls of all workers that wait. Create one, and give it to
/// [`RateLimitService::sharing`](crate::RateLimitService::sharing) of each worker.
///
/// Half of the places are for any connection. The other half is divided equally among connections, so that no
/// number of calls on other connections takes it. Four calls of each connection may always wait: there are at
/// most [`Limits::max_waiting_calls`] and four for each connection.
///
/// # Example
/// ```
/// # use tollgate_envoy_rls::{Limits, Shared};
/// let shared = Shared::new(&Limits::default());
/// assert_eq!((shared.waiting_calls(), shared.rejected_calls()), (0, 0));
/// ```
#[derive(Debug)]
pub struct Shared {
    max_waiting: usize,
    waiting: AtomicUsize,
    connections: AtomicUsize,
    rejected: AtomicU64,
    cut: AtomicU64,
    faulty: AtomicU64,
    max_unread_bytes: usize,
    /// Budget of incomplete messages.
    pub(crate) messages: Budget,
    /// Budget of replies that peers do not read.
    pub(crate) unread: Budget,
}

/// A connection among those that share the places. Its own count is on no other connection's cache line.
#[derive(Debug)]
pub(crate) struct ConnectionCalls {
    shared: Arc<Shared>,
    waiting: AtomicUsize,
    /// Replies that HTTP/2 holds.
    unsent: AtomicUsize,
}

/// The place of a call that waits; free again when dropped.
#[derive(Debug)]
pub(crate) struct WaitingGuard(Arc<ConnectionCalls>);

/// Too many calls wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Shared {
    /// Creates the places and budgets that `limits` allow.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            max_waiting: limits.max_waiting_calls,
            waiting: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            rejected: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            faulty: AtomicU64::new(0),
            max_unread_bytes: limits.max_buffered_bytes,
            messages: Budget::new(limits.max_buffered_bytes),
            unread: Budget::new(limits.max_buffered_bytes),
        }
    }

    /// Bytes of half-arrived messages that are held now.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.messages.held()
    }

    /// Bytes of replies that are held now because clients do not take them.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.unread.held()
    }

    /// Connections that were closed because their clients did not take their replies while too many were
    /// held.
    #[must_use]
    pub fn cut_connections(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    /// Connections that were closed because their clients broke the protocol again and again: calls above the
    /// announced number of streams, calls that are reset at once, messages of calls that have ended.
    #[must_use]
    pub fn faulty_connections(&self) -> u64 {
        self.faulty.load(Relaxed)
    }

    /// Calls that wait now.
    #[must_use]
    pub fn waiting_calls(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Calls that failed because too many waited.
    #[must_use]
    pub fn rejected_calls(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// One more connection.
    pub(crate) fn connection(self: &Arc<Self>) -> Arc<ConnectionCalls> {
        self.connections.fetch_add(1, Relaxed);
        Arc::new(ConnectionCalls {
            shared: Arc::clone(self),
            waiting: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
        })
    }

    /// The places of each connection if all had the same.
    fn share(&self) -> usize {
        self.max_waiting / 2 / self.connections.load(Relaxed).max(1)
    }
}

impl ConnectionCalls {
    /// The streams to announce to this connection, at most `most`: fewer, the more connections there are.
    pub(crate) fn max_streams(&self, most: u32) -> u32 {
        let share = self.shared.share().max(FEWEST_STREAMS);
        u32::try_from(share).map_or(most, |share| share.min(most))
    }

    /// Replies that HTTP/2 holds.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Relaxed)
    }

    pub(crate) fn add_unsent(&self) {
        self.unsent.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_unsent(&self) {
        self.unsent.fetch_sub(1, Relaxed);
    }

    /// Whether to close the connection for the `bytes` of replies that it holds, while all connections
    /// together hold too many: if it holds more than an equal share, so that a client that is slow for a
    /// moment does not pay for clients that read nothing. Shares shrink with every new connection, so above
    /// twice the budget every connection is closed.
    pub(crate) fn holds_too_much(&self, bytes: usize) -> bool {
        let Shared { max_unread_bytes: max, connections, unread, .. } = &*self.shared;
        bytes > max / connections.load(Relaxed).max(1) || unread.held() > max.saturating_mul(2)
    }

    /// Counts a connection that is closed for the replies that it holds.
    pub(crate) fn count_cut(&self) {
        self.shared.cut.fetch_add(1, Relaxed);
    }

    /// Counts a connection that is closed since its peer broke the protocol.
    pub(crate) fn count_faulty(&self) {
        self.shared.faulty.fetch_add(1, Relaxed);
    }

    /// A place for a call that has to wait.
    pub(crate) fn place(self: &Arc<Self>) -> Result<WaitingGuard, TooMany> {
        let own = self.waiting.fetch_add(1, Relaxed) + 1;
        let all = self.shared.waiting.fetch_add(1, Relaxed) + 1;
        let place = WaitingGuard(Arc::clone(self));
        let Shared { max_waiting, rejected, .. } = &*self.shared;
        let is_free =
            own <= ALWAYS || all <= max_waiting / 2 || (all <= *max_waiting && own <= self.shared.share());
        if is_free {
            return Ok(place);
        }
        rejected.fetch_add(1, Relaxed);
        Err(TooMany)
    }
}

impl Drop for ConnectionCalls {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Relaxed);
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.shared.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(max_waiting_calls: usize) -> Arc<Shared> {
        Arc::new(Shared::new(&Limits { max_waiting_calls, ..Limits::default() }))
    }

    /// As many places as `connection` gets.
    fn fill(connection: &Arc<ConnectionCalls>) -> Vec<WaitingGuard> {
        std::iter::from_fn(|| connection.place().ok()).collect()
    }

    #[test]
    fn half_of_the_places_are_for_any_connection_and_half_are_shares() {
        let shared = shared(100);
        let greedy = shared.connection();
        let other = shared.connection();
        let idle = shared.connection();
        let taken = fill(&greedy);
        assert_eq!(taken.len(), 50, "all that are not shares, more than its own share of 16");
        let others = fill(&other);
        assert_eq!((others.len(), shared.rejected_calls()), (16, 2));
        drop(idle);
        assert_eq!(fill(&other).len(), 9, "there are two now, with 25 each");
        drop(taken);
        assert_eq!(shared.waiting_calls(), 16);
        assert_eq!(fill(&other).len(), 34, "until half are taken again");
        drop(others);
        assert_eq!(shared.waiting_calls(), 0);
    }

    #[test]
    fn four_calls_of_a_connection_may_always_wait_and_not_one_more() {
        let shared = shared(0);
        for _ in 0..3 {
            let connection = shared.connection();
            let four = fill(&connection);
            assert_eq!(four.len(), 4);
            drop(four);
            assert_eq!(shared.waiting_calls(), 0);
        }
    }

    #[test]
    fn all_together_never_exceed_the_places_and_four_each() {
        let shared = shared(1_000);
        let connections: Vec<_> = (0..300).map(|_| shared.connection()).collect();
        let held: Vec<_> = connections.iter().map(fill).collect();
        let all = held.iter().map(Vec::len).sum::<usize>();
        assert_eq!(all, shared.waiting_calls());
        assert!((1_000..=1_000 + 4 * 300).contains(&all), "{all}");
        assert!(held.iter().all(|places| places.len() >= 4));
    }

    #[test]
    fn streams_per_connection_shrink_as_connections_grow() {
        let shared = shared(20_000);
        let mut connections = Vec::new();
        for (number, want) in [(1, 1_000), (10, 1_000), (11, 909), (100, 100), (400, 32), (2_000, 32)] {
            connections.resize_with(number, || shared.connection());
            assert_eq!(connections[0].max_streams(1_000), want, "{number} connections");
        }
        assert_eq!(connections[0].max_streams(10), 10, "a setting below the floor holds");
        connections.truncate(1);
        assert_eq!(connections[0].max_streams(1_000), 1_000);
    }
}
