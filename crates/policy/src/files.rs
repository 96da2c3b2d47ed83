//! Rule files on disk: which of them are read, and how much of them.
//!
//! A folder is read with everything below it, in name order. Names that begin with a dot are not looked at: editors' swap
//! files, and the `..data` folders of Kubernetes' ConfigMap mounts, whose files show through links beside them. Links are
//! followed, and a folder that several of them lead to is read once. Not here: watching for changes (`limiter`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::policy::{LoadError, Source};
use crate::tree::MAX_BYTES;

/// How many files may be read.
const MAX_FILES: usize = 10_000;
/// How much text all files together may hold.
const MAX_TOTAL: usize = 64 << 20;

/// Reads every rule file of `paths`, in the order of `paths` and then of names: what [`Policy::load`](crate::Policy::load)
/// parses, for callers that compare it with what they read before.
///
/// # Errors
/// [`LoadError::Unreadable`]: a path cannot be read, or there is more than may be read.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Source>, LoadError> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for path in paths {
        // What is named outright is read whatever it is called.
        if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            folder(path, &mut names, &mut seen)?;
        } else {
            names.push(path.clone());
        }
    }
    let mut sources = Vec::with_capacity(names.len());
    let mut total = 0;
    for name in names {
        let text = text(&name).map_err(|source| unreadable(&name, source))?;
        total += text.len();
        if total > MAX_TOTAL {
            return Err(too_much(&name, format!("all rule files together hold more than {MAX_TOTAL} bytes")));
        }
        sources.push(Source { name, text });
    }
    Ok(sources)
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
            Err(_) if !is_rules => {} // a link to nowhere that is none of ours
            Err(source) => return Err(unreadable(&entry, source)),
        }
        if names.len() > MAX_FILES {
            return Err(too_much(path, format!("there are more than {MAX_FILES} rule files")));
        }
    }
    Ok(())
}

fn is_rules_extension(extension: &str) -> bool {
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// The text of one file, which must be UTF-8; no more of it than one file may have.
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
