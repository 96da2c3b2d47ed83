//! A YAML file as a tree of JSON values: anchors and `<<` are written out. For the files that we ship for
//! other programs.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Reads the first document of a file that must be there and must be YAML; every scalar is a string, except a
/// plain `null` or an absent value.
#[must_use]
pub fn read(file: &Path) -> Value {
    documents(file, false).into_iter().next().unwrap_or_default()
}

/// Reads the first document; plain scalars that look like numbers or switches are that.
#[must_use]
pub fn read_typed(file: &Path) -> Value {
    documents(file, true).into_iter().next().unwrap_or_default()
}

/// Reads every document, typed.
#[must_use]
pub fn read_all_typed(file: &Path) -> Vec<Value> {
    documents(file, true)
}

fn documents(file: &Path, is_typed: bool) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut reader = YamlReader { anchors: Vec::new(), events: Vec::new(), is_typed };
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    for event in Parser::new_from_str_with_options(&text, options) {
        match event {
            Ok((event, _)) => reader.events.push(event),
            Err(e) => panic!("{}: {e}", file.display()),
        }
    }
    reader.events.reverse();
    let mut documents = Vec::new();
    while let Some(event) = reader.events.pop() {
        if matches!(event, Event::DocumentStart(..)) {
            documents.push(reader.value());
        }
    }
    documents
}

/// The strings of a list, or none.
#[must_use]
pub fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

struct YamlReader<'a> {
    anchors: Vec<(usize, Value)>,
    /// The next one last.
    events: Vec<Event<'a>>,
    is_typed: bool,
}

impl YamlReader<'_> {
    fn ends(&mut self) -> bool {
        let end = |event: &mut Event<'_>| matches!(event, Event::SequenceEnd | Event::MappingEnd);
        self.events.pop_if(end).is_some()
    }

    fn value(&mut self) -> Value {
        let (anchor, value) = match self.events.pop().expect("a value") {
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let null = is_plain && ["", "~", "null"].contains(&&*text);
                // YAML writes these scalars in the same way as JSON.
                let typed = (self.is_typed && is_plain).then(|| serde_json::from_str(&text).ok()).flatten();
                let value = typed.filter(|value: &Value| value.is_boolean() || value.is_number());
                let value = if null { Some(Value::Null) } else { value };
                (anchor, value.unwrap_or_else(|| Value::String(text.into_owned())))
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut list = Vec::new();
                while !self.ends() {
                    list.push(self.value());
                }
                (anchor, Value::Array(list))
            }
            Event::MappingStart(_, anchor, _) => {
                let mut map = Map::new();
                while !self.ends() {
                    let key = self.value();
                    match (key.as_str().unwrap_or_default(), self.value()) {
                        ("<<", Value::Object(merged)) => {
                            for (key, value) in merged {
                                map.entry(key).or_insert(value);
                            }
                        }
                        (key, value) => drop(map.insert(key.to_owned(), value)),
                    }
                }
                (anchor, Value::Object(map))
            }
            Event::Alias(id) => {
                let (_, value) = self.anchors.iter().find(|(anchor, _)| *anchor == id).expect("an anchor");
                return value.clone();
            }
            other => panic!("no value: {other:?}"),
        };
        if anchor != 0 {
            self.anchors.push((anchor, value.clone()));
        }
        value
    }
}
