//! One input of a form, as the templates show it.

use tollgate_control::FieldFault;

use crate::texts::Lang;

/// An input with its label, its value, and its fault.
#[derive(Debug, Default)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) hint: &'static str,
    pub(crate) value: String,
    pub(crate) fault: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) is_area: bool,
    pub(crate) is_mono: bool,
    pub(crate) is_number: bool,
    pub(crate) is_required: bool,
    pub(crate) is_fixed: bool,
    pub(crate) options: Vec<(&'static str, &'static str)>,
    pub(crate) list: &'static str,
    pub(crate) autocomplete: &'static str,
}

impl Field {
    pub(crate) fn text(name: &'static str, label: &'static str, hint: &'static str, value: &str) -> Self {
        let value = value.to_owned();
        Self { name, label, hint, value, kind: "text", autocomplete: "off", ..Self::default() }
    }

    pub(crate) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(crate) fn mono(self) -> Self {
        Self { is_mono: true, ..self }
    }

    pub(crate) fn number(self) -> Self {
        Self { is_number: true, ..self }
    }

    pub(crate) fn fixed(self, is_fixed: bool) -> Self {
        Self { is_fixed, ..self }
    }

    pub(crate) fn area(self) -> Self {
        Self { is_area: true, is_mono: true, ..self }
    }

    pub(crate) fn of(self, options: &[(&'static str, &'static str)]) -> Self {
        Self { options: options.to_vec(), ..self }
    }

    pub(crate) fn listed(self, list: &'static str) -> Self {
        Self { list, ..self }
    }

    pub(crate) fn secret(self, autocomplete: &'static str) -> Self {
        Self { kind: "password", autocomplete, value: String::new(), ..self }
    }

    /// With the fault of its name, if there is one.
    pub(crate) fn faulted(mut self, lang: Lang, faults: &[FieldFault]) -> Self {
        let found = faults.iter().find(|it| it.field == self.name);
        self.fault = found.map(|it| lang.fault(&it.fault));
        self
    }
}
