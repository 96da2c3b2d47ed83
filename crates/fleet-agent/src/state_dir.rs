//! The state folder: the node's name for the control plane, its rules, the marker.
//!
//! Rules are written to a new file, synced, and renamed over the old ones, which are kept as
//! `rules.previous`. So a crash or a full disk at any byte leaves the old or the new rules.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::rules::RuleState;
use crate::saved::Marker;

const RULES: &str = "rules";
const PREVIOUS: &str = "rules.previous";
const MARKER: &str = "applying";
const IDENTITY: &str = "node";

/// Most bytes that are read of one file.
const MAX_BYTES: u64 = 128 << 20;

/// Who the node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 32 hexadecimal digits, made at the first start.
    pub node: String,
    /// Number of this start, from 1.
    pub incarnation: u64,
}

/// The state folder of one node.
#[derive(Debug)]
pub struct StateDir {
    folder: PathBuf,
    /// `rules` can be read, so it is worth keeping as the previous copy.
    is_current_valid: bool,
}

impl StateDir {
    /// The folder; made if it does not exist.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, is_current_valid: false })
    }

    /// The node's id, and the number of this start. `fresh` is the id of a node that has none yet.
    ///
    /// # Errors
    /// The file cannot be written; a node that cannot count its starts must not report.
    pub fn identify(&self, fresh: &str) -> io::Result<Identity> {
        let text = self.read(IDENTITY)?.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let is_id = |word: &&str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let node = words.next().filter(is_id).unwrap_or(fresh).to_owned();
        let starts: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let identity = Identity { node, incarnation: starts.saturating_add(1) };
        self.replace(IDENTITY, format!("{} {}\n", identity.node, identity.incarnation).as_bytes())?;
        Ok(identity)
    }

    /// The saved rules, or those before if they are damaged.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn load(&mut self) -> io::Result<Option<RuleState>> {
        for name in [RULES, PREVIOUS] {
            match self.read(name)?.map(|bytes| RuleState::from_bytes(&bytes)) {
                Some(Ok(state)) => {
                    self.is_current_valid = name == RULES;
                    return Ok(Some(state));
                }
                Some(Err(error)) => tracing::warn!(file = name, "saved rules cannot be used: {error}"),
                None => {}
            }
        }
        Ok(None)
    }

    /// Saves rules.
    ///
    /// # Errors
    /// They may or may not be saved; what was saved before is not lost.
    pub fn save(&mut self, state: &RuleState) -> io::Result<()> {
        let new = self.write_new(RULES, &state.to_bytes())?;
        if self.is_current_valid {
            self.is_current_valid = false;
            fs::rename(self.path(RULES), self.path(PREVIOUS))?;
        }
        fs::rename(new, self.path(RULES))?;
        self.sync()?;
        self.is_current_valid = true;
        Ok(())
    }

    /// Writes the marker.
    ///
    /// # Errors
    /// It may or may not be written.
    pub fn mark(&self, marker: &Marker) -> io::Result<()> {
        self.replace(MARKER, &marker.to_bytes())
    }

    /// Removes the marker.
    ///
    /// # Errors
    /// It is still there.
    pub fn unmark(&self) -> io::Result<()> {
        match fs::remove_file(self.path(MARKER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync(),
        }
    }

    /// The marker, if the node crashed while it applied rules. A damaged one names no app.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn marker(&self) -> io::Result<Option<Marker>> {
        Ok(self.read(MARKER)?.map(|bytes| Marker::from_bytes(&bytes).unwrap_or_default()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(name);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > MAX_BYTES => Err(io::ErrorKind::FileTooLarge.into()),
            Ok(_) => fs::read(&path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::rename(self.write_new(name, bytes)?, self.path(name))?;
        self.sync()
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path(&format!("{name}.new"));
        let mut file = File::create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(path)
    }

    /// Makes renames durable.
    fn sync(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_fleet_proto::{Held, text_digest};

    use super::*;
    use crate::rules::{AppRules, Text};

    fn state(version: u64) -> RuleState {
        let mut state = RuleState { epoch: "e".into(), ..RuleState::default() };
        let yaml: Arc<str> = format!("domain: shop # {version}").into();
        let text = Text { domain: "shop".into(), sha256: text_digest(&yaml), yaml };
        state.set("shop", Arc::new(AppRules::new(version, vec![text])));
        state.gone.insert("old".into(), 7);
        state.crashed_by("bad", 3);
        state
    }

    #[test]
    fn rules_cut_at_any_byte_are_the_old_or_the_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = StateDir::open(folder.path()).unwrap();
        assert_eq!(dir.load().unwrap(), None);
        dir.save(&state(1)).unwrap();
        dir.save(&state(2)).unwrap();
        let whole = fs::read(folder.path().join(RULES)).unwrap();
        for cut in 0..=whole.len() {
            fs::write(folder.path().join(RULES), &whole[..cut]).unwrap();
            let loaded = StateDir::open(folder.path()).unwrap().load().unwrap();
            let want = if cut == whole.len() { 2 } else { 1 };
            assert_eq!(loaded, Some(state(want)), "cut at {cut} of {}", whole.len());
        }
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(folder.path().join(RULES), damaged).unwrap();
            let loaded = StateDir::open(folder.path()).unwrap().load().unwrap();
            assert_eq!(loaded, Some(state(1)), "a bit of byte {place} flipped");
        }
    }

    #[test]
    fn a_save_that_stops_after_any_step_leaves_the_old_or_the_new_rules() {
        for step in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let mut dir = StateDir::open(folder.path()).unwrap();
            dir.save(&state(1)).unwrap();
            fs::write(path("rules.new"), state(2).to_bytes()).unwrap();
            if step >= 1 {
                fs::rename(path(RULES), path(PREVIOUS)).unwrap();
            }
            if step >= 2 {
                fs::rename(path("rules.new"), path(RULES)).unwrap();
            }
            let loaded = StateDir::open(folder.path()).unwrap().load().unwrap();
            assert_eq!(loaded, Some(state(if step == 2 { 2 } else { 1 })), "after step {step}");
        }
    }

    #[test]
    fn a_damaged_copy_never_replaces_the_last_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = StateDir::open(folder.path()).unwrap();
        dir.save(&state(1)).unwrap();
        dir.save(&state(2)).unwrap();
        fs::write(folder.path().join(RULES), b"torn").unwrap();
        let mut dir = StateDir::open(folder.path()).unwrap();
        assert_eq!(dir.load().unwrap(), Some(state(1)));
        dir.save(&state(3)).unwrap();
        fs::write(folder.path().join(RULES), b"torn").unwrap();
        assert_eq!(StateDir::open(folder.path()).unwrap().load().unwrap(), Some(state(1)));
    }

    #[test]
    fn the_id_stays_and_the_number_of_the_start_grows() {
        let folder = tempfile::tempdir().unwrap();
        let fresh = "0123456789abcdef0123456789abcdef";
        for start in 1..4 {
            let dir = StateDir::open(folder.path()).unwrap();
            let other = if start == 1 { fresh } else { "f".repeat(32).leak() };
            let want = Identity { node: fresh.into(), incarnation: start };
            assert_eq!(dir.identify(other).unwrap(), want);
        }
    }

    #[test]
    fn the_marker_is_there_from_mark_to_unmark_and_a_torn_one_names_no_app() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        assert_eq!(dir.marker().unwrap(), None);
        dir.unmark().unwrap();
        let held = Held { app: "shop".into(), version: 2, sha256: vec![1] };
        let marker = Marker { apps: vec![held], is_saved: false, attempt: 1 };
        dir.mark(&marker).unwrap();
        assert_eq!(dir.marker().unwrap(), Some(marker.clone()));
        fs::write(folder.path().join(MARKER), &marker.to_bytes()[..20]).unwrap();
        assert_eq!(dir.marker().unwrap(), Some(Marker::default()));
        dir.unmark().unwrap();
        assert_eq!(dir.marker().unwrap(), None);
    }
}
