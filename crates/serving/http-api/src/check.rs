//! `/v1/check`: may this request pass? One request or a batch, from a body or a query.

use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Response, StatusCode};
use tollgate_answers::{Denial, DenialStatus, denial, limits, mark_degraded, mark_excess, write_json};
use tollgate_buffers::CallBuffers;
use tollgate_core::Timestamp;
use tollgate_http_kit::reply::JSON;
use tollgate_http_kit::{Problem, Reply, Request};
use tollgate_limiter::{Answer, Degraded, Descriptor, MAX_IN_FLIGHT, Patience, Scratch};
use tollgate_net::Presence;
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::buffers::RequestBuffers;
use crate::parsed::{ParsedBody, ParsedRequest};
use crate::query::{self, CheckQuery};
use crate::usual_body;

/// Options of a call, besides its requests.
struct CheckOptions {
    /// The status of a denial, where it is not to be 200.
    denial_status: Option<DenialStatus>,
    /// Longest wait of the request for its turn; its rule may set a shorter one.
    max_wait: Duration,
}

/// One call of `/v1/check`, read and found valid.
struct CheckCall<'c> {
    descriptors: &'c [Descriptor<'c>],
    /// The status of a denial, where it is not to be 200.
    denial_status: Option<DenialStatus>,
    traceparent: Option<&'c str>,
    /// Longest wait of each request for its turn; its rule may set a shorter one.
    longest_wait: Duration,
    presence: &'c Presence,
    now: Timestamp,
}

impl<S: Store> HttpApi<S> {
    pub(crate) async fn check(&self, mut request: Request<'_>) -> Result<Reply, Problem> {
        match self.check_by_rules(&mut request).await {
            Err(problem) => self.undecided_check(request.peer(), request.query(), problem),
            reply => reply,
        }
    }

    async fn check_by_rules(&self, request: &mut Request<'_>) -> Result<Reply, Problem> {
        let body = if *request.method() == Method::POST {
            request.json(self.settings.max_body_bytes.max(self.settings.max_batch_bytes)).await?
        } else {
            Bytes::new()
        };
        let mut buffers = CallBuffers::<RequestBuffers>::take();
        let RequestBuffers { lists, scratch, out } = &mut *buffers;
        let mut parsed = lists.body();
        let CheckOptions { denial_status, max_wait } = self.parse(request, &body, &mut parsed)?;
        let entries = lists.entries(&parsed);
        let descriptors = lists.descriptors(&parsed, &entries);
        if parsed.is_batch {
            parsed.check(&descriptors)?;
            self.check_rules(&parsed, &descriptors)?;
        }
        let call = CheckCall {
            descriptors: &descriptors,
            denial_status,
            traceparent: self.traceparent(request.headers()),
            // In a batch no request waits for its turn, since the others would wait with it.
            longest_wait: if parsed.is_batch { Duration::ZERO } else { max_wait },
            presence: request.presence(),
            now: self.clock.now(),
        };
        let (reply, waited) = match &parsed.requests[..] {
            [request] if !parsed.is_batch => self.decide_one(&call, request, scratch, out).await?,
            requests => (self.decide_batch(&call, requests, scratch, out).await?, Duration::ZERO),
        };
        self.latency.observe(self.clock.now().since(call.now).saturating_sub(waited));
        lists.put_back_descriptors(descriptors);
        lists.put_back_entries(entries);
        lists.put_back_body(parsed);
        Ok(reply)
    }

    /// Rejects a batch that the rules in force cannot decide whole.
    fn check_rules(&self, parsed: &ParsedBody<'_>, descriptors: &[Descriptor<'_>]) -> Result<(), Problem> {
        for (index, request) in parsed.requests.iter().enumerate() {
            self.limiter
                .check_rules(&request.request(descriptors))
                .map_err(|error| Problem::bad(format!("requests[{index}]: {error}")))?;
        }
        Ok(())
    }

    /// Reads the query and the body into `parsed`.
    fn parse<'b>(
        &self,
        request: &'b Request<'_>,
        body: &'b Bytes,
        parsed: &mut ParsedBody<'b>,
    ) -> Result<CheckOptions, Problem> {
        let mut max_wait = Duration::MAX;
        let query = match request.query() {
            None => CheckQuery::default(),
            Some(query) => query::check(query, request.headers(), parsed, self.caps)?,
        };
        if *request.method() == Method::POST {
            if query.has_request {
                let detail =
                    "the request belongs into the body: beside a body the query can only have `status`";
                return Err(Problem::bad(detail));
            }
            if let Some(ms) = usual_body::check(body, parsed, self.caps)? {
                max_wait = Duration::from_millis(ms);
            }
            let max_bytes = self.settings.max_body_bytes;
            if body.len() > max_bytes {
                parsed.check_bytes(max_bytes)?;
            }
        } else if !query.has_request {
            let detail =
                "the query has no request: expected ?domain=NAME&entry=KEY=VALUE, or a POST with a body";
            return Err(Problem::bad(detail));
        }
        if parsed.is_batch && query.denial_status.is_some() {
            return Err(Problem::bad("a batch has no single status; remove `status`"));
        }
        Ok(CheckOptions { denial_status: query.denial_status, max_wait })
    }

    /// Decides the one request of a call. Its reply has the header fields of the limits, and the status of a
    /// denial. Also returns how long it waited for its turn.
    async fn decide_one(
        &self,
        call: &CheckCall<'_>,
        request: &ParsedRequest<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(Reply, Duration), Problem> {
        let answer = self.decide(call, request, scratch).await?;
        let mut reply = Response::new(Full::default());
        let fields = reply.headers_mut();
        let limits = limits(&answer);
        let limits = limits.as_slice();
        tollgate_headers::write(limits, answer.is_admitted(), &self.settings.style, fields);
        mark_degraded(answer.degraded(), fields);
        mark_excess(&answer, fields);
        match call.denial_status.filter(|_| !answer.is_admitted()) {
            None => {
                fields.insert(CONTENT_TYPE, JSON);
                write_json(&answer, &request.request(call.descriptors), out);
                *reply.body_mut() = Full::new(Bytes::copy_from_slice(out));
            }
            Some(status) => {
                let Denial { status, body } = denial(status, &answer, limits, &request.domain, fields);
                *reply.body_mut() = Full::new(body.into());
                *reply.status_mut() = status;
            }
        }
        Ok((reply, answer.waited()))
    }

    /// Decides the requests of a batch, in their order and at one instant.
    async fn decide_batch(
        &self,
        call: &CheckCall<'_>,
        requests: &[ParsedRequest<'_>],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Reply, Problem> {
        out.extend_from_slice(b"{\"decisions\":[");
        let degraded = if self.limiter.store().is_remote() {
            self.decide_concurrently(call, requests, out).await?
        } else {
            self.decide_in_turn(call, requests, scratch, out).await?
        };
        out.extend_from_slice(b"]}");
        let mut reply = Response::new(Full::new(Bytes::copy_from_slice(out)));
        reply.headers_mut().insert(CONTENT_TYPE, JSON);
        mark_degraded(degraded, reply.headers_mut());
        Ok(reply)
    }

    /// Writes the decisions of `requests`, made one after another. Returns the fallback of those made without
    /// the store, if any.
    async fn decide_in_turn(
        &self,
        call: &CheckCall<'_>,
        requests: &[ParsedRequest<'_>],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Option<Degraded>, Problem> {
        let mut degraded = None;
        for (index, request) in requests.iter().enumerate() {
            let answer = self.decide(call, request, scratch).await?;
            if index > 0 {
                out.push(b',');
            }
            write_json(&answer, &request.request(call.descriptors), out);
            degraded = degraded.max(answer.degraded());
        }
        Ok(degraded)
    }

    /// As [`decide_in_turn`](Self::decide_in_turn), for a store that must be waited for: begun in turn, in
    /// flight together.
    async fn decide_concurrently(
        &self,
        call: &CheckCall<'_>,
        requests: &[ParsedRequest<'_>],
        out: &mut Vec<u8>,
    ) -> Result<Option<Degraded>, Problem> {
        let decide = async |request| -> Result<_, Problem> {
            let mut buffers = CallBuffers::<RequestBuffers>::take();
            let RequestBuffers { scratch, out, .. } = &mut *buffers;
            let answer = self.decide(call, request, scratch).await?;
            write_json(&answer, &request.request(call.descriptors), out);
            let degraded = answer.degraded();
            drop(answer);
            Ok((buffers, degraded))
        };
        let mut degraded = None;
        for (chunk, requests) in requests.chunks(MAX_IN_FLIGHT).enumerate() {
            for (index, decided) in join_all(requests.iter().map(&decide)).await.into_iter().enumerate() {
                let (written, how) = decided?;
                if chunk + index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&written.out);
                degraded = degraded.max(how);
            }
        }
        Ok(degraded)
    }

    /// Decides one request, in a span of the caller's trace.
    async fn decide<'s>(
        &self,
        call: &CheckCall<'_>,
        request: &ParsedRequest<'_>,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s>, Problem> {
        let is_consumed = request.is_consumed;
        let request = request.request(call.descriptors);
        let span = self.limiter.call_span("http", request.domain, call.traceparent);
        // Only a single request can be invalid here: those of a batch were checked before.
        let now = || self.clock.now();
        let left = |cx: &mut Context<'_>| call.presence.poll_left(cx);
        let sleep = tokio::time::sleep;
        let longest = call.longest_wait;
        let patience = Patience { now: &now, sleep, longest, left: Some(&left) };
        let answer = match is_consumed {
            false => self.limiter.decide_patiently(&request, call.now, &patience, scratch).await,
            // Boxed, so that the future of a decision stays small.
            true => Box::pin(self.limiter.consume(&request, call.now, scratch)).await,
        };
        let answer = answer.map_err(|error| Problem::bad(error.to_string()))?;
        needs_rules(&answer)?;
        if let Some(span) = span {
            answer.record(&span);
        }
        Ok(answer)
    }
}

/// Rejects the answer if no rules are loaded: to admit would be to guess.
pub(crate) fn needs_rules(answer: &Answer<'_>) -> Result<(), Problem> {
    if !answer.policy().is_loaded() {
        let detail = "no rules are loaded; nothing was counted";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    Ok(())
}
