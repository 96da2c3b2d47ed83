//! Counters of the surface. Not here: connections (`net`) and decisions by rule (`limiter`).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Threads that count apart; further ones share counters with these.
const SHARDS: usize = 16;

/// Counters of one surface. Each only grows, except numbers of current connections. They can be read at any
/// time, from any thread.
#[derive(Debug, Default)]
pub struct Stats {
    shards: [Shard; SHARDS],
    pub(crate) clients: AtomicUsize,
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
    pub(crate) slow_writers: AtomicU64,
    pub(crate) idle: AtomicU64,
    pub(crate) over_budget: AtomicU64,
}

/// Counters of some threads, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    commands: AtomicU64,
    admitted: AtomicU64,
    denied: AtomicU64,
}

/// Counts of a turn that are not yet added to [`Stats`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commands: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.commands += more.commands;
        self.admitted += more.admitted;
        self.denied += more.denied;
    }
}

impl Counts {
    /// Counts a decision.
    #[inline]
    pub(crate) fn count(&mut self, is_admitted: bool) {
        self.admitted += u64::from(is_admitted);
        self.denied += u64::from(!is_admitted);
    }
}

impl Stats {
    /// Number of commands answered, over all connections.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.sum(|shard| &shard.commands)
    }

    /// Decisions that admitted.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.sum(|shard| &shard.admitted)
    }

    /// Decisions that denied.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.sum(|shard| &shard.denied)
    }

    /// Connections being served now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Connections closed because they broke the protocol or exceeded one of its caps.
    #[must_use]
    pub fn protocol_errors(&self) -> u64 {
        self.protocol_errors.load(Relaxed)
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

    /// Connections closed because they sent no command for too long.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.idle.load(Relaxed)
    }

    /// Connections closed because the partial commands, or the replies that clients do not take, of all
    /// connections together were too large.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Relaxed)
    }

    pub(crate) fn add(&self, counts: Counts) {
        let shard = &self.shards[here()];
        for (count, more) in [
            (&shard.commands, counts.commands),
            (&shard.admitted, counts.admitted),
            (&shard.denied, counts.denied),
        ] {
            if more > 0 {
                count.fetch_add(more, Relaxed);
            }
        }
    }

    fn sum(&self, count: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| count(shard).load(Relaxed)).sum()
    }
}

/// The shard of the current thread.
fn here() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: Cell<Option<usize>> = const { Cell::new(None) });
    SHARD.get().unwrap_or_else(|| {
        let shard = NEXT.fetch_add(1, Relaxed) % SHARDS;
        SHARD.set(Some(shard));
        shard
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_are_summed_when_read() {
        let stats = Stats::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| stats.add(Counts { commands: 3, admitted: 2, denied: 1 }));
            }
        });
        assert_eq!((stats.commands(), stats.admitted(), stats.denied()), (60, 40, 20));
    }
}
