//! Series: the number of each rule, and how many rules get rows of their own.

use tollgate_db::Tx;

use super::OTHERS;
use crate::error::ControlError;

/// Most rules that get rows in one hour.
pub(super) const MOST_RULES: i64 = 2_000;
/// Most domains whose totals get rows in one hour.
pub(super) const MOST_DOMAINS: i64 = 1_000;
/// Most series that are remembered.
const MOST_SERIES: i64 = 100_000;

/// Finds and makes series within one transaction.
pub(super) struct Book {
    hour: i64,
    /// Rules and domains with rows in this hour, once they were counted.
    active: [Option<i64>; 2],
}

impl Book {
    pub(super) const fn new(now_ms: i64) -> Self {
        Self { hour: now_ms / 3_600_000, active: [None; 2] }
    }

    /// The series of this rule; `None` if the cap of this hour is reached.
    pub(super) fn find(
        &mut self,
        tx: &mut dyn Tx,
        domain: &str,
        rule: &str,
    ) -> Result<Option<i64>, ControlError> {
        let row = tx.query_one(
            "SELECT id, hour FROM series WHERE domain = $1 AND rule = $2",
            &[domain.into(), rule.into()],
        )?;
        let known = row.map(|row| Ok::<_, ControlError>((row.int(0)?, row.int(1)?))).transpose()?;
        if let Some((id, _)) = known.filter(|(_, hour)| *hour >= self.hour) {
            return Ok(Some(id));
        }
        let is_always = domain.is_empty() && (rule.is_empty() || rule == OTHERS);
        if !is_always && !self.has_room(tx, rule, known.is_none())? {
            return Ok(None);
        }
        if let Some((id, _)) = known {
            tx.execute("UPDATE series SET hour = $2 WHERE id = $1", &[id.into(), self.hour.into()])?;
            return Ok(Some(id));
        }
        let made = tx.query_one(
            "INSERT INTO series (domain, rule, hour, last_used) VALUES ($1, $2, $3, 0) RETURNING id",
            &[domain.into(), rule.into(), self.hour.into()],
        )?;
        Ok(made.map(|row| row.int(0)).transpose()?)
    }

    /// Whether one more series gets rows in this hour; if so, it is counted.
    fn has_room(&mut self, tx: &mut dyn Tx, rule: &str, is_new: bool) -> Result<bool, ControlError> {
        let count = |tx: &mut dyn Tx, statement, values: &[tollgate_db::Value]| {
            tx.query_one(statement, values)?.map_or(Ok(0), |row| row.int(0))
        };
        let is_total = rule.is_empty();
        let (statement, most) = if is_total {
            ("SELECT COUNT(*) FROM series WHERE hour >= $1 AND rule = ''", MOST_DOMAINS)
        } else {
            ("SELECT COUNT(*) FROM series WHERE hour >= $1 AND rule <> '' AND rule <> '(others)'", MOST_RULES)
        };
        let known = &mut self.active[usize::from(is_total)];
        let active = match *known {
            Some(active) => active,
            None => count(tx, statement, &[self.hour.into()])?,
        };
        *known = Some(active);
        if active >= most || (is_new && count(tx, "SELECT COUNT(*) FROM series", &[])? >= MOST_SERIES) {
            return Ok(false);
        }
        *known = Some(active + 1);
        Ok(true)
    }
}
