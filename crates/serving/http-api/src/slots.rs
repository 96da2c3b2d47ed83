//! `/v1/acquire`, `/v1/release`: slots of limits on what runs at the same time.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use tollgate_answers::{mark_degraded, millis, retry_millis};
use tollgate_buffers::CallBuffers;
use tollgate_http_kit::reply::json;
use tollgate_http_kit::{Problem, Reply};
use tollgate_limiter::{Degraded, SlotError, SlotId};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::bodies::{Outcome, Release, Slot};
use crate::buffers::RequestBuffers;
use crate::json_body;

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/acquire`. A denial is a decision like any other, without an id.
    pub(crate) async fn acquire(&self, headers: &HeaderMap, body: &Bytes) -> Result<Reply, Problem> {
        let mut buffers = CallBuffers::<RequestBuffers>::take();
        let RequestBuffers { lists, scratch, .. } = &mut *buffers;
        let mut parsed = lists.body();
        let id = json_body::slot(body, &mut parsed, self.caps)?;
        let id = id.as_deref().map(id_of).transpose()?;
        let entries = lists.entries(&parsed);
        let descriptors = lists.descriptors(&parsed, &entries);
        let Some(request) = parsed.requests.first() else { return Err(Problem::internal()) }; // one was read
        let request = request.request(&descriptors);
        let now = self.clock.now();
        let span = self.limiter.call_span("http", request.domain, self.traceparent(headers));
        let answer =
            self.limiter.acquire(&request, id, now, scratch).await.map_err(|error| problem(&error))?;
        if let Some(span) = span {
            answer.record(&span);
        }
        self.latency.observe(self.clock.now().since(now));
        let shape = Slot {
            outcome: if answer.is_admitted() { Outcome::Admit } else { Outcome::Deny },
            id: answer.id.map(|id| id.to_string()),
            limit: answer.limit,
            remaining: answer.remaining(),
            retry_after_ms: retry_millis(answer.retry_after()),
            expires_in_ms: answer.ttl.map(millis),
            renewed: answer.is_renewal,
            degraded: answer.degraded.map(Degraded::name),
            shadow: answer.is_shadowed,
            rule: answer.rule,
        };
        let mut reply = json(StatusCode::OK, &shape);
        mark_degraded(answer.degraded, reply.headers_mut());
        lists.put_back_descriptors(descriptors);
        lists.put_back_entries(entries);
        lists.put_back_body(parsed);
        Ok(reply)
    }

    /// Answers `/v1/release`. A slot that its holder does not have is not an error.
    pub(crate) async fn release(&self, body: &Bytes) -> Result<Reply, Problem> {
        let mut buffers = CallBuffers::<RequestBuffers>::take();
        let lists = &mut buffers.lists;
        let mut parsed = lists.body();
        let id = json_body::slot(body, &mut parsed, self.caps)?;
        let id = id.ok_or_else(|| Problem::bad("invalid request body: missing field `id`"))?;
        let id = id_of(&id)?;
        let entries = lists.entries(&parsed);
        let descriptors = lists.descriptors(&parsed, &entries);
        let Some(request) = parsed.requests.first() else { return Err(Problem::internal()) }; // one was read
        let released = self.limiter.release(&request.request(&descriptors), id, self.clock.now()).await;
        let reply = json(StatusCode::OK, &Release { released: released.map_err(|error| problem(&error))? });
        lists.put_back_descriptors(descriptors);
        lists.put_back_entries(entries);
        lists.put_back_body(parsed);
        Ok(reply)
    }
}

fn id_of(text: &str) -> Result<SlotId, Problem> {
    text.parse().map_err(|error| Problem::bad(format!("id: {error}")))
}

fn problem(error: &SlotError) -> Problem {
    let status = match error {
        SlotError::NoSlots => StatusCode::NOT_FOUND,
        SlotError::NoRules | SlotError::NoRandomness | SlotError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.to_string())
}
