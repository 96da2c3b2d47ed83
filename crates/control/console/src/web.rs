//! What pages and API share: the visit, who makes it, what may be asked from where, and failures.

mod failure;
mod guard;
mod visit;

pub(crate) use failure::Failure;
pub(crate) use guard::check;
pub(crate) use visit::{Visit, cookie, encoded, query_of, redirect, zone_of};
