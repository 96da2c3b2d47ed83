//! `WITHDEGRADED`, the last argument of a command that wants to know how its decision was made without the
//! store.
//!
//! Only a command with this option gets the extra element, so that no client meets a reply of an unknown
//! shape.

use tollgate_limiter::Degraded;

use crate::arguments::Arguments;
use crate::reply::ReplyWriter;

/// The arguments without the option, and whether it was there.
#[inline]
pub(crate) fn split_option(arguments: Arguments<'_>) -> (Arguments<'_>, bool) {
    arguments.split_option("withdegraded")
}

/// The extra element: how the decision was made without the store; null if the store made it.
pub(crate) fn write(degraded: Option<Degraded>, reply: &mut ReplyWriter<'_>) {
    match degraded {
        Some(degraded) => reply.bulk(degraded.name().as_bytes()),
        None => reply.null(),
    }
}
