//! Numbered, embedded changes of the schema: forward only, all in one transaction, with checksums.

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::error::DbError;

/// One change of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// 1, 2, 3 …
    pub number: i64,
    pub name: &'static str,
    /// Statements, separated by `;`.
    pub sql: &'static str,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_history (
    version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)";

/// Brings the schema to that of the program. The lock of `BEGIN IMMEDIATE` lets one process do it.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[Migration]) -> Result<(), DbError> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute_batch(TABLE)?;
    let applied: Vec<(i64, String)> = {
        let mut statement = tx.prepare("SELECT version, checksum FROM schema_history ORDER BY version")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    let known = migrations.last().map_or(0, |last| last.number);
    if let Some((found, _)) = applied.last().filter(|(found, _)| *found > known) {
        return Err(DbError::Newer { found: *found, known });
    }
    for migration in migrations {
        let checksum = checksum(migration.sql);
        match applied.iter().find(|(number, _)| *number == migration.number) {
            Some((_, before)) if *before == checksum => {}
            Some(_) => return Err(DbError::Changed { number: migration.number }),
            None => {
                tx.execute_batch(migration.sql)?;
                tx.execute(
                    "INSERT INTO schema_history VALUES (?1, ?2, ?3)",
                    (migration.number, migration.name, checksum),
                )?;
            }
        }
    }
    Ok(tx.commit()?)
}

fn checksum(sql: &str) -> String {
    Sha256::digest(sql).iter().map(|byte| format!("{byte:02x}")).collect()
}
