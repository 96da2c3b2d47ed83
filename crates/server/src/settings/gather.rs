//! Gathers the layers: flags, environment, the environment of envoyproxy/ratelimit, the file, the defaults
//! of that, the defaults that an image sets in its environment, our own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tollgate_human_text::{Nearest, nearest};

use super::envoy_compat::{self, Env};
use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::layers::Layers;
use super::row::{Setting, SettingKind};
use super::{file, kubernetes};

/// Variables whose names begin so are Tollgate's own.
const PREFIX: &str = "TOLLGATE_";

/// Variables whose names begin so are defaults: all other places count before them. An image sets them.
const DEFAULT_PREFIX: &str = "TOLLGATE_DEFAULT_";

/// The file of settings.
const CONFIG: &str = "TOLLGATE_CONFIG";

/// Input of [`Settings::read`](super::Settings::read). It is an argument so that a test needs no process.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Name of a setting and the values given on the command line.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Prefix that the command leaves out of the names of its flags, as `tollgate control` does.
    pub prefix: &'static str,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// `--config`; if it is not given, `TOLLGATE_CONFIG` of the environment counts.
    pub config: Option<PathBuf>,
    /// Cores of the machine: the default of `workers`.
    pub cores: usize,
}

/// The layers of `sources` for the settings of `table`.
pub(crate) fn gather(sources: &Sources, table: &[&'static Setting]) -> Layers {
    let mut all = Layers::default();
    let env = texts(&sources.env, &mut all.faults);
    all.layers.push(flags(sources, table, &mut all.faults));
    all.layers.push(own_env(&env, PREFIX, table, &mut all.faults, &mut all.notes));
    let own = all.layers.len();
    let config = sources.config.clone().or_else(|| env.get(CONFIG).map(PathBuf::from));
    if let Some(path) = config {
        all.layers.push(read_file(&path, table, &mut all.faults, &mut all.notes));
    }
    let mut weakest = defaults(table);
    weakest.replace_by(own_env(&env, DEFAULT_PREFIX, table, &mut all.faults, &mut all.notes));
    all.layers.push(weakest);
    envoy_compat::add(&env, table, own, &mut all);
    all
}

fn defaults(table: &[&'static Setting]) -> Layer {
    let mut layer = Layer::default();
    for setting in table.iter().filter(|setting| !setting.default.is_empty()) {
        layer.set(setting, [Given::new(setting.default, Origin::Default)]);
    }
    layer
}

fn flags(sources: &Sources, table: &[&'static Setting], faults: &mut Vec<Fault>) -> Layer {
    let mut layer = Layer::default();
    for setting in table {
        let Some(values) = sources.flags.get(setting.name) else { continue };
        let origin = Origin::Flag(setting.name.strip_prefix(sources.prefix).unwrap_or(setting.name));
        if setting.kind == SettingKind::Secret {
            // Everyone on the machine can read a command line.
            let what =
                format!("would be visible in `ps`; set {}, or give --{}-file", setting.env(), setting.name);
            faults.push(Fault::new(&origin, what));
        }
        layer.set(setting, values.iter().map(|text| Given::new(text, origin.clone())));
    }
    layer
}

/// The environment as text. Variables of other programs need not be UTF-8.
fn texts(env: &[(OsString, OsString)], faults: &mut Vec<Fault>) -> Env {
    let mut all = Env::default();
    for (name, value) in env {
        let Some(name) = name.to_str() else { continue };
        match value.to_str() {
            Some(value) => {
                all.texts.insert(name.to_owned(), value.to_owned());
            }
            None if name.starts_with(PREFIX) => faults.push(Fault::env(name, "is not UTF-8 text")),
            None => {
                all.not_text.insert(name.to_owned());
            }
        }
    }
    all
}

/// Tollgate's own variables: those whose names begin with `prefix`.
fn own_env(
    env: &Env,
    prefix: &str,
    table: &[&'static Setting],
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in &env.texts {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        if name == CONFIG || (name.starts_with(DEFAULT_PREFIX) && prefix != DEFAULT_PREFIX) {
            continue;
        }
        let Some(setting) = table.iter().find(|setting| setting.env().strip_prefix(PREFIX) == Some(rest))
        else {
            if !kubernetes::is_of_a_service(name, value) {
                unknown(name, prefix, table, faults, notes);
            }
            continue;
        };
        match setting.kind {
            SettingKind::Many => {
                let parts = value.split(':').filter(|part| !part.is_empty());
                layer.set(setting, parts.map(|part| Given::env(part, name)));
            }
            SettingKind::One | SettingKind::Switch | SettingKind::Secret => {
                layer.set(setting, [Given::env(value, name)])
            }
        }
    }
    layer
}

/// A misspelt name is a fault. Any other name may be meant for another program, such as a script that starts
/// this one.
fn unknown(
    name: &str,
    prefix: &str,
    table: &[&'static Setting],
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) {
    let known: Vec<String> = table.iter().map(|setting| setting.env()).chain([CONFIG.to_owned()]).collect();
    // The prefix is the same in all of them, and would make short names look alike.
    let without_prefix: Vec<&str> = known.iter().filter_map(|known| known.strip_prefix(PREFIX)).collect();
    let word = name.strip_prefix(prefix).unwrap_or(name);
    let Some(Nearest { name: near, is_near }) = nearest(word, &without_prefix) else { return };
    if is_near {
        let what = format!("unknown setting; did you mean {prefix}{near}?");
        faults.push(Fault::env(name, what));
    } else {
        notes.push(format!("{name}: no effect: unknown setting; the nearest is {prefix}{near}"));
    }
}

fn read_file(
    path: &Path,
    table: &[&'static Setting],
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) -> Layer {
    match std::fs::read_to_string(path) {
        Ok(text) => file::read(path, &text, table, faults, notes),
        Err(error) => {
            faults.push(Fault::new(path.display(), format!("cannot be read: {error}")));
            Layer::default()
        }
    }
}
