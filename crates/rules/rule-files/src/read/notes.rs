//! Faults and warnings of one file, with their places.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tollgate_policy::Place;

use super::warnings::{Warned, Warnings};
use crate::fault::Fault;
use crate::yaml_tree::Pos;

/// The most faults that are reported per file.
const MAX_FAULTS: usize = 1_000;
const LAST_FAULT: usize = MAX_FAULTS - 1;

/// Faults and warnings of one file.
#[derive(Clone, Debug)]
pub(crate) struct Notes {
    file: Arc<Path>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Warnings,
}

impl Notes {
    pub(crate) fn new(file: Arc<Path>) -> Self {
        Self { file, faults: Vec::new(), warnings: Warnings::default() }
    }

    pub(crate) fn file(&self) -> &Arc<Path> {
        &self.file
    }

    pub(crate) fn place(&self, pos: Pos) -> Place {
        Place { file: Arc::clone(&self.file), line: pos.line, column: pos.column }
    }

    pub(crate) fn fault(&mut self, pos: Pos, path: impl fmt::Display, message: impl Into<String>) {
        self.fault_at(self.place(pos), path, message.into());
    }

    pub(crate) fn fault_at(&mut self, place: Place, path: impl fmt::Display, message: String) {
        match self.faults.len() {
            MAX_FAULTS.. => {}
            LAST_FAULT => {
                let message = "more errors follow from here; correct those above first".to_owned();
                self.faults.push(Fault { place, path: String::new(), message });
            }
            _ => self.faults.push(Fault { place, path: path.to_string(), message }),
        }
    }

    pub(crate) fn warn(
        &mut self,
        kind: Warned,
        pos: Pos,
        path: impl fmt::Display,
        message: impl Into<String>,
    ) {
        let place = self.place(pos);
        self.warnings.push(kind, Fault { place, path: path.to_string(), message: message.into() });
    }

    /// Whether further faults are dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }
}
