//! A data folder that was set up and has lost its database: damage, and not a new installation.

use std::path::Path;

use super::node_token;

const DATABASE: &str = "control.db";
/// Files that are there once a database had an entry in its audit.
const MARKS: [&str; 2] = ["audit-head", "audit-lost"];

/// The damage of the database in `folder`; `None` if it is there, or the folder is new. To begin anew, an
/// administrator moves the files away that show that there was a database.
pub(crate) fn of(folder: &Path) -> Option<String> {
    let bytes = |name: &str| std::fs::metadata(folder.join(name)).ok().map(|it| it.len());
    let has_log = bytes("control.db-wal").is_some_and(|bytes| bytes > 0);
    let is_known = has_log || MARKS.iter().any(|name| bytes(name).is_some());
    let has_token = bytes(node_token::FILE).is_some();
    let what = match bytes(DATABASE) {
        Some(0) if is_known || has_token => "is empty",
        None if is_known => "is missing",
        // The token may have been put there before the first start.
        None if has_token => {
            tracing::warn!(
                "{DATABASE} is missing beside a node token: a new database is made; nodes keep their rules until an \
                 admin decides about each app"
            );
            return None;
        }
        _ => return None,
    };
    Some(format!(
        "{DATABASE} {what}, although this data folder was set up: put a copy of {DATABASE} there, or, to begin anew without \
         it, move {DATABASE}, {DATABASE}-wal, audit-head and audit-lost away"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_missing_database_is_damage_only_in_a_folder_that_was_set_up() {
        for (files, is_damaged) in [
            (&[][..], false),
            (&[("control.db", 0)], false), // the first start was cut off
            (&[("control.db", 0), ("node-token", 50)], true),
            (&[("control.db", 0), ("audit-head", 256)], true),
            (&[("control.db", 0), ("control.db-wal", 1)], true),
            (&[("control.db", 0), ("control.db-wal", 0)], false),
            (&[("control.db-wal", 1)], true),
            (&[("control.db", 1), ("node-token", 50), ("control.db-wal", 1)], false),
            (&[("audit-head", 256)], true),
            (&[("audit-lost", 70), ("node-token", 50)], true),
            (&[("node-token", 50)], false), // put there before the first start, or beginning anew
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            for (name, bytes) in files {
                std::fs::write(folder.path().join(name), vec![1; *bytes]).expect("written");
            }
            assert_eq!(of(folder.path()).is_some(), is_damaged, "{files:?}");
        }
    }
}
