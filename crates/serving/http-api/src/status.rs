//! Pages for operators: readiness, and the rules in force with their counts.

use hyper::StatusCode;
use tollgate_answers::millis;
use tollgate_core::Timestamp;
use tollgate_http_kit::Reply;
use tollgate_http_kit::reply::json;
use tollgate_limiter::{DomainReport, Report, RuleReport};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::bodies::{
    ControlState, DomainRules, Readiness, ReadyRules, RuleTotals, Rules, StoreState, TopLimited,
};
use crate::node::{ControlView, NodeState, StoreStatus, StoreView};

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/rules`. Slow with many rules.
    pub(crate) fn rules(&self) -> Reply {
        json(StatusCode::OK, &rules(self.limiter.report(self.clock.now()), self.node.state()))
    }

    /// Answers `/readyz`. `with_files`: the caller may see paths of files and what is in them.
    pub(crate) fn readiness(&self, with_files: bool) -> Reply {
        let rules = self.limiter.rules();
        let policy = rules.policy();
        let state = self.node.state();
        let shape = Readiness {
            ready: state.is_ready,
            draining: state.is_draining,
            rules: ReadyRules {
                loaded: policy.is_loaded(),
                version: policy.version().to_owned(),
                domains: policy.domains().len(),
                rules: policy.domains().iter().map(|domain| domain.rules().len()).sum(),
                last_error: state.last_error.as_deref().map(|error| shown_error(error, with_files)),
            },
            store: state.store.into(),
            control: state.control.map(|control| control_state(control, with_files)),
        };
        json(if state.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &shape)
    }
}

/// The error of rule files, as a caller may see it.
pub(crate) fn shown_error(error: &str, with_files: bool) -> String {
    if with_files {
        return error.to_owned();
    }
    "the rule files are invalid and the rules before them stay in force; the log says where, and so does this reply with \
     the admin token"
        .to_owned()
}

fn control_state(control: ControlView, with_files: bool) -> ControlState {
    ControlState {
        connected: control.connected,
        apps: control.apps,
        away_since: control.away_since.and_then(shown_time),
        why: control.why.filter(|_| with_files).map(|why| why.to_string()),
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
            .map(|it| TopLimited {
                key: it.key,
                denied: it.denied,
                at_most_over: it.at_most_over,
                at_most_under: it.at_most_under,
            })
            .collect(),
    }
}

/// RFC 3339, to the millisecond; `None` for the epoch, which means unknown.
pub(crate) fn shown_time(time: Timestamp) -> Option<String> {
    let nanos = i128::from(time.as_nanos());
    let time = jiff::Timestamp::from_nanosecond(nanos).ok().filter(|_| nanos > 0)?;
    Some(format!("{time:.3}"))
}
