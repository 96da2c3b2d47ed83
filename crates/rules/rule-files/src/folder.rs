//! Rule files on disk: which files are read, and how much of them.
//!
//! A folder is read with everything below it, in name order. Names that begin with a dot are ignored:
//! editors' swap files, and the `..data` folders of Kubernetes' ConfigMap mounts, whose files are linked
//! beside them. Files with such names are read on request, folders never. Files with lists of values
//! (`*.values`) are read with the rules. Links are followed, and a folder that several links lead to is read
//! once. Not here: watching for changes (`watch`).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::LoadError;
use crate::manifest;
use crate::rule_file::{RuleFile, is_rules_name};
use crate::yaml_tree::MAX_BYTES;

/// The most files that are read.
const MAX_FILES: usize = 10_000;
/// The most bytes of all files together.
const MAX_TOTAL: usize = 64 << 20;

/// The texts of all files, or why they cannot be read.
pub(crate) type Reading = Result<Vec<RuleFile>, LoadError>;

/// Reads every rule file of `paths`, in the order of `paths` and then of names; with `dot_files` also those
/// whose names begin with a dot.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or the files are too many or too large.
pub fn read(paths: &[PathBuf], dot_files: bool) -> Result<Vec<RuleFile>, LoadError> {
    let names = names(paths, dot_files)?;
    let mut files = Vec::with_capacity(names.len());
    let mut total = 0;
    for name in names {
        let text = text(&name).map_err(|source| unreadable(&name, source))?;
        let inside = manifest::files_in(&name, &text, MAX_TOTAL);
        for file in inside.unwrap_or_else(|| vec![RuleFile { name, text }]) {
            total += file.text.len();
            if total > MAX_TOTAL {
                let message = format!("all rule files together have more than {MAX_TOTAL} bytes");
                return Err(too_much(&file.name, message));
            }
            files.push(file);
        }
    }
    Ok(files)
}

/// Signs of a write to a file that show without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Path of the file.
    pub(crate) name: PathBuf,
    bytes: u64,
    /// `None` where the file system keeps no such time.
    modified: Option<SystemTime>,
}

/// The stamps of the files that [`read`] would read.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or the files are too many.
pub(crate) fn stamps(paths: &[PathBuf], dot_files: bool) -> Result<Vec<Stamp>, LoadError> {
    let stamp = |name: PathBuf| match fs::metadata(&name) {
        Ok(metadata) => Ok(Stamp { name, bytes: metadata.len(), modified: metadata.modified().ok() }),
        Err(source) => Err(unreadable(&name, source)),
    };
    names(paths, dot_files)?.into_iter().map(stamp).collect()
}

/// The files below `paths` that would be rules or lists of values, but are not read since their names begin
/// with a dot.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or the files are too many.
pub fn hidden(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    Ok(found(paths, false)?.hidden)
}

/// The rule files at and below `paths`, in the order of `paths` and then of names.
fn names(paths: &[PathBuf], dot_files: bool) -> Result<Vec<PathBuf>, LoadError> {
    Ok(found(paths, dot_files)?.names)
}

/// The files at and below paths.
#[derive(Default)]
struct Found {
    /// Files whose names begin with a dot are names, and not hidden.
    dot_files: bool,
    names: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    /// Folders that were read.
    seen: HashSet<PathBuf>,
}

fn found(paths: &[PathBuf], dot_files: bool) -> Result<Found, LoadError> {
    let mut found = Found { dot_files, ..Found::default() };
    for path in paths {
        // A path that is given itself is read whatever its name is.
        if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            folder(path, &mut found)?;
        } else {
            found.names.push(path.clone());
        }
    }
    Ok(found)
}

fn folder(path: &Path, found: &mut Found) -> Result<(), LoadError> {
    if !found.seen.insert(fs::canonicalize(path).map_err(|source| unreadable(path, source))?) {
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|source| unreadable(path, source))?;
    let entries: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries.map_err(|source| unreadable(path, source))?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            // A link that leads nowhere, or a folder, is not meant as rules.
            let files = if found.dot_files { &mut found.names } else { &mut found.hidden };
            if files.len() <= MAX_FILES && is_rules_name(&entry) && entry.is_file() {
                files.push(entry);
            }
            continue;
        }
        let is_rules = is_rules_name(&entry);
        match fs::metadata(&entry) {
            Ok(metadata) if metadata.is_dir() => folder(&entry, found)?,
            Ok(metadata) if metadata.is_file() && is_rules => found.names.push(entry),
            Ok(_) => {}
            Err(_) if !is_rules => {} // a broken link that is not a rule file
            Err(source) => return Err(unreadable(&entry, source)),
        }
        if found.names.len() > MAX_FILES {
            return Err(too_much(path, format!("there are more than {MAX_FILES} rule files")));
        }
    }
    Ok(())
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
