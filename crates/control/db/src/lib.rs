//! Storage functions over one transaction.
//!
//! A storage function is plain blocking code over a [`Tx`]; [`Db::read`] and [`Db::write`] run it on a
//! database thread. Statements are written in Postgres' form, with `$1` for the first value, and are
//! `'static`: no text of a user is ever part of a statement. SQLite is built; Postgres would be another
//! implementation of [`Tx`] and of the threads in `sqlite.rs`. Not here: which tables there are and what they
//! mean (`control`).
//!
//! ```
//! # use tollgate_db::*;
//! # let folder = tempfile::tempdir()?;
//! let sql = "CREATE TABLE hi (name TEXT NOT NULL)";
//! let migrations = [Migration { number: 1, name: "greetings", sql }];
//! let db = Db::open(&folder.path().join("hi.db"), &migrations, TimeSource::Database)?;
//! db.write_blocking(|tx| insert!(tx, "hi" { name: "ann" }))?;
//!
//! row! {
//!     struct Greeting { name: String }
//! }
//! let greetings = db.read_blocking(|tx| select!(Greeting: "FROM hi ORDER BY name").all(tx, &[]))?;
//! assert_eq!(greetings[0].name, "ann");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod db;
mod difference;
mod error;
mod kill_points;
mod migrate;
mod rows;
mod seal;
mod sqlite;
mod tx;
mod value;
mod watch;

pub use compare::Comparison;
pub use db::{Db, Options};
pub use difference::{Difference, Edit};
pub use error::DbError;
#[cfg(feature = "kill-points")]
pub use kill_points::kill_at_step;
pub use migrate::Migration;
pub use rows::{Cells, Columns, Read, Select, query_any, query_int, query_value, query_values};
#[doc(hidden)]
pub use rows::{as_text, joined, joined_len, places};
pub use seal::Unsealed;
pub use sqlite::{OnEdits, TimeSource};
pub use tx::{MAX_ROWS, Tx};
pub use value::{Row, Value};
pub use watch::{Head, OnHead, Witness};
