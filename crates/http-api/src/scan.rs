//! Reads the usual body of `/v1/check` in one pass: one request, descriptors that are lists of entries, texts without escapes.
//!
//! Whatever else it meets, it gives up and leaves the body to `read`, which knows all of the grammar and every fault's name. So
//! it may only take what `read` takes, with the same result: a property holds it to that.

use std::borrow::Cow;

use crate::json_body::MAX_HITS;
use crate::parsed::{Caps, ParsedBody, ParsedDescriptor, ParsedRequest};

/// Reads `body` into `parsed`, which is empty; false, and an empty parsed, when it is not as usual.
pub(crate) fn check<'b>(body: &'b [u8], parsed: &mut ParsedBody<'b>, caps: Caps) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let mut scan = Scan { text, at: 0 };
    match scan.request(parsed, caps).filter(|_| scan.is_over()) {
        Some(ask) => {
            parsed.requests.push(ask);
            true
        }
        None => {
            parsed.descriptors.clear();
            parsed.entries.clear();
            false
        }
    }
}

struct Scan<'b> {
    text: &'b str,
    at: usize,
}

/// Bytes that stand for themselves in a text.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};

impl<'b> Scan<'b> {
    /// The next byte that is no space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn is_over(&mut self) -> bool {
        self.peek().is_none()
    }

    /// `true` for a comma, `false` for `end`.
    #[inline]
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b',' { Some(true) } else { (byte == end).then_some(false) }
    }

    /// A text in quotes that means what it says.
    #[inline]
    fn text(&mut self) -> Option<&'b str> {
        self.eat(b'"')?;
        let begin = self.at;
        let rest = &self.text.as_bytes()[begin..];
        let length = rest.iter().position(|&byte| !PLAIN[usize::from(byte)])?;
        if rest[length] != b'"' {
            return None;
        }
        self.at = begin + length + 1;
        self.text.get(begin..begin + length)
    }

    fn request(&mut self, parsed: &mut ParsedBody<'b>, caps: Caps) -> Option<ParsedRequest<'b>> {
        let (mut domain, mut parts, mut hits) = (None, None, None);
        self.eat(b'{')?;
        loop {
            let name = self.text()?;
            self.eat(b':')?;
            match name {
                "domain" if domain.is_none() => domain = Some(self.text()?),
                "descriptors" if parts.is_none() => parts = Some(self.descriptors(parsed, caps)?),
                "hits" if hits.is_none() => hits = Some(self.number()?),
                _ => return None,
            }
            if !self.goes_on(b'}')? {
                break;
            }
        }
        Some(ParsedRequest { domain: Cow::Borrowed(domain?), hits: hits.unwrap_or(1), descriptors: parts? })
    }

    fn descriptors(&mut self, parsed: &mut ParsedBody<'b>, caps: Caps) -> Option<std::ops::Range<usize>> {
        self.eat(b'[')?;
        loop {
            if parsed.descriptors.len() == caps.descriptors {
                return None;
            }
            let begin = parsed.entries.len();
            self.eat(b'[')?;
            loop {
                if parsed.entries.len() == caps.entries {
                    return None;
                }
                parsed.entries.push(self.entry()?);
                if !self.goes_on(b']')? {
                    break;
                }
            }
            parsed.descriptors.push(ParsedDescriptor { hits: None, entries: begin..parsed.entries.len() });
            if !self.goes_on(b']')? {
                return Some(0..parsed.descriptors.len());
            }
        }
    }

    fn entry(&mut self) -> Option<(Cow<'b, str>, Cow<'b, str>)> {
        let (mut key, mut value) = (None, None);
        self.eat(b'{')?;
        loop {
            let name = self.text()?;
            self.eat(b':')?;
            match name {
                "key" if key.is_none() => key = Some(self.text()?),
                "value" if value.is_none() => value = Some(self.text()?),
                _ => return None,
            }
            if !self.goes_on(b'}')? {
                return Some((Cow::Borrowed(key?), Cow::Borrowed(value.unwrap_or_default())));
            }
        }
    }

    /// A whole number without sign, point or leading zero.
    fn number(&mut self) -> Option<u64> {
        let first = self.peek()?;
        let rest = &self.text.as_bytes()[self.at..];
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if digits == 0 || first == b'0' && digits > 1 || matches!(rest.get(digits), Some(b'.' | b'e' | b'E'))
        {
            return None;
        }
        let number =
            self.text.get(self.at..self.at + digits)?.parse().ok().filter(|&number| number <= MAX_HITS);
        self.at += digits;
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPS: Caps = Caps { requests: 2, descriptors: 3, entries: 4 };

    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\n",
        " ",
        "null",
        "-",
        "0",
        "1",
        "01",
        "1.5",
        "9223372036854775807",
        "9223372036854775808",
        "\"domain\":\"shop\"",
        "\"descriptors\":[[{\"key\":\"a\"}]]",
        "\"hits\":3",
        "[[",
        "]]",
        "{\"key\":\"a\",\"value\":\"b\"}",
        "{\"value\":\"é\",\"key\":\"\"}",
        "\"domain\":",
        "\"descriptors\":",
        "\"hits\":",
        "\"key\":",
        "\"value\":",
        "\"x\"",
        "\"requests\":[]",
        "\u{1}",
    ];

    fn agrees(text: &str) {
        let (mut fast, mut slow) = (ParsedBody::default(), ParsedBody::default());
        if check(text.as_bytes(), &mut fast, CAPS) {
            crate::json_body::check(text.as_bytes(), &mut slow, CAPS).expect(text);
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{text}");
        } else {
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{text} leaves something behind");
        }
    }

    #[test]
    fn the_usual_body_is_taken_and_others_are_left() {
        for (text, is_taken) in [
            (r#"{"domain":"d","descriptors":[[{"key":"a","value":"b"}]]}"#, true),
            (
                " {\n\"hits\" : 0 , \"descriptors\":[[{\"value\":\"b\",\"key\":\"a\"},{\"key\":\"é\"}],[{\"key\":\"\"}]],\"domain\":\"\"}\r\n",
                true,
            ),
            (r#"{"domain":"d","descriptors":[[{"key":"a\n"}]]}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}]],"hits":01}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}]],"hits":1e1}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}]],"hits":-1}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}]]} x"#, false),
            (r#"{"domain":"d","domain":"d","descriptors":[[{"key":"a"}]]}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}],]}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"},]]}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a",}]]}"#, false),
            (r#"{"domain":"d","descriptors":[[{"key":"a"}]],}"#, false),
            (r#"{"domain":"d","descriptors":[[]]}"#, false),
            (r#"{"domain":"d"}"#, false),
            ("", false),
        ] {
            assert_eq!(check(text.as_bytes(), &mut ParsedBody::default(), CAPS), is_taken, "{text}");
            agrees(text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn whatever_it_takes_the_other_reader_takes_with_the_same_result(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..5_usize, prop::sample::select(PIECES)), 0..3),
        ) {
            agrees(&pieces.concat());
            let good = r#"{"domain":"shop","descriptors":[[{"key":"user","value":"ann"},{"key":"x"}],[{"key":"y"}]],"hits":12}"#;
            let mut text = good.to_owned();
            for (at, length, piece) in cuts {
                let start = at.index(text.len() + 1);
                let end = (start + length).min(text.len());
                if text.is_char_boundary(start) && text.is_char_boundary(end) {
                    text.replace_range(start..end, piece);
                }
            }
            agrees(&text);
        }
    }
}
