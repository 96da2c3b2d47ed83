//! Rule files on disk: which files are read, and how much of them.
//!
//! A folder is read with everything below it, in name order. Names that begin with a dot are ignored:
//! editors' swap files, and the `..data` folders of Kubernetes' ConfigMap mounts, whose files are linked
//! beside them. Files with lists of values (`*.values`) are read with the rules. Links are followed, and a
//! folder that several links lead to is read once. Not here: watching for changes (`watch`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::LoadError;
use crate::yaml_tree::MAX_BYTES;

/// The most files that are read.
const MAX_FILES: usize = 10_000;
/// The most bytes of all files together.
const MAX_TOTAL: usize = 64 << 20;

/// The extension of lists of values.
const LIST: &str = "values";

/// The text of one rule file, or of one list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// How errors name it.
    pub name: PathBuf,
    /// Its text.
    pub text: String,
}

impl RuleFile {
    /// Whether it is a list of values, which rules refer to, and not rules.
    pub(crate) fn is_list(&self) -> bool {
        self.name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(LIST))
    }
}

/// The texts of all files, or why they cannot be read.
pub(crate) type Reading = Result<Vec<RuleFile>, LoadError>;

/// Reads every rule file of `paths`, in the order of `paths` and then of names.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or the files are too many or too large.
pub fn read(paths: &[PathBuf]) -> Result<Vec<RuleFile>, LoadError> {
    let names = names(paths)?;
    let mut files = Vec::with_capacity(names.len());
    let mut total = 0;
    for name in names {
        let text = text(&name).map_err(|source| unreadable(&name, source))?;
        total += text.len();
        if total > MAX_TOTAL {
            return Err(too_much(&name, format!("all rule files together have more than {MAX_TOTAL} bytes")));
        }
        files.push(RuleFile { name, text });
    }
    Ok(files)
}

/// What shows that a file has been written to, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The file.
    pub(crate) name: PathBuf,
    bytes: u64,
    /// `None` where the file system keeps no such time.
    modified: Option<SystemTime>,
}

/// The stamps of the files that [`read`] would read.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or the files are too many.
pub(crate) fn stamps(paths: &[PathBuf]) -> Result<Vec<Stamp>, LoadError> {
    let stamp = |name: PathBuf| match fs::metadata(&name) {
        Ok(metadata) => Ok(Stamp { name, bytes: metadata.len(), modified: metadata.modified().ok() }),
        Err(source) => Err(unreadable(&name, source)),
    };
    names(paths)?.into_iter().map(stamp).collect()
}

/// The rule files at and below `paths`, in the order of `paths` and then of names.
fn names(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for path in paths {
        // A path that is given itself is read whatever its name is.
        if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            folder(path, &mut names, &mut seen)?;
        } else {
            names.push(path.clone());
        }
    }
    Ok(names)
}

fn folder(path: &Path, names: &mut Vec<PathBuf>, seen: &mut HashSet<PathBuf>) -> Result<(), LoadError> {
    if !seen.insert(fs::canonicalize(path).map_err(|source| unreadable(path, source))?) {
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|source| unreadable(path, source))?;
    let entries: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries.map_err(|source| unreadable(path, source))?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_rules = entry.extension().and_then(OsStr::to_str).is_some_and(is_rules_extension);
        match fs::metadata(&entry) {
            Ok(metadata) if metadata.is_dir() => folder(&entry, names, seen)?,
            Ok(metadata) if metadata.is_file() && is_rules => names.push(entry),
            Ok(_) => {}
            Err(_) if !is_rules => {} // a broken link that is not a rule file
            Err(source) => return Err(unreadable(&entry, source)),
        }
        if names.len() > MAX_FILES {
            return Err(too_much(path, format!("there are more than {MAX_FILES} rule files")));
        }
    }
    Ok(())
}

/// Rules, or what they refer to.
fn is_rules_extension(extension: &str) -> bool {
    ["yaml", "yml", "json", LIST].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// The text of one file, which must be UTF-8, up to the most bytes of one file.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

fn unreadable(path: &Path, source: io::Error) -> LoadError {
    LoadError::Unreadable { path: path.to_owned(), source }
}

fn too_much(path: &Path, message: String) -> LoadError {
    unreadable(path, io::Error::new(io::ErrorKind::FileTooLarge, message))
}
