//! What operators look at: counters, rules, readiness. Not here: who may (`admin`).

use hyper::{Method, StatusCode};
use tollgate_limiter::{Degraded, DomainReport, Entry, KeyError, KeyReport, Report, RuleReport};
use tollgate_store::Store;

use crate::answer::{Answer, Refusal, json};
use crate::api::HttpApi;
use crate::bodies::{
    Counter, Counters, DomainRules, Readiness, ReadyRules, RuleTotals, Rules, StoreState, TopLimited,
};
use crate::decision::{self, millis, reset_millis};
use crate::query::One;
use crate::reserve::shown_time;
use crate::{NodeState, StoreStatus, StoreView};

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/keys`: looks with GET, forgets with DELETE.
    pub(crate) async fn keys(&self, method: &Method, one: &One<'_>) -> Result<Answer, Refusal> {
        let entries: Vec<Entry<'_>> = one.entries.iter().map(|(key, value)| Entry { key, value }).collect();
        let now = self.clock.now();
        let reports = if method == Method::DELETE {
            let reports = self.limiter.reset(&one.domain, &entries, now).await;
            if reports.is_ok() {
                tracing::info!(domain = &*one.domain, "a counter was reset over HTTP");
            }
            reports
        } else {
            self.limiter.inspect(&one.domain, &entries, now).await
        };
        let reports = reports.map_err(|error| {
            let status = match error {
                KeyError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::NOT_FOUND,
            };
            let hint = if matches!(error, KeyError::NoRule { .. }) { "; `/v1/explain` says why" } else { "" };
            Refusal::new(status, format!("{error}{hint}"))
        })?;
        let degraded = reports.iter().find_map(|report| report.degraded);
        let counters = reports.into_iter().map(counter).collect();
        let mut answer = json(StatusCode::OK, &Counters { counters });
        decision::mark(degraded, answer.headers_mut());
        Ok(answer)
    }

    /// Answers `/v1/rules`. Heavy with many rules.
    pub(crate) fn rules(&self) -> Answer {
        json(StatusCode::OK, &rules(self.limiter.report(self.clock.now()), self.node.state()))
    }

    /// Answers `/readyz`.
    pub(crate) fn readiness(&self) -> Answer {
        let rules = self.limiter.rules();
        let (policy, state) = (rules.policy(), self.node.state());
        let shape = Readiness {
            ready: state.is_ready,
            draining: state.is_draining,
            rules: ReadyRules {
                loaded: !policy.domains().is_empty(),
                version: policy.version().to_owned(),
                domains: policy.domains().len(),
                rules: policy.domains().iter().map(|domain| domain.rules().len()).sum(),
                last_error: state.last_error.as_deref().map(str::to_owned),
            },
            store: state.store.into(),
        };
        json(if state.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &shape)
    }
}

fn counter(report: KeyReport) -> Counter {
    Counter {
        remaining: report.decision.remaining(),
        reset_after_ms: reset_millis(report.decision.reset_after()),
        rule: report.rule,
        limit: report.limit,
        key: report.key,
        is_tracked: report.is_tracked,
        degraded: report.degraded.map(Degraded::name),
    }
}

impl From<StoreView> for StoreState {
    fn from(store: StoreView) -> Self {
        let state = store.status.name();
        let (down_for, why) = match store.status {
            StoreStatus::Trying => (None, None),
            StoreStatus::Up { slow } => (None, slow),
            StoreStatus::Down { duration, why } => (Some(duration), Some(why)),
        };
        let why = why.as_deref().map(str::to_owned);
        Self { name: store.name, state, down_for_ms: down_for.map(millis), why }
    }
}

fn rules(report: Report, node: NodeState) -> Rules {
    let last_error = report.last_error.or(node.last_error);
    Rules {
        version: report.version,
        loaded_at: shown_time(report.loaded_at),
        last_error: last_error.as_deref().map(str::to_owned),
        store: node.store.into(),
        domains: report.domains.into_iter().map(domain).collect(),
    }
}

fn domain(report: DomainReport) -> DomainRules {
    DomainRules { name: report.name, rules: report.rules.into_iter().map(rule).collect() }
}

fn rule(report: RuleReport) -> RuleTotals {
    let top = report.top_limited.into_iter();
    RuleTotals {
        rule: report.rule,
        name: report.name,
        limits: report.limits,
        admitted: report.totals.admitted,
        denied: report.totals.denied,
        shadow_denied: report.totals.shadow_denied,
        degraded: report.totals.degraded,
        shared: report.is_shared,
        top_limited: top
            .map(|it| TopLimited { key: it.key, denied: it.denied, at_most_over: it.at_most_over })
            .collect(),
    }
}
