//! Preferences of a user for pages.

use tollgate_db::columns;

/// Preferences of a user for pages; an empty one follows the browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// `zh`, `en`, or empty.
    pub locale: String,
    /// `light`, `dark`, or empty.
    pub theme: String,
    /// The name of a time zone.
    pub zone: String,
}

columns! { Preferences { locale, theme, zone } }
