//! One group of reports, written in one transaction: each counts once.

use std::collections::{BTreeMap, HashMap};

use tollgate_db::Tx;
use tollgate_fleet_proto::Report;

use super::counts::Counts;
use super::names::Names;
use super::resolution::Resolution;
use super::series::Book;
use super::top::{self, TopSums};
use super::{OTHERS, UNKNOWN_DOMAIN};
use crate::error::ControlError;

/// The longest name of a domain, a rule or a key, in bytes.
const LONGEST_NAME: usize = 1_024;
/// A report cannot be older than the oldest rows.
const OLDEST_MS: i64 = Resolution::Hour.kept_ms();

/// A report as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) node: String,
    pub(super) incarnation: i64,
    pub(super) report: Report,
    /// When it arrived.
    pub(super) at_ms: i64,
}

/// The effect of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) reports: usize,
    pub(super) counts: Counts,
    /// Sums that got no row of their own, since a cap is reached.
    pub(super) left_out: u64,
}

/// The sums of one series.
#[derive(Default)]
struct Sums {
    /// By resolution and beginning of the row.
    rows: BTreeMap<(i64, i64), Counts>,
    last_used: i64,
}

impl Sums {
    fn join(&mut self, other: &Self) {
        for (row, counts) in &other.rows {
            self.rows.entry(*row).or_default().add(*counts);
        }
        self.last_used = self.last_used.max(other.last_used);
    }
}

type Name<'g> = (&'g str, &'g str);

/// Adds the reports of `group` that are not contained yet.
pub(super) fn write(tx: &mut dyn Tx, group: &[Arrived], names: &Names) -> Result<Added, ControlError> {
    let mut sums: HashMap<Name<'_>, Sums> = HashMap::new();
    let mut tops = TopSums::new();
    let mut added = Added::default();
    for arrived in new_ones(tx, group)? {
        let Arrived { report, at_ms, .. } = arrived;
        added.reports += 1;
        let age = i64::try_from(report.age_ms).unwrap_or(i64::MAX).min(OLDEST_MS);
        let span = i64::try_from(report.span_ms).unwrap_or(i64::MAX).min(OLDEST_MS);
        let end = (at_ms - age).max(0);
        for rule in &report.rules {
            let counts = Counts::of(rule);
            if counts.is_zero() {
                continue;
            }
            let of_rule = sums.entry(name(&rule.domain, &rule.rule)).or_default();
            for resolution in Resolution::ALL {
                resolution.spread(end, span, counts, |at, part| {
                    of_rule.rows.entry((resolution.ms(), at)).or_default().add(part);
                });
            }
            if counts.offered() > 0 {
                of_rule.last_used = of_rule.last_used.max(end);
            }
            if rule.domain.is_empty() || !rule.rule.starts_with('(') {
                added.counts.add(counts);
            }
        }
        for key in report.top.iter().filter(|it| it.denied > 0 && it.key.len() <= LONGEST_NAME) {
            let of_rule = tops.entry(name(&key.domain, &key.rule)).or_default();
            let sum: &mut i64 = of_rule.entry((top::row_of(end), &key.key)).or_default();
            *sum = sum.saturating_add(key.denied.min(1 << 40) as i64);
        }
    }
    let mut book = Book::new(tx.now_ms(), names);
    let series = write_sums(tx, &mut book, sums, &mut added.left_out)?;
    top::write(tx, &series, &tops)?;
    Ok(added)
}

/// The reports that the database does not contain, and records that it does now.
fn new_ones<'g>(tx: &mut dyn Tx, group: &'g [Arrived]) -> Result<Vec<&'g Arrived>, ControlError> {
    let mut new = Vec::with_capacity(group.len());
    for arrived in group {
        let seq = i64::try_from(arrived.report.sequence).unwrap_or(i64::MAX);
        let values = [(&arrived.node).into(), arrived.incarnation.into(), seq.into(), arrived.at_ms.into()];
        let recorded = tx.execute(
            "INSERT INTO reported (node, incarnation, seq, at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (node, incarnation) DO UPDATE SET seq = $3, at = $4 WHERE reported.seq < $3",
            &values,
        )?;
        if recorded > 0 {
            new.push(arrived);
        }
    }
    Ok(new)
}

/// Under which name counts are kept: nobody but this crate makes totals.
fn name<'g>(domain: &'g str, rule: &'g str) -> Name<'g> {
    let is_own = domain.is_empty() && rule != UNKNOWN_DOMAIN;
    if is_own || rule.is_empty() || domain.len() > LONGEST_NAME || rule.len() > LONGEST_NAME {
        return ("", OTHERS);
    }
    (domain, rule)
}

/// Whether counts of this rule are decisions by a rule, and so part of the totals.
fn is_in_totals((domain, rule): Name<'_>) -> bool {
    !rule.starts_with('(') || (domain.is_empty() && rule == OTHERS)
}

fn write_sums<'g>(
    tx: &mut dyn Tx,
    book: &mut Book<'_>,
    sums: HashMap<Name<'g>, Sums>,
    left_out: &mut u64,
) -> Result<HashMap<Name<'g>, i64>, ControlError> {
    let mut all = Sums::default();
    let mut domains: BTreeMap<&str, Sums> = BTreeMap::new();
    for (name, of_rule) in sums.iter().filter(|(name, _)| is_in_totals(**name)) {
        all.join(of_rule);
        if !name.0.is_empty() {
            domains.entry(name.0).or_default().join(of_rule);
        }
    }
    let mut by_series = BTreeMap::<i64, Sums>::new();
    let mut series = HashMap::new();
    // In the order of their names, so that the same rules have room whatever the order of the reports.
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(name, _)| *name);
    let totals = domains.into_iter().map(|(domain, total)| ((domain, ""), total));
    for (name, of_rule) in sums.into_iter().chain(totals).chain([(("", ""), all)]) {
        if of_rule.rows.is_empty() {
            continue;
        }
        let own = book.find(tx, name.0, name.1)?;
        *left_out += u64::from(own.is_none());
        let found = match own {
            None if name.1.is_empty() => continue, // the total of a domain above the cap
            None => book.find(tx, "", OTHERS)?,
            found => found,
        };
        let Some(id) = found else { continue };
        by_series.entry(id).or_default().join(&of_rule);
        series.insert(name, id);
    }
    for (id, Sums { rows, last_used }) in by_series {
        for ((res, at), counts) in rows {
            add_row(tx, res, id, at, counts)?;
        }
        tx.execute(
            "UPDATE series SET last_used = $1 WHERE id = $2 AND last_used < $1",
            &[last_used.into(), id.into()],
        )?;
    }
    Ok(series)
}

/// Above this a row grows no further, so that sums over a year of them still fit.
macro_rules! capped {
    ($column:literal, $place:literal) => {
        concat!(
            $column,
            " = CASE WHEN history.",
            $column,
            " > 500000000000000 - ",
            $place,
            " THEN 500000000000000 ELSE history.",
            $column,
            " + ",
            $place,
            " END"
        )
    };
}

fn add_row(tx: &mut dyn Tx, res: i64, series: i64, at: i64, counts: Counts) -> Result<(), ControlError> {
    let Counts { admitted, denied, shadow_denied, degraded, near, both_denied } = counts;
    tx.execute(
        concat!(
            "INSERT INTO history (res, series, at, admitted, denied, shadow_denied, degraded, near, both_denied) ",
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (res, series, at) DO UPDATE SET ",
            capped!("admitted", "$4"),
            ", ",
            capped!("denied", "$5"),
            ", ",
            capped!("shadow_denied", "$6"),
            ", ",
            capped!("degraded", "$7"),
            ", ",
            capped!("near", "$8"),
            ", ",
            capped!("both_denied", "$9")
        ),
        &[
            res.into(),
            series.into(),
            at.into(),
            admitted.into(),
            denied.into(),
            shadow_denied.into(),
            degraded.into(),
            near.into(),
            both_denied.into(),
        ],
    )?;
    Ok(())
}
