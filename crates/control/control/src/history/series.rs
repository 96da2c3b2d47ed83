//! Series: the number of each rule, and how many rules get rows of their own.

use tollgate_db::{Tx, query_int, query_value, row, select};

use super::OTHERS;
use super::names::Names;
use crate::error::ControlError;

/// Most rules that are published and get rows in one hour. A tenth as many others get rows too: those of a
/// node's own files, and what a node makes up.
pub(super) const MOST_RULES: i64 = 2_000;
/// Most published domains whose totals get rows in one hour, and a tenth of it of others.
pub(super) const MOST_DOMAINS: i64 = 1_000;
/// Most series that are remembered.
const MOST_SERIES: i64 = 100_000;

/// Finds and makes series within one transaction.
pub(super) struct Book<'n> {
    hour: i64,
    names: &'n Names,
    /// Rules and domains with rows in this hour, published and others, once they were counted.
    active: [Option<[i64; 2]>; 2],
}

row! {
    struct SeriesRow { id: i64, hour: i64 }
}

row! {
    struct Name { domain: String, rule: String }
}

impl<'n> Book<'n> {
    pub(super) const fn new(now_ms: i64, names: &'n Names) -> Self {
        Self { hour: now_ms / 3_600_000, names, active: [None; 2] }
    }

    /// The series of this rule; `None` if the cap of this hour is reached.
    pub(super) fn find(
        &mut self,
        tx: &mut dyn Tx,
        domain: &str,
        rule: &str,
    ) -> Result<Option<i64>, ControlError> {
        let known = select!(SeriesRow: "FROM series WHERE domain = $1 AND rule = $2");
        let known = known.first(tx, &[domain.into(), rule.into()])?;
        if let Some(series) = known.as_ref().filter(|it| it.hour >= self.hour) {
            return Ok(Some(series.id));
        }
        let is_always = domain.is_empty() && (rule.is_empty() || rule == OTHERS);
        if !is_always && !self.has_room(tx, domain, rule, known.is_none())? {
            return Ok(None);
        }
        if let Some(SeriesRow { id, .. }) = known {
            tx.execute("UPDATE series SET hour = $1 WHERE id = $2", &[self.hour.into(), id.into()])?;
            return Ok(Some(id));
        }
        Ok(query_value(
            tx,
            "INSERT INTO series (domain, rule, hour, last_used) VALUES ($1, $2, $3, 0) RETURNING id",
            &[domain.into(), rule.into(), self.hour.into()],
        )?)
    }

    /// Whether one more series gets rows in this hour; if so, it is counted.
    fn has_room(
        &mut self,
        tx: &mut dyn Tx,
        domain: &str,
        rule: &str,
        is_new: bool,
    ) -> Result<bool, ControlError> {
        let is_total = rule.is_empty();
        let active = match self.active[usize::from(is_total)] {
            Some(active) => active,
            None => self.count(tx, is_total)?,
        };
        self.active[usize::from(is_total)] = Some(active);
        let other = usize::from(!self.names.has(domain, rule));
        let most = if is_total { MOST_DOMAINS } else { MOST_RULES };
        let most = if other == 1 { most / 10 } else { most };
        if active[other] >= most || (is_new && self.is_full(tx, other == 1)?) {
            return Ok(false);
        }
        if let Some(active) = &mut self.active[usize::from(is_total)] {
            active[other] += 1;
        }
        Ok(true)
    }

    /// Series with rows in this hour: those that are published, and the others.
    fn count(&self, tx: &mut dyn Tx, is_total: bool) -> Result<[i64; 2], ControlError> {
        let statement = if is_total {
            select!(Name: "FROM series WHERE hour >= $1 AND rule = '' AND domain <> ''")
        } else {
            select!(Name: "FROM series WHERE hour >= $1 AND rule <> '' AND rule <> '(others)'")
        };
        let mut counts = [0; 2];
        for Name { domain, rule } in statement.all(tx, &[self.hour.into()])? {
            counts[usize::from(!self.names.has(&domain, &rule))] += 1;
        }
        Ok(counts)
    }

    /// Whether as many series are remembered as there may be. Those that are not published leave a tenth.
    fn is_full(&self, tx: &mut dyn Tx, is_other: bool) -> Result<bool, ControlError> {
        let all = query_int(tx, "SELECT COUNT(*) FROM series", &[])?;
        Ok(all >= if is_other { MOST_SERIES / 10 * 9 } else { MOST_SERIES })
    }
}
