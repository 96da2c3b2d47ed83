//! `/v1/check`: may this request pass? One request or a batch, from a body or a query.

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tollgate_core::Timestamp;
use tollgate_limiter::{Degraded, Descriptor, MAX_IN_FLIGHT, Scratch};
use tollgate_store::Store;

use crate::answer::{Answer, JSON, Refusal};
use crate::api::HttpApi;
use crate::buffers::Desk;
use crate::decision;
use crate::denied::refuse;
use crate::parsed::{Ask, Room, Sheet};
use crate::query::{self, CheckQuery, Told};
use crate::{json_body, scan};

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/check`; `body` is empty where the method has none.
    pub(crate) async fn check(&self, head: &Parts, body: &Bytes) -> Result<Answer, Refusal> {
        let mut desk = Desk::take();
        let Desk { room, scratch, out } = &mut *desk;
        let mut sheet = room.sheet();
        let asked = match head.uri.query() {
            None => CheckQuery::default(),
            Some(query) => query::check(query, &head.headers, &mut sheet, self.caps)?,
        };
        if head.method == Method::POST {
            if asked.asks {
                return Err(Refusal::bad(
                    "the question stands in the body; beside it the query can only say `status`",
                ));
            }
            if !scan::check(body, &mut sheet, self.caps) {
                json_body::check(body, &mut sheet, self.caps)?;
            }
            if !sheet.is_batch && body.len() > self.settings.max_body_bytes {
                let detail = format!("the body is above {} bytes", self.settings.max_body_bytes);
                return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
        } else if !asked.asks {
            return Err(Refusal::bad(
                "the query asks nothing; write ?domain=NAME&entry=KEY=VALUE, or POST a body",
            ));
        }
        if sheet.is_batch && asked.told.is_some() {
            return Err(Refusal::bad("a batch has no one status; leave `status` out"));
        }
        let parent = if self.limiter.is_sampling() { head.headers.get("traceparent") } else { None };
        let parent = parent.and_then(|it| it.to_str().ok());
        let answer = self.decide(&sheet, (asked.told, parent), room, scratch, out).await;
        room.keep(sheet);
        desk.put_back();
        answer
    }

    async fn decide(
        &self,
        sheet: &Sheet<'_>,
        (told, traceparent): (Option<Told>, Option<&str>),
        room: &mut Room,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Answer, Refusal> {
        let entries = room.entries(sheet);
        let descriptors = room.descriptors(sheet, &entries);
        sheet.check(&descriptors)?;
        let now = self.clock.now();
        let mut answer = Response::new(Full::default());
        let mut degraded = None;
        out.clear();
        if sheet.is_batch {
            out.extend_from_slice(b"{\"decisions\":[");
        }
        if sheet.is_batch && self.limiter.store().is_remote() {
            for (index, asks) in sheet.asks.chunks(MAX_IN_FLIGHT).enumerate() {
                let decisions = asks.iter().map(|ask| self.decide_one(ask, &descriptors, traceparent, now));
                for (at, decided) in join_all(decisions).await.into_iter().enumerate() {
                    let (written, way) = decided?;
                    if index + at > 0 {
                        out.extend_from_slice(b",");
                    }
                    out.extend_from_slice(&written);
                    degraded = degraded.max(way);
                }
            }
        }
        let is_done = sheet.is_batch && self.limiter.store().is_remote();
        let one_by_one = if is_done { &[][..] } else { &sheet.asks[..] };
        for (index, ask) in one_by_one.iter().enumerate() {
            let request = ask.request(&descriptors);
            let span = self.limiter.call_span("http", request.domain, traceparent);
            let decided = self.limiter.decide(&request, now, scratch).await;
            // Checked before: what is wrong now would be the same for every request.
            let decided = decided.map_err(|error| Refusal::bad(error.to_string()))?;
            if let Some(span) = span {
                decided.record(&span);
            }
            degraded = degraded.max(decided.degraded());
            if sheet.is_batch {
                if index > 0 {
                    out.extend_from_slice(b",");
                }
                decision::write(&decided, out);
                continue;
            }
            let limits = decision::limits(&decided);
            let limits = limits.as_slice();
            let fields = answer.headers_mut();
            tollgate_headers::write(limits, decided.is_admitted(), &self.settings.style, fields);
            match told.filter(|_| !decided.is_admitted()) {
                None => {
                    fields.insert(CONTENT_TYPE, JSON);
                    decision::write(&decided, out);
                }
                Some(told) => {
                    let (status, body) = refuse(told, &decided, limits, &ask.domain, fields);
                    out.extend_from_slice(body.as_bytes());
                    *answer.status_mut() = status;
                }
            }
        }
        decision::mark(degraded, answer.headers_mut());
        if sheet.is_batch {
            out.extend_from_slice(b"]}");
            answer.headers_mut().insert(CONTENT_TYPE, JSON);
        }
        self.limiter.metrics().observe_latency(self.clock.now().since(now));
        *answer.body_mut() = Full::new(Bytes::copy_from_slice(out));
        room.keep_descriptors(descriptors);
        room.keep_entries(entries);
        Ok(answer)
    }

    /// One request of a batch, beside others: its decision as JSON, and how it was decided without the store.
    async fn decide_one<'p>(
        &self,
        ask: &'p Ask<'_>,
        descriptors: &'p [Descriptor<'p>],
        traceparent: Option<&str>,
        now: Timestamp,
    ) -> Result<(Vec<u8>, Option<Degraded>), Refusal> {
        let (mut scratch, mut written) = (Scratch::new(), Vec::new());
        let request = ask.request(descriptors);
        let span = self.limiter.call_span("http", request.domain, traceparent);
        let decided = self.limiter.decide(&request, now, &mut scratch).await;
        let decided = decided.map_err(|error| Refusal::bad(error.to_string()))?;
        if let Some(span) = span {
            decided.record(&span);
        }
        decision::write(&decided, &mut written);
        Ok((written, decided.degraded()))
    }
}
