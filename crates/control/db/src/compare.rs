//! Compares rows with their seals.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _};

use crate::difference::{Difference, Edit};
use crate::error::DbError;
use crate::seal::{Unsealed, hash, hex, in_line, tables};

/// Result of comparing rows with their seals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Seals that were read.
    pub seals: i64,
    /// Rows that were compared.
    pub rows: u64,
    /// The first seal that was changed, or that follows one that is missing.
    pub broken_at: Option<i64>,
    /// The first 100 rows that differ.
    pub differences: Vec<Difference>,
    /// Count of all rows that differ, also those not listed.
    pub differ: u64,
    most: usize,
}

/// Compares all rows, within the transaction of the connection. Keeps `most` differences.
pub(crate) fn compare(
    connection: &Connection,
    unsealed: Unsealed,
    most: usize,
) -> Result<Comparison, DbError> {
    let mut found = Comparison { most, ..Comparison::default() };
    let has_seals = "SELECT 1 FROM sqlite_schema WHERE name = 'seals'";
    if connection.query_row(has_seals, [], |_| Ok(())).optional()?.is_none() {
        found.broken_at = Some(1);
        return Ok(found);
    }
    // By table and key, the digest of the row as it was sealed last.
    let mut sealed: HashMap<String, HashMap<String, String>> = HashMap::new();
    let mut before = String::new();
    let mut seals = connection.prepare("SELECT seq, head, rows, hash FROM seals ORDER BY seq")?;
    let mut seals = seals.query([])?;
    while let Some(row) = seals.next()? {
        let read = || Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let read: Option<(i64, String, String, String)> = read().ok(); // another type is an edit too
        let is_next = |(seq, head, rows, own): &(i64, String, String, String)| {
            *seq == found.seals + 1 && *own == hash(&before, *seq, head, rows)
        };
        let Some((seq, _, rows, own)) = read.filter(is_next) else {
            found.broken_at = Some(found.seals + 1);
            return Ok(found);
        };
        (before, found.seals) = (own, seq);
        for line in rows.lines() {
            let mut parts = line.splitn(3, ' ');
            let (Some(table), Some(digest), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
                found.broken_at = Some(seq);
                return Ok(found);
            };
            let of_table = match sealed.get_mut(table) {
                Some(of_table) => of_table,
                None => sealed.entry(table.to_owned()).or_default(),
            };
            if digest.is_empty() {
                of_table.remove(key);
            } else {
                of_table.insert(key.to_owned(), digest.to_owned());
            }
        }
    }
    for table in tables(connection, unsealed)? {
        let mut of_table = sealed.remove(&table.name).unwrap_or_default();
        let mut rows = connection.prepare(&table.scan())?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            found.rows += 1;
            let key = in_line(row.get_ref(0)?);
            let now = hex(&table.digest(|nth| row.get_ref(1 + nth))?);
            match of_table.remove(&key) {
                Some(digest) if digest == now => {}
                Some(digest) => found.differs(&table.name, key, Edit::Changed, digest, now),
                None => found.differs(&table.name, key, Edit::Added, String::new(), now),
            }
        }
        found.removed(&table.name, of_table);
    }
    // Rows of tables that are not there any more.
    let is_unsealed = |name: &str| unsealed.iter().any(|(table, of)| *table == name && of.is_empty());
    for (table, rows) in sealed.into_iter().filter(|(table, _)| !is_unsealed(table)) {
        found.removed(&table, rows);
    }
    Ok(found)
}

impl Comparison {
    fn differs(&mut self, table: &str, key: String, what: Edit, sealed: String, found: String) {
        self.differ += 1;
        if self.differences.len() < self.most {
            self.differences.push(Difference { table: table.to_owned(), key, what, sealed, found });
        }
    }

    /// Keys and digests of rows that are not there.
    fn removed(&mut self, table: &str, rows: HashMap<String, String>) {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort();
        for (key, digest) in rows {
            self.differs(table, key, Edit::Removed, digest, String::new());
        }
    }

    /// Whether every row is as a transaction of this program has left it.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.broken_at.is_none() && self.differ == 0
    }
}
