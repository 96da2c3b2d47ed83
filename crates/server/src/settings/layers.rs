//! The layers themselves: what was given where, which one counts, and what was wrong with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tollgate_human_text::did_you_mean;

use super::table::{Kind, SETTINGS, Setting, named};
use super::{Fault, file, peer};

/// What [`Settings::read`](super::Settings::read) reads. Handed in, so that a test needs no process.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Name of a setting and the values given on the command line.
    pub flags: BTreeMap<String, Vec<String>>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// `--config`; the environment's `TOLLGATE_CONFIG` is looked up here too.
    pub config: Option<PathBuf>,
    /// Cores of the machine: the default of `workers`.
    pub cores: usize,
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag(String),
    /// One name of the environment, or several that together make one setting.
    Env(String),
    /// `file:line:column: key`.
    File(String),
    /// The table's default.
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "command line: --{name}"),
            Self::Env(name) => write!(f, "environment: {name}"),
            Self::File(place) => f.write_str(place),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One value as text, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The text.
    pub text: String,
    /// Its place.
    pub origin: Origin,
}

impl Given {
    pub(super) fn new(text: impl Into<String>, origin: Origin) -> Self {
        Self { text: text.into(), origin }
    }
}

/// Values by setting, of one layer.
pub(super) type Layer = BTreeMap<&'static str, Vec<Given>>;

/// All layers, strongest first, and what has been found wrong so far.
pub(super) struct Layers {
    layers: Vec<Layer>,
    faults: Vec<Fault>,
    notes: Vec<String>,
}

impl Layers {
    pub(super) fn gather(sources: &Sources) -> Self {
        let mut all = Self { layers: Vec::new(), faults: Vec::new(), notes: Vec::new() };
        let env = all.texts(&sources.env);
        all.layers.push(flags(&sources.flags));
        all.refuse_secret_flags(&sources.flags);
        let own = all.own_env(&env);
        all.layers.push(own);
        let peer = peer::read(&env, &mut all.faults, &mut all.notes);
        all.layers.push(peer);
        let config = sources.config.clone().or_else(|| env.get("TOLLGATE_CONFIG").map(PathBuf::from));
        if let Some(path) = config {
            let layer = all.file(&path);
            all.layers.push(layer);
        }
        all.layers.push(
            SETTINGS
                .iter()
                .filter(|setting| !setting.default.is_empty())
                .map(|setting| (setting.name, vec![Given::new(setting.default, Origin::Default)]))
                .collect(),
        );
        all
    }

    /// Everyone on the machine can read a command line.
    fn refuse_secret_flags(&mut self, given: &BTreeMap<String, Vec<String>>) {
        for setting in SETTINGS.iter().filter(|setting| setting.kind == Kind::Secret) {
            if given.contains_key(setting.name) {
                let what =
                    format!("would be shown by `ps`; set {}, or give --{}-file", setting.env(), setting.name);
                self.fault(&Origin::Flag(setting.name.to_owned()).to_string(), &what);
            }
        }
    }

    /// The environment as text. Names of others that are no text are none of our business.
    fn texts(&mut self, env: &[(OsString, OsString)]) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (name, value) in env {
            let Some(name) = name.to_str() else { continue };
            match value.to_str() {
                Some(value) => {
                    texts.insert(name.to_owned(), value.to_owned());
                }
                None if name.starts_with("TOLLGATE_") => {
                    self.fault(&format!("environment: {name}"), "is no UTF-8 text; write plain text");
                }
                None => {}
            }
        }
        texts
    }

    fn own_env(&mut self, env: &BTreeMap<String, String>) -> Layer {
        let mut layer = Layer::new();
        for (name, value) in env.iter().filter(|(name, _)| name.starts_with("TOLLGATE_")) {
            if name == "TOLLGATE_CONFIG" {
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.env() == *name) else {
                let known = SETTINGS.iter().map(Setting::env).chain(["TOLLGATE_CONFIG".to_owned()]);
                let what = format!("is no setting{}", nearest(name, known));
                self.fault(&format!("environment: {name}"), &what);
                continue;
            };
            let given = |text: &str| Given::new(text, Origin::Env(name.clone()));
            let values = match setting.kind {
                Kind::Many => value.split(':').filter(|part| !part.is_empty()).map(given).collect(),
                Kind::One | Kind::Switch | Kind::Secret => vec![given(value)],
            };
            layer.insert(setting.name, values);
        }
        layer
    }

    fn file(&mut self, path: &Path) -> Layer {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.fault(&path.display().to_string(), &format!("cannot be read: {error}"));
                return Layer::new();
            }
        };
        file::read(path, &text, &mut self.faults)
    }

    /// What the strongest layer that names `name` says, parsed. A fault is kept and answered by `T`'s default, which
    /// nobody gets to see because [`finish`](Self::finish) then answers the faults.
    pub(super) fn one<T: Default>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.maybe(name, parse).unwrap_or_default()
    }

    /// As [`one`](Self::one), `None` where no layer names it.
    pub(super) fn maybe<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.many(name, parse).pop()
    }

    /// Every value that the strongest layer which names `name` gives.
    pub(super) fn many<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        debug_assert!(named(name).is_some(), "{name} stands in no row of the table");
        let mut parsed = Vec::new();
        for given in self.layers.iter().find_map(|layer| layer.get(name)).into_iter().flatten() {
            match parse(&given.text) {
                Ok(value) => parsed.push(value),
                Err(what) => self.faults.push(Fault { place: given.origin.to_string(), what }),
            }
        }
        parsed
    }

    pub(super) fn fault(&mut self, place: &str, what: &str) {
        self.faults.push(Fault { place: place.to_owned(), what: what.to_owned() });
    }

    /// What the strongest layer that names `name` gives last, and where.
    pub(super) fn given(&self, name: &str) -> Option<&Given> {
        self.layers.iter().find_map(|layer| layer.get(name))?.last()
    }

    /// Something that the operator should hear once logs are up.
    pub(super) fn note(&mut self, what: &str) {
        self.notes.push(what.to_owned());
    }

    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Names of the peer that are set.
    pub(super) fn peer_names(&self) -> Vec<String> {
        let name = |given: &Given| match &given.origin {
            Origin::Env(name) if !name.starts_with("TOLLGATE_") => Some(name.clone()),
            _ => None,
        };
        self.layers.iter().flat_map(BTreeMap::values).flatten().filter_map(name).collect()
    }

    /// `settings`, or every fault found on the way to them.
    pub(super) fn finish<T>(self, settings: T) -> Result<T, Vec<Fault>> {
        if self.faults.is_empty() { Ok(settings) } else { Err(self.faults) }
    }
}

fn flags(given: &BTreeMap<String, Vec<String>>) -> Layer {
    let row = |(name, values): (&String, &Vec<String>)| {
        let name = named(name)?.name;
        let values = values.iter().map(|text| Given::new(text, Origin::Flag(name.to_owned()))).collect();
        Some((name, values))
    };
    given.iter().filter_map(row).collect()
}

/// `; did you mean X?` for the known name nearest to `name`, or nothing when none is near.
pub(super) fn nearest(name: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    did_you_mean(name, &known).map_or_else(String::new, |hint| format!("; {hint}"))
}
