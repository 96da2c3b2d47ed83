//! The keys that were denied most, in rows of five minutes.

use std::collections::{BTreeMap, HashMap};

use tollgate_db::{Tx, columns, query_values, select};
use tollgate_model::Role;

use super::query::{Scope, domains_of, series_of};
use crate::access::actor::{Actor, EVERY_APP};
use crate::changes::apps;
use crate::error::ControlError;

/// The time that a row covers.
pub(super) const ROW_MS: i64 = 300_000;
/// Time for which rows are kept.
pub(super) const KEPT_MS: i64 = 7 * 24 * 3_600_000;
/// Most keys of one rule in one row of time: those that were denied least make room.
const MOST_KEYS: usize = 50;
/// No row counts more, so that the sum of a key over all rows that are kept is a whole number. A row of a
/// release before this bound may be more, and is then read as this.
const MOST_DENIED: i64 = 500_000_000_000_000;

/// By rule, then by row of time and key.
pub(super) type TopSums<'g> = HashMap<(&'g str, &'g str), BTreeMap<(i64, &'g String), i64>>;

/// A key and how often it was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// Its domain: the app, for rules of the table of committed rates.
    pub domain: String,
    pub rule: String,
    /// The values of its descriptor.
    pub key: String,
    /// As the nodes' sketches counted.
    pub denied: i64,
}

/// The keys to list.
#[derive(Clone, Debug, Default)]
pub struct TopQuery {
    /// The rules whose keys are listed.
    pub scope: Scope,
    /// Only keys that contain this text, unless it is empty.
    pub search: String,
    /// Only keys denied in this span before now, in ms: at most 7 days.
    pub span_ms: i64,
    /// Maximum number of keys, 1 to 500.
    pub limit: i64,
}

pub(super) const fn row_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(ROW_MS) * ROW_MS
}

/// Adds `tops`; rules without a series are left out.
pub(super) fn write(
    tx: &mut dyn Tx,
    series: &HashMap<(&str, &str), i64>,
    tops: &TopSums<'_>,
) -> Result<(), ControlError> {
    for (name, keys) in tops {
        let Some(&id) = series.get(name) else { continue };
        let mut rows: BTreeMap<i64, Vec<(&String, i64)>> = BTreeMap::new();
        for ((at, key), denied) in keys {
            rows.entry(*at).or_default().push((key, *denied));
        }
        for (at, mut keys) in rows {
            keys.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
            for (key, denied) in keys.into_iter().take(MOST_KEYS) {
                tx.execute(
                    "INSERT INTO top_keys (series, at, key, denied) VALUES ($1, $2, $3, $4) \
                     ON CONFLICT (series, at, key) DO UPDATE SET denied = \
                     CASE WHEN top_keys.denied > 500000000000000 - $4 THEN 500000000000000 \
                     ELSE top_keys.denied + $4 END",
                    &[id.into(), at.into(), key.into(), denied.min(MOST_DENIED).into()],
                )?;
            }
            tx.execute(
                "DELETE FROM top_keys WHERE series = $1 AND at = $2 AND denied < (SELECT MIN(most.denied) FROM \
                 (SELECT denied FROM top_keys WHERE series = $1 AND at = $2 ORDER BY denied DESC LIMIT 50) most)",
                &[id.into(), at.into()],
            )?;
        }
    }
    Ok(())
}

/// The keys that were denied most, most first. Needs viewer of the app, or shows the apps that the actor may
/// see.
///
/// # Errors
/// [`ControlError`].
pub fn top_keys(tx: &mut dyn Tx, actor: &Actor, query: &TopQuery) -> Result<Vec<TopKey>, ControlError> {
    let from = row_of(tx.now_ms() - query.span_ms.clamp(0, KEPT_MS));
    let limit = query.limit.clamp(1, 500);
    let search = crate::changes::rules::pattern(&query.search);
    let is_everything = query.scope == Scope::All && actor.may(Role::Viewer, EVERY_APP);
    if is_everything {
        let everywhere = select!(TopKey:
            "FROM top_keys JOIN series ON series.id = top_keys.series \
             WHERE at >= $1 AND ($2 = '' OR LOWER(key) LIKE $2 ESCAPE '\\') \
             GROUP BY series.domain, series.rule, key ORDER BY 4 DESC, key LIMIT $3");
        return Ok(everywhere.all(tx, &[from.into(), search.into(), limit.into()])?);
    }
    let mut keys = Vec::new();
    for id in rules_of(tx, actor, &query.scope)? {
        let of_series = select!(TopKey:
            "FROM top_keys JOIN series ON series.id = $1 \
             WHERE top_keys.series = $1 AND at >= $2 AND ($3 = '' OR LOWER(key) LIKE $3 ESCAPE '\\') \
             GROUP BY series.domain, series.rule, key ORDER BY 4 DESC, key LIMIT $4");
        keys.extend(of_series.all(tx, &[id.into(), from.into(), (&search).into(), limit.into()])?);
    }
    keys.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(&b.key)));
    keys.truncate(limit as usize);
    Ok(keys)
}

columns! {
    TopKey {
        domain = "series.domain",
        rule = "series.rule",
        key,
        denied = "SUM(CASE WHEN denied > 500000000000000 THEN 500000000000000 \
                  ELSE CAST(denied AS BIGINT) END)",
    }
}

/// The series of rules in the scope, which must name what the actor may see.
fn rules_of(tx: &mut dyn Tx, actor: &Actor, scope: &Scope) -> Result<Vec<i64>, ControlError> {
    let domains = match scope {
        Scope::All => {
            let mut domains = Vec::new();
            for (app, _) in apps::names(tx, actor)? {
                domains.extend(domains_of(tx, &app)?);
            }
            domains
        }
        Scope::App(app) => {
            actor.must(Role::Viewer, app)?;
            domains_of(tx, app)?
        }
        Scope::Domain(domain, rule) if rule.is_empty() => {
            actor.must(Role::Viewer, EVERY_APP)?;
            vec![domain.clone()]
        }
        Scope::Rule(..) | Scope::Domain(..) => return series_of(tx, actor, scope),
    };
    let mut series = Vec::new();
    for domain in domains {
        let rules = "SELECT id FROM series WHERE domain = $1 AND rule <> '' ORDER BY id";
        series.extend(query_values::<i64>(tx, rules, &[domain.into()])?);
    }
    Ok(series)
}
