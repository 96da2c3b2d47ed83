//! Lists of values, one per line, that rules refer to with `value_file`.
//!
//! Not here: the choice of files (`folder`), the matching of values (`policy`).

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::rule_file::RuleFile;

/// The lists among the files that were read, by name.
#[derive(Debug, Default)]
pub(crate) struct Lists<'a>(HashMap<PathBuf, List<'a>>);

/// The text of one list. Empty lines and lines that begin with `#` are no values.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a>(&'a str);

impl<'a> Lists<'a> {
    pub(crate) fn new(files: &'a [RuleFile]) -> Self {
        let lists = files.iter().filter(|file| file.is_list());
        Self(lists.map(|file| (plain(&file.name), List(&file.text))).collect())
    }

    /// The list that the rules of `file` call `name`: a path that begins at the folder of that file.
    pub(super) fn get(&self, file: &Path, name: &str) -> Option<List<'a>> {
        let folder = file.parent().unwrap_or(Path::new(""));
        self.0.get(&plain(&folder.join(name))).copied()
    }
}

impl<'a> List<'a> {
    /// The values with their lines, from 1.
    pub(super) fn values(self) -> Vec<(usize, &'a str)> {
        let lines = self.0.lines().map(str::trim).enumerate();
        let values = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        values.map(|(index, value)| (index + 1, value)).collect()
    }
}

/// A path without `.` and `..`, as far as that can be said without looking at folders.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            component => plain.push(component),
        }
    }
    plain
}
