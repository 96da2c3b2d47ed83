//! State shared by the surfaces of all workers: bounds of the whole process, and counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_net::{Budget, Guesses};

/// Bounds that hold over all workers, and counts of all. Create one by
/// [`SurfaceSettings::shared`](crate::SurfaceSettings::shared), and give it to
/// [`HttpSurface::sharing`](crate::HttpSurface::sharing) of each worker.
///
/// # Example
/// ```
/// # use tollgate_http_kit::SurfaceSettings;
/// let shared = SurfaceSettings::default().shared();
/// assert_eq!((shared.buffered_bytes(), shared.unread_bytes()), (0, 0));
/// ```
#[derive(Debug)]
pub struct Shared {
    /// Budget of incomplete bodies.
    pub(crate) bodies: Budget,
    /// Budget of replies that clients do not read.
    pub(crate) replies: Budget,
    pub(crate) over_budget: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
    /// Guesses at the admin token.
    pub(crate) guesses: Guesses,
    started: Instant,
}

impl Shared {
    /// With these budgets: of half-arrived bodies, and of replies that clients do not take.
    pub(crate) fn new(bodies: Budget, replies: Budget) -> Self {
        Self {
            bodies,
            replies,
            over_budget: AtomicU64::new(0),
            slow_readers: AtomicU64::new(0),
            guesses: Guesses::new("http"),
            started: Instant::now(),
        }
    }

    /// The time since it was created, for guesses.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::default() + self.started.elapsed()
    }

    /// Guesses at the admin token.
    #[must_use]
    pub const fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Bytes of half-arrived bodies that are held now.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.bodies.held()
    }

    /// Bytes of replies that are held now because their clients do not take them.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.replies.held()
    }

    /// Connections closed because replies that clients do not take exceeded their budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Relaxed)
    }

    /// Connections closed because the client took no byte of a reply for too long.
    #[must_use]
    pub fn slow_readers(&self) -> u64 {
        self.slow_readers.load(Relaxed)
    }
}
