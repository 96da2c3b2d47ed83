//! `response:` how an HTTP surface answers a denied request. Checked here, filled in by the surface.

use std::fmt;

use tollgate_headers::{Content, Part, Template};

use crate::error::RuleError;

/// Header fields that frame a message; a surface writes them itself.
const FRAMING: [&str; 6] =
    ["connection", "content-length", "keep-alive", "te", "transfer-encoding", "upgrade"];

/// Reply of HTTP surfaces to a denied request. Made by [`ResponseSpec::build`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// Status code, 400 to 599; `None` for the surface's default (429).
    pub status: Option<u16>,
    /// `Content-Type` of the body, a valid header value; `None` means `text/plain; charset=utf-8`.
    pub content_type: Option<String>,
    /// Body, with placeholders such as `{{retry_after}}`.
    pub body: Option<Template>,
    /// Further header fields; the names are valid, the values may contain the same placeholders.
    pub headers: Vec<(String, Template)>,
}

/// A [`Response`] before it is checked.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let spec = ResponseSpec::new().status(503).body("back in {{retry_afer}} s").header("X-Rule", "{{rule}}");
/// let errors = spec.build().expect_err("retry_after is misspelt");
/// let want = "body: character 9: {{retry_afer}} is unknown; did you mean retry_after?";
/// assert_eq!(errors.to_string(), want);
/// assert_eq!(spec.body("back in {{retry_after}} s").build().expect("a response").status, Some(503));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseSpec {
    status: Option<u16>,
    content_type: Option<String>,
    body: Option<String>,
    headers: Vec<(String, String)>,
}

/// A part of a [`ResponseSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponsePart {
    /// The status code.
    Status,
    /// The content type.
    ContentType,
    /// The template of the body.
    Body,
    /// The name of the header field of this index.
    HeaderName(usize),
    /// The value of the header field of this index.
    HeaderValue(usize),
}

impl fmt::Display for ResponsePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str("status"),
            Self::ContentType => f.write_str("content_type"),
            Self::Body => f.write_str("body"),
            Self::HeaderName(index) | Self::HeaderValue(index) => write!(f, "headers[{index}]"),
        }
    }
}

/// Everything that is wrong with a [`ResponseSpec`]; never empty. Displays one error per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseErrors(Vec<(ResponsePart, RuleError)>);

impl ResponseErrors {
    /// The errors, at least one, and the part that each is about.
    #[must_use]
    pub fn as_slice(&self) -> &[(ResponsePart, RuleError)] {
        &self.0
    }
}

impl fmt::Display for ResponseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (part, error)) in self.0.iter().enumerate() {
            let newline = if i > 0 { "\n" } else { "" };
            write!(f, "{newline}{part}: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ResponseErrors {}

impl ResponseSpec {
    /// A response that is the surface's default in every part.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With this status code, 400 to 599.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// With this `Content-Type` of the body.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// With this body; it may contain placeholders such as `{{retry_after}}`.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// With a further header field; its value may contain the same placeholders.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Checks every part.
    ///
    /// # Errors
    /// [`ResponseErrors`]: everything that is wrong.
    pub fn build(&self) -> Result<Response, ResponseErrors> {
        let mut errors = Vec::new();
        if let Some(status) = self.status.filter(|status| !(400..=599).contains(status)) {
            errors.push((ResponsePart::Status, RuleError::Status(status)));
        }
        if let Some(text) = self.content_type.as_ref().filter(|text| !is_content_type(text)) {
            errors.push((ResponsePart::ContentType, RuleError::ContentType(text.clone())));
        }
        let body = self.body.as_deref().and_then(|text| {
            self.checked_body(text).map_err(|error| errors.push((ResponsePart::Body, error))).ok()
        });
        let headers = self.checked_headers(&mut errors);
        if errors.is_empty() {
            Ok(Response { status: self.status, content_type: self.content_type.clone(), body, headers })
        } else {
            Err(ResponseErrors(errors))
        }
    }

    /// A body whose placeholders are known, and which is JSON, if it has to be, whatever they are filled in
    /// with.
    fn checked_body(&self, text: &str) -> Result<Template, RuleError> {
        let body: Template = text.parse().map_err(RuleError::Template)?;
        let content_type = self.content_type.as_deref().filter(|text| is_content_type(text));
        if content_type.map(Content::of) != Some(Content::Json) {
            return Ok(body);
        }
        // Texts come escaped for a place in quotes; a wait without end is null.
        for number in ["0", "null"] {
            let filled: String = body
                .parts()
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text,
                    Part::Hole(hole) if hole.is_text() => "x",
                    Part::Hole(_) => number,
                })
                .collect();
            if let Err(error) = serde_json::from_str::<serde_json::Value>(&filled) {
                return Err(RuleError::BodyNotJson(error.to_string()));
            }
        }
        Ok(body)
    }

    fn checked_headers(&self, errors: &mut Vec<(ResponsePart, RuleError)>) -> Vec<(String, Template)> {
        let mut headers: Vec<(String, Template)> = Vec::new();
        for (index, (name, value)) in self.headers.iter().enumerate() {
            if let Err(error) = check_header_name(name, &headers) {
                errors.push((ResponsePart::HeaderName(index), error));
                continue;
            }
            match header_value(value) {
                Ok(template) => headers.push((name.clone(), template)),
                Err(error) => errors.push((ResponsePart::HeaderValue(index), error)),
            }
        }
        headers
    }
}

fn is_content_type(text: &str) -> bool {
    text.contains('/') && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

fn check_header_name(name: &str, before: &[(String, Template)]) -> Result<(), RuleError> {
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(is_token) {
        Err(RuleError::HeaderName)
    } else if lower == "content-type" {
        Err(RuleError::ContentTypeHeader)
    } else if FRAMING.contains(&lower.as_str()) {
        Err(RuleError::FramingHeader)
    } else if before.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Err(RuleError::DuplicateHeader)
    } else {
        Ok(())
    }
}

fn header_value(text: &str) -> Result<Template, RuleError> {
    let template: Template = text.parse().map_err(RuleError::Template)?;
    let has_controls =
        |part: &Part| matches!(part, Part::Text(text) if text.contains(|c: char| c.is_control()));
    if template.parts().iter().any(has_controls) {
        return Err(RuleError::HeaderControlCharacter);
    }
    Ok(template)
}

/// A byte that RFC 9110 allows in a field name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
