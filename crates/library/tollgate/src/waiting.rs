//! Waiting for permits: first in, first out per key, without polling.
//!
//! A bucket promises permits that are not there yet. A waiter for them reserves them when it comes: they are
//! owed in the state from then on, so no check overtakes it, and a deadline that cannot be met is known at
//! once. A window promises nothing: a line for it is [`plan`]ned, and checks look whether there is one.
//!
//! [`queue`] keeps the waiters of each key in order. Only the first of a key has a time to be woken at: its
//! turn comes once the permits are there that were owed before those of the waiters behind it. A waiter that
//! leaves gives its permits back, and the turn of those behind it comes as much earlier; that is worked out
//! when they are first, so leaving costs the same wherever in the queue it happens.
//!
//! Asynchronous waiters share one task with one timer ([`driver`]), which lives while some of them wait. A
//! thread that waits parks until its own turn, and then also serves those before it, so that it depends on no
//! runtime.
#![cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "there are no tasks to wake"))]

pub(crate) mod acquire;
#[cfg(feature = "tokio")]
pub(crate) mod driver;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod shared;
pub(crate) mod this_thread;
