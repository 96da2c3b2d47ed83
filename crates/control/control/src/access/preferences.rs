//! How a user likes pages.

use tollgate_db::columns;

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

columns! { Preferences { locale, theme, zone } }
