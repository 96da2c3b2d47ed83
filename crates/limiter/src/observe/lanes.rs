//! Counters of which every thread has its own copy, so that counting is a load, an addition and a store.
//!
//! A thread takes a *seat* at its first count and gives it back when it ends. The seats are as many as the machine has cores (and
//! a few); later threads share the last lane and add atomically. Reading sums the lanes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// More seats than this are never made: beyond, sharing is cheaper than memory.
const MOST_SEATS: usize = 32;
/// Seats beyond the number of cores, for background threads.
const SPARE_SEATS: usize = 2;

/// `N` counters, one cache line (or a few) a lane.
#[derive(Debug)]
pub(crate) struct Lanes<const N: usize>(Box<[Lane<N>]>);

/// One thread's counters.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lane<const N: usize>([AtomicU64; N]);

/// Which lane the current thread counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    lane: usize,
    is_own: bool,
}

/// Free seats; all taken below `next`.
#[derive(Debug, Default)]
struct Seats {
    free: Vec<usize>,
    next: usize,
}

static SEATS: Mutex<Seats> = Mutex::new(Seats { free: Vec::new(), next: 0 });

/// Gives the seat back when its thread ends.
struct Claim(Cell<Option<Seat>>);

thread_local! {
    static CLAIM: Claim = const { Claim(Cell::new(None)) };
}

/// Own lanes; one shared lane follows them.
fn own_lanes() -> usize {
    static OWN: OnceLock<usize> = OnceLock::new();
    *OWN.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (cores + SPARE_SEATS).min(MOST_SEATS)
    })
}

impl Seat {
    /// The current thread's.
    #[inline]
    pub(crate) fn here() -> Self {
        let shared = || Self { lane: own_lanes(), is_own: false };
        CLAIM.try_with(|claim| claim.0.get().unwrap_or_else(|| claim.take())).unwrap_or_else(|_| shared())
    }
}

impl Claim {
    #[cold]
    fn take(&self) -> Seat {
        let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = seats.free.pop().or_else(|| {
            (seats.next < own_lanes()).then(|| {
                seats.next += 1;
                seats.next - 1
            })
        });
        let seat = match lane {
            Some(lane) => Seat { lane, is_own: true },
            None => Seat { lane: own_lanes(), is_own: false },
        };
        self.0.set(Some(seat));
        seat
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(Seat { lane, is_own: true }) = self.0.get() {
            SEATS.lock().unwrap_or_else(PoisonError::into_inner).free.push(lane);
        }
    }
}

impl<const N: usize> Default for Lanes<N> {
    fn default() -> Self {
        Self((0..=own_lanes()).map(|_| Lane([const { AtomicU64::new(0) }; N])).collect())
    }
}

impl<const N: usize> Lanes<N> {
    /// Adds `more` to counter `index`.
    #[inline]
    pub(crate) fn add(&self, seat: Seat, index: usize, more: u64) {
        let counter = &self.0[seat.lane].0[index];
        if seat.is_own {
            // Nobody else writes here: no locked instruction is needed.
            counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
        } else {
            counter.fetch_add(more, Relaxed);
        }
    }

    /// The sum of counter `index` over all threads.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        self.0.iter().fold(0, |sum, lane| sum.wrapping_add(lane.0[index].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_seats_lose_no_count() {
        let lanes = Lanes::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..own_lanes() + 5 {
                scope.spawn(|| (0..1_000).for_each(|_| lanes.add(Seat::here(), 1, 2)));
            }
        });
        assert_eq!(lanes.sum(0), 0);
        assert_eq!(lanes.sum(1), 2_000 * (own_lanes() as u64 + 5));
    }

    #[test]
    fn a_seat_is_used_again_when_its_thread_has_ended() {
        for _ in 0..own_lanes() * 3 {
            let seat = std::thread::spawn(Seat::here).join().expect("no panic");
            assert!(seat.lane <= own_lanes());
        }
    }
}
