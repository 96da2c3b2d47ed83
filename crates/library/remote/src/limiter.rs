//! One key of one domain, with the calls of the library.

use std::time::Duration;

use tollgate::{KeyedRateLimiter, Quota, QuotaError, RateLimiter};

use crate::answer::{Answer, DecidedBy};
use crate::error::RemoteError;
use crate::question::Question;
use crate::service::Service;

/// Choice for decisions while the service does not answer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The caller, who gets the error.
    #[default]
    Error,
    /// Everything is admitted.
    Allow,
    /// Everything is denied, for a second.
    Deny,
    /// This program's own counters, by this quota for each value.
    Local(Quota),
}

#[derive(Clone, Debug)]
enum Failing {
    Error,
    Allow,
    Deny,
    Local(KeyedRateLimiter<str>),
}

/// The shortest wait between two questions.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Wait that a denial reports while the service does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// The limits of a service on one key, such as `api_key`; each of its values has counters of its own, which
/// all clients of the service share. Clones are cheap.
#[derive(Clone, Debug)]
pub struct RemoteRateLimiter {
    service: Service,
    domain: Box<str>,
    key: Box<str>,
    failing: Failing,
}

/// Why there were no permits to wait for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// They are not there in time; this is known before the wait, and nothing was taken.
    #[error("the permits are not there in time; retry in {retry_after:?}")]
    TooLong {
        /// When a retry may pass.
        retry_after: Duration,
    },
    /// The rule admits the call, but only after the deadline. Its permits are used.
    #[error("the rule admits the call only in {delay:?}, after the deadline; its permits are used")]
    DelayedTooLong {
        /// Delay after which it may act.
        delay: Duration,
    },
    /// The rule can never give that many permits.
    #[error("no wait helps: the rule never gives that many permits")]
    NeverFits,
    /// The service did not answer.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl Service {
    /// The limits of one domain on one key, such as `api_key`.
    #[must_use]
    pub fn limiter(&self, domain: &str, key: &str) -> RemoteRateLimiter {
        RemoteRateLimiter {
            service: self.clone(),
            domain: domain.into(),
            key: key.into(),
            failing: Failing::Error,
        }
    }
}

impl RemoteRateLimiter {
    /// Sets the choice for decisions while the service does not answer; [`OnFailure::Error`] if nothing is
    /// set. A question that the service rejects is always an error.
    ///
    /// # Errors
    /// [`QuotaError`]: a number of the local quota is out of its bounds.
    pub fn on_failure(mut self, decides: OnFailure) -> Result<Self, QuotaError> {
        self.failing = match decides {
            OnFailure::Error => Failing::Error,
            OnFailure::Allow => Failing::Allow,
            OnFailure::Deny => Failing::Deny,
            OnFailure::Local(quota) => Failing::Local(RateLimiter::keyed(quota)?),
        };
        Ok(self)
    }

    /// Takes one permit of `value` if it has one.
    ///
    /// # Errors
    /// [`RemoteError`] says whether the permit may have been taken; a denial is not an error.
    pub async fn check(&self, value: &str) -> Result<Answer, RemoteError> {
        self.check_n(value, 1).await
    }

    /// Takes `n` permits of `value` if it has all of them. 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// As [`RemoteRateLimiter::check`].
    pub async fn check_n(&self, value: &str, n: u64) -> Result<Answer, RemoteError> {
        let entries = [(&*self.key, value)];
        let question = self.question(&entries, n, Duration::ZERO);
        match self.service.ask_within(&question, self.service.usual()).await {
            Err(RemoteError::Rejected { status, detail }) => Err(RemoteError::Rejected { status, detail }),
            Err(error) => self.without_service(value, n, error),
            answer => answer,
        }
    }

    /// Counts `n` permits of `value` that are used already, in full, whether they are there or not.
    ///
    /// # Errors
    /// [`RemoteError`], also with [`OnFailure::Allow`] and [`OnFailure::Deny`]: the permits are not counted
    /// then, and may be reported again. [`OnFailure::Local`] counts them in this program.
    pub async fn consume(&self, value: &str, n: u64) -> Result<Answer, RemoteError> {
        let counted = self.service.consume(&self.domain, &[(&*self.key, value)], n).await;
        match (counted, &self.failing) {
            (Err(RemoteError::Rejected { status, detail }), _) => {
                Err(RemoteError::Rejected { status, detail })
            }
            (Err(_), Failing::Local(limiter)) => {
                limiter.penalise(value, n);
                Ok(of_failure(true, Some(Duration::ZERO)))
            }
            (counted, _) => counted,
        }
    }

    /// Asks for permits. If the rule queues, it holds a place at the service for at most `left`.
    async fn wait(&self, value: &str, n: u64, left: Duration) -> Result<Answer, RemoteError> {
        // The service has to answer before the caller stops listening.
        let max_wait = left.saturating_sub(self.service.usual().min(left / 2));
        let entries = [(&*self.key, value)];
        let question = self.question(&entries, n, max_wait);
        match self.service.ask_within(&question, left).await {
            Err(RemoteError::Rejected { status, detail }) => Err(RemoteError::Rejected { status, detail }),
            // A timeout this short says nothing about the service.
            Err(error @ (RemoteError::NotSent { .. } | RemoteError::NoAnswer { .. }))
                if left <= self.service.usual() =>
            {
                Err(error)
            }
            Err(error) => self.without_service(value, n, error),
            answer => answer,
        }
    }

    fn question<'a>(
        &'a self,
        entries: &'a [(&'a str, &'a str)],
        hits: u64,
        max_wait: Duration,
    ) -> Question<'a> {
        Question { domain: &self.domain, entries, hits, is_consumed: false, max_wait }
    }

    /// Permits that `value` has left; takes nothing.
    ///
    /// # Errors
    /// As [`RemoteRateLimiter::check`].
    pub async fn peek(&self, value: &str) -> Result<Answer, RemoteError> {
        self.check_n(value, 0).await
    }

    /// Waits for up to `timeout` until `n` permits of `value` are taken; returns the time that it waited.
    ///
    /// A call of a rule with `on_limit: queue` holds its place in the line of the service, for at most
    /// `timeout` less the time of an answer (the [deadline](Service::deadline), or half of a shorter
    /// timeout). Without a queue it waits here and asks again, and other callers may be faster. Over HTTP at
    /// most 64 calls hold places; the others wait as without a queue. Over gRPC a call that is dropped leaves
    /// its place; over HTTP it keeps it until its turn, and uses its permits, or until its timeout.
    ///
    /// # Errors
    /// [`AcquireError`]; nothing was taken, unless the error says otherwise.
    pub async fn acquire(&self, value: &str, n: u64, timeout: Duration) -> Result<Duration, AcquireError> {
        let began = tokio::time::Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            let answer = self.wait(value, n, left).await?;
            let left = timeout.saturating_sub(began.elapsed());
            if answer.is_admitted {
                if answer.delay > left {
                    return Err(AcquireError::DelayedTooLong { delay: answer.delay });
                }
                tokio::time::sleep(answer.delay).await;
                return Ok(began.elapsed());
            }
            // Never without a pause: the service would be flooded.
            let wait = answer.retry_after.ok_or(AcquireError::NeverFits)?.max(SHORTEST_WAIT);
            if wait > left {
                return Err(AcquireError::TooLong { retry_after: wait });
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn without_service(&self, value: &str, n: u64, error: RemoteError) -> Result<Answer, RemoteError> {
        match &self.failing {
            Failing::Error => Err(error),
            Failing::Allow => Ok(of_failure(true, Some(Duration::ZERO))),
            Failing::Deny => Ok(of_failure(false, Some(RETRY))),
            Failing::Local(limiter) => Ok(match limiter.check_n(value, n) {
                Ok(admitted) => Answer { delay: admitted.delay(), ..of_failure(true, Some(Duration::ZERO)) },
                Err(denied) => of_failure(false, denied.retry_after()),
            }),
        }
    }
}

/// The answer of this program, while the service does not answer.
const fn of_failure(is_admitted: bool, retry_after: Option<Duration>) -> Answer {
    Answer {
        is_admitted,
        limit: None,
        remaining: None,
        owed: 0,
        delay: Duration::ZERO,
        retry_after,
        rule: None,
        decided_by: DecidedBy::OnFailure,
    }
}
