//! All layers of settings, strongest first: values are read here by their rows, and faults are collected.

use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::row::{OptionalRow, Parse, Row, Setting};

/// All layers, strongest first, and the faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) notes: Vec<String>,
    /// Why the environment is that of envoyproxy/ratelimit, if it is.
    pub(crate) compat: Option<String>,
    /// Names of envoyproxy/ratelimit that are set and have an effect.
    pub(crate) compat_names: Vec<String>,
}

impl Layers {
    /// The value of `row`. If it is invalid, the fault is kept and a placeholder returned, which is never
    /// used, since [`finish`](Self::finish) then returns the faults.
    pub(crate) fn one<T: Default>(&mut self, row: &Row<T>) -> T {
        self.one_or(row, T::default())
    }

    /// As [`one`](Self::one), with that placeholder.
    pub(crate) fn one_or<T>(&mut self, row: &Row<T>, placeholder: T) -> T {
        self.parse(&row.setting, row.parse).pop().unwrap_or(placeholder)
    }

    /// The value of `row`, if it is given.
    pub(crate) fn maybe<T>(&mut self, row: &OptionalRow<T>) -> Option<T> {
        self.all(row).pop()
    }

    /// The value of the one of two rows that is given, such as a secret or the file that it is in.
    pub(crate) fn either<T>(&mut self, a: &OptionalRow<T>, b: &OptionalRow<T>) -> Option<T> {
        let values = (self.maybe(a), self.maybe(b));
        if let (Some(_), Some(_)) = values {
            let a = a.setting.name;
            let b = b.setting.name;
            self.conflict(format!("{a} and {b} are both given; keep one"));
        }
        values.0.or(values.1)
    }

    /// Every value that the strongest layer with `row` gives.
    pub(crate) fn all<T>(&mut self, row: &OptionalRow<T>) -> Vec<T> {
        self.parse(&row.setting, row.parse)
    }

    fn parse<T>(&mut self, setting: &Setting, parse: Parse<T>) -> Vec<T> {
        let Self { layers, faults, .. } = self;
        let given = layers.iter().find_map(|layer| layer.get(setting)).unwrap_or_default();
        let mut parsed = Vec::with_capacity(given.len());
        for Given { text, origin } in given {
            match parse(text) {
                Ok(value) => parsed.push(value),
                Err(what) => faults.push(Fault::new(origin, what)),
            }
        }
        parsed
    }

    /// The last value that the strongest layer with `setting` gives, as text.
    pub(crate) fn given(&self, setting: &Setting) -> Option<&Given> {
        self.layers.iter().find_map(|layer| layer.get(setting))?.last()
    }

    /// `what` is wrong with the value of `setting`.
    pub(crate) fn invalid(&mut self, setting: &Setting, what: impl Into<String>) {
        let origin = self.given(setting).map_or(Origin::Default, |given| given.origin.clone());
        self.faults.push(Fault::new(origin, what));
    }

    /// `what` is wrong with several settings together.
    pub(crate) fn conflict(&mut self, what: impl Into<String>) {
        self.faults.push(Fault::of_settings(what));
    }

    /// Something that the operator should know once logging has started.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// `settings`, or every fault.
    pub(crate) fn finish<T>(self, settings: T) -> Result<T, Vec<Fault>> {
        if self.faults.is_empty() { Ok(settings) } else { Err(self.faults) }
    }
}
