//! A job, and the ticket of its result.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::error::JobError;

/// The result of a job that waits or runs. Dropped, the job still runs when its turn comes.
#[derive(Debug)]
#[must_use = "await it for the result, or drop it to let the job run by itself"]
pub struct Ticket<T> {
    result: oneshot::Receiver<Result<T, JobError>>,
}

impl<T> Ticket<T> {
    /// Waits for the result on this thread. Panics within a task, as tokio's blocking calls do.
    ///
    /// # Errors
    /// [`JobError`] says why the job has no result, and whether it has run.
    pub fn blocking_wait(self) -> Result<T, JobError> {
        self.result.blocking_recv().unwrap_or(Err(JobError::Lost))
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.result).poll(context));
        Poll::Ready(result.unwrap_or(Err(JobError::Lost)))
    }
}

/// A job that has not run yet.
pub(super) trait Job: Send {
    /// Runs the job, and gives its result to its ticket. Returns whether the job panicked.
    fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// Ends the ticket with the reason why the job will never run.
    fn fail(self: Box<Self>, error: JobError);
}

struct Pending<F: Future> {
    job: F,
    tell: oneshot::Sender<Result<F::Output, JobError>>,
}

/// A job with its ticket.
pub(super) fn pending<F>(job: F) -> (Box<dyn Job>, Ticket<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (tell, result) = oneshot::channel();
    (Box::new(Pending { job, tell }), Ticket { result })
}

impl<F> Job for Pending<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let Self { job, tell } = *self;
        let job = Catches(Box::pin(job));
        Box::pin(async move {
            let result = job.await;
            let is_panic = result.is_err();
            let _nobody_waits = tell.send(result);
            is_panic
        })
    }

    fn fail(self: Box<Self>, error: JobError) {
        let _nobody_waits = self.tell.send(Err(error));
    }
}

/// A future whose result may be its panic.
struct Catches<F>(Pin<Box<F>>);

impl<F: Future> Future for Catches<F> {
    type Output = Result<F::Output, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A job that has panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(JobError::panicked(&*payload))),
        }
    }
}
