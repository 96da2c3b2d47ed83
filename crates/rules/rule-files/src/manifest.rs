//! Rules in a manifest of Kubernetes: the files under `data` of each ConfigMap, as a mount would show them.
//!
//! Where such a file is written as a block (`a.yaml: |`), its lines and columns are those of the manifest.
//! Not here: what rules mean (`read`).

use std::path::Path;

use crate::rule_file::{RuleFile, is_rules_name};
use crate::yaml_tree::{Kind, Map, Scalar, YamlKey, YamlNode, parse};

/// The rule files in the ConfigMaps of a manifest. `None` if the text is not a manifest, or has none.
///
/// Each has as many empty lines in front as the manifest has other lines, so all of them together may be much
/// larger than the manifest. The first that makes them more than `max_bytes` is the last.
pub(crate) fn files_in(name: &Path, text: &str, max_bytes: usize) -> Option<Vec<RuleFile>> {
    if !text.contains("ConfigMap") {
        return None;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut files = Vec::new();
    let mut bytes = 0_usize;
    'all: for (first, end) in documents(&lines) {
        let tree = parse(&lines[first..end].concat());
        let Some(root) = tree.root.filter(|_| tree.faults.is_empty()) else { continue };
        // Other kinds, and texts that are no manifest, have no rules here.
        let Some(data) = config_map(&root) else { continue };
        for (key, value) in &data.entries {
            let Kind::Scalar(scalar) = &value.kind else { continue };
            if !is_rules_name(Path::new(&key.text)) {
                continue;
            }
            let file = file_of(name, key, scalar, first, &lines[..end]);
            bytes = bytes.saturating_add(file.text.len());
            files.push(file);
            if bytes > max_bytes {
                break 'all;
            }
        }
    }
    if files.is_empty() { None } else { Some(files) }
}

/// Kind of the manifest that a map is, such as `ConfigMap`.
pub(crate) fn kind_of(map: &Map) -> Option<&str> {
    text_of(map, "apiVersion")?;
    text_of(map, "kind")
}

fn config_map(root: &YamlNode) -> Option<&Map> {
    let Kind::Map(root) = &root.kind else { return None };
    if kind_of(root)? != "ConfigMap" {
        return None;
    }
    match &entry(root, "data")?.kind {
        Kind::Map(data) => Some(data),
        _ => None,
    }
}

fn entry<'a>(map: &'a Map, name: &str) -> Option<&'a YamlNode> {
    map.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| &**node)
}

fn text_of<'a>(map: &'a Map, name: &str) -> Option<&'a str> {
    match &entry(map, name)?.kind {
        Kind::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

/// First and end of the lines of each document.
fn documents(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut documents = Vec::new();
    let mut first = 0;
    for (at, line) in lines.iter().enumerate() {
        // An indented line, as in a block, is not a separator.
        if line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        {
            documents.push((first, at));
            first = at;
        }
    }
    documents.push((first, lines.len()));
    documents
}

/// The file that a key of `data` is. `lines` are those of the manifest up to the end of its document, which
/// begins at `first`.
fn file_of(name: &Path, key: &YamlKey, scalar: &Scalar, first: usize, lines: &[&str]) -> RuleFile {
    let listed = name.with_file_name(&key.text);
    let is_list = RuleFile { name: listed.clone(), text: String::new() }.is_list();
    if is_list {
        // Rules name it as they would in a mount.
        return RuleFile { name: listed, text: scalar.text.clone() };
    }
    let at = first + key.pos.line as usize - 1;
    match block(lines, at, key.pos.column as usize - 1, &scalar.text) {
        Some(block) => RuleFile { name: name.to_owned(), text: "\n".repeat(at + 1) + &block },
        // Lines of a quoted text are not those of the manifest.
        None => RuleFile { name: name.join(&key.text), text: scalar.text.clone() },
    }
}

/// The lines of the block below the key in the line `at`, as they are, if they are `text`.
fn block(lines: &[&str], at: usize, indent: usize, text: &str) -> Option<String> {
    let is_inside = |line: &&&str| {
        line.trim().is_empty() || line.bytes().take_while(|byte| *byte == b' ').count() > indent
    };
    let block: Vec<&str> = lines.get(at + 1..)?.iter().take_while(is_inside).copied().collect();
    let mut lines = block.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    let is_same = text.lines().map(str::trim).filter(|line| !line.is_empty()).eq(lines.by_ref());
    // A folded text has other lines, and a quoted text has no lines of its own.
    is_same.then(|| block.concat())
}
