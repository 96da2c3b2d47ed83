//! Work that is never left half done: charges that are given back unless all of them stay.
//!
//! A caller may leave at any await: a deadline passes, a connection closes. The charges made by then would
//! stay for ever if the work stopped there. Not here: the charges, and giving them back (each store).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tollgate_core::{Cost, Quota};

use crate::{Counter, Key, Origin, Payment, Sharing, Take};

/// Runs work to its end, also where its caller leaves: the rest of it then continues in a task of the
/// caller's runtime.
///
/// While the caller stays there is no task, only a box. Clones share the number of tasks.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// # use tollgate_store::remote::Finisher;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let finisher = Finisher::default();
/// let (said, received) = tokio::sync::oneshot::channel();
/// let work = async { tokio::time::sleep(Duration::from_millis(20)).await };
/// let left = finisher.run(work, move |()| async { said.send("finished").unwrap_or(()) });
/// assert!(tokio::time::timeout(Duration::from_millis(1), left).await.is_err());
/// assert_eq!(finisher.unfinished(), 1);
/// assert_eq!(received.await, Ok("finished"));
/// finisher.wait().await;
/// assert_eq!(finisher.unfinished(), 0);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Finisher {
    left: Arc<watch::Sender<usize>>,
}

impl Default for Finisher {
    fn default() -> Self {
        Self { left: Arc::new(watch::Sender::new(0)) }
    }
}

impl Finisher {
    /// Awaits `work`. Where this future is dropped after it was first polled, the rest of `work` continues in
    /// a task, and then `abandoned` gets its result.
    ///
    /// The rest is lost only with its runtime, or where there is no runtime.
    pub async fn run<W, U, R>(&self, work: W, abandoned: U) -> W::Output
    where
        W: Future<Output: Send> + Send + 'static,
        U: FnOnce(W::Output) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::try_current().ok();
        let mut running =
            AttendedWork { parts: Some((Box::pin(work), abandoned)), runtime, left: &self.left };
        poll_fn(|cx| running.poll(cx)).await
    }

    /// The number of calls that are now finished in tasks of their own.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        *self.left.borrow()
    }

    /// Waits until nothing is unfinished, as before a runtime ends.
    pub async fn wait(&self) {
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await; // the sender lives as long as `self`
    }
}

/// Work whose caller still waits.
struct AttendedWork<'a, W, U, R>
where
    W: Future<Output: Send> + Send + 'static,
    U: FnOnce(W::Output) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    /// `None` when the work is done, or has panicked.
    parts: Option<(Pin<Box<W>>, U)>,
    runtime: Option<Handle>,
    left: &'a Arc<watch::Sender<usize>>,
}

impl<W, U, R> AttendedWork<'_, W, U, R>
where
    W: Future<Output: Send> + Send + 'static,
    U: FnOnce(W::Output) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<W::Output> {
        let Some((mut work, abandoned)) = self.parts.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.parts = Some((work, abandoned));
        }
        polled
    }
}

impl<W, U, R> Drop for AttendedWork<'_, W, U, R>
where
    W: Future<Output: Send> + Send + 'static,
    U: FnOnce(W::Output) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    fn drop(&mut self) {
        if let (Some((work, abandoned)), Some(runtime)) = (self.parts.take(), &self.runtime) {
            let place = UnfinishedGuard::new(self.left);
            runtime.spawn(async move {
                let _place = place;
                abandoned(work.await).await;
            });
        }
    }
}

/// One among the unfinished, until it is dropped.
struct UnfinishedGuard(Arc<watch::Sender<usize>>);

impl UnfinishedGuard {
    fn new(left: &Arc<watch::Sender<usize>>) -> Self {
        left.send_modify(|left| *left += 1);
        Self(Arc::clone(left))
    }
}

impl Drop for UnfinishedGuard {
    fn drop(&mut self) {
        self.0.send_modify(|left| *left -= 1);
    }
}

/// A batch that outlives its caller.
#[derive(Debug)]
pub struct OwnBatch(Vec<OwnTake>);

#[derive(Debug)]
struct OwnTake {
    key: Vec<u8>,
    quota: Quota,
    sharing: Sharing,
    origin: Origin,
    cost: Cost,
    payment: Payment,
}

impl OwnTake {
    fn of(&Take { counter: Counter { key, quota, sharing, origin }, cost, payment }: &Take<'_>) -> Self {
        Self { key: key.0.to_vec(), quota: quota.clone(), sharing, origin, cost, payment }
    }

    fn take(&self) -> Take<'_> {
        let counter = Counter::new(Key(&self.key), &self.quota).shared(self.sharing);
        Take { counter: counter.from_origin(self.origin), cost: self.cost, payment: self.payment }
    }
}

impl OwnBatch {
    /// A copy of these takes.
    pub fn of<'a>(takes: impl IntoIterator<Item = &'a Take<'a>>) -> Self {
        Self(takes.into_iter().map(OwnTake::of).collect())
    }

    /// The takes, in their order.
    #[must_use]
    pub fn takes(&self) -> Vec<Take<'_>> {
        self.0.iter().map(OwnTake::take).collect()
    }
}
