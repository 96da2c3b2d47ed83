//! A folder that one process uses at a time.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The file that is locked.
const FILE: &str = "lock";

/// Locks `folder` for as long as the file is open, also if this process is killed. `None` if another process
/// has it.
///
/// # Errors
/// The folder cannot be used.
pub(crate) fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(folder.join(FILE))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = lock(folder.path()).expect("usable");
        assert!(first.is_some());
        assert!(lock(folder.path()).expect("usable").is_none());
        drop(first);
        assert!(lock(folder.path()).expect("usable").is_some());
    }
}
