//! Parts that several pages have.

use crate::chart::Words;
use crate::texts::Lang;

/// A button of a form.
pub(super) struct Button {
    /// Sent as the field that the form names.
    pub(super) value: &'static str,
    pub(super) class: &'static str,
    pub(super) text: &'static str,
}

/// A link to another view of the same page.
pub(super) struct Tab {
    pub(super) text: &'static str,
    pub(super) href: String,
    /// The view that is shown.
    pub(super) is_here: bool,
}

/// A check and its outcome.
pub(super) struct Check {
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) outcome: String,
}

/// A field that differs.
pub(super) struct Edit {
    pub(super) field: &'static str,
    pub(super) before: String,
    pub(super) after: String,
}

/// The words of charts.
pub(super) const fn chart_words(lang: Lang) -> Words {
    let w = lang.traffic();
    Words {
        time: w.time,
        admitted: w.admitted,
        denied: w.denied,
        shadow: w.shadow_denied,
        degraded: w.degraded,
        near: w.near,
    }
}
