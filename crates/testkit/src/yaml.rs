//! A YAML file as a tree of JSON values: anchors and `<<` are written out. For the files that we ship for other programs.

use std::path::Path;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Reads a file that must be there and must be YAML; every scalar is a string, except a plain `null` or an
/// absent value.
pub(crate) fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut reader = Reader { anchors: Vec::new(), events: Vec::new() };
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    for event in Parser::new_from_str_with_options(&text, options) {
        match event {
            Ok((event, _)) => reader.events.push(event),
            Err(e) => panic!("{}: {e}", file.display()),
        }
    }
    reader.events.reverse();
    while let Some(event) = reader.events.pop() {
        if matches!(event, Event::DocumentStart(..)) {
            return reader.value();
        }
    }
    Value::Null
}

/// The strings of a list, or none.
pub(crate) fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

struct Reader<'a> {
    anchors: Vec<(usize, Value)>,
    /// The next one last.
    events: Vec<Event<'a>>,
}

impl Reader<'_> {
    fn ends(&mut self) -> bool {
        let end = |event: &mut Event<'_>| matches!(event, Event::SequenceEnd | Event::MappingEnd);
        self.events.pop_if(end).is_some()
    }

    fn value(&mut self) -> Value {
        let (anchor, value) = match self.events.pop().expect("a value") {
            Event::Scalar(text, style, anchor, _) => {
                let null = style == ScalarStyle::Plain && ["", "~", "null"].contains(&&*text);
                (anchor, if null { Value::Null } else { Value::String(text.into_owned()) })
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
