//! `/v1/keys`: the counters of a descriptor, shown or reset. Not here: who may (the table of operations).

use hyper::{Method, StatusCode};
use tollgate_answers::{mark_degraded, reset_millis};
use tollgate_http_kit::reply::json;
use tollgate_http_kit::{Problem, Reply};
use tollgate_limiter::{Degraded, Entry, KeyError, KeyReport};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::bodies::{Counter, Counters};
use crate::query::Target;

/// The limits of this operation: the table keeps no keys, and a shared store has too many.
pub(crate) const NOTE: &str = "the counters of this descriptor; those of all descriptors cannot be listed, since keys are not \
                               kept: /v1/rules lists the keys that are denied most often";

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/keys`: GET inspects, DELETE resets.
    pub(crate) async fn keys(&self, method: &Method, target: &Target<'_>) -> Result<Reply, Problem> {
        let Target { domain, entries } = target;
        let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
        let now = self.clock.now();
        let reports = if method == Method::DELETE {
            let reports = self.limiter.reset(domain, &entries, now).await;
            if reports.is_ok() {
                tracing::info!(domain = &**domain, "counter reset over HTTP");
            }
            reports
        } else {
            self.limiter.inspect(domain, &entries, now).await
        };
        let reports = reports.map_err(|error| {
            let status = match error {
                KeyError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::NOT_FOUND,
            };
            let hint = if matches!(error, KeyError::NoRule { .. }) { "; `/v1/explain` says why" } else { "" };
            Problem::new(status, format!("{error}{hint}"))
        })?;
        let degraded = reports.iter().find_map(|report| report.degraded);
        let counters = reports.into_iter().map(counter).collect();
        let mut reply = json(StatusCode::OK, &Counters { counters, note: NOTE });
        mark_degraded(degraded, reply.headers_mut());
        Ok(reply)
    }
}

fn counter(report: KeyReport) -> Counter {
    Counter {
        remaining: report.decision.remaining().saturating_sub(report.excess),
        reset_after_ms: reset_millis(report.decision.reset_after()),
        rule: report.rule,
        limit: report.limit,
        key: report.key,
        is_tracked: report.is_tracked,
        degraded: report.degraded.map(Degraded::name),
    }
}
