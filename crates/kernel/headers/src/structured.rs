//! The part of structured fields (RFC 9651) that limits are reported in: lists and dictionaries of items with
//! parameters. Inner lists count as malformed, and a malformed field as none at all, as the RFC asks.

use bytes::{BufMut, BytesMut};

/// The largest integer that a structured field can hold.
pub(crate) const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The most bytes of a name that go out, before escaping.
const MAX_NAME: usize = 128;
/// The most members that are read of one field.
const MAX_MEMBERS: usize = 64;

/// Writes `name` as a string. Bytes that a string cannot hold are written as `%` and two hexadecimal digits,
/// and so is `%`; the arrow in the path of a rule becomes `>`.
pub(crate) fn put_name(name: &str, out: &mut BytesMut) {
    let name = if name.is_empty() { "default" } else { name };
    out.put_u8(b'"');
    for c in name[..name.floor_char_boundary(MAX_NAME)].chars() {
        match c {
            '→' => out.put_u8(b'>'),
            '"' | '\\' => out.put_slice(&[b'\\', c as u8]),
            ' '..='~' if c != '%' => out.put_u8(c as u8),
            c => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let digit = |four: u8| b"0123456789abcdef"[usize::from(four)];
                    out.put_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
                }
            }
        }
    }
    out.put_u8(b'"');
}

/// The name that [`put_name`] wrote; a `%` that means nothing stays.
pub(crate) fn name_of(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = (*first == b'%').then(|| after.get(..2)).flatten();
        match byte.and_then(|two| Some((hex(two[0])? << 4) | hex(two[1])?)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// A value without parameters; of a type that limits never use, only the presence is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    /// A whole number; negative ones count as [`Other`](Bare::Other).
    Integer(u64),
    /// A string or a token.
    Text(String),
    Other,
}

impl Bare {
    pub(crate) const fn integer(&self) -> Option<u64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }
}

/// A member of a list (its key is empty) or a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) value: Bare,
    pub(crate) parameters: Vec<(String, Bare)>,
}

impl Member {
    /// The last parameter of this name that is a whole number.
    pub(crate) fn parameter(&self, name: &str) -> Option<u64> {
        self.parameters.iter().rev().find(|(key, _)| key == name)?.1.integer()
    }
}

/// The members of a list; `None` when it is malformed or empty.
pub(crate) fn list(text: &str) -> Option<Vec<Member>> {
    members(text, false)
}

/// The members of a dictionary; `None` when it is malformed or empty.
pub(crate) fn dictionary(text: &str) -> Option<Vec<Member>> {
    members(text, true)
}

fn members(text: &str, has_keys: bool) -> Option<Vec<Member>> {
    let mut rest = Rest(text.trim_matches(' '));
    let mut members = Vec::new();
    loop {
        let key = if has_keys { rest.key()? } else { String::new() };
        let value = if !has_keys || rest.eat('=') { rest.bare()? } else { Bare::Other };
        let mut parameters = Vec::new();
        while rest.eat(';') {
            rest.skip(&[' ']);
            let key = rest.key()?;
            parameters.push((key, if rest.eat('=') { rest.bare()? } else { Bare::Other }));
            if parameters.len() > MAX_MEMBERS {
                return None;
            }
        }
        members.push(Member { key, value, parameters });
        rest.skip(&[' ', '\t']);
        if rest.0.is_empty() {
            return Some(members);
        }
        if !rest.eat(',') || members.len() == MAX_MEMBERS {
            return None;
        }
        rest.skip(&[' ', '\t']);
    }
}

/// The text that is still to be read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn eat(&mut self, c: char) -> bool {
        let after = self.0.strip_prefix(c);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    fn skip(&mut self, chars: &[char]) {
        self.0 = self.0.trim_start_matches(chars);
    }

    fn take_while(&mut self, is_in: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !is_in(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        let starts = self.0.starts_with(|c: char| c.is_ascii_lowercase() || c == '*');
        let is_in = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c);
        starts.then(|| self.take_while(is_in).to_owned())
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.0.chars().next()? {
            '"' => self.string().map(Bare::Text),
            '0'..='9' | '-' => self.number(),
            ':' => {
                self.eat(':');
                self.take_while(|c| c.is_ascii_alphanumeric() || "+/=".contains(c));
                self.eat(':').then_some(Bare::Other)
            }
            '?' => {
                self.eat('?');
                (self.eat('0') || self.eat('1')).then_some(Bare::Other)
            }
            '@' => {
                self.eat('@');
                self.number().map(|_| Bare::Other)
            }
            'a'..='z' | 'A'..='Z' | '*' => {
                let is_in = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c);
                Some(Bare::Text(self.take_while(is_in).to_owned()))
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal, which is of no use here.
    fn number(&mut self) -> Option<Bare> {
        let is_negative = self.eat('-');
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.eat('.') {
            let fraction = self.take_while(|c| c.is_ascii_digit());
            return (1..=3).contains(&fraction.len()).then_some(Bare::Other);
        }
        let number = digits.parse().ok()?;
        Some(if is_negative && number > 0 { Bare::Other } else { Bare::Integer(number) })
    }

    fn string(&mut self) -> Option<String> {
        self.eat('"');
        let mut text = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'))?),
                ' '..='~' => text.push(c),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str) -> String {
        let mut out = BytesMut::new();
        put_name(name, &mut out);
        String::from_utf8(out.to_vec()).expect("ASCII")
    }

    #[test]
    fn no_name_breaks_its_string() {
        for (name, want) in [
            ("", r#""default""#),
            ("a \"b\\", r#""a \"b\\""#),
            ("每日", r#""%e6%af%8f%e6%97%a5""#),
            ("50%\r\n", r#""50%25%0d%0a""#),
            ("api_key → plan=gold", r#""api_key > plan=gold""#),
        ] {
            assert_eq!(written(name), want);
        }
        assert!(written(&"é".repeat(1_000)).len() < 400);
    }

    #[test]
    fn members_are_read_or_the_whole_field_is_none() {
        let integer = |key: &str, value| (key.to_owned(), Bare::Integer(value));
        let want = Member {
            key: String::new(),
            value: Bare::Text("a,\"b".into()),
            parameters: vec![integer("r", 5), ("pk".into(), Bare::Other), ("x".into(), Bare::Other)],
        };
        assert_eq!(list(r#" "a,\"b";r=5;pk=:cHM=:; x "#), Some(vec![want]));
        let read = dictionary("limit=10, remaining=3;x=?1,\treset=7").expect("well-formed");
        assert_eq!(
            read.iter().map(|m| (m.key.as_str(), m.value.integer())).collect::<Vec<_>>(),
            [("limit", Some(10)), ("remaining", Some(3)), ("reset", Some(7))]
        );
        for text in [
            "",
            ",",
            "1,",
            "1 2",
            "(1 2)",
            "\"open",
            "\"é\"",
            "1;",
            "1;R=5",
            "1000000000000000",
            "1.2345",
            "\"a\\n\"",
            ":a",
        ] {
            assert_eq!(list(text), None, "{text}");
        }
        assert_eq!(list(&vec!["1"; 64].join(",")).map(|read| read.len()), Some(64));
        assert_eq!(list(&vec!["1"; 65].join(",")), None);
    }
}
