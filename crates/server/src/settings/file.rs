//! `tollgate.yaml`: each setting by its name, with `_` for `-`. A relative path in it is relative to its
//! folder, so that the file means the same wherever the process was started.

use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::row::{Setting, SettingKind};

/// Reads `text` of the file at `path`; errors go to `faults`, and doubts to `notes`.
pub(super) fn read(
    path: &Path,
    text: &str,
    table: &[&'static Setting],
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) -> Layer {
    let (entries, found) = tollgate_rule_files::read_flat_yaml(path, text);
    let mut layer = Layer::default();
    for fault in found {
        let place = if fault.path.is_empty() {
            fault.place.to_string()
        } else {
            format!("{}: {}", fault.place, fault.path)
        };
        faults.push(Fault::new(place, fault.message));
    }
    for entry in entries {
        let place = format!("{}: {}", entry.place, entry.name);
        let Some(setting) = table.iter().find(|setting| setting.key() == entry.name) else {
            faults.push(Fault::unknown(place, &entry.name, table.iter().map(|setting| setting.key())));
            continue;
        };
        if setting.kind != SettingKind::Many && entry.values.len() > 1 {
            faults.push(Fault::new(place, "takes one value; write it without a list"));
            continue;
        }
        if !entry.values.is_empty() {
            let given = |(text, place): (String, _)| {
                let place = format!("{place}: {}", entry.name);
                let text = if setting.is_path() { beside(path, text, &place, notes) } else { text };
                Given::new(text, Origin::File(place))
            };
            layer.set(setting, entry.values.into_iter().map(given));
        }
    }
    layer
}

/// The path that `text` in the file at `path` means. If there is nothing beside the file, but something in
/// the working directory, it means that: earlier releases looked only there.
fn beside(path: &Path, text: String, place: &str, notes: &mut Vec<String>) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (Some(folder), here) = (folder, PathBuf::from(&text)) else { return text };
    if text.is_empty() || here.is_absolute() {
        return text;
    }
    let beside = folder.join(here.strip_prefix(".").unwrap_or(&here));
    // Values are text. If the name of the folder is not, only the working directory can be meant.
    let Some(meant) = beside.to_str() else { return text };
    let is_same = || std::fs::canonicalize(&here).ok() == std::fs::canonicalize(&beside).ok();
    match (beside.exists(), here.exists()) {
        (false, true) => {
            notes.push(format!(
                "{place}: there is no {meant}, so {text} in the working directory is used; paths in a settings file are \
                 relative to its folder: write an absolute one"
            ));
            text
        }
        (true, true) if !is_same() => {
            notes.push(format!("{place}: {meant} is used, and not {text} in the working directory"));
            meant.to_owned()
        }
        _ => meant.to_owned(),
    }
}
