//! How a user likes pages.

use tollgate_db::Row;

use crate::error::ControlError;

/// How a user likes pages; empty for what the browser prefers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// `zh`, `en`.
    pub locale: String,
    /// `light`, `dark`.
    pub theme: String,
    /// The name of a time zone.
    pub zone: String,
}

pub(crate) fn read_preferences(row: &Row, first: usize) -> Result<Preferences, ControlError> {
    Ok(Preferences { locale: row.text(first)?, theme: row.text(first + 1)?, zone: row.text(first + 2)? })
}
