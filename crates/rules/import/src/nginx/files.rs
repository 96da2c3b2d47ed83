//! The files of a configuration: one on disk with its includes, or all files in the output of `nginx -T`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most bytes of a configuration with all that it includes.
pub const MAX_BYTES: u64 = 16 << 20;

/// Beginning of the line with which `nginx -T` starts a file; the path and a colon follow.
const FILE: &str = "# configuration file ";

/// The files of one configuration.
pub(super) struct Files {
    place: IncludeSource,
    bytes_left: u64,
}

/// Where included files are.
enum IncludeSource {
    /// Included files are on disk, in this folder if their paths are relative.
    Disk { folder: PathBuf },
    /// Included files are in the output of `nginx -T`, by their paths; relative paths begin in `folder`.
    Printed { folder: PathBuf, texts: BTreeMap<String, String> },
    /// There are none: the configuration came from stdin.
    Unknown,
}

/// Reason why an included file is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("stdin has no folder to look in; give the path of the configuration, or what `nginx -T` prints")]
    Stdin,
    #[error("the file is not in this text; give all that `nginx -T` prints")]
    NotPrinted,
    #[error("cannot read {path}: {cause}; what `nginx -T` prints has all files")]
    Read { path: String, cause: io::Error },
    #[error("invalid pattern")]
    Pattern(#[from] glob::PatternError),
}

/// A file: its path and its text.
pub(super) type PathAndText = (String, String);

impl Files {
    /// The files around `text`, which was read from `path` or stdin, and the first of these files.
    pub(super) fn around(path: Option<&Path>, name: &str, text: String) -> (Self, PathAndText) {
        let bytes_left = MAX_BYTES.saturating_sub(text.len() as u64);
        if let Some((first, texts)) = printed(&text) {
            let text = texts.get(&first).cloned().unwrap_or_default();
            let place = IncludeSource::Printed { folder: folder_of(Path::new(&first)), texts };
            return (Self { place, bytes_left }, (first, text));
        }
        let place =
            path.map_or(IncludeSource::Unknown, |path| IncludeSource::Disk { folder: folder_of(path) });
        (Self { place, bytes_left }, (name.to_owned(), text))
    }

    /// The files that `include` with this argument reads, in their order.
    pub(super) fn included(&mut self, argument: &str) -> Result<Vec<PathAndText>, Missing> {
        let is_pattern = argument.contains(['*', '?', '[']);
        let mut found = Vec::new();
        match &self.place {
            IncludeSource::Unknown => return Err(Missing::Stdin),
            IncludeSource::Printed { folder, texts } => {
                let path = folder.join(argument).display().to_string();
                let options =
                    glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
                let pattern = if is_pattern { Some(glob::Pattern::new(&path)?) } else { None };
                for (name, text) in texts {
                    let is_meant =
                        pattern.as_ref().map_or(*name == path, |it| it.matches_with(name, options));
                    if is_meant {
                        let left = self.bytes_left.checked_sub(text.len() as u64);
                        self.bytes_left = left.ok_or_else(|| unread(&path, too_large()))?;
                        found.push((name.clone(), text.clone()));
                    }
                }
                if found.is_empty() && !is_pattern {
                    return Err(Missing::NotPrinted);
                }
            }
            IncludeSource::Disk { folder } => {
                let path = folder.join(argument);
                let paths = match is_pattern {
                    true => glob::glob(&path.display().to_string())?.collect(),
                    false => vec![Ok(path)],
                };
                for path in paths {
                    let path = path.map_err(|error| {
                        let path = error.path().display().to_string();
                        unread(&path, error.into())
                    })?;
                    let name = path.display().to_string();
                    let text = regular(&path).and_then(|file| text_of(file, self.bytes_left));
                    let text = text.map_err(|error| unread(&name, error))?;
                    self.bytes_left = self.bytes_left.saturating_sub(text.len() as u64);
                    found.push((name, text));
                }
            }
        }
        Ok(found)
    }
}

fn unread(path: &str, cause: io::Error) -> Missing {
    Missing::Read { path: path.to_owned(), cause }
}

/// Opens a regular file: to open a pipe would wait for its writer, for ever if it has none.
fn regular(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {} MiB in all", MAX_BYTES >> 20))
}

/// The path of the first file that `nginx -T` printed, and all of them; `None` for any other text.
fn printed(text: &str) -> Option<(String, BTreeMap<String, String>)> {
    let mut first = None;
    let mut texts = BTreeMap::<String, String>::new();
    let mut path = None;
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix(FILE).and_then(|rest| rest.trim_end().strip_suffix(':')) {
            first.get_or_insert_with(|| name.to_owned());
            texts.entry(name.to_owned()).or_default();
            path = Some(name.to_owned());
        } else if let Some(text) = path.as_ref().and_then(|path| texts.get_mut(path)) {
            text.push_str(line);
        }
    }
    Some((first?, texts))
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Reads at most `most` bytes. Comments may be in any encoding.
///
/// # Errors
/// When `from` cannot be read, or has more.
pub fn text_of(from: impl io::Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
