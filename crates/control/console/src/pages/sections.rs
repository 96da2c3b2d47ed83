//! Pages that are a column of cards: facts, a table, forms.

use askama::Template;

use super::table::Cell;
use crate::field::Field;
use crate::frame::Frame;

#[derive(Template)]
#[template(path = "sections.html")]
pub(super) struct SectionsPage {
    pub(super) f: Frame,
    pub(super) crumb: String,
    pub(super) live: Option<(&'static str, String)>,
    /// A link beside the title, and its text.
    pub(super) tool: Option<(String, &'static str)>,
    pub(super) notice: Option<(&'static str, String)>,
    pub(super) secret: Option<Secret>,
    pub(super) sections: Vec<Section>,
}

/// A text that is shown this once.
pub(super) struct Secret {
    pub(super) title: &'static str,
    pub(super) hint: String,
    pub(super) text: String,
}

/// A card of the page.
#[derive(Default)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) facts: Vec<(&'static str, String)>,
    /// A search above the table.
    pub(super) above: Vec<Form>,
    /// Titles, and whether they are of numbers; without any there is no table.
    pub(super) head: Vec<(&'static str, bool)>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Title and text where there is no row.
    pub(super) empty: (&'static str, &'static str),
    pub(super) more: Option<(String, &'static str)>,
    pub(super) forms: Vec<Form>,
}

/// A form of a card.
#[derive(Default)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) hidden: Vec<(&'static str, String)>,
    pub(super) inputs: Vec<Field>,
    pub(super) button: &'static str,
    /// `primary`, `danger`, or empty.
    pub(super) class: &'static str,
}

impl SectionsPage {
    pub(super) fn new(f: Frame, crumb: String) -> Self {
        Self { f, crumb, live: None, tool: None, notice: None, secret: None, sections: Vec::new() }
    }
}

impl Section {
    pub(super) fn is_table(&self) -> bool {
        !self.head.is_empty()
    }
}
