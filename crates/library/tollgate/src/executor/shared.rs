//! State that an executor and the task that drives it share.
//!
//! Jobs are dropped, failed and run outside of the lock: they run code of the caller.

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tollgate_core::{Clock, Timestamp};

use super::error::{JobError, SubmitError};
use super::job::Job;
use super::line::JobQueue;
use crate::direct::RateLimiter;
use crate::tokio_clock::TokioClock;

/// Numbers of jobs of an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that ran to their end.
    pub done: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs whose turn did not come in time.
    pub expired: u64,
    /// Jobs that waited when the executor was shut down.
    pub discarded: u64,
    /// Jobs that were not taken, since too many waited.
    pub rejected: u64,
}

/// Whether jobs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more jobs are taken; waiting jobs leave at the rate.
    Draining,
    Closed,
}

pub(super) struct ExecutorCore {
    state: Mutex<ExecutorState>,
    /// For the driver: a job came, a worker is free, or the phase changed.
    pub(super) changed: Notify,
    /// True once no job waits or runs, and none will.
    pub(super) ended: watch::Sender<bool>,
    pub(super) limiter: RateLimiter<TokioClock>,
    pub(super) clock: TokioClock,
    batch: usize,
    workers: usize,
}

struct ExecutorState {
    line: JobQueue<Box<dyn Job>>,
    phase: Phase,
    /// Numbers of jobs except those that wait.
    stats: ExecutorStats,
}

/// Work that the driver may do.
pub(super) struct Look {
    /// Jobs that could leave together.
    pub(super) ready: usize,
    /// When the next job expires.
    pub(super) deadline: Option<Timestamp>,
    /// Nothing is left to be done.
    pub(super) is_over: bool,
}

/// Most jobs at once.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Jobs that leave in one turn.
    pub(super) batch: usize,
    /// Jobs that run.
    pub(super) workers: usize,
}

impl ExecutorCore {
    pub(super) fn new(
        line: JobQueue<Box<dyn Job>>,
        limiter: RateLimiter<TokioClock>,
        clock: TokioClock,
        bounds: Bounds,
    ) -> Self {
        let state = ExecutorState { line, phase: Phase::Open, stats: ExecutorStats::default() };
        let changed = Notify::new();
        let ended = watch::Sender::new(false);
        let Bounds { batch, workers } = bounds;
        Self { state: Mutex::new(state), changed, ended, limiter, clock, batch, workers }
    }

    pub(super) fn submit(&self, job: Box<dyn Job>) -> Result<(), SubmitError> {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return Err(SubmitError::ShutDown); // `job` is dropped after the lock
        }
        let now = self.clock.now(); // under the lock: jobs are in the order of time
        if let Err(job) = state.line.push(job, now) {
            state.stats.rejected += 1;
            let capacity = state.line.capacity;
            drop(state);
            drop(job);
            return Err(SubmitError::Full { capacity });
        }
        // If other jobs wait, the driver has a turn for them already, or waits for a worker.
        let is_first = state.line.len() == 1;
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Up to `most` jobs whose turn it is; they count as running.
    pub(super) fn take(&self, most: usize, now: Timestamp) -> Vec<Box<dyn Job>> {
        let _any = self.expire(now);
        let mut state = self.state.lock();
        let most = most.min(self.workers.saturating_sub(state.stats.running));
        let jobs: Vec<_> = std::iter::from_fn(|| state.line.pop()).take(most).collect();
        state.stats.running += jobs.len();
        jobs
    }

    /// Ends the jobs whose deadline is before `now`; returns whether there were any.
    pub(super) fn expire(&self, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        let late: Vec<_> = std::iter::from_fn(|| state.line.pop_late(now)).collect();
        state.stats.expired += late.len() as u64;
        let max_wait = state.line.max_wait.unwrap_or_default();
        drop(state);
        let any = !late.is_empty();
        late.into_iter().for_each(|job| job.fail(JobError::Expired { max_wait }));
        any
    }

    /// Ends the jobs whose deadline is before `now`, and returns the remaining work.
    pub(super) fn look(&self, now: Timestamp) -> Look {
        let _any = self.expire(now);
        let state = self.state.lock();
        let free = self.workers.saturating_sub(state.stats.running);
        let waiting = state.line.len();
        let deadline = state.line.deadline();
        let is_over = state.phase != Phase::Open && waiting == 0;
        Look { ready: waiting.min(self.batch).min(free), deadline, is_over }
    }

    /// A job has ended. `is_panic` is unknown if its task was dropped.
    pub(super) fn leave(&self, is_panic: Option<bool>) {
        let mut state = self.state.lock();
        let was_full = state.stats.running >= self.workers;
        state.stats.running -= 1;
        state.stats.done += u64::from(is_panic == Some(false));
        state.stats.panicked += u64::from(is_panic == Some(true));
        let is_over = state.is_over();
        drop(state);
        if was_full {
            self.changed.notify_one();
        }
        if is_over {
            self.ended.send_replace(true);
        }
    }

    /// Takes no more jobs. Waiting jobs are discarded, unless they are to leave in their turn.
    pub(super) fn close(&self, drains: bool) {
        let mut state = self.state.lock();
        let phase = if drains && state.phase != Phase::Closed { Phase::Draining } else { Phase::Closed };
        state.phase = phase;
        let discarded: Vec<_> = if drains { Vec::new() } else { state.line.drain().collect() };
        state.stats.discarded += discarded.len() as u64;
        drop(state);
        discarded.into_iter().for_each(|job| job.fail(JobError::ShutDown));
        self.changed.notify_one();
        if self.state.lock().is_over() {
            self.ended.send_replace(true);
        }
    }

    pub(super) fn stats(&self) -> ExecutorStats {
        let state = self.state.lock();
        ExecutorStats { waiting: state.line.len(), ..state.stats }
    }
}

impl ExecutorState {
    fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.line.len() == 0 && self.stats.running == 0
    }
}
