//! `tollgate.yaml`: each setting by its name, with `_` for `-`.

use std::path::Path;

use super::Fault;
use super::layers::{Given, Layer, Origin, nearest};
use super::table::{Kind, SETTINGS, Setting};

/// Reads `text`, which stands in the file `path`; what is wrong goes to `faults`.
pub(super) fn read(path: &Path, text: &str, faults: &mut Vec<Fault>) -> Layer {
    let (entries, found) = tollgate_rule_files::read_flat_yaml(path, text);
    let mut layer = Layer::new();
    for fault in found {
        let place = if fault.path.is_empty() {
            fault.place.to_string()
        } else {
            format!("{}: {}", fault.place, fault.path)
        };
        faults.push(Fault { place, what: fault.message });
    }
    for entry in entries {
        let place = format!("{}: {}", entry.place, entry.name);
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key() == entry.name) else {
            let what = format!("is no setting{}", nearest(&entry.name, SETTINGS.iter().map(Setting::key)));
            faults.push(Fault { place, what });
            continue;
        };
        if setting.kind != Kind::Many && entry.values.len() > 1 {
            faults.push(Fault { place, what: "takes one value; write it without a list".to_owned() });
            continue;
        }
        let given = |(text, place)| Given::new(text, Origin::File(format!("{place}: {}", entry.name)));
        let values: Vec<Given> = entry.values.into_iter().map(given).collect();
        if !values.is_empty() {
            layer.insert(setting.name, values);
        }
    }
    layer
}
