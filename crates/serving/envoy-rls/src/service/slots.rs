//! `tollgate.slots.v1.SlotService`: slots of limits on what runs at the same time.

use std::time::Duration;

use bytes::Bytes;
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_human_text::lossy;
use tollgate_limiter::{Degraded, Descriptor, Entry, Request, Scratch, SlotAnswer, SlotError, SlotId};
use tollgate_store::Store;

use super::{Caller, RateLimitService, span};
use crate::body::{framed, parsed};
use crate::proto::rls;
use crate::proto::slots::{AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse};
use crate::status::{Code, Status};

/// Methods of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Acquire,
    Release,
}

impl<S: Store> RateLimitService<S> {
    /// Answers one call, encoded and framed.
    pub(crate) async fn answer_slot_call(
        &self,
        method: Method,
        message: Bytes,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Bytes, Status> {
        match method {
            Method::Acquire => {
                let AcquireRequest { domain, entries, id } = parsed(message)?;
                let domain = lossy(&domain);
                let id = if id.is_empty() { None } else { Some(id_of(&id)?) };
                let entries = self.entries(&entries)?;
                let descriptors = [Descriptor::new(&entries)];
                let request = Request { domain: &domain, descriptors: &descriptors, hits: 1 };
                let span = self.limiter.call_span(caller.surface, &domain, caller.traceparent());
                let answer = self.limiter.acquire(&request, id, now, &mut Scratch::new()).await?;
                if let Some(span) = span {
                    answer.record(&span);
                }
                self.latency.observe(self.now().since(now));
                Ok(framed(&response(answer)))
            }
            Method::Release => {
                let ReleaseRequest { domain, entries, id } = parsed(message)?;
                let domain = lossy(&domain);
                let entries = self.entries(&entries)?;
                let descriptors = [Descriptor::new(&entries)];
                let request = Request { domain: &domain, descriptors: &descriptors, hits: 1 };
                let released = self.limiter.release(&request, id_of(&id)?, now).await?;
                Ok(framed(&ReleaseResponse { released }))
            }
        }
    }

    pub(super) fn entries<'a>(&self, entries: &'a [rls::Entry]) -> Result<Vec<Entry<'a>>, Status> {
        let most = self.limits.max_entries;
        if entries.len() > most {
            return Err(Status::invalid(format!("{} entries; at most {most} are allowed", entries.len())));
        }
        Ok(entries.iter().map(|entry| Entry::new(&entry.key, &entry.value)).collect())
    }
}

fn id_of(text: &str) -> Result<SlotId, Status> {
    text.parse().map_err(|error| Status::invalid(format!("id: {error}")))
}

impl From<SlotError> for Status {
    fn from(error: SlotError) -> Self {
        let code = match error {
            SlotError::NoSlots => Code::NotFound,
            SlotError::NoRules | SlotError::NoRandomness | SlotError::Store(_) => Code::Unavailable,
            _ => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

fn response(answer: SlotAnswer) -> AcquireResponse {
    AcquireResponse {
        admitted: answer.is_admitted(),
        id: answer.id.map_or_else(String::new, |id| id.to_string()),
        limit: answer.limit,
        remaining: answer.remaining(),
        retry_after: match answer.retry_after() {
            RetryAfter::Now => Some(span(Duration::ZERO)),
            RetryAfter::After(wait) => Some(span(wait)),
            RetryAfter::Never => None,
        },
        expires_in: answer.ttl.map(span),
        renewed: answer.is_renewal,
        degraded: answer.degraded.map(Degraded::name).unwrap_or_default().to_owned(),
        shadow: answer.is_shadowed,
        rule: answer.rule.unwrap_or_default(),
    }
}
