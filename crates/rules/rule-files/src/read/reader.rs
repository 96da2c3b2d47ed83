//! Helpers of all parts of the reader: the maps and lists of a file, and the faults of other values.

use std::sync::Arc;

use tollgate_policy::Countable;

use super::known_keys::{self, Section};
use super::lists::Lists;
use super::notes::Notes;
use super::path::Path;
use crate::yaml_tree::{Kind, Map, Pos, YamlNode};

/// Reads one file.
pub(super) struct Reader<'n> {
    pub(super) notes: &'n mut Notes,
    pub(super) countable: Countable,
    pub(super) lists: &'n Lists<'n>,
    /// The file denies requests for which no rule matches.
    pub(super) denies_unmatched: bool,
}

/// A map whose keys are checked.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) pos: Pos,
    pub(super) map: &'a Map,
}

impl<'a> Fields<'a> {
    /// The value of a key. A null is the same as no value.
    pub(super) fn get(&self, name: &str) -> Option<&'a YamlNode> {
        let node = self.map.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| &**node)?;
        (!node.is_null()).then_some(node)
    }

    /// Whether the key is there without a value.
    pub(super) fn has_empty(&self, name: &str) -> bool {
        self.map.entries.iter().any(|(key, node)| key.text == name && node.is_null())
    }

    /// Position of the key, or of the map if it has no such key.
    pub(super) fn pos_of(&self, name: &str) -> Pos {
        self.map.entries.iter().find(|(key, _)| key.text == name).map_or(self.pos, |(key, _)| key.pos)
    }

    /// Position of the value, or of the map if it has no such key.
    pub(super) fn pos_of_value(&self, name: &str) -> Pos {
        self.get(name).map_or(self.pos, |node| node.pos)
    }
}

impl Reader<'_> {
    /// The entries of a map, after noting every key that does not belong there.
    pub(super) fn fields<'a>(
        &mut self,
        node: &'a YamlNode,
        path: &Path<'_>,
        section: Section,
    ) -> Option<Fields<'a>> {
        let Kind::Map(map) = &node.kind else {
            self.wrong_kind(node, path, section.example());
            return None;
        };
        for (key, _) in &map.entries {
            known_keys::check(self.notes, section, key, path);
        }
        Some(Fields { pos: node.pos, map })
    }

    pub(super) fn list<'a>(&mut self, node: &'a YamlNode, path: &Path<'_>) -> &'a [Arc<YamlNode>] {
        if let Kind::List(items) = &node.kind {
            return items;
        }
        self.wrong_kind(node, path, "a list, each entry beginning with \"- \"");
        &[]
    }

    pub(super) fn wrong_kind(&mut self, node: &YamlNode, path: &Path<'_>, wanted: &str) {
        let found = match &node.kind {
            Kind::Broken => return,
            Kind::Scalar(scalar) if scalar.is_null() => "is empty",
            Kind::Scalar(_) => "is a single value",
            Kind::List(_) => "is a list",
            Kind::Map(_) => "is a map",
        };
        let what = if path.is_root() { "the file " } else { "" };
        self.notes.fault(node.pos, path, format!("{what}{found}; write {wanted}"));
    }
}
