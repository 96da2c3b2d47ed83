//! Keys and values of any bytes: every surface takes them, and the same bytes are the same counter on all of
//! them.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_human_text::show_bytes;
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::MemoryStore;

use crate::transports::Surfaces;
use crate::{http, resp, rls};

const RULES: &str = "
domain: d
descriptors:
  - {key: any, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: path, value: /api/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: token, value_regex: '^$', action: allow}
  - {key: token, value_cidr: 10.0.0.0/8, action: allow}
  - {key: token, rate_limit: {unit: hour, requests_per_unit: 2}}
";

/// Values from a seed, all different: broken and whole characters, what surfaces escape or split by, and for
/// each value the texts that it could be confused with.
fn values(mut seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut below = move |most: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % most as u64) as usize
    };
    const PIECES: [&[u8]; 18] = [
        b"ann",
        b"\xff",
        b"\xe9",
        b"\xc3",
        b"\xc3\xa9",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"|",
        b"%",
        b"%FF",
        b"=",
        b"&",
        b"+",
        b"\\",
        b"\"",
        b"{}",
        b"\x7f",
        b" x",
    ];
    let mut values = std::collections::BTreeSet::new();
    while values.len() < count {
        let mut value = Vec::new();
        for _ in 0..below(6) {
            match below(4) {
                0 => value.extend((0..below(40)).map(|_| below(256) as u8)),
                _ => value.extend_from_slice(PIECES[below(PIECES.len())]),
            }
        }
        let lossy = String::from_utf8_lossy(&value).into_owned();
        let shown = show_bytes(&value).into_owned();
        values.extend([value, lossy.into(), shown.into()]);
    }
    values.into_iter().collect()
}

fn percent(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").expect("a string");
        text
    })
}

/// A string of JSON; bytes that are not UTF-8 stay as they are.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', byte]),
            0..0x20 => text.extend(format!("\\u{byte:04x}").bytes()),
            _ => text.push(byte),
        }
    }
    text.push(b'"');
    text
}

/// Whether a field can have this value, as it is.
fn fits_a_field(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    !is_blank(value.first())
        && !is_blank(value.last())
        && value.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f))
}

/// One server's surfaces over the counters of one limiter.
pub(crate) struct All {
    surfaces: Surfaces,
    grpc: rls::Client,
    resp: resp::Client,
}

/// Ways to send a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Grpc,
    Json,
    Body,
    Query,
    Field,
    Resp,
}

pub(crate) const WAYS: [Way; 6] = [Way::Grpc, Way::Json, Way::Body, Way::Query, Way::Field, Way::Resp];

impl All {
    pub(crate) async fn start(rules: &str) -> Self {
        let policy = parse_text("any.yaml", rules).expect("no fault");
        let limiter = Arc::new(Limiter::new(policy, MemoryStore::default(), LimiterSettings::default()));
        let surfaces = Surfaces::over(|| Arc::clone(&limiter)).await;
        surfaces.clock.set(Timestamp::from_unix_seconds(1_700_000_000));
        let grpc = rls::Client::connect(surfaces.grpc).await.expect("it listens");
        let resp = resp::Client::connect(surfaces.resp).await.expect("it listens");
        Self { surfaces, grpc, resp }
    }

    /// Sends a check of one entry. Returns whether it was admitted, and the remaining permits.
    pub(crate) async fn ask(&mut self, way: Way, key: &str, value: &[u8]) -> (bool, i64) {
        match way {
            Way::Grpc => {
                let answer = self.grpc.ask(rls::hits("d", key, [value])).await.expect("an answer");
                (answer.overall_code == rls::OK, i64::from(answer.statuses[0].limit_remaining))
            }
            Way::Json => {
                let mut body =
                    format!(r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"{key}","value":"#)
                        .into_bytes();
                body.extend(quoted(value));
                body.extend(b"}]}]}");
                let answer = self.post("/json", &body).await;
                let said: Value = serde_json::from_str(&answer.body).expect("JSON");
                (said["overallCode"] == "OK", said["statuses"][0]["limitRemaining"].as_i64().unwrap_or(0))
            }
            Way::Body => {
                let mut body =
                    format!(r#"{{"domain":"d","descriptors":[[{{"key":"{key}","value":"#).into_bytes();
                body.extend(quoted(value));
                body.extend(b"}]]}");
                decided(&self.post("/v1/check", &body).await)
            }
            Way::Query => self.get(&format!("entry={key}={}", percent(value)), "x-value", b"").await,
            Way::Field => self.get(&format!("entry_header={key}=X-Value"), "x-value", value).await,
            Way::Resp => {
                let words: [&[u8]; 4] = [b"TOLLGATE.CHECK", b"d", key.as_bytes(), value];
                let integers = self.resp.ask(&words).await.integers();
                (integers[0] == 0, integers[2])
            }
        }
    }

    async fn post(&self, path: &str, body: &[u8]) -> http::Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        http::send_raw(self.surfaces.http, &[head.as_bytes(), body].concat()).await.expect("an answer")
    }

    /// With a field, which may have several lines.
    pub(crate) async fn get(&self, query: &str, name: &str, field: &[u8]) -> (bool, i64) {
        let head =
            format!("GET /v1/check?domain=d&{query} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{name}: ");
        let request = [head.as_bytes(), field, b"\r\n\r\n"].concat();
        decided(&http::send_raw(self.surfaces.http, &request).await.expect("an answer"))
    }
}

fn decided(answer: &http::Answer) -> (bool, i64) {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let said: Value = serde_json::from_str(&answer.body).expect("JSON");
    (said["outcome"] == "admit", said["remaining"].as_i64().unwrap_or(-1))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_are_one_counter_on_every_surface_and_other_bytes_another() {
    let mut all = All::start(RULES).await;
    let values = values(0x5eed_b17e, 150);
    let odd = values.iter().filter(|value| std::str::from_utf8(value).is_err()).count();
    assert!(odd > 20 && odd < 130, "{odd} of {} are not UTF-8", values.len());
    for (number, value) in values.iter().enumerate() {
        let mut left = 7;
        for turn in 0..8 {
            let way = match WAYS[(turn + number) % WAYS.len()] {
                Way::Field if !fits_a_field(value) => Way::Query,
                way => way,
            };
            let want = (left > 0, (left - 1).max(0));
            assert_eq!(all.ask(way, "any", value).await, want, "{way:?}, turn {turn}, {}", show_bytes(value));
            left -= 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_odd_byte_evades_no_pattern_and_reaches_no_allowance() {
    let mut all = All::start(RULES).await;
    for (turn, way) in WAYS.into_iter().enumerate() {
        // All of them match the pattern, so they share its counter; only the first two are admitted.
        let value = format!("/api/{turn}").into_bytes();
        let admitted = all.ask(way, "path", &[&value[..], b"\xff"].concat()).await.0;
        assert_eq!(admitted, turn < 2, "{way:?}");
    }
    for (turn, way) in WAYS.into_iter().enumerate() {
        // Neither empty nor an address: each value has the limit of 2.
        for value in [&b"\xff"[..], b"10.0.0.1\xe9", b"\xc310.0.0.1"] {
            assert_eq!(all.ask(way, "token", value).await.0, turn < 2, "{way:?}");
        }
        for value in [&b""[..], b"10.0.0.1"] {
            assert!(all.ask(way, "token", value).await.0, "{way:?}: allowed");
        }
    }
}
