//! The end of the audit, kept in a file beside the database: so that a cut end is seen, also one that SQLite
//! has cut itself because its log was damaged.
//!
//! The file has two places, written in turn and without waiting for the disk: after a loss of power it may be
//! a few entries behind, and is never ahead. Not here: what is in the audit (`audit`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use tollgate_db::{Head, Select, Witness, row, select};
use tollgate_model::hash::sha256;

/// Name of the file with the last entry.
const HEAD: &str = "audit-head";
/// Name of the file that records missing entries.
const LOST: &str = "audit-lost";
/// Bytes of a place.
const PLACE: usize = 256;

/// The identity of the database: the last entry, and the last seal behind a dot.
pub(crate) const WITNESS: Witness = Witness { last: LAST.statement(), has: HAS };

row! {
    /// Number and digests of the end of the audit.
    pub(crate) struct HeadRow {
        pub(crate) seq: i64,
        pub(crate) hash: String =
            "hash || COALESCE('.' || (SELECT hash FROM seals ORDER BY seq DESC LIMIT 1), '')",
    }
}

pub(crate) const LAST: Select<HeadRow> = select!(HeadRow: "FROM audit ORDER BY seq DESC LIMIT 1");
/// Whether there was an end of this number and these digests.
pub(crate) const HAS: &str = "SELECT 1 FROM audit WHERE seq = $1 AND hash = SUBSTR($2, 1, 64) \
     AND (LENGTH($2) = 64 OR EXISTS (SELECT 1 FROM seals WHERE hash = SUBSTR($2, 66)))";

/// Entries that were acknowledged and are not in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The last entry that was acknowledged.
    pub seq: i64,
    pub hash: String,
    /// The last entry of the database when that was found.
    pub found: i64,
}

/// The file of the last entry.
#[derive(Debug)]
pub(crate) struct HeadFile {
    folder: PathBuf,
    file: Mutex<Option<File>>,
    last: Mutex<Option<Head>>,
    is_failing: AtomicBool,
}

impl HeadFile {
    /// That of the database in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        let file = Mutex::default();
        let last = Mutex::default();
        let is_failing = AtomicBool::new(false);
        Self { folder: folder.to_owned(), file, last, is_failing }
    }

    /// Keeps the last entry, which is committed.
    pub(crate) fn keep(&self, head: &Head) {
        if self.last.lock().as_ref() == Some(head) {
            return;
        }
        let written = self.write(head);
        let was_failing = self.is_failing.swap(written.is_err(), Relaxed);
        match written {
            Ok(()) => *self.last.lock() = Some(head.clone()),
            Err(error) if !was_failing => {
                tracing::warn!(%error, "the end of the audit cannot be written to {HEAD}; changes are made all the same");
            }
            Err(_) => {}
        }
    }

    /// The last entry that this process has committed, or has found.
    pub(crate) fn last(&self) -> Option<Head> {
        self.last.lock().clone()
    }

    fn write(&self, (seq, hash): &Head) -> io::Result<()> {
        let mut file = self.file.lock();
        let file = match &mut *file {
            Some(file) => file,
            none => {
                let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
                none.insert(options.open(self.folder.join(HEAD))?)
            }
        };
        let text = format!("{seq} {hash}");
        let line = format!("{text} {}", &sha256(&text)[..16]);
        let place = format!("{line:<width$}\n", width = PLACE - 1);
        file.write_all_at(place.as_bytes(), if seq % 2 == 0 { 0 } else { PLACE as u64 })
    }

    /// The last entry that is known; none if there is no file, or none that can be read.
    pub(crate) fn read(&self) -> Option<Head> {
        let text = std::fs::read(self.folder.join(HEAD)).ok()?;
        text.chunks(PLACE).filter_map(place).max_by_key(|(seq, _)| *seq)
    }

    /// The entries that were found missing, until an administrator accepts that.
    pub(crate) fn lost(&self) -> Option<Lost> {
        let text = std::fs::read_to_string(self.folder.join(LOST)).ok()?;
        let mut words = text.split_whitespace();
        let seq = words.next()?.parse().ok()?;
        let hash = words.next()?.to_owned();
        Some(Lost { seq, hash, found: words.next()?.parse().ok()? })
    }

    /// Remembers the missing entries until somebody accepts the loss.
    pub(crate) fn found_lost(&self, lost: &Lost) -> io::Result<()> {
        if self.lost().is_some_and(|known| known.seq >= lost.seq) {
            return Ok(());
        }
        let new = self.folder.join("audit-lost.new");
        std::fs::write(&new, format!("{} {} {}\n", lost.seq, lost.hash, lost.found))?;
        File::open(&new)?.sync_all()?;
        std::fs::rename(new, self.folder.join(LOST))
    }

    /// Somebody has accepted the loss.
    pub(crate) fn accept(&self) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(LOST))
    }
}

/// A place that was written whole.
fn place(bytes: &[u8]) -> Option<Head> {
    let mut words = std::str::from_utf8(bytes).ok()?.split_whitespace();
    let seq = words.next()?;
    let hash = words.next()?;
    let check = words.next()?;
    let is_whole = sha256(&format!("{seq} {hash}"))[..16] == *check;
    Some((seq.parse().ok().filter(|_| is_whole)?, hash.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_is_read_and_the_one_before_if_that_was_not_written_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = HeadFile::new(folder.path());
        assert_eq!(file.read(), None);
        for seq in 1..=9 {
            file.keep(&(seq, format!("{seq:064}")));
            assert_eq!(file.read(), Some((seq, format!("{seq:064}"))));
        }
        let whole = std::fs::read(folder.path().join(HEAD)).expect("there");
        for cut in 0..PLACE {
            let mut torn = whole.clone();
            torn[PLACE..PLACE + cut].fill(b'x');
            std::fs::write(folder.path().join(HEAD), &torn).expect("written");
            let want = if cut == 0 { 9 } else { 8 };
            assert_eq!(file.read().map(|head| head.0), Some(want), "{cut} bytes are wrong");
        }
    }
}
