//! Queries of time series, keys, problems and events.

use tollgate_control::events::Topic;
use tollgate_control::history::Scope;
use utoipa::IntoParams;

use crate::query::{BadQuery, Query, Read, millis, text};

const HOUR_MS: i64 = 3_600_000;

/// The rules whose decisions are returned.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScopeQuery {
    /// An app; without, all that you may see.
    #[param(required = false)]
    pub app: String,
    /// A rule with those below it, such as `key=pushGeo`.
    #[param(required = false)]
    pub rule: String,
    /// A domain of the nodes' own files.
    #[param(required = false)]
    pub domain: String,
}

impl ScopeQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let it = Self { app: text(query, "app"), rule: text(query, "rule"), domain: text(query, "domain") };
        match (it.app.is_empty(), it.domain.is_empty(), it.rule.is_empty()) {
            (false, false, _) => Err(BadQuery("send `app` or `domain`, not both".to_owned())),
            (true, true, false) => Err(BadQuery("`rule` needs `app` or `domain`".to_owned())),
            _ => Ok(it),
        }
    }

    #[must_use]
    pub fn scope(self) -> Scope {
        let Self { app, rule, domain } = self;
        match (app.is_empty(), domain.is_empty(), rule.is_empty()) {
            (false, _, false) => Scope::Rule(app, rule),
            (false, _, true) => Scope::App(app),
            (true, false, _) => Scope::Domain(domain, rule),
            (true, true, _) => Scope::All,
        }
    }
}

/// The time of a series.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// In ms UTC; an hour before `to` by default.
    pub from: Option<i64>,
    /// In ms UTC; now by default.
    pub to: Option<i64>,
    /// Milliseconds of one point, rounded up.
    #[param(required = false)]
    pub step: i64,
}

impl HistoryQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let time = |name| millis(query, name, -1).map(|it| (it >= 0).then_some(it));
        Ok(Self { from: time("from")?, to: time("to")?, step: millis(query, "step", 0)? })
    }

    /// The first and the last millisecond.
    #[must_use]
    pub fn span(&self, now_ms: i64) -> (i64, i64) {
        let to_ms = self.to.unwrap_or(now_ms);
        (self.from.unwrap_or(to_ms - HOUR_MS), to_ms)
    }
}

/// The keys that were denied most.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TopKeysQuery {
    /// The last milliseconds; an hour by default.
    #[param(required = false)]
    pub span: i64,
    /// A part of the key.
    #[param(required = false)]
    pub search: String,
    /// Keys of the reply, 1 to 500; 100 unless given.
    #[param(required = false)]
    pub limit: i64,
}

impl TopKeysQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let span = millis(query, "span", HOUR_MS)?;
        let limit = millis(query, "limit", 100)?;
        if limit == 0 || limit > 500 {
            return Err(BadQuery("invalid `limit`: expected a whole number from 1 to 500".to_owned()));
        }
        Ok(Self { span, search: text(query, "search"), limit })
    }
}

/// Requests that no rule limits.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UnlimitedQuery {
    /// The last milliseconds; a day by default.
    #[param(required = false)]
    pub span: i64,
}

impl UnlimitedQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { span: millis(query, "span", 24 * HOUR_MS)? })
    }
}

/// The events that are waited for.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Some of history, nodes, changes, rollouts, problems, with commas; all by default.
    #[param(required = false, value_type = String)]
    pub topics: Vec<Topic>,
    /// The id of the last event, for readers that cannot send Last-Event-ID.
    #[param(required = false)]
    pub after: String,
}

impl EventsQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { topics: topics(query.parameter("topics"))?, after: text(query, "after") })
    }
}

/// The topics of a list with commas; all of them, if it is empty.
fn topics(list: &str) -> Read<Vec<Topic>> {
    if list.is_empty() {
        return Ok(Topic::ALL.to_vec());
    }
    let topic = |name| {
        let known = Topic::ALL.map(Topic::name).join(", ");
        let fault = || BadQuery(format!("unknown topic {name:?}: expected some of {known}"));
        Topic::of(name).ok_or_else(fault)
    };
    list.split(',').take(Topic::ALL.len()).map(topic).collect()
}
