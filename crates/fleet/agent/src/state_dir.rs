//! The state folder: the node's name for the control plane, its rules, blocks and allowances, the marker.
//!
//! Rules are written to a new file, synced, and renamed over the old ones, which are kept as
//! `rules.previous`. So a crash or a full disk at any byte leaves the old or the new rules. Blocks and
//! allowances are kept in the same way.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tollgate_fleet_proto::Overrides;

use crate::rules::RuleState;
use crate::saved::{Marker, SavedError, overrides_from_bytes, overrides_to_bytes};

const RULES: &str = "rules";
const OVERRIDES: &str = "overrides";
const MARKER: &str = "applying";
const IDENTITY: &str = "node";
/// A file of its own: releases without it write the id and leave this alone.
const SECRET: &str = "secret";

/// Most bytes that are read of one file.
const MAX_BYTES: u64 = 128 << 20;

/// Identity of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 32 hexadecimal digits, made at the first start.
    pub node: String,
    /// Number of this start, from 1.
    pub incarnation: u64,
    /// 32 bytes that only this node knows, so that no other can attach with its id.
    pub secret: Vec<u8>,
}

/// The state folder of one node.
#[derive(Debug)]
pub struct StateDir {
    folder: PathBuf,
    /// Files that can be read, so that they are worth keeping as the previous copy.
    valid: BTreeSet<&'static str>,
}

impl StateDir {
    /// The folder; made if it does not exist.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, valid: BTreeSet::new() })
    }

    /// The node's id, its secret, and the number of this start. `fresh` is the id of a node that has none
    /// yet, and `fresh_secret` the secret.
    ///
    /// # Errors
    /// A file cannot be written; a node that cannot count its starts must not report.
    pub fn identify(&self, fresh: &str, fresh_secret: &[u8; 32]) -> io::Result<Identity> {
        let text = self.read(IDENTITY)?.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let is_id = |word: &&str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let node = words.next().filter(is_id).unwrap_or(fresh).to_owned();
        let starts: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let secret = match self.read(SECRET)?.filter(|it| it.len() == fresh_secret.len()) {
            Some(secret) => secret,
            None => {
                self.replace(SECRET, fresh_secret)?;
                fresh_secret.to_vec()
            }
        };
        let identity = Identity { node, incarnation: starts.saturating_add(1), secret };
        self.replace(IDENTITY, format!("{} {}\n", identity.node, identity.incarnation).as_bytes())?;
        Ok(identity)
    }

    /// The saved rules, or those before if they are damaged.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn load(&mut self) -> io::Result<Option<RuleState>> {
        self.load_kept(RULES, RuleState::from_bytes)
    }

    /// Saves rules, and keeps the previous ones as a copy.
    ///
    /// # Errors
    /// The new rules may or may not be saved; the previous ones are not lost.
    pub fn save(&mut self, state: &RuleState) -> io::Result<()> {
        self.save_kept(RULES, &state.to_bytes())
    }

    /// The saved blocks and allowances, or those before if they are damaged. Some may have ended.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn load_overrides(&mut self) -> io::Result<Option<Overrides>> {
        self.load_kept(OVERRIDES, overrides_from_bytes)
    }

    /// Saves blocks and allowances.
    ///
    /// # Errors
    /// The new list may or may not be saved; the previous one is not lost.
    pub fn save_overrides(&mut self, overrides: &Overrides) -> io::Result<()> {
        self.save_kept(OVERRIDES, &overrides_to_bytes(overrides))
    }

    fn load_kept<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&[u8]) -> Result<T, SavedError>,
    ) -> io::Result<Option<T>> {
        for file in [name, &*previous(name)] {
            match self.read(file)?.map(|bytes| read(&bytes)) {
                Some(Ok(kept)) => {
                    if file == name {
                        self.valid.insert(name);
                    }
                    return Ok(Some(kept));
                }
                Some(Err(error)) => tracing::warn!(file, "saved {name} cannot be used: {error}"),
                None => {}
            }
        }
        Ok(None)
    }

    fn save_kept(&mut self, name: &'static str, bytes: &[u8]) -> io::Result<()> {
        let new = self.write_new(name, bytes)?;
        if self.valid.remove(name) {
            fs::rename(self.path(name), self.path(&previous(name)))?;
        }
        fs::rename(new, self.path(name))?;
        self.sync()?;
        self.valid.insert(name);
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
        let mut file = create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(path)
    }

    /// Makes renames durable.
    fn sync(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }
}

/// A new file that only its owner reads.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn previous(name: &str) -> String {
    format!("{name}.previous")
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_fleet_proto::{Held, Override, text_digest};

    use super::*;
    use crate::rules::{AppRules, RuleDocument};

    fn state(version: u64) -> RuleState {
        let mut state = RuleState { epoch: "e".into(), ..RuleState::default() };
        let yaml: Arc<str> = format!("domain: shop # {version}").into();
        let text = RuleDocument { domain: "shop".into(), sha256: text_digest(&yaml), yaml };
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

    fn overrides(revision: u64) -> Overrides {
        let one = Override { domain: "shop".into(), until_ms: revision, ..Override::default() };
        Overrides { revision, overrides: vec![one] }
    }

    #[test]
    fn blocks_and_allowances_cut_at_any_byte_are_the_old_or_the_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = StateDir::open(folder.path()).unwrap();
        assert_eq!(dir.load_overrides().unwrap(), None);
        dir.save(&state(7)).unwrap();
        dir.save_overrides(&overrides(1)).unwrap();
        dir.save_overrides(&overrides(2)).unwrap();
        let file = folder.path().join(OVERRIDES);
        let whole = fs::read(&file).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            let loaded = StateDir::open(folder.path()).unwrap().load_overrides().unwrap();
            let want = if cut == whole.len() { 2 } else { 1 };
            assert_eq!(loaded, Some(overrides(want)), "cut at {cut} of {}", whole.len());
        }
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&file, damaged).unwrap();
            let loaded = StateDir::open(folder.path()).unwrap().load_overrides().unwrap();
            assert_eq!(loaded, Some(overrides(1)), "a bit of byte {place} flipped");
        }
        // Neither file is the other's: also rules in their place are not read as blocks.
        assert_eq!(dir.load().unwrap(), Some(state(7)));
        fs::copy(folder.path().join(RULES), &file).unwrap();
        let loaded = StateDir::open(folder.path()).unwrap().load_overrides().unwrap();
        assert_eq!(loaded, Some(overrides(1)));
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
                fs::rename(path(RULES), path(&previous(RULES))).unwrap();
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
    fn the_id_and_the_secret_stay_and_the_number_of_the_start_grows() {
        let folder = tempfile::tempdir().unwrap();
        let fresh = "0123456789abcdef0123456789abcdef";
        for start in 1..4 {
            let dir = StateDir::open(folder.path()).unwrap();
            let other = if start == 1 { fresh } else { "f".repeat(32).leak() };
            let secret = [7 + (start - 1) as u8; 32];
            let want = Identity { node: fresh.into(), incarnation: start, secret: vec![7; 32] };
            assert_eq!(dir.identify(other, &secret).unwrap(), want);
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
