//! From a tree to what a rule file says: every key checked, every fault collected.
//!
//! A reader never stops at a fault: it notes it and goes on with the next key, so that one run tells everything.
//! Not here: what two files or two descriptors mean together (`build`).

mod descriptor;
pub(crate) mod duration;
mod limit;
mod response;
mod scalar;
mod sharing;
pub(crate) mod spelling;

use std::collections::HashMap;
use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

pub(crate) use descriptor::{Descriptor, ValueMatch};

use crate::domain::Charge;
use crate::fault::{Fault, Place, clip};
use crate::policy::Countable;
use crate::rule::Response;
use crate::tree::{self, Kind, Map, Node, Pos};
use spelling::Section;

/// The most faults, and the most warnings, that are told of one file.
const MAX_FAULTS: usize = 1_000;
const LAST_FAULT: usize = MAX_FAULTS - 1;

/// What one file says.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) domain: String,
    /// Where the domain is named.
    pub(crate) pos: Pos,
    pub(crate) charge: Option<Charge>,
    pub(crate) response: Option<Response>,
    pub(crate) descriptors: Vec<Descriptor>,
}

/// Faults and warnings of one file.
#[derive(Debug)]
pub(crate) struct Notes {
    file: Arc<FilePath>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Fault>,
}

impl Notes {
    pub(crate) fn new(file: Arc<FilePath>) -> Self {
        Self { file, faults: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn place(&self, pos: Pos) -> Place {
        Place { file: Arc::clone(&self.file), line: pos.line, column: pos.column }
    }

    pub(crate) fn fault(&mut self, pos: Pos, path: impl fmt::Display, message: impl Into<String>) {
        let place = self.place(pos);
        push(&mut self.faults, place, path, message.into());
    }

    pub(crate) fn warn(&mut self, pos: Pos, path: impl fmt::Display, message: impl Into<String>) {
        let place = self.place(pos);
        push(&mut self.warnings, place, path, message.into());
    }

    /// No more faults are taken.
    fn is_full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }
}

fn push(notes: &mut Vec<Fault>, place: Place, path: impl fmt::Display, message: String) {
    match notes.len() {
        MAX_FAULTS.. => {}
        LAST_FAULT => {
            let message = "there is more from here on; see to what is told first".to_owned();
            notes.push(Fault { place, path: String::new(), message });
        }
        _ => notes.push(Fault { place, path: path.to_string(), message }),
    }
}

/// Reads one text; `None` when it says no domain. Faults stand in `notes`.
pub(crate) fn file(text: &str, countable: Countable, notes: &mut Notes) -> Option<File> {
    let tree = tree::parse(text);
    for (pos, message) in tree.faults {
        notes.fault(pos, "", message);
    }
    for (pos, message) in tree.warnings {
        notes.warn(pos, "", message);
    }
    let Some(root) = tree.root else {
        if notes.faults.is_empty() {
            notes.fault(
                Pos::START,
                "domain",
                "is missing, the file is empty; write the domain of your requests",
            );
        }
        return None;
    };
    Reader { notes, countable, tails: HashMap::new() }.root(&root)
}

/// Where in a file a reader is, as text: `descriptors[2].rate_limit.unit`.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
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
    const ROOT: Self = Self { above: None, part: Part::Root };

    fn key(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), part: Part::Key(name) }
    }

    fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), part: Part::Index(index) }
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

struct Reader<'n> {
    notes: &'n mut Notes,
    countable: Countable,
    /// Last parts of counter keys, each once.
    tails: HashMap<String, Arc<str>>,
}

/// A map whose keys are checked.
#[derive(Clone, Copy)]
struct Fields<'a> {
    pos: Pos,
    map: &'a Map,
}

impl<'a> Fields<'a> {
    /// The value of a key; a null counts as none.
    fn get(&self, name: &str) -> Option<&'a Node> {
        let node = self.map.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| &**node)?;
        (!node.is_null()).then_some(node)
    }

    /// Where the key stands, or the map where it does not.
    fn pos_of(&self, name: &str) -> Pos {
        self.map.entries.iter().find(|(key, _)| key.text == name).map_or(self.pos, |(key, _)| key.pos)
    }
}

impl Reader<'_> {
    fn root(&mut self, root: &Node) -> Option<File> {
        let path = Path::ROOT;
        let fields = self.fields(root, &path, Section::Root)?;
        let domain = match fields.get("domain") {
            Some(node) => self.text(node, &path.key("domain")).filter(|name| {
                if name.is_empty() {
                    self.notes.fault(node.pos, "domain", "is empty; write the domain of your requests");
                }
                !name.is_empty()
            }),
            None => {
                self.notes.fault(fields.pos, "domain", "is missing; write the domain of your requests");
                None
            }
        };
        let pos = fields.get("domain").map_or(fields.pos, |node| node.pos);
        let charge = fields.get("charge").and_then(|node| {
            self.choice(node, &path.key("charge"), &[("each", Charge::Each), ("together", Charge::Together)])
        });
        let response = fields.get("response").and_then(|node| self.response(node, &path.key("response")));
        let descriptors = self.descriptors(&fields, &path);
        // Read on to the end without a domain too, for the other faults.
        Some(File { domain: domain?, pos, charge, response, descriptors })
    }

    /// The entries of a map, after noting every key that does not belong there.
    fn fields<'a>(&mut self, node: &'a Node, path: &Path<'_>, section: Section) -> Option<Fields<'a>> {
        let Kind::Map(map) = &node.kind else {
            self.wrong_kind(node, path, section.example());
            return None;
        };
        for (key, _) in &map.entries {
            spelling::check(self.notes, section, key, path);
        }
        Some(Fields { pos: node.pos, map })
    }

    fn list<'a>(&mut self, node: &'a Node, path: &Path<'_>) -> &'a [Arc<Node>] {
        if let Kind::List(items) = &node.kind {
            return items;
        }
        self.wrong_kind(node, path, "a list, each entry beginning with \"- \"");
        &[]
    }

    fn wrong_kind(&mut self, node: &Node, path: &Path<'_>, wanted: &str) {
        let found = match &node.kind {
            Kind::Broken => return,
            Kind::Scalar(scalar) if scalar.is_null() => "is empty",
            Kind::Scalar(_) => "is a single value",
            Kind::List(_) => "is a list",
            Kind::Map(_) => "is a map",
        };
        let what = if matches!(path.part, Part::Root) { "the file " } else { "" };
        self.notes.fault(node.pos, path, format!("{what}{found}; write {wanted}"));
    }
}
