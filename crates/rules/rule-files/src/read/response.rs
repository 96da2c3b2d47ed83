//! `response:` how an HTTP surface answers a denied request.

use tollgate_headers::Part;
use tollgate_policy::{Response, ResponsePart, ResponseSpec};

use super::known_keys::Section;
use super::path::Path;
use super::reader::{Fields, Reader};
use super::warnings::Warned;
use crate::yaml_tree::{Kind, Pos, YamlNode};

/// Where a header field is.
struct HeaderPlace {
    name: Pos,
    value: Pos,
    path: String,
}

impl Reader<'_> {
    pub(super) fn response(&mut self, node: &YamlNode, path: &Path<'_>) -> Option<Response> {
        let fields = self.fields(node, path, Section::Response)?;
        let mut spec = ResponseSpec::new();
        let status = fields.get("status").and_then(|node| self.number(node, &path.key("status"), 400, 599));
        if let Some(status) = status.and_then(|status| u16::try_from(status).ok()) {
            spec = spec.status(status);
        }
        let content_type = fields.get("content_type");
        if let Some(text) = content_type.and_then(|node| self.text(node, &path.key("content_type"))) {
            spec = spec.content_type(text);
        }
        if let Some(text) = fields.get("body").and_then(|node| self.text(node, &path.key("body"))) {
            spec = spec.body(text);
        }
        let mut places = Vec::new();
        if let Some(node) = fields.get("headers") {
            (spec, places) = self.headers(node, &path.key("headers"), spec);
        }
        match spec.build() {
            Ok(response) => {
                self.warn_of_body(&fields, path, &response);
                Some(response)
            }
            Err(errors) => {
                for (part, error) in errors.as_slice() {
                    let value_of =
                        |name: &'static str| (fields.pos_of_value(name), path.key(name).to_string());
                    let (pos, path) = match part {
                        ResponsePart::Status => value_of("status"),
                        ResponsePart::ContentType => value_of("content_type"),
                        ResponsePart::HeaderName(index) => {
                            places.get(*index).map_or_else(|| value_of("headers"), HeaderPlace::of_name)
                        }
                        ResponsePart::HeaderValue(index) => {
                            places.get(*index).map_or_else(|| value_of("headers"), HeaderPlace::of_value)
                        }
                        _ => value_of("body"),
                    };
                    self.notes.fault(pos, path, error.to_string());
                }
                None
            }
        }
    }

    /// `spec` with header fields, and where they are.
    fn headers(
        &mut self,
        node: &YamlNode,
        path: &Path<'_>,
        mut spec: ResponseSpec,
    ) -> (ResponseSpec, Vec<HeaderPlace>) {
        let mut places = Vec::new();
        let Kind::Map(map) = &node.kind else {
            self.wrong_kind(node, path, "a map of names and values");
            return (spec, places);
        };
        for (key, value) in &map.entries {
            let here = path.key(&key.text);
            let Some(text) = self.text(value, &here) else { continue };
            spec = spec.header(key.text.clone(), text);
            places.push(HeaderPlace { name: key.pos, value: value.pos, path: here.to_string() });
        }
        (spec, places)
    }

    fn warn_of_body(&mut self, fields: &Fields<'_>, path: &Path<'_>, response: &Response) {
        if response.content_type.is_some() && response.body.is_none() {
            let message = "has no effect without body; write one, or remove it";
            self.notes.warn(
                Warned::ContentType,
                fields.pos_of("content_type"),
                path.key("content_type"),
                message,
            );
        }
        let starts_as_json =
            |text: &str| text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("{{");
        let first = response.body.as_ref().and_then(|body| body.parts().first());
        if response.content_type.is_none() && matches!(first, Some(Part::Text(text)) if starts_as_json(text))
        {
            let message = "looks like JSON but is sent as text/plain; add content_type: application/json";
            self.notes.warn(Warned::LooksLikeJson, fields.pos_of_value("body"), path.key("body"), message);
        }
    }
}

impl HeaderPlace {
    fn of_name(&self) -> (Pos, String) {
        (self.name, self.path.clone())
    }

    fn of_value(&self) -> (Pos, String) {
        (self.value, self.path.clone())
    }
}
