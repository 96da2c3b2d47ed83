//! YAML text as a tree in which every node knows its place.
//!
//! Built from a parser's events, so that the reader of rules can continue after a fault. Aliases share their
//! node, so nested aliases cost no memory; the nodes that they expand to are counted and capped all the same,
//! since the reader visits all of them. Not here: what any key means (`read`).

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use tollgate_human_text::{clip, clip_to};

/// The most bytes of one file.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The most nodes of one file; an alias counts each time it is used.
const MAX_NODES: usize = 2_000_000;
/// The most warnings of one file.
const MAX_WARNINGS: usize = 1_000;
/// Greatest depth of nested lists and maps.
const MAX_DEPTH: usize = 128;

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pos {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Pos {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    fn of(span: &Span) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: number(span.start.line()), column: number(span.start.col()).saturating_add(1) }
    }
}

/// A node and its place.
#[derive(Debug)]
pub(crate) struct YamlNode {
    pub(crate) pos: Pos,
    pub(crate) kind: Kind,
    /// Nodes in this one, itself included, aliases written out.
    size: usize,
    depth: usize,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Arc<YamlNode>>),
    Map(Map),
    /// A placeholder for something that is already reported.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written in quotes or as a block, so it is text whatever it looks like.
    pub(crate) quoted: bool,
}

impl Scalar {
    pub(crate) fn is_null(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// The entries of a map in the order of the file, each key once.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: Vec<(YamlKey, Arc<YamlNode>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct YamlKey {
    pub(crate) pos: Pos,
    pub(crate) text: String,
}

impl YamlNode {
    fn new(pos: Pos, kind: Kind) -> Self {
        let (size, depth) = match &kind {
            Kind::Scalar(_) | Kind::Broken => (1, 1),
            Kind::List(items) => measure(items.iter()),
            Kind::Map(map) => measure(map.entries.iter().map(|(_, node)| node)),
        };
        Self { pos, kind, size, depth }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_null())
    }
}

fn measure<'a>(children: impl Iterator<Item = &'a Arc<YamlNode>>) -> (usize, usize) {
    children
        .fold((1, 1), |(size, depth), child| (size.saturating_add(child.size), depth.max(child.depth + 1)))
}

/// The first document of a text, its faults and its warnings.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// `None` if the text has no document or is not YAML.
    pub(crate) root: Option<Arc<YamlNode>>,
    pub(crate) faults: Vec<(Pos, String)>,
    pub(crate) warnings: Vec<(Pos, String)>,
}

/// Reads a text; never fails, but reports faults.
pub(crate) fn parse(text: &str) -> Tree {
    parse_within(text, MAX_BYTES)
}

/// As [`parse`], of a text of at most `max_bytes`. The cap of nodes holds whatever its size.
pub(crate) fn parse_within(text: &str, max_bytes: usize) -> Tree {
    let mut builder = Builder::default();
    if text.len() > max_bytes {
        let message = format!("{} bytes are too many for one file; the most is {max_bytes}", text.len());
        builder.tree.faults.push((Pos::START, message));
        return builder.tree;
    }
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    options.emit_unresolved_aliases = true;
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((Event::DocumentStart(..), span)) => {
                documents += 1;
                if documents == 2 {
                    let message = "a second document is ignored; put it into a file of its own".to_owned();
                    builder.tree.warnings.push((Pos::of(&span), message));
                    break;
                }
            }
            Ok((event, span)) => {
                if builder.event(event, Pos::of(&span)).is_break() {
                    builder.tree.root = None;
                    break;
                }
            }
            Err(error) => {
                let marker = error.marker();
                let pos = Pos::of(&Span::new(*marker, *marker));
                builder.tree.faults.push((pos, syntax_message(text, pos, &error)));
                builder.tree.root = None;
                break;
            }
        }
    }
    builder.tree
}

fn syntax_message(text: &str, pos: Pos, error: &granit_parser::ScanError) -> String {
    let line = text.lines().nth(pos.line as usize - 1).unwrap_or("");
    let indent = line.len() - line.trim_start().len();
    if line.get(..indent).is_some_and(|indent| indent.contains('\t')) {
        return "not YAML: a tab in the indentation; indent with spaces".to_owned();
    }
    format!("not YAML: {}; see https://yaml.org/spec/1.2.2", clip_to(&error.info(), 200))
}

/// An open list or map.
struct OpenCollection {
    pos: Pos,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Arc<YamlNode>>),
    Map { map: Map, seen: HashMap<String, usize>, merges: Vec<Arc<YamlNode>>, key: Option<PendingKey> },
}

enum PendingKey {
    Named(YamlKey),
    Merge,
    /// An invalid key, already reported; its value is dropped.
    Dropped,
}

#[derive(Default)]
struct Builder {
    tree: Tree,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Arc<YamlNode>>,
    placed: usize,
}

type Flow = std::ops::ControlFlow<()>;

impl Builder {
    fn event(&mut self, event: Event<'_>, pos: Pos) -> Flow {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain || tag.as_deref().is_some_and(is_text);
                let scalar = Scalar { text: text.into_owned(), quoted };
                return self.finish(YamlNode::new(pos, Kind::Scalar(scalar)), anchor);
            }
            Event::SequenceStart(_, anchor, _) => {
                return self.start(OpenCollection { pos, anchor, kind: OpenKind::List(Vec::new()) });
            }
            Event::MappingStart(_, anchor, _) => {
                let (map, seen) = Default::default();
                let kind = OpenKind::Map { map, seen, merges: Vec::new(), key: None };
                return self.start(OpenCollection { pos, anchor, kind });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let kind = match open.kind {
                        OpenKind::List(items) => Kind::List(items),
                        OpenKind::Map { mut map, seen, merges, .. } => {
                            // Only at the end of the map: its own keys win, wherever `<<` is.
                            if self.merge(&mut map, &seen, &merges).is_break() {
                                return Flow::Break(());
                            }
                            Kind::Map(map)
                        }
                    };
                    return self.finish(YamlNode::new(open.pos, kind), open.anchor);
                }
            }
            Event::Alias(id) => {
                if let Some(node) = self.anchors.get(&id) {
                    let node = Arc::clone(node);
                    return self.place(node);
                }
                self.fault(pos, "an alias inside its own anchor never ends; write the value out".to_owned());
                return self.place(Arc::new(YamlNode::new(pos, Kind::Broken)));
            }
            Event::UnresolvedAlias(name) => {
                self.fault(pos, {
                    let name = clip(&name);
                    format!("*{name} has no anchor &{name} before it; define one or write the value out")
                });
                return self.place(Arc::new(YamlNode::new(pos, Kind::Broken)));
            }
            _ => {}
        }
        Flow::Continue(())
    }

    fn start(&mut self, open: OpenCollection) -> Flow {
        if self.open.len() >= MAX_DEPTH {
            self.fault(open.pos, format!("lists and maps nest deeper than {MAX_DEPTH}; flatten them"));
            return Flow::Break(());
        }
        self.open.push(open);
        Flow::Continue(())
    }

    fn finish(&mut self, node: YamlNode, anchor: usize) -> Flow {
        let node = Arc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Arc::clone(&node));
        }
        self.place(node)
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Arc<YamlNode>) -> Flow {
        self.placed += 1;
        // Aliases count with all that they stand for, so that a small file cannot expand without bound.
        if node.size > MAX_NODES || self.placed > MAX_NODES {
            self.fault(node.pos, format!("the file expands to more than {MAX_NODES} values; split it"));
            return Flow::Break(());
        }
        if node.depth + self.open.len() > MAX_DEPTH {
            self.fault(node.pos, format!("lists and maps nest deeper than {MAX_DEPTH}; flatten them"));
            return Flow::Break(());
        }
        let Some(open) = self.open.last_mut() else {
            self.tree.root = Some(node);
            return Flow::Continue(());
        };
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            // Keys and values arrive in turns: the first is kept in `key` until the second is here.
            OpenKind::Map { map, seen, merges, key } => match key.take() {
                None => {
                    *key = Some(match &node.kind {
                        Kind::Scalar(scalar) if !scalar.quoted && scalar.text == "<<" => PendingKey::Merge,
                        Kind::Scalar(scalar) => {
                            PendingKey::Named(YamlKey { pos: node.pos, text: scalar.text.clone() })
                        }
                        Kind::Broken => PendingKey::Dropped,
                        Kind::List(_) | Kind::Map(_) => {
                            let message = "a list or map cannot be a key; write a name".to_owned();
                            self.tree.faults.push((node.pos, message));
                            PendingKey::Dropped
                        }
                    });
                }
                Some(PendingKey::Merge) => merges.push(node),
                Some(PendingKey::Dropped) => {}
                Some(PendingKey::Named(key)) => {
                    if let Some(&earlier) = seen.get(&key.text) {
                        let message =
                            format!("{} occurs twice in one map; the last one counts", clip(&key.text));
                        if self.tree.warnings.len() < MAX_WARNINGS {
                            self.tree.warnings.push((key.pos, message));
                        }
                        if let Some(entry) = map.entries.get_mut(earlier) {
                            *entry = (key, node);
                        }
                    } else {
                        seen.insert(key.text.clone(), map.entries.len());
                        map.entries.push((key, node));
                    }
                }
            },
        }
        Flow::Continue(())
    }

    /// Adds the entries of `<<: *anchor` that the map does not have itself.
    fn merge(&mut self, map: &mut Map, seen: &HashMap<String, usize>, merges: &[Arc<YamlNode>]) -> Flow {
        let mut added = std::collections::HashSet::new();
        for merged in merges {
            let maps: &[Arc<YamlNode>] = match &merged.kind {
                Kind::List(items) => items,
                _ => std::slice::from_ref(merged),
            };
            for node in maps {
                match &node.kind {
                    Kind::Map(from) => {
                        self.placed += from.entries.len();
                        if self.placed > MAX_NODES {
                            self.fault(
                                node.pos,
                                format!("the file expands to more than {MAX_NODES} values; split it"),
                            );
                            return Flow::Break(());
                        }
                        for (key, value) in &from.entries {
                            if !seen.contains_key(&key.text) && added.insert(key.text.clone()) {
                                map.entries.push((key.clone(), Arc::clone(value)));
                            }
                        }
                    }
                    Kind::Broken => {}
                    _ => {
                        self.fault(node.pos, "<< takes a map or a list of maps; write <<: *anchor".to_owned())
                    }
                }
            }
        }
        Flow::Continue(())
    }

    fn fault(&mut self, pos: Pos, message: String) {
        self.tree.faults.push((pos, message));
    }
}

fn is_text(tag: &Tag) -> bool {
    tag.is_yaml_core_schema_tag("str")
}
