//! `/v1/throttle`: may this request pass, by a limit that comes with it? Not here: rules (`check`).

use std::time::Duration;

use hyper::{HeaderMap, StatusCode};
use tollgate_answers::{mark_degraded, reset_millis, retry_millis};
use tollgate_buffers::CallBuffers;
use tollgate_core::{Algorithm, Cost, Period, Quota, QuotaError, Refill};
use tollgate_http_kit::reply::json;
use tollgate_http_kit::{Problem, Reply};
use tollgate_limiter::{Degraded, Throttle};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::bodies::{Outcome, ThrottleRequest, Throttled};
use crate::buffers::RequestBuffers;
use crate::json_body;

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/throttle`, with the counter that `CL.THROTTLE` has for the same key and parameters.
    pub(crate) async fn throttle(&self, headers: &HeaderMap, body: &[u8]) -> Result<Reply, Problem> {
        let ask: ThrottleRequest = json_body::small(body)?;
        let burst = ask.burst.unwrap_or(ask.limit);
        for (name, number) in [("limit", ask.limit), ("period_ms", ask.period_ms), ("burst", burst)] {
            if number == 0 {
                return Err(Problem::bad(format!("{name} is 0; the smallest is 1")));
            }
        }
        let quota = quota(&ask, burst).map_err(|error| Problem::bad(error.to_string()))?;
        let cost = Cost(ask.hits.map_or(1, |hits| hits.0));
        let mut buffers = CallBuffers::<RequestBuffers>::take();
        let now = self.clock.now();
        let asks = [Throttle { key: &ask.key, quota: &quota, cost }];
        let mut answers = Vec::with_capacity(1);
        // Such a quota has no domain.
        let span = self.limiter.call_span("http", "", self.traceparent(headers));
        self.limiter.throttle(&asks, now, &mut buffers.scratch, &mut answers).await;
        self.latency.observe(self.clock.now().since(now));
        let Some(answer) = answers.first() else { return Err(Problem::internal()) }; // one was asked
        if let Some(span) = span {
            answer.record(&span);
        }
        let shape = Throttled {
            outcome: if answer.is_admitted() { Outcome::Admit } else { Outcome::Deny },
            burst,
            remaining: answer.decision.map(|decision| decision.remaining()),
            retry_after_ms: retry_millis(answer.retry_after()),
            reset_after_ms: reset_millis(answer.reset_after()),
            degraded: answer.degraded.map(Degraded::name),
            shadow: answer.is_shadowed,
        };
        let mut reply = json(StatusCode::OK, &shape);
        mark_degraded(answer.degraded, reply.headers_mut());
        Ok(reply)
    }
}

/// A token bucket that is refilled evenly, as `CL.THROTTLE` has it.
fn quota(ask: &ThrottleRequest, burst: u64) -> Result<Quota, QuotaError> {
    let burst = Some(burst);
    let refill = Refill::Continuous;
    let algorithm = Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill };
    let period = Period::Span(Duration::from_millis(ask.period_ms));
    Ok(Quota::new(ask.limit, period, algorithm)?.keeping_instants())
}
