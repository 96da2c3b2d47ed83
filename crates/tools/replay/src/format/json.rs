//! JSON lines. Nested fields have the names of their objects before theirs: `request.path`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::row::{Names, Row};

/// Most levels of nested objects.
const MAX_DEPTH: usize = 16;

/// Reads one object.
pub(crate) fn json(line: &str, names: &Names, row: &mut Row) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let mut path = String::with_capacity(64);
    Object { names, row, path: &mut path, places: &[], depth: 0 }
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| error.to_string())
}

struct Object<'a> {
    names: &'a Names,
    row: &'a mut Row,
    path: &'a mut String,
    /// Places that want the value, if it is not an object.
    places: &'a [(usize, u8)],
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object on one line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth > MAX_DEPTH {
            return Err(A::Error::custom("objects are nested too deep"));
        }
        let begin = self.path.len();
        while let Some(()) = map.next_key_seed(Name { path: self.path, begin })? {
            let names = self.names;
            let row = &mut *self.row;
            let path = &mut *self.path;
            let places = names.places(path);
            if places.is_empty() && !names.are_in(path) {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Object { names, row, path, places, depth: self.depth + 1 })?;
            }
            self.path.truncate(begin);
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        if self.places.is_empty() { self.leaf("") } else { self.leaf(&value.to_string()) }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        if self.places.is_empty() { self.leaf("") } else { self.leaf(&value.to_string()) }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if self.places.is_empty() { self.leaf("") } else { self.leaf(&value.to_string()) }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.leaf(if value { "true" } else { "false" })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.leaf("")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == 0 {
            return Err(A::Error::custom("a list instead of a JSON object"));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

impl Object<'_> {
    fn leaf<E: Error>(self, value: &str) -> Result<(), E> {
        if self.depth == 0 {
            return Err(E::custom("not a JSON object"));
        }
        self.row.set(self.places, value);
        Ok(())
    }
}

/// Reads a name to the end of the path.
struct Name<'a> {
    path: &'a mut String,
    begin: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        if self.begin > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        Ok(())
    }
}
