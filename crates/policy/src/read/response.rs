//! `response:` how an HTTP surface answers a denied request. Checked here, filled in by the surface.

use super::spelling::{Section, did_you_mean};
use super::{Path, Reader};
use crate::fault::clip;
use crate::rule::Response;
use crate::tree::{Kind, Node};

/// What may stand between `{{` and `}}`.
const PLACEHOLDERS: [&str; 6] = ["retry_after", "limit", "remaining", "reset_after", "rule", "domain"];

impl Reader<'_> {
    pub(super) fn response(&mut self, node: &Node, path: &Path<'_>) -> Option<Response> {
        let fields = self.fields(node, path, Section::Response)?;
        let status = fields.get("status").and_then(|node| self.number(node, &path.key("status"), 400, 599));
        let mut text =
            |name: &'static str| fields.get(name).and_then(|node| self.template(node, &path.key(name)));
        let (content_type, body) = (text("content_type"), text("body"));
        let mut headers = Vec::new();
        if let Some(node) = fields.get("headers") {
            let path = path.key("headers");
            let Kind::Map(map) = &node.kind else {
                self.wrong_kind(node, &path, "a map of names and values");
                return None;
            };
            for (key, value) in &map.entries {
                let here = path.key(&key.text);
                if key.text.is_empty() || !key.text.bytes().all(is_token) {
                    let message = "is no header name; write letters, digits and -";
                    self.notes.fault(key.pos, here, message);
                    continue;
                }
                let Some(text) = self.template(value, &here) else { continue };
                if text.contains(|c: char| c.is_control()) {
                    self.notes.fault(value.pos, here, "holds a control character; write it on one line");
                    continue;
                }
                headers.push((key.text.clone(), text));
            }
        }
        let status = status.and_then(|status| u16::try_from(status).ok());
        Some(Response { status, content_type, body, headers })
    }

    /// A text whose placeholders are known.
    fn template(&mut self, node: &Node, path: &Path<'_>) -> Option<String> {
        let text = self.text(node, path)?;
        let mut rest = text.as_str();
        while let Some((_, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                self.notes.fault(node.pos, path, "opens {{ without }}; close it");
                return None;
            };
            if !PLACEHOLDERS.contains(&name.trim()) {
                let hint = did_you_mean(name.trim(), &PLACEHOLDERS)
                    .unwrap_or_else(|| format!("there are {}", PLACEHOLDERS.join(", ")));
                let name = clip(name.trim());
                self.notes.fault(node.pos, path, format!("{{{{{name}}}}} is unknown; {hint}"));
                return None;
            }
            rest = after;
        }
        Some(text)
    }
}

/// A byte that RFC 9110 allows in a field name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
