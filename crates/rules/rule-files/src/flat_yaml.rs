//! YAML of the simplest kind: names with one value or a list of values each. Settings files are read with it,
//! so that their faults have places like those of rule files. Not here: which names are known.

use std::path::Path;
use std::sync::Arc;

use tollgate_policy::Place;

use crate::fault::Fault;
use crate::yaml_tree::{Kind, Pos, YamlNode, parse};

/// A name and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatEntry {
    /// The name, such as `grpc`.
    pub name: String,
    /// Place of the name.
    pub place: Place,
    /// The values and their places; empty for `null`.
    pub values: Vec<(String, Place)>,
}

/// Reads a text; returns every entry that is readable, and every fault. `file` is how faults name the text.
///
/// # Example
/// ```
/// # use tollgate_rule_files::read_flat_yaml;
/// let (entries, faults) = read_flat_yaml("tollgate.yaml".as_ref(), "grpc: 127.0.0.1:0\nrules: [a, b]\n");
/// assert_eq!(entries[0].values[0].0, "127.0.0.1:0");
/// assert_eq!(entries[1].values[1].1.to_string(), "tollgate.yaml:2:12");
/// assert!(faults.is_empty());
/// ```
#[must_use]
pub fn read_flat_yaml(file: &Path, text: &str) -> (Vec<FlatEntry>, Vec<Fault>) {
    let file: Arc<Path> = file.into();
    let place = |pos: Pos| Place { file: Arc::clone(&file), line: pos.line, column: pos.column };
    let fault =
        |pos: Pos, path: &str, message: String| Fault { place: place(pos), path: path.to_owned(), message };
    let tree = parse(text);
    let found = tree.faults.into_iter().chain(tree.warnings);
    let mut faults: Vec<Fault> = found.map(|(pos, message)| fault(pos, "", message)).collect();
    let entries = match tree.root.as_deref() {
        Some(YamlNode { kind: Kind::Map(map), .. }) => map.entries.as_slice(),
        Some(node) if !node.is_null() => {
            faults.push(fault(node.pos, "", "settings are a map; write name: value".to_owned()));
            &[]
        }
        _ => &[],
    };
    let mut read = Vec::with_capacity(entries.len());
    for (key, node) in entries {
        let mut entry = FlatEntry { name: key.text.clone(), place: place(key.pos), values: Vec::new() };
        let items = match &node.kind {
            Kind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            match &item.kind {
                Kind::Scalar(scalar) if scalar.is_null() => {}
                Kind::Scalar(scalar) => entry.values.push((scalar.text.clone(), place(item.pos))),
                Kind::Broken => {}
                Kind::List(_) | Kind::Map(_) => {
                    faults.push(fault(
                        item.pos,
                        &key.text,
                        "is a value or a list of values; write one".to_owned(),
                    ));
                }
            }
        }
        read.push(entry);
    }
    (read, faults)
}
