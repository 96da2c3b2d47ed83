//! A queue whose jobs leave at a constant rate.

mod driver;
mod error;
mod job;
mod line;
mod shared;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use self::driver::drive;
pub use self::error::{JobError, StartError, SubmitError};
pub use self::job::Ticket;
use self::job::pending;
use self::line::JobQueue;
pub use self::line::Order;
pub use self::shared::ExecutorStats;
use self::shared::{Bounds, ExecutorCore};
use crate::direct::RateLimiter;
use crate::quota::Quota;
use crate::tokio_clock::TokioClock;

/// Runs jobs at a constant rate, whatever the rate at which they come: a leaky bucket with workers behind it.
/// Jobs wait in a queue that is bounded; a full queue rejects.
///
/// It suits evenly spaced calls of a third party, mails and orders. In any span `t` the turns of at most
/// `batch + rate · t` jobs come, and exactly `rate · t` while jobs wait. No job leaves before its turn.
/// Timers of tokio have a resolution of a millisecond, so that is how late a job may leave on an idle
/// machine. That does not delay the next one, unless it is later than the time of a batch: turns missed in
/// this way are lost, and never made up for by a burst.
///
/// A job that panics ends with an error, and the others run. When all clones are dropped, the jobs that wait
/// are discarded, as by [`shutdown`](Self::shutdown); those that run are not stopped.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::LeakyExecutor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let partner = LeakyExecutor::builder(100, Duration::from_secs(1)).capacity(50).start()?;
/// let began = tokio::time::Instant::now();
/// let replies: Vec<_> = (0..4_u64)
///     .map(|number| partner.submit(async move { number * number })) // call the partner
///     .collect::<Result<_, _>>()?;
/// for (number, reply) in (0..).zip(replies) {
///     assert_eq!(reply.await?, number * number);
/// }
/// assert_eq!(began.elapsed(), Duration::from_millis(30)); // one every 10 ms, the first at once
/// assert_eq!(partner.drain().await.done, 4);
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct LeakyExecutor {
    handle: Arc<Closes>,
}

/// Handle that all clones hold; the last one to go closes.
struct Closes(Arc<ExecutorCore>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.close(false);
    }
}

impl fmt::Debug for LeakyExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyExecutor").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The settings of a [`LeakyExecutor`].
///
/// | setting | default |
/// |---|---|
/// | [`batch`](Self::batch) | 1, or what comes in 10 ms |
/// | [`capacity`](Self::capacity) | 1,000 |
/// | [`workers`](Self::workers) | 1,000 |
/// | [`order`](Self::order) | [`Order::Fifo`] |
/// | [`max_wait`](Self::max_wait) | none |
#[derive(Clone, Debug)]
#[must_use = "an executor begins with `start`"]
pub struct LeakyExecutorBuilder {
    rate: u64,
    per: Duration,
    batch: usize,
    capacity: usize,
    workers: usize,
    order: Order,
    max_wait: Option<Duration>,
}

impl LeakyExecutorBuilder {
    /// The most jobs that leave together: with 10 at a rate of 100 per second, ten every 100 ms while ten
    /// wait, and never more than ten after a pause. A high rate needs a batch: timers fire once a
    /// millisecond, and later on a busy machine.
    pub const fn batch(mut self, jobs: usize) -> Self {
        self.batch = jobs;
        self
    }

    /// The most jobs that may wait; more are rejected.
    pub const fn capacity(mut self, jobs: usize) -> Self {
        self.capacity = jobs;
        self
    }

    /// The most jobs that may run at the same time. While that number runs, no job leaves, and the turns that
    /// come meanwhile are lost, except for one batch.
    pub const fn workers(mut self, jobs: usize) -> Self {
        self.workers = jobs;
        self
    }

    /// Which job leaves next.
    pub const fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The longest that a job may wait. A job whose turn comes at that instant still runs. Otherwise the job
    /// ends then with [`JobError::Expired`], and uses no turn.
    pub const fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Starts the executor on the tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`StartError`] names the setting that is out of its bounds, or says that there is no runtime.
    pub fn start(self) -> Result<LeakyExecutor, StartError> {
        let Self { rate, per, batch, capacity, workers, order, max_wait } = self;
        for (setting, value) in [("capacity", capacity), ("workers", workers)] {
            if value == 0 {
                return Err(StartError::Zero { setting });
            }
        }
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let quota = Quota::token_bucket(rate, per).burst(batch as u64);
        let clock = TokioClock::new();
        let limiter = RateLimiter::direct_with_clock(quota, clock)?;
        let line = JobQueue::new(order, capacity, max_wait);
        let shared = Arc::new(ExecutorCore::new(line, limiter, clock, Bounds { batch, workers }));
        runtime.spawn(drive(Arc::clone(&shared)));
        Ok(LeakyExecutor { handle: Arc::new(Closes(shared)) })
    }
}

impl LeakyExecutor {
    /// An executor whose jobs leave at `rate` per `per`.
    pub fn builder(rate: u64, per: Duration) -> LeakyExecutorBuilder {
        let in_ten_ms = u128::from(rate) * 10_000_000 / per.as_nanos().max(1);
        let batch = usize::try_from(in_ten_ms).unwrap_or(usize::MAX).clamp(1, 1_000_000);
        let capacity = 1_000;
        let workers = 1_000;
        LeakyExecutorBuilder { rate, per, batch, capacity, workers, order: Order::Fifo, max_wait: None }
    }

    /// Adds a job, which runs at its turn, even if the ticket is dropped.
    ///
    /// # Errors
    /// [`SubmitError`] says why not. The job is dropped.
    pub fn submit<F>(&self, job: F) -> Result<Ticket<F::Output>, SubmitError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (job, ticket) = pending(job);
        self.handle.0.submit(job)?;
        Ok(ticket)
    }

    /// As [`submit`](Self::submit), for a function that blocks: it runs on tokio's threads for such.
    ///
    /// # Errors
    /// As there.
    pub fn submit_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Ticket<T>, SubmitError> {
        self.submit(async {
            match tokio::task::spawn_blocking(job).await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => std::panic::resume_unwind(payload),
                    Err(_) => std::future::pending().await, // the runtime shuts down
                },
            }
        })
    }

    /// Takes no more jobs, and waits until all waiting jobs have left in their turn and all jobs have ended.
    /// After that every ticket has its result. Dropping it changes nothing: the jobs still leave.
    ///
    /// For a bounded time, wrap it in `tokio::time::timeout`, and then call [`shutdown`](Self::shutdown).
    pub async fn drain(&self) -> ExecutorStats {
        self.handle.0.close(true);
        self.ended().await
    }

    /// Takes no more jobs, discards those that wait, and waits until those that run have ended. The tickets
    /// of the discarded get [`JobError::ShutDown`], and [`discarded`](ExecutorStats::discarded) counts them.
    pub async fn shutdown(&self) -> ExecutorStats {
        self.handle.0.close(false);
        self.ended().await
    }

    async fn ended(&self) -> ExecutorStats {
        let mut ended = self.handle.0.ended.subscribe();
        let _the_sender_is_ours = ended.wait_for(|ended| *ended).await;
        self.stats()
    }

    /// Numbers of jobs so far, and of jobs that wait and run.
    #[must_use]
    pub fn stats(&self) -> ExecutorStats {
        self.handle.0.stats()
    }
}
