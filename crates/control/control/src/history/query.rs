//! Time series as people ask for them.

use std::collections::BTreeMap;

use tollgate_db::{Tx, query_value, query_values, row, select};
use tollgate_model::Role;
use tollgate_model::compile::path_of;

use super::counts::Counts;
use super::resolution::Resolution;
use super::{UNKNOWN_DOMAIN, UNMATCHED};
use crate::access::actor::{Actor, EVERY_APP};
use crate::changes::apps;
use crate::error::{ControlError, Fault, invalid};

/// Reports that are older than this do not come any more.
const LONGEST_LAG_MS: i64 = 60_000;
/// Most points of one answer.
const MOST_POINTS: i64 = 2_000;
/// Most rules below one that are summed.
const MOST_BELOW: i64 = 500;
/// Most domains in a list of requests that no rule limits.
const MOST_DOMAINS: i64 = 500;

/// The rules whose counts are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Everything that the actor may see.
    #[default]
    All,
    App(String),
    /// A rule of an app and the rules below it, by its path, such as `key=pushGeo`.
    Rule(String, String),
    /// A domain that nodes have from files of their own, or one of its rules unless that is empty. Needs
    /// viewer of every app.
    Domain(String, String),
}

/// The points to read.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    pub scope: Scope,
    /// In ms UTC.
    pub from_ms: i64,
    /// In ms UTC; exclusive.
    pub to_ms: i64,
    /// The time of one point in ms, rounded up to rows; 0 chooses one.
    pub step_ms: i64,
}

/// Points of equal steps, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The time of one point.
    pub step_ms: i64,
    /// The oldest first.
    pub points: Vec<Point>,
}

/// The counts of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Its beginning, in ms UTC.
    pub at_ms: i64,
    /// The part of the step that has passed and was reported: rates divide by it. 0 for a step in the future.
    pub span_ms: i64,
    pub counts: Counts,
}

/// When a rule was used last, as far as nodes have reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    pub app: String,
    /// The key of its row.
    pub key: String,
    /// In ms UTC.
    pub used_ms: i64,
}

impl History {
    /// The sum of all points.
    #[must_use]
    pub fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.points.iter().for_each(|point| sum.add(point.counts));
        sum
    }
}

row! {
    /// The sums of one step; `$1` is its length.
    struct StepRow { at: i64 = "at / $1 * $1", counts: Counts = Counts::COLUMNS }
}

/// The points of `query`. Needs viewer of the app, or sums up what the actor may see.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Invalid`] names the parameter.
pub fn history(tx: &mut dyn Tx, actor: &Actor, query: &HistoryQuery) -> Result<History, ControlError> {
    let (resolution, step_ms) = resolution_of(query, tx.now_ms())?;
    let from = query.from_ms.max(0).div_euclid(step_ms) * step_ms;
    let mut rows: BTreeMap<i64, Counts> = BTreeMap::new();
    for series in series_of(tx, actor, &query.scope)? {
        let steps = select!(StepRow:
            "FROM history WHERE res = $2 AND series = $3 AND at >= $4 AND at < $5 GROUP BY 1");
        let values = [step_ms.into(), resolution.ms().into(), series.into(), from.into(), query.to_ms.into()];
        for StepRow { at, counts } in steps.all(tx, &values)? {
            rows.entry(at).or_default().add(counts);
        }
    }
    let known_ms = known_until(tx)?;
    let count = (query.to_ms - from + step_ms - 1) / step_ms;
    let at = |index: i64| from + index * step_ms;
    let points = (0..count).map(|index| {
        let at_ms = at(index);
        let span_ms = known_ms.saturating_sub(at_ms).clamp(0, step_ms);
        Point { at_ms, span_ms, counts: rows.remove(&at_ms).unwrap_or_default() }
    });
    Ok(History { step_ms, points: points.collect() })
}

/// Up to when it is known what was decided: by the last report, and without one for a minute it is over.
fn known_until(tx: &mut dyn Tx) -> Result<i64, ControlError> {
    let now_ms = tx.now_ms();
    Ok(as_of(tx)?.unwrap_or(now_ms).clamp(now_ms.saturating_sub(LONGEST_LAG_MS), now_ms))
}

/// Which rows to read, and how many of them make one point.
fn resolution_of(query: &HistoryQuery, now_ms: i64) -> Result<(Resolution, i64), ControlError> {
    let span = query.to_ms.saturating_sub(query.from_ms);
    let longest = Resolution::Hour.kept_ms();
    if !(1..=longest).contains(&span) || query.to_ms > now_ms.saturating_add(longest) {
        return Err(invalid(
            "from",
            Fault::Whole { min: query.to_ms.saturating_sub(longest), max: query.to_ms },
        ));
    }
    // Rows that are gone are not asked for: a coarser resolution still has them.
    let is_kept = |it: &Resolution| query.from_ms >= now_ms - it.kept_ms() - it.ms();
    let kept = Resolution::ALL.into_iter().filter(is_kept);
    let step = if query.step_ms > 0 { query.step_ms } else { (span / 120).max(1) };
    let kept: Vec<Resolution> = kept.collect();
    let fits = kept.iter().rev().find(|it| it.ms() <= step).or(kept.first());
    let resolution = fits.copied().unwrap_or(Resolution::Hour);
    let step = step.saturating_add(resolution.ms() - 1) / resolution.ms() * resolution.ms();
    if span / step > MOST_POINTS {
        return Err(invalid("step", Fault::Whole { min: span / MOST_POINTS, max: span }));
    }
    Ok((resolution, step))
}

/// The series whose sum is the scope. Needs viewer of what it names.
pub(super) fn series_of(tx: &mut dyn Tx, actor: &Actor, scope: &Scope) -> Result<Vec<i64>, ControlError> {
    match scope {
        Scope::All if actor.may(Role::Viewer, EVERY_APP) => total(tx, ""),
        Scope::All => {
            let mut series = Vec::new();
            for (app, _) in apps::names(tx, actor)? {
                series.extend(of_app(tx, &app)?);
            }
            Ok(series)
        }
        Scope::App(app) => {
            actor.must(Role::Viewer, app)?;
            of_app(tx, app)
        }
        Scope::Rule(app, rule) => {
            actor.must(Role::Viewer, app)?;
            let mut series = Vec::new();
            for domain in domains_of(tx, app)? {
                series.extend(below(tx, &domain, rule)?);
            }
            Ok(series)
        }
        Scope::Domain(domain, rule) => {
            actor.must(Role::Viewer, EVERY_APP)?;
            if rule.is_empty() { total(tx, domain) } else { below(tx, domain, rule) }
        }
    }
}

/// The domains of an app, by name.
pub(super) fn domains_of(tx: &mut dyn Tx, app: &str) -> Result<Vec<String>, ControlError> {
    let domains = "SELECT domains.domain FROM domains JOIN apps ON apps.id = domains.app_id \
         WHERE apps.name = $1 ORDER BY domains.domain";
    Ok(query_values(tx, domains, &[app.into()])?)
}

fn of_app(tx: &mut dyn Tx, app: &str) -> Result<Vec<i64>, ControlError> {
    let mut series = Vec::new();
    for domain in domains_of(tx, app)? {
        series.extend(total(tx, &domain)?);
    }
    Ok(series)
}

fn total(tx: &mut dyn Tx, domain: &str) -> Result<Vec<i64>, ControlError> {
    Ok(query_values(tx, "SELECT id FROM series WHERE domain = $1 AND rule = ''", &[domain.into()])?)
}

/// A rule and those below it.
fn below(tx: &mut dyn Tx, domain: &str, rule: &str) -> Result<Vec<i64>, ControlError> {
    let first = format!("{rule} \u{2192} ");
    let last = format!("{rule} \u{2192} \u{10ffff}");
    let below = "SELECT id FROM series WHERE domain = $1 AND (rule = $2 OR (rule >= $3 AND rule < $4)) \
         ORDER BY rule LIMIT $5";
    let values = [domain.into(), rule.into(), first.into(), last.into(), MOST_BELOW.into()];
    Ok(query_values(tx, below, &values)?)
}

/// When the rows of `keys`, each with its app, were used last; those that never were are left out. Apps that
/// the actor may not see are left out.
///
/// # Errors
/// [`ControlError::Db`].
pub fn last_used(
    tx: &mut dyn Tx,
    actor: &Actor,
    keys: &[(String, String)],
) -> Result<Vec<Last>, ControlError> {
    let mut found = Vec::new();
    for (app, key) in keys.iter().filter(|(app, _)| actor.may(Role::Viewer, app)) {
        let rule = path_of(key);
        let last = format!("{rule} \u{2192} \u{10ffff}");
        let newest = query_value::<Option<i64>>(
            tx,
            "SELECT MAX(last_used) FROM series WHERE domain = $1 AND (rule = $2 OR (rule > $2 AND rule < $3))",
            &[app.into(), rule.into(), last.into()],
        )?;
        if let Some(used_ms) = newest.flatten().filter(|it| *it > 0) {
            found.push(Last { app: app.clone(), key: key.clone(), used_ms });
        }
    }
    Ok(found)
}

/// When the last report was stored, in ms UTC; `None` before the first.
///
/// # Errors
/// [`ControlError::Db`].
pub fn as_of(tx: &mut dyn Tx) -> Result<Option<i64>, ControlError> {
    Ok(query_value(tx, "SELECT MAX(at) FROM reported", &[])?.flatten())
}

/// Requests that no rule limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlimited {
    /// Their domain; empty for domains without rules, together.
    pub domain: String,
    /// [`UNMATCHED`] or [`UNKNOWN_DOMAIN`].
    pub rule: String,
    pub counts: Counts,
}

row! {
    struct UnlimitedRow {
        id: i64 = "series.id",
        domain: String = "series.domain",
        rule: String = "series.rule",
        app: String = "COALESCE(apps.name, '')",
    }
}

row! {
    struct OfferedRow {
        admitted: i64 = "COALESCE(SUM(admitted), 0)",
        denied: i64 = "COALESCE(SUM(denied), 0)",
    }
}

/// Requests of the last `span_ms` that no rule limits, most first. Shows the domains of apps that the actor
/// may see; the others need viewer of every app.
///
/// # Errors
/// [`ControlError::Db`].
pub fn unlimited(tx: &mut dyn Tx, actor: &Actor, span_ms: i64) -> Result<Vec<Unlimited>, ControlError> {
    let now_ms = tx.now_ms();
    let span_ms = span_ms.clamp(1, Resolution::Hour.kept_ms());
    let unlimited = select!(UnlimitedRow:
        "FROM series LEFT JOIN domains ON domains.domain = series.domain \
         LEFT JOIN apps ON apps.id = domains.app_id \
         WHERE series.rule IN ($1, $2) ORDER BY series.domain LIMIT $3");
    let rows = unlimited.all(tx, &[UNMATCHED.into(), UNKNOWN_DOMAIN.into(), MOST_DOMAINS.into()])?;
    let query = HistoryQuery { from_ms: now_ms - span_ms, to_ms: now_ms, ..HistoryQuery::default() };
    let (resolution, _) = resolution_of(&query, now_ms)?;
    let mut found = Vec::new();
    for UnlimitedRow { id, domain, rule, app } in rows {
        if !actor.may(Role::Viewer, if app.is_empty() { EVERY_APP } else { &app }) {
            continue;
        }
        let values = [resolution.ms().into(), id.into(), resolution.row_of(now_ms - span_ms).into()];
        let offered = select!(OfferedRow: "FROM history WHERE res = $1 AND series = $2 AND at >= $3");
        let counts = offered.first(tx, &values)?.map_or_else(Counts::default, |sum| Counts {
            admitted: sum.admitted,
            denied: sum.denied,
            ..Counts::default()
        });
        if counts.offered() > 0 {
            found.push(Unlimited { domain, rule, counts });
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.counts.offered()));
    Ok(found)
}
