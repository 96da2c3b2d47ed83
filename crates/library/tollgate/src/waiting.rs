//! Waiting for permits: first in, first out per key, without polling.
//!
//! A bucket promises permits that are not there yet. A waiter reserves them when it comes: they are owed in
//! the state from then on, so no check overtakes it, and a deadline that cannot be met is known at once. A
//! window promises nothing: its line is [`plan`]ned, and checks look for such a line.
//!
//! [`queue`] keeps the waiters of each key in order. Only the first waiter of a key has a time to be woken
//! at: its turn comes once all permits owed are there, except those of the waiters behind it. A waiter that
//! leaves gives its permits back, and those behind it have their turns earlier. Their turns are worked out
//! when they are first, so leaving costs the same anywhere in the queue.
//!
//! Asynchronous waiters share one task with one timer ([`driver`]), which lives while some of them wait. A
//! waiting thread parks until its own turn, and then also serves the waiters before it, so that it depends on
//! no runtime.
#![cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "there are no tasks to wake"))]

pub(crate) mod acquire;
#[cfg(feature = "tokio")]
pub(crate) mod driver;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod shared;
pub(crate) mod this_thread;
pub(crate) mod waiter;
