//! Rows with named columns: a type lists its columns once, and both the statement and the reader follow that
//! list. So they cannot differ, and no caller counts columns. A row that is added names each column beside
//! its value.

use std::marker::PhantomData;
use std::vec::IntoIter;

use crate::error::DbError;
use crate::tx::Tx;
use crate::value::{Row, Value};

/// The values of a row, in the order of its columns.
#[derive(Debug)]
pub struct Cells {
    values: IntoIter<Value>,
    /// Values read so far.
    taken: usize,
}

impl Cells {
    fn new(row: Row) -> Self {
        Self { values: row.0.into_iter(), taken: 0 }
    }

    /// Takes the next value as `read` understands it.
    fn take<T>(&mut self, wanted: &'static str, read: impl FnOnce(Value) -> Option<T>) -> Result<T, DbError> {
        let column = self.taken;
        self.taken += 1;
        self.values.next().and_then(read).ok_or(DbError::Shape { column, wanted })
    }

    /// # Errors
    /// [`DbError::Shape`] if there are more columns than the reader took.
    fn finish(mut self) -> Result<(), DbError> {
        match self.values.next() {
            None => Ok(()),
            Some(_) => Err(DbError::Shape { column: self.taken, wanted: "expected" }),
        }
    }
}

/// A type that one column, or several adjacent columns, are read as.
pub trait Read: Sized {
    /// Takes one value for each of its columns.
    ///
    /// # Errors
    /// [`DbError::Shape`] when there is something else.
    fn read(cells: &mut Cells) -> Result<Self, DbError>;
}

impl Read for i64 {
    fn read(cells: &mut Cells) -> Result<Self, DbError> {
        cells.take("a number", |value| match value {
            Value::Int(value) => Some(value),
            Value::Null | Value::Text(_) => None,
        })
    }
}

impl Read for Option<i64> {
    fn read(cells: &mut Cells) -> Result<Self, DbError> {
        cells.take("a number", |value| match value {
            Value::Int(value) => Some(Some(value)),
            Value::Null => Some(None),
            Value::Text(_) => None,
        })
    }
}

impl Read for bool {
    fn read(cells: &mut Cells) -> Result<Self, DbError> {
        Ok(i64::read(cells)? != 0)
    }
}

impl Read for String {
    fn read(cells: &mut Cells) -> Result<Self, DbError> {
        cells.take("a text", |value| match value {
            Value::Text(value) => Some(value),
            Value::Null | Value::Int(_) => None,
        })
    }
}

impl Read for Option<String> {
    fn read(cells: &mut Cells) -> Result<Self, DbError> {
        cells.take("a text", |value| match value {
            Value::Text(value) => Some(Some(value)),
            Value::Null => Some(None),
            Value::Int(_) => None,
        })
    }
}

/// A row with named columns. [`row!`](crate::row) and [`columns!`](crate::columns) implement it.
pub trait Columns: Read {
    /// Its columns as a statement selects them.
    const COLUMNS: &'static str;
}

/// A statement that selects the columns of `R`. [`select!`](crate::select) makes it.
#[derive(Debug)]
pub struct Select<R> {
    statement: &'static str,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for Select<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Select<R> {}

impl<R: Columns> Select<R> {
    /// For [`select!`](crate::select), which writes the columns of `R` into the statement.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(statement: &'static str) -> Self {
        Self { statement, row: PhantomData }
    }

    #[must_use]
    pub const fn statement(self) -> &'static str {
        self.statement
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// As [`Tx::query`], and [`DbError::Shape`].
    pub fn all(self, tx: &mut dyn Tx, values: &[Value]) -> Result<Vec<R>, DbError> {
        query_values(tx, self.statement, values)
    }

    /// The first row, if there is one.
    ///
    /// # Errors
    /// As [`Tx::query`], and [`DbError::Shape`].
    pub fn first(self, tx: &mut dyn Tx, values: &[Value]) -> Result<Option<R>, DbError> {
        query_value(tx, self.statement, values)
    }
}

/// The only column of each row.
///
/// # Errors
/// As [`Tx::query`], and [`DbError::Shape`].
pub fn query_values<T: Read>(
    tx: &mut dyn Tx,
    statement: &'static str,
    values: &[Value],
) -> Result<Vec<T>, DbError> {
    tx.query(statement, values)?.into_iter().map(whole).collect()
}

/// The only column of the first row, if there is one.
///
/// # Errors
/// As [`Tx::query`], and [`DbError::Shape`].
pub fn query_value<T: Read>(
    tx: &mut dyn Tx,
    statement: &'static str,
    values: &[Value],
) -> Result<Option<T>, DbError> {
    tx.query_one(statement, values)?.map(whole).transpose()
}

/// The number in the only column of the first row; 0 without a row.
///
/// # Errors
/// As [`Tx::query`], and [`DbError::Shape`].
pub fn query_int(tx: &mut dyn Tx, statement: &'static str, values: &[Value]) -> Result<i64, DbError> {
    Ok(query_value(tx, statement, values)?.unwrap_or(0))
}

/// Whether a statement finds a row.
///
/// # Errors
/// As [`Tx::query`].
pub fn query_any(tx: &mut dyn Tx, statement: &'static str, values: &[Value]) -> Result<bool, DbError> {
    Ok(tx.query_one(statement, values)?.is_some())
}

fn whole<T: Read>(row: Row) -> Result<T, DbError> {
    let mut cells = Cells::new(row);
    let read = T::read(&mut cells)?;
    cells.finish()?;
    Ok(read)
}

/// The length of `parts` with `between` between them.
#[doc(hidden)]
#[must_use]
pub const fn joined_len(parts: &[&str], between: &str) -> usize {
    let mut length = between.len() * parts.len().saturating_sub(1);
    let mut part = 0;
    while part < parts.len() {
        length += parts[part].len();
        part += 1;
    }
    length
}

/// `parts` with `between` between them; `LENGTH` is their [`joined_len`].
#[doc(hidden)]
#[must_use]
pub const fn joined<const LENGTH: usize>(parts: &[&str], between: &str) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    let mut part = 0;
    let mut at = 0;
    while part < parts.len() {
        if part > 0 {
            at = copied(&mut text, at, between);
        }
        at = copied(&mut text, at, parts[part]);
        part += 1;
    }
    text
}

const fn copied(text: &mut [u8], mut at: usize, part: &str) -> usize {
    let part = part.as_bytes();
    let mut byte = 0;
    while byte < part.len() {
        text[at] = part[byte];
        at += 1;
        byte += 1;
    }
    at
}

/// The joined text; it is valid, since its parts are.
#[doc(hidden)]
#[must_use]
pub const fn as_text(joined: &'static [u8]) -> &'static str {
    match std::str::from_utf8(joined) {
        Ok(text) => text,
        Err(_) => "",
    }
}

/// The places of `count` values, at most 32, in their order.
#[doc(hidden)]
#[must_use]
pub const fn places(count: usize) -> &'static [&'static str] {
    const PLACES: [&str; 32] = [
        "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15",
        "$16", "$17", "$18", "$19", "$20", "$21", "$22", "$23", "$24", "$25", "$26", "$27", "$28", "$29",
        "$30", "$31", "$32",
    ];
    PLACES.split_at(count).0
}

/// Joins constants into one text, as `concat!` joins literals.
#[macro_export]
macro_rules! sql {
    ($($part: expr),+ $(,)?) => { $crate::sql!(@between "", $($part),+) };
    (@between $between: literal, $($part: expr),+) => { $crate::sql!(@list $between, &[$($part),+]) };
    (@list $between: literal, $parts: expr) => {{
        const PARTS: &[&str] = $parts;
        const TEXT: [u8; $crate::joined_len(PARTS, $between)] = $crate::joined(PARTS, $between);
        const { $crate::as_text(&TEXT) }
    }};
}

/// Names the columns of a struct: `columns! { Entry { seq, at = "entered_at", state => State::read } }`.
///
/// A field is read from the column of its name, or from the expression behind `=`. A field that is a row
/// itself is read from `= Inner::COLUMNS`. A function behind `=>` makes the field of what the column holds.
/// Fields that no column has follow in `and { field: value }`. For a struct of another crate, a struct of
/// this one holds it: `columns! { EntryRow(Entry) { … } }`.
#[macro_export]
macro_rules! columns {
    (
        $row: ident ($inner: ident) {
            $($field: ident $(= $sql: expr)? $(=> $made: expr)?),+ $(,)?
        }
        $(and { $($other: ident: $value: expr),+ $(,)? })?
    ) => {
        impl $crate::Columns for $row {
            const COLUMNS: &'static str =
                $crate::sql!(@between ", ", $($crate::column!(@name $field $(= $sql)?)),+);
        }

        impl $crate::Read for $row {
            fn read(cells: &mut $crate::Cells) -> Result<Self, $crate::DbError> {
                Ok(Self($inner {
                    $($field: $crate::column!(@read cells $(=> $made)?),)+
                    $($($other: $value,)+)?
                }))
            }
        }
    };
    (
        $row: ident { $($field: ident $(= $sql: expr)? $(=> $made: expr)?),+ $(,)? }
        $(and { $($other: ident: $value: expr),+ $(,)? })?
    ) => {
        impl $crate::Columns for $row {
            const COLUMNS: &'static str =
                $crate::sql!(@between ", ", $($crate::column!(@name $field $(= $sql)?)),+);
        }

        impl $crate::Read for $row {
            fn read(cells: &mut $crate::Cells) -> Result<Self, $crate::DbError> {
                Ok(Self {
                    $($field: $crate::column!(@read cells $(=> $made)?),)+
                    $($($other: $value,)+)?
                })
            }
        }
    };
}

/// The expression of one field, the way it is read, and the value that is written.
#[doc(hidden)]
#[macro_export]
macro_rules! column {
    (@name $field: ident) => {
        stringify!($field)
    };
    (@name $field: ident = $sql: expr) => {
        $sql
    };
    (@value $field: ident) => {
        $field
    };
    (@value $field: ident: $value: expr) => {
        $value
    };
    (@read $cells: ident) => {
        $crate::Read::read($cells)?
    };
    (@read $cells: ident => $made: expr) => {
        ($made)($crate::Read::read($cells)?)
    };
}

/// Declares a struct with named columns; see [`columns!`](crate::columns).
#[macro_export]
macro_rules! row {
    (
        $(#[$attribute: meta])*
        $visible: vis struct $row: ident {
            $(
                $(#[$of_field: meta])*
                $field_visible: vis $field: ident: $type: ty $(= $sql: expr)? $(=> $made: expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visible struct $row { $($(#[$of_field])* $field_visible $field: $type),+ }

        $crate::columns! { $row { $($field $(= $sql)? $(=> $made)?),+ } }
    };
}

/// A statement that selects the columns of a row: `select!(Entry: "FROM entries WHERE seq > $1")`. A clause
/// before `SELECT` precedes the row: `select!("WITH …", Entry: "FROM …")`.
#[macro_export]
macro_rules! select {
    ($row: ty: $($part: expr),+ $(,)?) => { $crate::select!("", $row: $($part),+) };
    ($before: literal, $row: ty: $($part: expr),+ $(,)?) => {
        $crate::Select::<$row>::new($crate::sql!(
            $before, "SELECT ", <$row as $crate::Columns>::COLUMNS, " ", $($part),+
        ))
    };
}

/// Adds a row to a table: `insert!(tx, "stones" { name: &name, x: 1 })?`.
///
/// Each column has its value beside it; as in a struct, a variable of its name needs no colon. A conflict
/// clause follows: `insert!(tx, "stones" { … }, "ON CONFLICT DO NOTHING")?`.
#[macro_export]
macro_rules! insert {
    ($tx: ident, $table: literal { $($column: ident $(: $value: expr)?),+ $(,)? } $(, $conflict: literal)?) => {{
        const NAMES: &[&str] = &[$(stringify!($column)),+];
        const STATEMENT: &str = $crate::sql!(
            "INSERT INTO ", $table, " (", $crate::sql!(@list ", ", NAMES), ") VALUES (",
            $crate::sql!(@list ", ", $crate::places(NAMES.len())), ")" $(, " ", $conflict)?
        );
        $tx.execute(STATEMENT, &[$($crate::Value::from($crate::column!(@value $column $(: $value)?))),+])
    }};
}
