//! Parts common to pages and API: the visit and its user, the guard against other sites, outcomes, failures.

mod failure;
mod guard;
mod outcome;
mod visit;

pub(crate) use failure::Failure;
pub(crate) use guard::check;
pub(crate) use outcome::{Outcome, status_of, unless_stale};
pub(crate) use visit::{Visit, encoded, make_cookie, query_of, redirect, zone_of};
