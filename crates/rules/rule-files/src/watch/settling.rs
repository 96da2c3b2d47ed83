//! Files that have changed and may still be written: read once their sizes and times of change have been the
//! same for a while.
//!
//! A file that is written in place is incomplete in between, and half a rule file is often valid, with fewer
//! rules. Reads no clock: how long ago the previous look was is an argument.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::folder::{self, Reading, Stamp};

/// Result of a look: the stamps of all files, or why they cannot be read.
type Stamps = Result<Vec<Stamp>, String>;

/// Files between a change and the moment at which they may be read.
#[derive(Debug)]
pub(super) struct Settling<'a> {
    paths: &'a [PathBuf],
    dot_files: bool,
    settle: Duration,
    stamps: Stamps,
    still_for: Duration,
    changing: Option<PathBuf>,
}

impl<'a> Settling<'a> {
    /// Looks for the first time.
    pub(super) fn begin(paths: &'a [PathBuf], dot_files: bool, settle: Duration) -> Self {
        let stamps = stamps(paths, dot_files);
        Self { paths, dot_files, settle, stamps, still_for: Duration::ZERO, changing: None }
    }

    /// Looks again, `since` after the previous look. Returns the texts, or why they cannot be read, once the
    /// stamps have been the same for as long as they must be, also after reading.
    pub(super) fn look(&mut self, since: Duration) -> Option<Reading> {
        self.still_for += since;
        if !self.is_still() || self.still_for < self.settle {
            return None;
        }
        let reading = folder::read(self.paths, self.dot_files);
        self.is_still().then_some(reading)
    }

    /// The file that the last change was seen in.
    pub(super) fn changing(&self) -> Option<&Path> {
        self.changing.as_deref()
    }

    /// Whether the stamps are those of the previous look. If they are not, the files have been still for no
    /// time.
    fn is_still(&mut self) -> bool {
        let stamps = stamps(self.paths, self.dot_files);
        if stamps == self.stamps {
            return true;
        }
        let before = self.stamps.as_deref().unwrap_or_default();
        let now = stamps.as_deref().unwrap_or_default();
        self.changing = now.iter().find(|stamp| !before.contains(stamp)).map(|stamp| stamp.name.clone());
        (self.stamps, self.still_for) = (stamps, Duration::ZERO);
        false
    }
}

fn stamps(paths: &[PathBuf], dot_files: bool) -> Stamps {
    folder::stamps(paths, dot_files).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write as _;
    use std::time::SystemTime;

    use super::*;

    const SETTLE: Duration = Duration::from_millis(300);
    const PAUSE: Duration = Duration::from_millis(50);

    /// Number of looks, 50 ms apart, until the files are read, and the texts.
    fn looks(settling: &mut Settling<'_>) -> (u32, String) {
        let (number, reading) = (1..=100)
            .find_map(|number| settling.look(PAUSE).map(|reading| (number, reading)))
            .expect("the files become still");
        let text = match reading {
            Ok(files) => files.into_iter().map(|file| file.text).collect(),
            Err(error) => error.to_string(),
        };
        (number, text)
    }

    #[test]
    fn a_file_that_is_written_in_place_is_read_only_once_it_has_been_still() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [folder.path().join("rules.yaml")];
        fs::write(&paths[0], "old").expect("written");
        let mut settling = Settling::begin(&paths, false, SETTLE);
        let mut file = File::create(&paths[0]).expect("truncated");
        for piece in ["domain: ", "shop\n", "descriptors: []\n"] {
            file.write_all(piece.as_bytes()).expect("written");
            // A writer that pauses for 250 ms between its pieces.
            for look in 0..5 {
                assert!(settling.look(PAUSE).is_none(), "{look} looks after {piece:?}");
            }
        }
        assert_eq!(settling.changing(), Some(paths[0].as_path()));
        assert_eq!(looks(&mut settling), (2, "domain: shop\ndescriptors: []\n".to_owned()));
    }

    #[test]
    fn files_are_read_within_the_time_that_they_must_be_still_after_the_last_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [folder.path().join("rules.yaml")];
        fs::write(&paths[0], "whole").expect("written");
        assert_eq!(looks(&mut Settling::begin(&paths, false, SETTLE)), (6, "whole".to_owned()));
        assert_eq!(looks(&mut Settling::begin(&paths, false, Duration::ZERO)), (1, "whole".to_owned()));
    }

    #[test]
    fn a_change_of_size_of_time_or_of_the_files_begins_the_wait_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.yaml");
        fs::write(&file, "abc").expect("written");
        let paths = [folder.path().to_owned()];
        let touch = || {
            let file = OpenOptions::new().write(true).open(&file).expect("opened");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("touched");
        };
        let append = || {
            let mut file = OpenOptions::new().append(true).open(&file).expect("opened");
            file.write_all(b"d").expect("written");
        };
        let add = || fs::write(folder.path().join("b.yaml"), "e").expect("written");
        let remove = || fs::remove_file(folder.path().join("b.yaml")).expect("removed");
        let unrelated = || fs::write(folder.path().join("access.log"), "f").expect("written");
        let changes: [(&dyn Fn(), u32, &str); 5] = [
            (&touch, 7, "abc"),
            (&append, 7, "abcd"),
            (&add, 7, "abcde"),
            (&remove, 7, "abcd"),
            (&unrelated, 3, "abcd"),
        ];
        for (index, (change, want, text)) in changes.into_iter().enumerate() {
            let mut settling = Settling::begin(&paths, false, SETTLE);
            for _ in 0..3 {
                assert!(settling.look(PAUSE).is_none());
            }
            change();
            assert_eq!(looks(&mut settling), (want, text.to_owned()), "change {index}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_reported_once_it_has_been_so_for_as_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [folder.path().join("rules.yaml")];
        let (number, text) = looks(&mut Settling::begin(&paths, false, SETTLE));
        assert!(number == 6 && text.starts_with("cannot read "), "{number}: {text}");
    }
}
