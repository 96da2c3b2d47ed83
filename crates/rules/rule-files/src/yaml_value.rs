//! YAML as values with places, for documents that are not rules. Not here: which names are known.

use std::path::Path;
use std::sync::Arc;

use tollgate_policy::Place;

use crate::fault::Fault;
use crate::yaml_tree::{Kind, MAX_BYTES, Pos, YamlNode, parse_within};

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlValue {
    /// Where it is.
    pub place: Place,
    /// The value itself.
    pub kind: YamlKind,
}

/// Kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlKind {
    /// No value, as `null`, `~` or an empty place.
    Null,
    /// A text or a number, as written.
    Text(String),
    /// The values of a list, in the order of the file.
    List(Vec<YamlValue>),
    /// Names and their values, in the order of the file.
    Map(Vec<(String, YamlValue)>),
}

/// Most values of a text, aliases written out.
const MAX_VALUES: usize = 2_000_000;

/// Reads a text; `file` is how faults name it.
///
/// # Errors
/// Every fault of the text.
///
/// # Example
/// ```
/// # use tollgate_rule_files::{YamlKind, read_yaml};
/// let value = read_yaml("a.yaml".as_ref(), "app: shop\ncar: [{key: a}]\n").expect("YAML");
/// let YamlKind::Map(entries) = value.kind else { panic!() };
/// assert_eq!(entries[0].0, "app");
/// assert_eq!(entries[1].1.place.to_string(), "a.yaml:2:6");
/// ```
pub fn read_yaml(file: &Path, text: &str) -> Result<YamlValue, Vec<Fault>> {
    read_large_yaml(file, text, MAX_BYTES)
}

/// As [`read_yaml`], of a text of at most `max_bytes` instead of 16 MiB.
///
/// # Errors
/// As there.
pub fn read_large_yaml(file: &Path, text: &str, max_bytes: usize) -> Result<YamlValue, Vec<Fault>> {
    let file: Arc<Path> = file.into();
    let place = |pos: Pos| Place { file: Arc::clone(&file), line: pos.line, column: pos.column };
    let tree = parse_within(text, max_bytes);
    let found = tree.faults.into_iter().chain(tree.warnings);
    let mut faults: Vec<Fault> =
        found.map(|(pos, message)| Fault { place: place(pos), path: String::new(), message }).collect();
    let mut left = MAX_VALUES;
    let value = match tree.root.as_deref() {
        Some(root) => value_of(root, &place, &mut left),
        None => YamlValue { place: place(Pos::START), kind: YamlKind::Null },
    };
    if left == 0 {
        let message = format!("more than {MAX_VALUES} values");
        faults.push(Fault { place: place(Pos::START), path: String::new(), message });
    }
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}

/// The tree is at most 128 deep.
fn value_of(node: &YamlNode, place: &impl Fn(Pos) -> Place, left: &mut usize) -> YamlValue {
    *left = left.saturating_sub(1);
    let kind = match &node.kind {
        _ if *left == 0 => YamlKind::Null,
        Kind::Scalar(scalar) if scalar.is_null() => YamlKind::Null,
        Kind::Scalar(scalar) => YamlKind::Text(scalar.text.clone()),
        Kind::List(items) => YamlKind::List(items.iter().map(|it| value_of(it, place, left)).collect()),
        Kind::Map(map) => YamlKind::Map(
            map.entries.iter().map(|(key, it)| (key.text.clone(), value_of(it, place, left))).collect(),
        ),
        Kind::Broken => YamlKind::Null,
    };
    YamlValue { place: place(node.pos), kind }
}
