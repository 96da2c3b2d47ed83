//! Descriptors of a level that no request reaches, because a pattern in a key takes their values first.
//!
//! Such a pattern (`key: "*"`) goes before a key without a value, wherever it is written, and before the
//! patterns below it. Not here: the rest of the order of matching (`policy`).

use super::addresses::Addresses;
use super::reader::Fields;
use crate::yaml_tree::{Kind, YamlNode};

/// The most patterns of a level that are looked at.
const MOST: usize = 16;

/// Values that a descriptor matches on its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level<'a> {
    pub(super) key: &'a str,
    pub(super) addresses: Addresses,
    reach: Reach,
}

/// Which values of its key a descriptor matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The values that nothing else matches.
    Default,
    /// The values of a pattern, which may be all.
    Pattern { takes_all: bool },
    /// One value, or listed values.
    Some,
}

impl<'a> Level<'a> {
    /// Reads a descriptor; `None` for anything else.
    pub(super) fn of(node: &'a YamlNode) -> Option<Self> {
        let Kind::Map(map) = &node.kind else { return None };
        let fields = Fields { pos: node.pos, map };
        let text = |names: &[&str]| {
            let node = names.iter().find_map(|name| fields.get(name))?;
            if let Kind::Scalar(scalar) = &node.kind { Some(scalar.text.as_str()) } else { None }
        };
        let key = text(&["key", "Key"])?;
        let listed = text(&["value_cidr", "value_file"]);
        let reach = match (text(&["value", "Value"]), text(&["value_regex"]), listed) {
            (None | Some(""), None, None) => Reach::Default,
            (Some(value), ..) if value.contains('*') => Reach::Pattern { takes_all: value == "*" },
            (_, Some(regex), _) => Reach::Pattern { takes_all: regex == ".*" },
            _ => Reach::Some,
        };
        Some(Self { key, addresses: Addresses::of(&fields), reach })
    }

    /// Whether it takes every value of its key that no other descriptor does.
    pub(super) fn takes_all(self) -> bool {
        matches!(self.reach, Reach::Default | Reach::Pattern { takes_all: true })
    }
}

/// A descriptor that no request reaches.
pub(super) struct Unreached {
    pub(super) index: usize,
    /// Index of the descriptor that takes its values.
    pub(super) by: usize,
    /// Advice for the warning.
    pub(super) remedy: &'static str,
}

/// The descriptors among `levels`, which are those of one level, that no request reaches.
pub(super) fn unreached(levels: &[Option<Level<'_>>]) -> Vec<Unreached> {
    let takers = levels.iter().enumerate().filter_map(|(by, level)| {
        let level = level.as_ref().filter(|level| level.reach == Reach::Default)?;
        let begin = level.key.strip_suffix('*').filter(|begin| !begin.contains('*'))?;
        Some((by, begin))
    });
    let takers: Vec<(usize, &str)> = takers.take(MOST).collect();
    if takers.is_empty() {
        return Vec::new();
    }
    let of = |index: usize, level: &Level<'_>| {
        // A pattern in a key matches key and value together, with `_` between them.
        let (begin, is_default) = match level.key.split_once('*') {
            Some((begin, _)) => (begin.to_owned(), false),
            None if level.reach == Reach::Some => return None,
            None => (format!("{}_", level.key), level.reach == Reach::Default),
        };
        let takes = |taker: &&(usize, &str)| (is_default || taker.0 < index) && begin.starts_with(taker.1);
        let (by, _) = takers.iter().find(takes)?;
        let remedy = match (is_default, *by < index) {
            (true, true) => "write value: \"*\" here, and move it above that one",
            (true, false) => "write value: \"*\" here",
            (false, _) => "move it above that one",
        };
        Some(Unreached { index, by: *by, remedy })
    };
    let levels = levels.iter().enumerate();
    levels.filter_map(|(index, level)| of(index, level.as_ref()?)).collect()
}
