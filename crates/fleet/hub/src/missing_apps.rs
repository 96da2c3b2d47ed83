//! Apps that nodes hold and that are not published.

/// Treatment of an app that a node holds and this database has never published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingApps {
    /// The nodes remove it.
    Removed,
    /// The nodes keep it, since the database was restored from a copy that is older than the app.
    Kept,
}
