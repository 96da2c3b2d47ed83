//! What the surface counts of what it is asked. Connections are counted by `net`, decisions by rule by the limiter.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Threads beyond so many share counters again.
const LANES: usize = 16;

/// Counters of one surface; each only grows, but for what is told otherwise. Read them at any time, from any thread.
#[derive(Debug, Default)]
pub struct Figures {
    lanes: [Lane; LANES],
    pub(crate) clients: AtomicUsize,
    pub(crate) buffered: AtomicUsize,
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) wrong_passwords: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
    pub(crate) slow_writers: AtomicU64,
    pub(crate) idle: AtomicU64,
    pub(crate) over_budget: AtomicU64,
}

/// What the threads that have it count; on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    commands: AtomicU64,
    admitted: AtomicU64,
    denied: AtomicU64,
}

/// What one turn of one connection has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) commands: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
}

impl Turn {
    /// Counts a decision.
    #[inline]
    pub(crate) fn count(&mut self, is_admitted: bool) {
        self.admitted += u64::from(is_admitted);
        self.denied += u64::from(!is_admitted);
    }
}

impl Figures {
    /// Commands answered.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.sum(|lane| &lane.commands)
    }

    /// Decisions that let pass.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.sum(|lane| &lane.admitted)
    }

    /// Decisions that did not.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.sum(|lane| &lane.denied)
    }

    /// Connections being served now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Bytes of commands half arrived now; see [`RespSettings::max_buffered_bytes`](crate::RespSettings::max_buffered_bytes).
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffered.load(Relaxed)
    }

    /// Connections closed because they did not speak the protocol, or went past one of its caps.
    #[must_use]
    pub fn protocol_errors(&self) -> u64 {
        self.protocol_errors.load(Relaxed)
    }

    /// Wrong passwords given.
    #[must_use]
    pub fn wrong_passwords(&self) -> u64 {
        self.wrong_passwords.load(Relaxed)
    }

    /// Connections closed because they did not take their replies in time.
    #[must_use]
    pub fn slow_readers(&self) -> u64 {
        self.slow_readers.load(Relaxed)
    }

    /// Connections closed because a command did not arrive whole in time.
    #[must_use]
    pub fn slow_writers(&self) -> u64 {
        self.slow_writers.load(Relaxed)
    }

    /// Connections closed because they asked nothing for too long.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.idle.load(Relaxed)
    }

    /// Connections closed because all half commands together were too large.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Relaxed)
    }

    pub(crate) fn count(&self, turn: Turn) {
        let lane = &self.lanes[here()];
        for (count, more) in
            [(&lane.commands, turn.commands), (&lane.admitted, turn.admitted), (&lane.denied, turn.denied)]
        {
            if more > 0 {
                count.fetch_add(more, Relaxed);
            }
        }
    }

    fn sum(&self, count: impl Fn(&Lane) -> &AtomicU64) -> u64 {
        self.lanes.iter().map(|lane| count(lane).load(Relaxed)).sum()
    }
}

/// The lane of this thread.
fn here() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static LANE: Cell<Option<usize>> = const { Cell::new(None) });
    LANE.get().unwrap_or_else(|| {
        let lane = NEXT.fetch_add(1, Relaxed) % LANES;
        LANE.set(Some(lane));
        lane
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_are_read_together() {
        let figures = Figures::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| figures.count(Turn { commands: 3, admitted: 2, denied: 1 }));
            }
        });
        assert_eq!((figures.commands(), figures.admitted(), figures.denied()), (60, 40, 20));
    }
}
