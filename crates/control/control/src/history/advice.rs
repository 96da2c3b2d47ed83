//! A rate from recorded traffic: the 99th percentile of what came per second, and half as much again.

use tollgate_db::Tx;
use tollgate_model::compile::path_of;

use super::query::{HistoryQuery, Scope, history};
use super::resolution::Resolution;
use crate::access::actor::Actor;
use crate::changes::rules;
use crate::error::ControlError;

/// Ten-second rows that a suggestion needs at least: five minutes.
const LEAST_ROWS: usize = 30;
/// Share of the rows that the suggested rate leaves room for, in percent.
const PERCENTILE: usize = 99;

/// Numbers for a rule of the table of committed rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The 99th percentile of requests per second, in tenths.
    pub peak_tenths: i64,
    /// Rate: one and a half times as many tokens.
    pub rate: i64,
    /// Burst: one second of that rate, or what it is now if that is more.
    pub max_permits: i64,
    /// Seconds of traffic that it rests on.
    pub seconds: i64,
}

/// The numbers that `rows`, the requests of ten seconds each, suggest for a rule whose requests take `need`
/// tokens and whose burst is `burst`. `None` without five minutes of rows or without requests.
///
/// # Example
/// ```
/// # use tollgate_control::history::suggest;
/// let mut rows = vec![100; 360]; // ten a second for an hour
/// rows[7] = 9_000; // ten seconds of a rush are above the 99th percentile
/// let suggestion = suggest(&rows, 1, 10).expect("enough");
/// assert_eq!((suggestion.peak_tenths, suggestion.rate, suggestion.max_permits), (100, 15, 15));
/// ```
#[must_use]
pub fn suggest(rows: &[i64], need: i64, burst: i64) -> Option<Suggestion> {
    if rows.len() < LEAST_ROWS {
        return None;
    }
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * PERCENTILE).div_ceil(100);
    let peak = *sorted.get(rank.checked_sub(1)?)?;
    if peak <= 0 {
        return None;
    }
    let tokens = i128::from(peak) * i128::from(need.max(1));
    let most = i128::from(tollgate_model::table_rule::MAX_NUMBER);
    // 3/2 of a tenth of the row, rounded up.
    let rate = (tokens.saturating_mul(3).saturating_add(19) / 20).clamp(1, most) as i64;
    let seconds = i64::try_from(rows.len()).unwrap_or(i64::MAX).saturating_mul(10);
    Some(Suggestion { peak_tenths: peak, rate, max_permits: rate.max(burst).max(need), seconds })
}

/// The numbers that the last hour suggests for a rule. `None` without enough traffic, and for rules that
/// count values of an entry separately, whose buckets are not known one by one. Needs viewer of the app.
///
/// # Errors
/// [`ControlError`].
pub fn suggestion(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    key: &str,
) -> Result<Option<Suggestion>, ControlError> {
    let rule = rules::get(tx, actor, app, key)?;
    if !rule.row.per.is_empty() {
        return Ok(None);
    }
    let ten = Resolution::TenSeconds;
    // Nodes report every five seconds, so the last row is not complete.
    let to_ms = ten.row_of(tx.now_ms() - ten.ms());
    let query = HistoryQuery {
        scope: Scope::Rule(app.to_owned(), path_of(key)),
        from_ms: to_ms - ten.kept_ms() + 2 * ten.ms(),
        to_ms,
        step_ms: ten.ms(),
    };
    let found = history(tx, actor, &query)?;
    let rows: Vec<i64> = found.points.iter().map(|point| point.counts.offered()).collect();
    // The time before the first request says nothing about the traffic.
    let first = rows.iter().position(|row| *row > 0).unwrap_or(rows.len());
    Ok(suggest(&rows[first..], rule.row.need_permits, rule.row.max_permits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_trace_suggests_its_99th_percentile_and_a_half() {
        let trace: Vec<i64> = (1..=100).map(|tenths| tenths * 10).collect(); // 1 to 100 a second
        for (rows, need, burst, want) in [
            (&trace[..], 1, 1, Some((990, 149, 149))),
            (&trace[..], 3, 1, Some((990, 446, 446))),
            (&trace[..], 1, 500, Some((990, 149, 500))),
            (&trace[..29], 1, 1, None),
            (&trace[..30], 1, 1, Some((300, 45, 45))),
            (&[0; 360], 1, 1, None),
            (&[1; 30], 1, 1, Some((1, 1, 1))),
            (
                &[i64::MAX; 30],
                i64::MAX,
                1,
                Some((i64::MAX, tollgate_model::table_rule::MAX_NUMBER, i64::MAX)),
            ),
        ] {
            let found = suggest(rows, need, burst).map(|it| (it.peak_tenths, it.rate, it.max_permits));
            assert_eq!(found, want, "{} rows, need {need}, burst {burst}", rows.len());
        }
    }
}
