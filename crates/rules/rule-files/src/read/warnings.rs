//! Warnings of rule files. A kind that occurs often is one warning with its number: 10,000 lines that say the
//! same would hide the others.

use tollgate_human_text::clip;

use crate::fault::Fault;

/// A kind that occurs more often than this is shown once.
const EACH: usize = 3;

/// Kind of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warned {
    /// Parts of the text that do not count.
    Yaml,
    /// Keys that have no effect where they are.
    Misplaced,
    /// Keys that have no effect beside `unlimited`.
    Uncounted,
    /// Limits without a number.
    NoRequests,
    /// `rate_limit` without a value.
    EmptyLimit,
    /// A content type without a body.
    ContentType,
    /// A body that looks like JSON and is not sent as it.
    LooksLikeJson,
    /// Descriptors that no request reaches.
    Unreached,
    /// Values that are not limited.
    OtherValues,
    /// Texts that are written as networks.
    NetworkAsText,
    /// Lines of lists of values.
    Listed,
    /// Addresses that are read as texts.
    AddressesAsTexts,
    /// Lists of addresses of which no place is named.
    ListsAsTexts,
}

/// Warnings of one file, or of one file after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    of_kinds: Vec<OfKind>,
    /// Warnings of the files before this one.
    file: usize,
}

#[derive(Clone, Debug)]
struct OfKind {
    kind: Warned,
    number: usize,
    /// The first of them by file, line and column, at most [`EACH`], each with its file.
    first: Vec<(usize, Fault)>,
}

impl Warnings {
    pub(crate) fn push(&mut self, kind: Warned, warning: Fault) {
        let file = self.file;
        self.of(kind).add(1, [(file, warning)]);
    }

    /// Adds the warnings of the next file.
    pub(crate) fn append(&mut self, next: Self) {
        self.file += 1;
        let file = self.file;
        for OfKind { kind, number, first } in next.of_kinds {
            self.of(kind).add(number, first.into_iter().map(|(_, warning)| (file, warning)));
        }
    }

    /// One warning of each frequent kind and all others, in the order of files and lines; and the number of
    /// all warnings.
    pub(crate) fn into_shown(self) -> (Vec<Fault>, usize) {
        let number = self.of_kinds.iter().map(|of| of.number).sum();
        let mut shown: Vec<_> = self.of_kinds.into_iter().flat_map(OfKind::into_shown).collect();
        shown.sort_by_key(place);
        (shown.into_iter().map(|(_, warning)| warning).collect(), number)
    }

    fn of(&mut self, kind: Warned) -> &mut OfKind {
        let at = self.of_kinds.iter().position(|of| of.kind == kind).unwrap_or_else(|| {
            self.of_kinds.push(OfKind { kind, number: 0, first: Vec::new() });
            self.of_kinds.len() - 1
        });
        &mut self.of_kinds[at]
    }
}

impl OfKind {
    fn add(&mut self, number: usize, first: impl IntoIterator<Item = (usize, Fault)>) {
        self.number += number;
        for one in first {
            let at = self.first.partition_point(|it| place(it) <= place(&one));
            if at < EACH {
                self.first.insert(at, one);
                self.first.truncate(EACH);
            }
        }
    }

    fn into_shown(mut self) -> Vec<(usize, Fault)> {
        if self.number > EACH {
            let next = self.first.drain(1..).next();
            if let Some((file, first)) = self.first.first_mut() {
                first.message.push_str(&format!("; {} more warnings of this kind follow", self.number - 1));
                match next {
                    Some((of, next)) if of != *file => {
                        let name = next.place.file.to_string_lossy();
                        first.message.push_str(&format!(", the next in {}:{}", clip(&name), next.place.line));
                    }
                    Some((_, next)) if next.place != first.place => {
                        first.message.push_str(&format!(", the next in line {}", next.place.line));
                    }
                    _ => {}
                }
            }
        }
        self.first
    }
}

fn place((file, warning): &(usize, Fault)) -> (usize, u32, u32) {
    (*file, warning.place.line, warning.place.column)
}
