//! Any bytes over HTTP: the function of the fuzz target, on stable.
#![allow(clippy::expect_used, reason = "tests say what they expect")]

#[path = "../../../../../fuzz/src/http_body.rs"]
#[allow(unreachable_pub, reason = "public in the crate of the fuzz target")]
mod http_body;

use http_body::answer_any_bytes;
use proptest::prelude::*;

/// Pieces of bodies and queries, and of the damage done to them.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    " ",
    "\n",
    "null",
    "true",
    "-1",
    "1.5",
    "1e999",
    "NaN",
    "0",
    "1",
    "9223372036854775808",
    "18446744073709551616",
    "\"domain\":\"shop\",",
    "\"descriptors\":",
    "[[",
    "]]",
    "{\"key\":\"user\",\"value\":\"ann\"}",
    "{\"key\":\"a\"}",
    "\"hits\":3",
    "\"consumed\":3",
    "\"requests\":[",
    "\"ttl_ms\":1",
    "\"max_wait_ms\":5",
    "\"id\":\"00000000000000000000000000000000\"",
    "\"actual\":1",
    "domain=shop",
    "&",
    "=",
    "%",
    "%ff",
    "%00",
    "+",
    "entry=user=ann",
    "entry=a=",
    "entry_header=user=host",
    "descriptor",
    "hits=2",
    "consumed=2",
    "status=403",
    "status=rule",
    "\u{0}",
    "é",
    "GET / HTTP/1.1\r\n",
    "POST /v1/check HTTP/1.1\r\n",
    "host: x\r\n",
    "\r\n",
    "content-length: 5\r\n",
    "transfer-encoding: chunked\r\n",
    "expect: 100-continue\r\n",
    "5\r\n",
    "0\r\n\r\n",
];

const GOOD: &[&str] = &[
    r#"{"domain":"shop","descriptors":[[{"key":"user","value":"ann"}],{"entries":[{"key":"a"}],"hits":2}],"hits":1}"#,
    r#"{"requests":[{"domain":"shop","descriptors":[[{"key":"user","value":"bob"}]]},{"domain":"x","descriptors":[[]]}]}"#,
    "domain=shop&entry=user=ann&descriptor&entry=a=%E8%AF%B7&hits=0&status=rule",
    r#"{"domain":"shop","descriptors":[[{"key":"a","value":"\u00e9"}]],"max_wait_ms":10,"ttl_ms":5}"#,
];

fn heap() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..30).prop_map(|pieces| pieces.concat())
}

/// A good text with a few places broken.
fn broken() -> impl Strategy<Value = String> {
    let cuts = (any::<prop::sample::Index>(), 0..8_usize, prop::sample::select(PIECES));
    (prop::sample::select(GOOD), prop::collection::vec(cuts, 0..3)).prop_map(|(text, cuts)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, length, piece) in cuts {
            let start = at.index(chars.len() + 1);
            let end = (start + length).min(chars.len());
            chars.splice(start..end, piece.chars());
        }
        chars.into_iter().collect()
    })
}

fn sent(kind: u8, text: &[u8]) {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(text);
    answer_any_bytes(&bytes);
}

#[test]
fn every_good_text_is_answered_as_whatever_it_is_sent() {
    for text in GOOD {
        (0..8).for_each(|kind| sent(kind, text.as_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_answered(kind in 0..8_u8, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        sent(kind, &bytes);
    }

    #[test]
    fn any_heap_of_pieces_is_answered(kind in 0..8_u8, text in heap()) {
        sent(kind, text.as_bytes());
    }

    #[test]
    fn any_broken_text_is_answered(kind in 0..8_u8, text in broken()) {
        sent(kind, text.as_bytes());
    }
}
