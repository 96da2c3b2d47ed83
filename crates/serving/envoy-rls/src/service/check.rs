//! `tollgate.check.v1.CheckService`: decisions with exact times, for programs that ask by themselves.

mod lease;

use std::time::Duration;

use bytes::Bytes;
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_human_text::lossy;
use tollgate_limiter::{
    Answer, Degraded, Descriptor, Patience, Request, ReservationId, ReserveError, ReserveTerms, Scratch,
    SettleError,
};
use tollgate_store::Store;

use super::{Caller, REPLY_TIME, RateLimitService, no_rules, span};
use crate::body::{framed, parsed};
use crate::proto::check::{
    CheckRequest, CheckResponse, LeaseRequest, LeaseResponse, Offer, ReturnRequest, ReturnResponse,
};
use crate::proto::rls;
use crate::status::Status;

/// Methods of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Check,
    Lease,
    Return,
}

impl<S: Store> RateLimitService<S> {
    /// Answers one call, encoded and framed.
    pub(crate) async fn answer_check_call(
        &self,
        method: Method,
        message: Bytes,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Bytes, Status> {
        match method {
            Method::Check => self.check(message, caller, now).await,
            Method::Lease => self.lease(message, caller, now).await,
            Method::Return => {
                let ReturnRequest { id, used } = parsed(message)?;
                let returned = match self.limiter.commit(id_of(&id)?, Some(used), now).await {
                    Ok(settled) => settled.returned(),
                    Err(SettleError::Unknown) => 0,
                    Err(error) => return Err(Status::invalid(error.to_string())),
                };
                Ok(framed(&ReturnResponse { returned }))
            }
        }
    }

    /// Takes permits for a program to hand out, if the limit has plenty left afterwards.
    async fn lease(&self, message: Bytes, caller: &Caller, now: Timestamp) -> Result<Bytes, Status> {
        let LeaseRequest { domain, entries, permits } = parsed(message)?;
        let domain = lossy(&domain);
        let entries = self.entries(&entries)?;
        let descriptors = [Descriptor::new(&entries)];
        let request = Request { domain: &domain, descriptors: &descriptors, hits: permits };
        let trace = self.limiter.call_span(caller.surface, &domain, caller.traceparent());
        let terms = ReserveTerms { max_wait: Duration::ZERO, ttl: lease::LIFE };
        let mut scratch = Scratch::new();
        let reserved = match self.limiter.reserve(&request, terms, now, &mut scratch).await {
            Ok(reserved) => reserved,
            Err(ReserveError::Request(error)) => return Err(error.into()),
            // No room for it: the program asks for each permit.
            Err(_) => return Ok(framed(&LeaseResponse::default())),
        };
        if let Some(trace) = trace {
            reserved.answer.record(&trace);
        }
        self.latency.observe(self.now().since(now));
        no_rules(&reserved.answer)?;
        let refill = lease::granted(&reserved.answer, permits);
        let id = reserved.id;
        drop(reserved);
        Ok(framed(&match (id, refill) {
            (Some(id), Some(refill)) => LeaseResponse { id: id.to_string(), refill: Some(span(refill)) },
            (Some(id), None) => {
                // If the store does not answer now, the permits count as used.
                let _ = self.limiter.cancel(id, now).await;
                LeaseResponse::default()
            }
            (None, _) => LeaseResponse::default(),
        }))
    }

    async fn check(&self, message: Bytes, caller: &Caller, now: Timestamp) -> Result<Bytes, Status> {
        let CheckRequest { domain, entries, hits, max_wait, consumed } = parsed(message)?;
        let domain = lossy(&domain);
        let longest = wait(max_wait)?;
        if consumed.is_some() && (hits.is_some() || !longest.is_zero()) {
            return Err(Status::invalid(
                "consumed cannot be combined with hits or max_wait: it is used already",
            ));
        }
        let longest = longest.min(caller.time_left.saturating_sub(REPLY_TIME));
        let entries = self.entries(&entries)?;
        let descriptors = [Descriptor::new(&entries)];
        let hits = consumed.or(hits).unwrap_or(1);
        let request = Request { domain: &domain, descriptors: &descriptors, hits };
        let trace = self.limiter.call_span(caller.surface, &domain, caller.traceparent());
        let clock = || self.now();
        let mut scratch = Scratch::new();
        // A stream is dropped when its caller leaves.
        let patience = Patience { now: &clock, sleep: tokio::time::sleep, longest, left: None };
        let answer = match consumed {
            None => self.limiter.decide_patiently(&request, now, &patience, &mut scratch).await?,
            // Boxed, so that the future of a call stays small.
            Some(_) => Box::pin(self.limiter.consume(&request, now, &mut scratch)).await?,
        };
        if let Some(trace) = trace {
            answer.record(&trace);
        }
        self.latency.observe(self.now().since(now).saturating_sub(answer.waited()));
        no_rules(&answer)?;
        Ok(framed(&response(&answer)))
    }
}

fn id_of(text: &str) -> Result<ReservationId, Status> {
    text.parse().map_err(|error| Status::invalid(format!("id: {error}")))
}

/// Longest wait of a call for its turn; zero if the request names none.
fn wait(max_wait: Option<rls::Duration>) -> Result<Duration, Status> {
    let Some(rls::Duration { seconds, nanos }) = max_wait else { return Ok(Duration::ZERO) };
    match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(Status::invalid("invalid max_wait: expected seconds >= 0 and 0 <= nanos < 1000000000")),
    }
}

fn response(answer: &Answer<'_>) -> CheckResponse {
    let is_admitted = answer.is_admitted();
    let mut response = CheckResponse {
        admitted: is_admitted,
        degraded: answer.degraded().map(Degraded::name).unwrap_or_default().to_owned(),
        shadow: answer.is_shadowed(),
        ..CheckResponse::default()
    };
    let retry_after = match (is_admitted, answer.descriptor(0)) {
        (false, Some(descriptor)) => descriptor.retry_after(),
        _ => RetryAfter::Now,
    };
    response.retry_after = match retry_after {
        RetryAfter::Now => Some(span(Duration::ZERO)),
        RetryAfter::After(wait) => Some(span(wait)),
        RetryAfter::Never => None,
    };
    response.offer =
        lease::offer(answer).map(|(permits, refill)| Offer { permits, refill: Some(span(refill)) });
    if let Some(descriptor) = answer.descriptor(0) {
        response.limit = descriptor.limit.map(|limit| limit.burst());
        response.remaining = descriptor.limit.map(|_| descriptor.remaining());
        response.delay = Some(span(descriptor.delay().saturating_sub(descriptor.waited)));
        response.rule = descriptor.rule.map(|rule| rule.path.clone()).unwrap_or_default();
        response.shadow |= descriptor.is_shadowed;
        response.owed = descriptor.owed();
    }
    response
}
