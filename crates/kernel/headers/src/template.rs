//! A text with placeholders, such as `retry in {{retry_after}} s`, which users write for denied clients.
//!
//! Parsed once, where rules are loaded, so that filling it in cannot fail. Not here: the values and their
//! escaping (`fill`).

/// A place in a template that is filled in with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placeholder {
    /// Whole seconds until a retry can succeed, rounded up, at least 1; `never` where no wait helps (`null`
    /// in JSON).
    RetryAfter,
    /// The same in milliseconds.
    RetryAfterMs,
    /// Permits per window.
    Limit,
    /// Permits that are left after the decision.
    Remaining,
    /// Whole seconds until the quota is full again, rounded up.
    ResetAfter,
    /// The same in milliseconds.
    ResetAfterMs,
    /// Seconds in the limit's window, rounded up.
    Window,
    /// The name of the limit that denied.
    Policy,
    /// The path of its rule, such as `api_key → plan=gold`.
    Rule,
    /// The domain of the request.
    Domain,
    /// A sentence: which limit denied, and when to retry.
    Detail,
}

impl Placeholder {
    /// Every placeholder, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::RetryAfter,
        Self::RetryAfterMs,
        Self::Limit,
        Self::Remaining,
        Self::ResetAfter,
        Self::ResetAfterMs,
        Self::Window,
        Self::Policy,
        Self::Rule,
        Self::Domain,
        Self::Detail,
    ];

    /// The text between `{{` and `}}`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry_after",
            Self::RetryAfterMs => "retry_after_ms",
            Self::Limit => "limit",
            Self::Remaining => "remaining",
            Self::ResetAfter => "reset_after",
            Self::ResetAfterMs => "reset_after_ms",
            Self::Window => "window",
            Self::Policy => "policy",
            Self::Rule => "rule",
            Self::Domain => "domain",
            Self::Detail => "detail",
        }
    }

    /// Whether it is text, which JSON wants in quotes, and not a number.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Policy | Self::Rule | Self::Domain | Self::Detail)
    }
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Goes out as it is.
    Text(Box<str>),
    /// Is filled in.
    Hole(Placeholder),
}

/// Why a text is not a template. Characters are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// `{{` without `}}`.
    #[error("character {at}: opens {{{{ without }}}}; close it")]
    Unclosed {
        /// The place of `{{`.
        at: usize,
    },
    /// An unknown placeholder.
    #[error("character {at}: {{{{{name}}}}} is unknown")]
    Unknown {
        /// The place of its `{{`.
        at: usize,
        /// The unknown name.
        name: String,
    },
}

/// A checked text with [`Placeholder`]s between `{{` and `}}`; spaces around a name do not matter.
///
/// # Example
/// ```
/// # use tollgate_headers::{Part, Placeholder, Template};
/// let template: Template = "back in {{ retry_after }} s".parse()?;
/// assert_eq!(template.parts()[1], Part::Hole(Placeholder::RetryAfter));
/// let faulty = "back in {{retry_afer}} s".parse::<Template>().unwrap_err();
/// assert_eq!(faulty.to_string(), "character 9: {{retry_afer}} is unknown");
/// # Ok::<(), tollgate_headers::TemplateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// The pieces in their order; no two texts are adjacent.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

impl std::str::FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let at = text[..text.len() - after.len() - 2].chars().count() + 1;
            let Some((name, after)) = after.split_once("}}") else {
                return Err(TemplateError::Unclosed { at });
            };
            let name = name.trim();
            let Some(hole) = Placeholder::ALL.into_iter().find(|hole| hole.name() == name) else {
                return Err(TemplateError::Unknown { at, name: name.to_owned() });
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            parts.push(Part::Hole(hole));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(Self { parts })
    }
}

/// The kind of a body, which decides how values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Anything else: values are inserted as they are.
    Plain,
    /// JSON: texts are escaped for a place between quotes, *never* is `null`.
    Json,
    /// HTML or XML: `<`, `>`, `&` and quotes are escaped.
    Markup,
}

impl Content {
    /// The content that a `Content-Type` names.
    ///
    /// ```
    /// # use tollgate_headers::Content;
    /// assert_eq!(Content::of("application/problem+json; charset=utf-8"), Content::Json);
    /// assert_eq!(Content::of("text/HTML"), Content::Markup);
    /// assert_eq!(Content::of("text/plain"), Content::Plain);
    /// ```
    #[must_use]
    pub fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let subtype = essence.rsplit('/').next().unwrap_or_default();
        match subtype.rsplit('+').next().unwrap_or_default() {
            "json" => Self::Json,
            "html" | "xml" => Self::Markup,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_placeholders_or_the_fault_says_where() {
        let text = |text: &str| Part::Text(text.into());
        for (input, want) in [
            ("", Ok(vec![])),
            ("no holes }} { {", Ok(vec![text("no holes }} { {")])),
            ("{{limit}}{{ rule }}", Ok(vec![Part::Hole(Placeholder::Limit), Part::Hole(Placeholder::Rule)])),
            ("a{{limit}}}}", Ok(vec![text("a"), Part::Hole(Placeholder::Limit), text("}}")])),
            ("请 {{limit", Err(TemplateError::Unclosed { at: 3 })),
            ("{{limit}} {{}}", Err(TemplateError::Unknown { at: 11, name: String::new() })),
            ("{{{limit}}}", Err(TemplateError::Unknown { at: 1, name: "{limit".to_owned() })),
        ] {
            assert_eq!(input.parse::<Template>().map(|template| template.parts), want, "{input}");
        }
    }
}
