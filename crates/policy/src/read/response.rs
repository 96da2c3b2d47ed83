//! `response:` how an HTTP surface answers a denied request. Checked here, filled in by the surface.

use tollgate_headers::{Content, Part, Placeholder, Template, TemplateError};

use super::spelling::{Section, did_you_mean};
use super::{Fields, Path, Reader};
use crate::fault::clip;
use crate::rule::Response;
use crate::tree::{Kind, Node};

/// Fields that frame a message; a surface writes them itself.
const FRAMING: [&str; 6] =
    ["connection", "content-length", "keep-alive", "te", "transfer-encoding", "upgrade"];

impl Reader<'_> {
    pub(super) fn response(&mut self, node: &Node, path: &Path<'_>) -> Option<Response> {
        let fields = self.fields(node, path, Section::Response)?;
        let status = fields.get("status").and_then(|node| self.number(node, &path.key("status"), 400, 599));
        let content_type = fields.get("content_type").and_then(|node| {
            let path = path.key("content_type");
            let text = self.text(node, &path)?;
            let is_one = text.contains('/') && text.bytes().all(|b| (b' '..=b'~').contains(&b));
            if !is_one {
                let message =
                    format!("{} is no content type; write one such as application/json", clip(&text));
                self.notes.fault(node.pos, path, message);
            }
            is_one.then_some(text)
        });
        if fields.get("content_type").is_some() && fields.get("body").is_none() {
            let message = "has no effect without body; write one, or leave it out";
            self.notes.warn(fields.pos_of("content_type"), path.key("content_type"), message);
        }
        let body = fields.get("body").and_then(|node| {
            let path = path.key("body");
            let body = self.template(node, &path)?;
            self.check_body(node, &path, &fields, content_type.as_deref(), &body);
            Some(body)
        });
        let headers = fields.get("headers").map(|node| self.headers(node, &path.key("headers")));
        let status = status.and_then(|status| u16::try_from(status).ok());
        Some(Response { status, content_type, body, headers: headers.unwrap_or_default() })
    }

    fn headers(&mut self, node: &Node, path: &Path<'_>) -> Vec<(String, Template)> {
        let Kind::Map(map) = &node.kind else {
            self.wrong_kind(node, path, "a map of names and values");
            return Vec::new();
        };
        let mut headers: Vec<(String, Template)> = Vec::new();
        for (key, value) in &map.entries {
            let (here, name) = (path.key(&key.text), key.text.to_ascii_lowercase());
            let refused = if key.text.is_empty() || !key.text.bytes().all(is_token) {
                Some("is no header name; write letters, digits and -")
            } else if name == "content-type" {
                Some("has a key of its own; write content_type: under response")
            } else if FRAMING.contains(&name.as_str()) {
                Some("is for the server to write; leave it out")
            } else if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                Some("stands twice, since case does not matter in header names; keep one")
            } else {
                None
            };
            if let Some(message) = refused {
                self.notes.fault(key.pos, here, message);
                continue;
            }
            let Some(template) = self.template(value, &here) else { continue };
            let has_controls =
                |part: &Part| matches!(part, Part::Text(text) if text.contains(|c: char| c.is_control()));
            if template.parts().iter().any(has_controls) {
                self.notes.fault(value.pos, here, "holds a control character; write it on one line");
                continue;
            }
            headers.push((key.text.clone(), template));
        }
        headers
    }

    /// A text whose placeholders are known.
    fn template(&mut self, node: &Node, path: &Path<'_>) -> Option<Template> {
        let text = self.text(node, path)?;
        let error = match text.parse() {
            Ok(template) => return Some(template),
            Err(error) => error,
        };
        let message = match error {
            TemplateError::Unknown { at, name } => {
                let names = Placeholder::ALL.map(Placeholder::name);
                let hint =
                    did_you_mean(&name, &names).unwrap_or_else(|| format!("there are {}", names.join(", ")));
                format!("character {at}: {{{{{}}}}} is unknown; {hint}", clip(&name))
            }
            error => error.to_string(),
        };
        self.notes.fault(node.pos, path, message);
        None
    }

    /// A JSON body must be JSON whatever it is filled in with.
    fn check_body(
        &mut self,
        node: &Node,
        path: &Path<'_>,
        fields: &Fields<'_>,
        content_type: Option<&str>,
        body: &Template,
    ) {
        if fields.get("content_type").is_none() {
            let starts_as_json = |text: &str| {
                text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("{{")
            };
            if matches!(body.parts().first(), Some(Part::Text(text)) if starts_as_json(text)) {
                let message =
                    "looks like JSON and goes out as text/plain; add content_type: application/json";
                self.notes.warn(node.pos, path, message);
            }
            return;
        }
        if content_type.map(Content::of) != Some(Content::Json) {
            return;
        }
        // Texts come escaped for a place in quotes; a wait that never ends is null.
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
                let message = format!(
                    "is no JSON once filled in ({error}); texts such as {{{{rule}}}} belong in quotes"
                );
                self.notes.fault(node.pos, path, message);
                return;
            }
        }
    }
}

/// A byte that RFC 9110 allows in a field name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
