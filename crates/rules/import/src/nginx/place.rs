//! Places of directives: a file and a line. Directives that are left out have such a place.

/// A line of a file. Places are in the order in which nginx first reads their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index in [`Places`].
    file: usize,
    line: usize,
}

/// Something that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its file and line, as in `nginx.conf:14`.
    pub place: String,
    /// The directive, the reason why it is left out, and the remedy.
    pub why: String,
}

/// The files that were read.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: Vec<String>,
    read: usize,
}

impl Places {
    /// A file that is read now, for [`Self::of`].
    pub(super) fn add(&mut self, name: &str) -> usize {
        self.read += 1;
        let name = tollgate_human_text::clip_to(name, 200);
        self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// Number of file reads; a file that is included twice counts twice.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    pub(super) fn of(file: usize, line: usize) -> Place {
        Place { file, line }
    }

    /// File and line, such as `nginx.conf:14`.
    pub(super) fn whole(&self, place: Place) -> String {
        let name = self.names.get(place.file).map_or("", String::as_str);
        format!("{name}:{}", place.line)
    }

    /// `line 14` in the first file, otherwise as [`Self::whole`].
    pub(super) fn shown(&self, place: Place) -> String {
        if place.file == 0 { format!("line {}", place.line) } else { self.whole(place) }
    }
}
