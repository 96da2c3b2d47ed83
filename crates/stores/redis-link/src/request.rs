//! The units that wait and travel: items in a queue, requests in a flight, and the callers behind both. Not
//! here: the contents of a request.

use std::fmt::Debug;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_store::remote::Failure;

use crate::script::Script;

/// A caller that waits for an answer, until a deadline.
#[derive(Debug)]
pub struct Waiter<T> {
    to: oneshot::Sender<Result<T, Failure>>,
    deadline: Instant,
}

impl<T> Waiter<T> {
    /// A waiter that gets its answer through `to`, until `deadline`.
    #[must_use]
    pub const fn new(to: oneshot::Sender<Result<T, Failure>>, deadline: Instant) -> Self {
        Self { to, deadline }
    }

    /// The instant until which the caller waits.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The same while it still waits; `None` once it is gone.
    #[must_use]
    pub fn waits_until(&self) -> Option<Instant> {
        (!self.to.is_closed()).then_some(self.deadline)
    }

    /// Answers the caller. Does nothing if it is gone.
    pub fn answer(self, answer: Result<T, Failure>) {
        self.to.send(answer).ok();
    }

    /// Fails the caller if `which` is true of its deadline.
    pub fn fail_where(
        waiter: &mut Option<Self>,
        which: impl FnOnce(Instant) -> bool,
        failure: impl FnOnce(Instant) -> Failure,
    ) {
        if let Some(waiter) = waiter.take_if(|waiter| which(waiter.deadline)) {
            let failure = failure(waiter.deadline);
            waiter.answer(Err(failure));
        }
    }
}

/// One caller's call, which waits in a queue.
pub trait Item: Debug + Send + 'static {
    /// The instant until which its caller waits.
    fn deadline(&self) -> Instant;
    /// The same while its caller still waits; `None` once it is gone.
    fn waits_until(&self) -> Option<Instant>;
    /// Answers its caller with a failure.
    fn fail(self, failure: Failure);
}

/// One request of a flight: made of one item or more, sent by one command or a part of one.
pub trait Request: Debug + Send + 'static {
    /// Requests that may share a command are neighbours when they are sorted by this.
    type Order: Ord;

    /// Sort key within a flight: see [`Request::Order`].
    fn order(&self) -> Self::Order;
    /// Whether it may share its command with others.
    fn shares_a_command(&self) -> bool;
    /// When the first caller that waits for it gives up; `None` when no caller waits.
    fn waits_until(&self) -> Option<Instant>;
    /// Fails the callers of whose deadline `which` is true.
    fn fail_where(&mut self, which: impl Fn(Instant) -> bool, failure: impl FnMut(Instant) -> Failure);
    /// The script that its command calls.
    fn script(&self) -> Option<&'static Script>;
    /// The message for a key that holds a value of another type.
    fn wrong_type(&self) -> String;

    /// Fails all callers that wait.
    fn fail(&mut self, mut failure: impl FnMut() -> Failure) {
        self.fail_where(|_| true, |_| failure());
    }
}

/// A request on its way, and its detours so far.
#[derive(Debug)]
pub struct Planned<R> {
    /// The request, with the callers that wait for it.
    pub request: R,
    /// Times that it was sent and had to be sent again: unknown scripts, other nodes.
    pub(crate) detours: u32,
    /// The node takes it only as an exception (ASK).
    pub(crate) asking: bool,
}

impl<R> Planned<R> {
    /// A request that has not been sent yet.
    #[must_use]
    pub const fn new(request: R) -> Self {
        Self { request, detours: 0, asking: false }
    }
}
