//! Permits that are reserved now and used later.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Clock, Timestamp};

use crate::acquire_error::AcquireError;
use crate::engine::Engine;
use crate::states::States;
use crate::waiting::acquire::{Admission, PlaceInLine};
use crate::waiting::waiter::{Taken, WaiterKind};

/// Permits that are reserved: they may be used from [`act_at`](Reservation::act_at) on.
///
/// Once the work is done, [`commit`](Reservation::commit) says how many it took. Dropped without that, or
/// [cancelled](Reservation::cancel), the reservation is given back: whole until `act_at`, and from then on as
/// far as that admits no more than if it had never been made. It gives nothing back where counting has begun
/// anew since: by a reset, a restored snapshot, another algorithm or a scaled quota.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::default();
/// let limiter = RateLimiter::direct_with_clock(Quota::per_minute(1_000), clock.clone())?;
///
/// // A language model is asked; how many tokens it will use is an estimate.
/// let reservation = limiter.reserve(800, Duration::from_secs(30))?;
/// assert_eq!(reservation.act_at(), limiter.now());
/// reservation.commit(250);
/// assert_eq!(limiter.peek().remaining(), 750);
///
/// // More than is there: from a quarter of a minute on.
/// let later = limiter.reserve(1_000, Duration::from_secs(30))?;
/// assert_eq!(later.act_at(), limiter.now() + Duration::from_secs(15));
/// later.cancel();
/// assert_eq!(limiter.peek().remaining(), 750);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    permits: u64,
    act_at: Timestamp,
    held: Box<dyn Held>,
}

impl Reservation {
    pub(crate) fn new<S: States + 'static, C: Clock + 'static>(
        engine: &Arc<Engine<S, C>>,
        key: &[u8],
        n: u64,
        max_wait: Duration,
    ) -> Result<Self, AcquireError> {
        let epoch = engine.epochs.of(key);
        let (act_at, held): (_, Box<dyn Held>) = match engine.enter(key, n, max_wait, WaiterKind::Held)? {
            Admission::Now(taken) => {
                let permits = Permits { engine: Arc::clone(engine), key: key.into(), n, taken, epoch };
                (taken.at, Box::new(permits))
            }
            Admission::Later(place) => (place.turn_at(), Box::new(place)),
        };
        Ok(Self { permits: n, act_at, held })
    }

    /// The instant from which the permits may be used.
    #[must_use]
    pub const fn act_at(&self) -> Timestamp {
        self.act_at
    }

    /// Number of permits reserved.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Ends the reservation with `used` permits used. Unused permits are given back; permits beyond the
    /// reservation become a debt, which is repaid before anything else is admitted.
    pub fn commit(mut self, used: u64) {
        self.held.commit(used);
    }

    /// Ends the reservation without use: all permits are given back.
    pub fn cancel(self) {
        drop(self);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("permits", &self.permits)
            .field("act_at", &self.act_at)
            .finish_non_exhaustive()
    }
}

/// Permits held, of any engine. Dropped without a commit, they are given back.
trait Held: Send + Sync {
    fn commit(&mut self, used: u64);
}

impl<S: States, C: Clock> Held for PlaceInLine<S, C> {
    fn commit(&mut self, used: u64) {
        self.commit(used);
    }
}

/// Permits that were available at once.
struct Permits<S: States, C: Clock> {
    engine: Arc<Engine<S, C>>,
    key: Box<[u8]>,
    /// Not yet committed.
    n: u64,
    taken: Taken,
    epoch: u32,
}

impl<S: States, C: Clock> Held for Permits<S, C> {
    fn commit(&mut self, used: u64) {
        self.engine.settle_use(&self.key, self.n, used, self.taken, self.epoch);
        self.n = 0;
    }
}

impl<S: States, C: Clock> Drop for Permits<S, C> {
    fn drop(&mut self) {
        if self.n > 0 {
            self.engine.refund(&self.key, self.n, self.taken, self.epoch);
        }
    }
}
