//! `/v1/reserve`, `/v1/commit`, `/v1/cancel`: permits held for a while, and what became of them.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;
use tollgate_core::Timestamp;
use tollgate_limiter::{Ending, ReservationId, ReserveError, ReserveTerms, SettleError, Settled};
use tollgate_store::Store;

use crate::answer::{Answer, JSON, Refusal, answer, json};
use crate::api::HttpApi;
use crate::bodies::{CancelRequest, CommitRequest, Ending as EndingShape, Settlement};
use crate::buffers::Desk;
use crate::decision::{self, millis};
use crate::json_body::{self, Terms};

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/reserve`. A denial is an answer like any other, without an id.
    pub(crate) async fn reserve(&self, head: &Parts, body: &Bytes) -> Result<Answer, Refusal> {
        let mut desk = Desk::take();
        let Desk { room, scratch, out } = &mut *desk;
        let mut sheet = room.sheet();
        let terms = json_body::reserve(body, &mut sheet, self.caps)?;
        let entries = room.entries(&sheet);
        let descriptors = room.descriptors(&sheet, &entries);
        sheet.check(&descriptors)?;
        let Some(ask) = sheet.asks.first() else { return Err(Refusal::fault()) }; // one was read
        let parent = if self.limiter.is_sampling() { head.headers.get("traceparent") } else { None };
        let parent = parent.and_then(|it| it.to_str().ok());
        let request = ask.request(&descriptors);
        let now = self.clock.now();
        let span = self.limiter.call_span("http", request.domain, parent);
        let reserved = self.limiter.reserve(&request, terms.into(), now, scratch).await;
        let reserved = reserved.map_err(unreserved)?;
        if let Some(span) = span {
            reserved.answer.record(&span);
        }
        self.limiter.metrics().observe_latency(self.clock.now().since(now));
        out.clear();
        let id = reserved.id.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        let wait = millis(reserved.delay);
        let left = if reserved.id.is_some() { reserved.expires_at.since(now) } else { Duration::ZERO };
        // Writing to a buffer cannot fail.
        let _ =
            write!(out, r#"{{"id":{id},"wait_ms":{wait},"expires_in_ms":{},"decision":"#, left.as_millis());
        decision::write(&reserved.answer, out);
        out.extend_from_slice(b"}");
        let limits = decision::limits(&reserved.answer);
        let mut answer = answer(StatusCode::OK, JSON, Bytes::copy_from_slice(out));
        let is_admitted = reserved.answer.is_admitted();
        decision::mark(reserved.answer.degraded(), answer.headers_mut());
        tollgate_headers::write(limits.as_slice(), is_admitted, &self.settings.style, answer.headers_mut());
        drop(limits);
        drop(reserved);
        room.keep_descriptors(descriptors);
        room.keep_entries(entries);
        room.keep(sheet);
        desk.put_back();
        Ok(answer)
    }

    /// Answers `/v1/commit`.
    pub(crate) async fn commit(&self, body: &[u8]) -> Result<Answer, Refusal> {
        let CommitRequest { id, actual } = parse(body, "commit")?;
        let id = id_of(&id)?;
        settled(self.limiter.commit(id, actual, self.clock.now()).await)
    }

    /// Answers `/v1/cancel`.
    pub(crate) async fn cancel(&self, body: &[u8]) -> Result<Answer, Refusal> {
        let CancelRequest { id } = parse(body, "cancel")?;
        settled(self.limiter.cancel(id_of(&id)?, self.clock.now()).await)
    }
}

impl From<Terms> for ReserveTerms {
    fn from(terms: Terms) -> Self {
        let usual = Self::default();
        Self {
            max_wait: terms.max_wait_ms.flatten().map_or(usual.max_wait, Duration::from_millis),
            ttl: terms.ttl_ms.flatten().map_or(usual.ttl, Duration::from_millis),
        }
    }
}

/// Reads a small body.
fn parse<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("the body is no {what}: {error}")))
}

fn id_of(text: &str) -> Result<ReservationId, Refusal> {
    text.parse().map_err(|error| Refusal::bad(format!("id: {error}")))
}

fn unreserved(error: ReserveError) -> Refusal {
    let status = match error {
        ReserveError::Full { .. } | ReserveError::NoRandomness => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, error.to_string())
}

fn settled(settled: Result<Settled, SettleError>) -> Result<Answer, Refusal> {
    match settled {
        Ok(settled) => Ok(json(StatusCode::OK, &Settlement::from(settled))),
        Err(error @ SettleError::Unknown) => Err(Refusal::new(StatusCode::NOT_FOUND, error.to_string())),
        Err(error) => Err(Refusal::bad(error.to_string())),
    }
}

impl From<Settled> for Settlement {
    fn from(settled: Settled) -> Self {
        Self {
            ending: match settled.ending {
                Ending::Committed => EndingShape::Committed,
                Ending::Cancelled => EndingShape::Cancelled,
                Ending::CancelledLate => EndingShape::CancelledLate,
            },
            reserved: settled.reserved,
            used: settled.used,
            returned: settled.returned(),
            owed: settled.owed(),
            degraded: settled.is_degraded,
        }
    }
}

/// RFC 3339, to the millisecond; `None` for the epoch, which nobody means.
pub(crate) fn shown_time(time: Timestamp) -> Option<String> {
    let nanos = i128::from(time.as_nanos());
    let time = jiff::Timestamp::from_nanosecond(nanos).ok().filter(|_| nanos > 0)?;
    Some(format!("{time:.3}"))
}
