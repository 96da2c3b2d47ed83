//! `/v1/reserve`, `/v1/commit`, `/v1/cancel`: permits held for a while, and what became of them.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use tollgate_answers::{limits, mark_degraded, millis, write_json};
use tollgate_buffers::CallBuffers;
use tollgate_http_kit::reply::{JSON, json, reply};
use tollgate_http_kit::{Problem, Reason, Reply};
use tollgate_limiter::{
    Ending, ReservationId, ReservationShare, ReserveError, ReserveTerms, SettleError, Settled,
};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::bodies::{CancelRequest, CommitRequest, Ending as EndingShape, Settlement};
use crate::buffers::RequestBuffers;
use crate::check::needs_rules;
use crate::json_body::{self, Terms};

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/reserve`. A denial is a decision like any other, without an id.
    pub(crate) async fn reserve(&self, headers: &HeaderMap, body: &Bytes) -> Result<Reply, Problem> {
        let mut buffers = CallBuffers::<RequestBuffers>::take();
        let RequestBuffers { lists, scratch, out } = &mut *buffers;
        let mut parsed = lists.body();
        let terms = json_body::reserve(body, &mut parsed, self.caps)?;
        let entries = lists.entries(&parsed);
        let descriptors = lists.descriptors(&parsed, &entries);
        parsed.check(&descriptors)?;
        let Some(request) = parsed.requests.first() else { return Err(Problem::internal()) }; // one was read
        let request = request.request(&descriptors);
        let now = self.clock.now();
        let span = self.limiter.call_span("http", request.domain, self.traceparent(headers));
        let reserved = self.limiter.reserve(&request, terms.into(), now, scratch).await;
        let reserved = reserved.map_err(not_reserved)?;
        needs_rules(&reserved.answer)?;
        if let Some(span) = span {
            reserved.answer.record(&span);
        }
        self.latency.observe(self.clock.now().since(now));
        let id = reserved.id.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        let wait = millis(reserved.delay);
        let expires_in = if reserved.id.is_some() { reserved.expires_at.since(now) } else { Duration::ZERO };
        let expires_in = expires_in.as_millis();
        // Writing to a buffer cannot fail.
        let _ = write!(out, r#"{{"id":{id},"wait_ms":{wait},"expires_in_ms":{expires_in},"decision":"#);
        write_json(&reserved.answer, &request, out);
        out.push(b'}');
        let mut reply = reply(StatusCode::OK, JSON, Bytes::copy_from_slice(out));
        let answer = &reserved.answer;
        let fields = reply.headers_mut();
        mark_degraded(answer.degraded(), fields);
        tollgate_headers::write(
            limits(answer).as_slice(),
            answer.is_admitted(),
            &self.settings.style,
            fields,
        );
        drop(reserved);
        lists.put_back_descriptors(descriptors);
        lists.put_back_entries(entries);
        lists.put_back_body(parsed);
        Ok(reply)
    }

    pub(crate) async fn commit(&self, body: &[u8]) -> Result<Reply, Problem> {
        let CommitRequest { id, actual } = json_body::small(body)?;
        let id = id_of(&id)?;
        settled(self.limiter.commit(id, actual, self.clock.now()).await)
    }

    pub(crate) async fn cancel(&self, body: &[u8]) -> Result<Reply, Problem> {
        let CancelRequest { id } = json_body::small(body)?;
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

fn id_of(text: &str) -> Result<ReservationId, Problem> {
    text.parse().map_err(|error| Problem::bad(format!("id: {error}")))
}

fn not_reserved(error: ReserveError) -> Problem {
    let (status, reason) = match error {
        // The caller has too many open reservations; there is room for all others.
        ReserveError::Share { of: ReservationShare::Caller, .. } => {
            (StatusCode::TOO_MANY_REQUESTS, Some(Reason::Overload))
        }
        ReserveError::Full { .. } | ReserveError::Share { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(Reason::Overload))
        }
        ReserveError::LongKeys { .. } => (StatusCode::BAD_REQUEST, Some(Reason::TooLarge)),
        ReserveError::NoRandomness => (StatusCode::SERVICE_UNAVAILABLE, None),
        _ => (StatusCode::BAD_REQUEST, None),
    };
    let problem = Problem::new(status, error.to_string());
    reason.into_iter().fold(problem, Problem::because)
}

fn settled(settled: Result<Settled, SettleError>) -> Result<Reply, Problem> {
    match settled {
        Ok(settled) => Ok(json(StatusCode::OK, &Settlement::from(settled))),
        Err(error @ SettleError::Unknown) => Err(Problem::new(StatusCode::NOT_FOUND, error.to_string())),
        Err(error) => Err(Problem::bad(error.to_string())),
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
