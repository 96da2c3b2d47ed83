//! `tollgate.yaml`: each setting by its name, with `_` for `-`.

use std::path::Path;

use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::row::{Kind, Setting};

/// Reads `text` of the file at `path`; what is wrong goes to `faults`.
pub(super) fn read(path: &Path, text: &str, table: &[&'static Setting], faults: &mut Vec<Fault>) -> Layer {
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
        if setting.kind != Kind::Many && entry.values.len() > 1 {
            faults.push(Fault::new(place, "takes one value; write it without a list"));
            continue;
        }
        if !entry.values.is_empty() {
            let given = |(text, place)| Given::new(text, Origin::File(format!("{place}: {}", entry.name)));
            layer.set(setting, entry.values.into_iter().map(given));
        }
    }
    layer
}
