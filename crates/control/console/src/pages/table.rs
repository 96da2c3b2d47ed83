//! Pages that are one table, perhaps with a form below it.

use askama::Template;

use crate::field::Field;
use crate::frame::Frame;

#[derive(Template)]
#[template(path = "table.html")]
pub(super) struct TablePage {
    pub(super) f: Frame,
    pub(super) crumb: String,
    /// The purpose of the screen.
    pub(super) lead: &'static str,
    /// The button that makes a new one.
    pub(super) create: Option<(&'static str, String)>,
    /// A link beside the title.
    pub(super) aside: Option<(&'static str, String)>,
    pub(super) live: Option<(&'static str, String)>,
    pub(super) notice: Option<(&'static str, String)>,
    /// Title, text and a command, where there is no row.
    pub(super) empty: (&'static str, &'static str, String),
    /// Titles, and whether they are of numbers.
    pub(super) head: Vec<(&'static str, bool)>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) more: Option<String>,
    pub(super) form_title: &'static str,
    pub(super) action: &'static str,
    pub(super) inputs: Vec<Field>,
    pub(super) button: &'static str,
}

impl TablePage {
    pub(super) fn new(f: Frame, crumb: String) -> Self {
        Self {
            f,
            crumb,
            lead: "",
            create: None,
            aside: None,
            live: None,
            notice: None,
            empty: ("", "", String::new()),
            head: Vec::new(),
            rows: Vec::new(),
            more: None,
            form_title: "",
            action: "",
            inputs: Vec::new(),
            button: "",
        }
    }
}

#[derive(Default)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) class: &'static str,
    pub(super) title: String,
    pub(super) href: String,
    pub(super) tag: &'static str,
    /// Instead of the text: lines, each perhaps with a link.
    pub(super) lines: Vec<(String, String)>,
    /// Path, name and value of a form with one button.
    pub(super) post: (String, &'static str, String),
}

pub(super) fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

impl Cell {
    pub(super) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    pub(super) fn title(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    pub(super) fn href(self, href: String) -> Self {
        Self { href, ..self }
    }

    pub(super) fn tag(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    pub(super) fn lines(self, lines: Vec<(String, String)>) -> Self {
        Self { lines, ..self }
    }

    pub(super) fn post(self, path: String, name: &'static str, value: impl Into<String>) -> Self {
        Self { post: (path, name, value.into()), ..self }
    }
}
