//! Where in a file a key is.

use std::fmt;

use tollgate_human_text::clip;

/// Path of a key in a file. Displays as `descriptors[2].rate_limit.unit`.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    above: Option<&'a Path<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Self = Self { above: None, part: Part::Root };

    pub(super) fn key(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), part: Part::Key(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), part: Part::Index(index) }
    }
}

impl Path<'_> {
    /// Whether it is the file itself.
    pub(super) fn is_root(&self) -> bool {
        matches!(self.part, Part::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Key(name) => {
                let dot = if self.above.is_some_and(|above| above.above.is_some()) { "." } else { "" };
                write!(f, "{dot}{}", clip(name))
            }
            Part::Index(index) => write!(f, "[{index}]"),
        }
    }
}
