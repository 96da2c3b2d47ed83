//! Rows that another program has edited: found when a change writes one of them next, and by comparing all
//! rows with their seals from time to time.
//!
//! A change that writes such a row seals it anew, so what was found is an entry of the audit, in the same
//! transaction. It is a problem until an administrator accepts it. Not here: how an edit is found (`db`).

use serde_json::{Value as Json, json};
use tollgate_db::{Comparison, DbError, Difference, Tx, columns, query_int, row, select};

use crate::access::actor::Who;
use crate::audit::{self, Note};
use crate::error::ControlError;

/// The action of an entry that names edited rows.
const FOUND: &str = "database.edited";
/// The action by which an administrator accepts them.
pub(crate) const ACCEPTED: &str = "audit.accept_edits";
/// Most rows that an entry names.
const MOST_ROWS: usize = 100;
/// Most rows that a problem names.
const MOST_NAMED: usize = 3;
/// Edits that the audit has recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Entries that record one.
    pub entries: i64,
    /// The first of them.
    pub first: i64,
    /// Those that are not accepted.
    pub open: i64,
}

/// Rows that another program has edited, and that no administrator has accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditedRows {
    /// Number of rows, as far as they were counted.
    pub rows: i64,
    /// Some of them, or the seal that was changed.
    pub detail: String,
    /// When the first was found.
    pub since_ms: i64,
}

/// Edits that this process knows of.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    /// Entries of the audit up to this one were read.
    read_to: i64,
    /// Edits that they record and no administrator has accepted.
    recorded: EditedRows,
    /// The result of the last comparison, and when it began.
    pub(crate) compared: Option<(i64, EditedRows)>,
}

/// Entries of the audit since it was read last.
pub(crate) struct News {
    read_to: i64,
    /// When edits were accepted last.
    accepted_at: Option<i64>,
    recorded: EditedRows,
}

/// Records rows that another program has edited, in the transaction that seals them anew.
pub(crate) fn record(tx: &mut dyn Tx, edits: &[Difference]) -> Result<(), DbError> {
    tracing::error!(
        rows = edits.len(),
        first = edits.first().map(named),
        "rows were edited by another program; a change has overwritten them, and the audit names them"
    );
    let who = Who { kind: "unknown", name: "another program".to_owned(), roles: Vec::new(), ..Who::system() };
    let rows: Vec<Json> = edits.iter().take(MOST_ROWS).map(shown).collect();
    let after = Some(json!({"rows": edits.len(), "first": rows}));
    let note = Note { action: FOUND, target: "database".to_owned(), after, ..Note::default() };
    audit::append(tx, &who.acting(), note).map_err(|error| match error {
        ControlError::Db(error) => error,
        other => DbError::Constraint(other.to_string()),
    })
}

/// A row by its table, its key and the digests of what was sealed and of what was found.
fn shown(it: &Difference) -> Json {
    let mut shown = json!({"table": it.table, "key": it.key, "what": it.what.name()});
    for (name, digest) in [("sealed", &it.sealed), ("found", &it.found)] {
        if !digest.is_empty() {
            shown[name] = json!(digest);
        }
    }
    shown
}

pub(crate) fn named(it: &Difference) -> String {
    format!("{} {}", it.table, it.key)
}

row! {
    struct AcceptedRow { seq: i64, at: i64 }
}

row! {
    struct FoundRow { at: i64, after: Option<String> }
}

/// Edits recorded and accepted after entry `from`.
pub(crate) fn news(tx: &mut dyn Tx, from: i64) -> Result<News, ControlError> {
    let read_to = query_int(tx, "SELECT COALESCE(MAX(seq), 0) FROM audit", &[])?;
    let accepted =
        select!(AcceptedRow: "FROM audit WHERE seq > $1 AND action = $2 ORDER BY seq DESC LIMIT 1");
    let accepted = accepted.first(tx, &[from.into(), ACCEPTED.into()])?;
    let after = accepted.as_ref().map_or(from, |it| it.seq);
    let found = select!(FoundRow: "FROM audit WHERE seq > $1 AND action = $2 ORDER BY seq LIMIT 1000");
    let mut recorded = EditedRows::default();
    for FoundRow { at, after } in found.all(tx, &[after.into(), FOUND.into()])? {
        recorded.add(at, &after.unwrap_or_default());
    }
    Ok(News { read_to, accepted_at: accepted.map(|it| it.at), recorded })
}

impl EditedRows {
    /// Those of an entry of the audit.
    fn add(&mut self, at: i64, after: &str) {
        let after: Json = serde_json::from_str(after).unwrap_or_default();
        let of = |it: &Json| Some(format!("{} {}", it["table"].as_str()?, it["key"].as_str()?));
        let first = after["first"].as_array().into_iter().flatten().filter_map(of);
        let first: Vec<_> = first.take(MOST_NAMED).collect();
        let rows = after["rows"].as_i64().unwrap_or(1);
        let detail = first.join(", ");
        self.take(Self { rows, detail, since_ms: at });
    }

    /// The rows of both.
    fn take(&mut self, other: Self) {
        if self.rows == 0 {
            *self = other;
        } else {
            self.rows = self.rows.saturating_add(other.rows);
        }
    }

    pub(crate) fn of(found: &Comparison, at: i64) -> Self {
        let first: Vec<_> = found.differences.iter().take(MOST_NAMED).map(named).collect();
        match found.broken_at {
            Some(seal) => Self { rows: 1, detail: format!("seals {seal}"), since_ms: at },
            None => Self {
                rows: i64::try_from(found.differ).unwrap_or(i64::MAX),
                detail: first.join(", "),
                since_ms: at,
            },
        }
    }
}

impl Edited {
    /// Where to read the audit on from.
    pub(crate) const fn read_to(&self) -> i64 {
        self.read_to
    }

    /// Takes the rows that were read. Returns those that are not accepted.
    pub(crate) fn take(&mut self, news: News) -> Option<EditedRows> {
        if news.read_to > self.read_to {
            self.read_to = news.read_to;
            if let Some(at) = news.accepted_at {
                self.recorded = EditedRows::default();
                // A comparison that began before the acceptance is accepted too.
                self.compared = self.compared.take().filter(|(began, _)| *began > at);
            }
            self.recorded.take(news.recorded);
        }
        let mut all = self.recorded.clone();
        if let Some((_, found)) = &self.compared {
            all.take(found.clone());
        }
        Some(all).filter(|it| it.rows > 0)
    }
}

/// Edits that the audit has recorded, of all times.
pub(crate) fn recorded(tx: &mut dyn Tx) -> Result<Recorded, ControlError> {
    let recorded = select!(Recorded: "FROM audit WHERE action = $2");
    Ok(recorded.first(tx, &[ACCEPTED.into(), FOUND.into()])?.unwrap_or_default())
}

// `$1` is the action by which edits are accepted.
columns! {
    Recorded {
        entries = "COUNT(*)",
        first = "COALESCE(MIN(seq), 0)",
        open = "COALESCE(SUM(CASE WHEN seq > (SELECT COALESCE(MAX(seq), 0) FROM audit WHERE action = $1) \
                THEN 1 ELSE 0 END), 0)",
    }
}
