//! The keys of the keyboard, and turning them off.

use askama::Template;
use hyper::StatusCode;
use tollgate_http_kit::Reply;

use crate::frame::{Frame, page};
use crate::texts::nav::Texts;
use crate::web::{Failure, Visit};

#[derive(Template)]
#[template(path = "shortcuts.html")]
struct ShortcutsPage {
    f: Frame,
    /// Keys, and what they do.
    keys: Vec<(&'static [&'static str], &'static str)>,
}

pub(super) fn show(visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let t = Texts::of(visit.lang);
    let keys: Vec<(&'static [&'static str], _)> = vec![
        (&["/"], t.does_search),
        (&["n"], t.does_new),
        (&["j", "k"], t.does_rows),
        (&["Enter"], t.does_open),
        (&["Ctrl", "S"], t.does_save),
        (&["?"], t.does_help),
    ];
    page(StatusCode::OK, &ShortcutsPage { f: Frame::new(visit, "", t.shortcuts), keys })
}
