//! A limiter's [`Answer`](tollgate_limiter::Answer) in the form that HTTP clients read, on every surface that
//! speaks HTTP.
//!
//! [`limits`] are the limits that header fields list (`tollgate_headers::write`), [`write_json`] the decision
//! as JSON, [`denial`] the status, the fields and the body of the reply to a denied client; [`preview`] makes
//! that reply without a request. Not here: the fields' own form (`headers`), HTTP itself.

mod denial;
mod json;
mod limits;

pub use denial::{Denial, DenialStatus, Preview, denial, preview};
pub use json::{millis, reset_millis, retry_millis, write_json};
pub use limits::{Limits, limits, mark_degraded, mark_excess, shown};
