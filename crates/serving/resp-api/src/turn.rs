//! One turn of a connection: the commands that arrived together, and the state that answers them.

use std::net::IpAddr;

use tollgate_core::Timestamp;
use tollgate_limiter::Limiter;
use tollgate_net::Presence;
use tollgate_store::Store;

use crate::context::Context;
use crate::reply::ReplyWriter;
use crate::stats::Counts;

/// State that every command of a turn uses.
pub(crate) struct Turn<'a, S: Store> {
    pub(crate) context: &'a Context<S>,
    /// Where the client is.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it is still there.
    pub(crate) presence: &'a Presence,
    /// When the commands arrived.
    pub(crate) now: Timestamp,
    pub(crate) reply: ReplyWriter<'a>,
    /// Counts that are not reported yet.
    pub(crate) counts: Counts,
}

/// Result of offering a decision to a batch.
#[derive(Debug)]
pub(crate) enum Pushed {
    /// It will be made with the batch.
    Added,
    /// The batch has to be decided first; then offer it again.
    Full,
    /// The command is invalid, with this reply.
    Invalid(String),
}

impl<'a, S: Store> Turn<'a, S> {
    #[inline]
    pub(crate) fn limiter(&self) -> &'a Limiter<S> {
        &self.context.limiter
    }

    /// Adds what has been done to the counters and metrics.
    pub(crate) fn report(&mut self) {
        self.context.report(std::mem::take(&mut self.counts), self.now);
    }
}
