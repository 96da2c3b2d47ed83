//! Writes a `RateLimitResponse` straight into its buffer: one pass, no message structs. Tests compare it byte
//! by byte with the output of a general protobuf writer.
//!
//! Where the protocol leaves room:
//! - `limit_remaining` and the header values are cut at 2^32 - 1; unlimited is that number.
//! - `duration_until_reset` is whole seconds, rounded up. An unused fixed window still reports its end; any
//!   other full quota reports 0.
//! - A limit whose period is not exactly one unit (`period: 10s`) has unit `UNKNOWN`; where it has no name of
//!   its own its `name` says the period (`100 per 10s`, and `500 in all` of a total).
//! - A denial has header fields with the seconds until a retry can pass, rounded up, unless no wait helps or
//!   the options say otherwise.
//! - A decision made while the store was unavailable is marked in a header field and as `degraded` in the
//!   dynamic metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use tollgate_core::{Algorithm, Cost, Decision, RetryAfter, Timestamp};
use tollgate_human_text::show_bytes;
use tollgate_limiter::{Answer, Degraded, DescriptorAnswer, Kind, Limit, Request};

use crate::body::PREFIX;
use crate::proto::rls;
use crate::wire::unit_number;

/// The header field that marks a decision made while the store was unavailable. Every such reply has it.
const DEGRADED: &str = "X-RateLimit-Degraded";

/// The header field of a request that passes above a limit, within the excess of that limit.
const EXCESS: &str = "X-RateLimit-Excess";

/// The header fields that say when a denied client may come back: the standard one, and the one that the HTTP
/// surface sends too. Envoy has none of its own.
const RETRY_AFTER: [&str; 2] = ["Retry-After", "X-RateLimit-Retry-After"];

/// Extra parts of replies, besides statuses. By default only the wait of a denial is added.
///
/// # Example
/// ```
/// # use tollgate_envoy_rls::{HeaderNames, ReplyOptions};
/// let options = ReplyOptions { headers: Some(HeaderNames::default()), ..ReplyOptions::default() };
/// assert_eq!(options.headers.unwrap().limit, "RateLimit-Limit");
/// assert!(options.retry_after);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyOptions {
    /// Header fields for the response to the client, under these names.
    pub headers: Option<HeaderNames>,
    /// `Retry-After` and `X-RateLimit-Retry-After` on a denial.
    pub retry_after: bool,
    /// The request, and the metadata of the rules that it passed, as dynamic metadata.
    pub dynamic_metadata: bool,
}

impl Default for ReplyOptions {
    fn default() -> Self {
        Self { headers: None, retry_after: true, dynamic_metadata: false }
    }
}

/// Names of the header fields that report the most restrictive limit to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Its number of requests.
    pub limit: String,
    /// Name of the field with the requests left.
    pub remaining: String,
    /// Seconds until all of it is there again.
    pub reset: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "RateLimit-Reset".into(),
        }
    }
}

/// Appends the framed reply to `out`, which may hold room from earlier replies, and takes it out.
/// `hits_addend` is the request's own as it came, 0 where it did not.
pub(crate) fn write(
    answer: &Answer<'_>,
    request: &Request<'_>,
    hits_addend: u32,
    options: &ReplyOptions,
    now: Timestamp,
    out: &mut BytesMut,
) -> Bytes {
    out.clear();
    out.put_bytes(0, PREFIX);
    tag_varint(out, 0x08, code(answer.is_admitted()));
    for descriptor in answer.descriptors() {
        DescriptorReply::new(&descriptor, now).write(out);
    }
    if let Some(names) = &options.headers
        && let Some(nearest) = nearest(answer, now)
    {
        nearest.write_headers(names, out);
    }
    if options.retry_after
        && let RetryAfter::After(wait) = answer.retry_after()
    {
        RETRY_AFTER.iter().for_each(|name| put_number(name, seconds(wait).max(1), out));
    }
    let degraded = answer.degraded();
    if let Some(degraded) = degraded {
        put_header(DEGRADED, degraded.name(), out);
    }
    if answer.is_in_excess() {
        put_header(EXCESS, "true", out);
    }
    if options.dynamic_metadata || degraded.is_some() {
        let metadata = match options.dynamic_metadata {
            true => metadata(answer, request, hits_addend),
            false => rls::Struct { fields: mark(degraded).into_iter().collect() },
        };
        out.put_u8(0x32);
        varint(out, metadata.encoded_len() as u64);
        metadata.encode_raw(out);
    }
    let length = u32::try_from(out.len() - PREFIX).unwrap_or(u32::MAX);
    out[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    out.split().freeze()
}

/// One descriptor's answer as the wire says it.
struct DescriptorReply<'a> {
    is_admitted: bool,
    is_quota: bool,
    remaining: u32,
    limit: Option<Shown<'a>>,
}

struct Shown<'a> {
    requests_per_unit: u32,
    unit: u8,
    name: Cow<'a, str>,
    reset_s: Option<u64>,
}

impl<'a> DescriptorReply<'a> {
    fn new(descriptor: &DescriptorAnswer<'a>, now: Timestamp) -> Self {
        DescriptorReply {
            is_admitted: descriptor.is_admitted(),
            is_quota: descriptor.is_quota,
            // The limit beside it is a rate: more than that may remain of a burst.
            remaining: of_32_bits(match descriptor.limit {
                Some(limit) => descriptor.remaining().min(limit.requests_per_unit),
                None => descriptor.remaining(),
            }),
            limit: descriptor.limit.map(|limit| Shown {
                requests_per_unit: of_32_bits(limit.requests_per_unit),
                unit: unit_number(limit.unit),
                name: name(limit),
                reset_s: descriptor.decision.map(|decision| reset_seconds(limit, &decision, now)),
            }),
        }
    }

    fn write(&self, out: &mut BytesMut) {
        let limit = self.limit.as_ref().map(|limit| {
            let name = limit.name.len() as u64;
            let length = tagged(u64::from(limit.requests_per_unit))
                + tagged(u64::from(limit.unit))
                + if name == 0 { 0 } else { 1 + width(name) + name };
            (limit, name, length)
        });
        let duration = self.limit.as_ref().and_then(|limit| limit.reset_s);
        let length = 2
            + limit.as_ref().map_or(0, |(_, _, length)| 1 + width(*length) + length)
            + tagged(u64::from(self.remaining))
            + duration.map_or(0, |seconds| 2 + tagged(seconds));

        out.reserve(length as usize + 6);
        out.put_u8(0x12);
        varint(out, length);
        tag_varint(out, 0x08, code(self.is_admitted));
        if let Some((limit, name, length)) = limit {
            out.put_u8(0x12);
            varint(out, length);
            tag_varint(out, 0x08, u64::from(limit.requests_per_unit));
            tag_varint(out, 0x10, u64::from(limit.unit));
            if name > 0 {
                out.put_u8(0x1a);
                varint(out, name);
                out.put_slice(limit.name.as_bytes());
            }
        }
        tag_varint(out, 0x18, u64::from(self.remaining));
        if let Some(seconds) = duration {
            out.put_u8(0x22);
            varint(out, tagged(seconds));
            tag_varint(out, 0x08, seconds);
        }
    }

    fn write_headers(&self, names: &HeaderNames, out: &mut BytesMut) {
        let Some(limit) = &self.limit else { return };
        for (name, value) in [
            (&names.limit, u64::from(limit.requests_per_unit)),
            (&names.remaining, u64::from(self.remaining)),
            (&names.reset, limit.reset_s.unwrap_or(0)),
        ] {
            put_number(name, value, out);
        }
    }
}

/// The protocol's numbers have 32 bits: greater ones are shown as the greatest.
fn of_32_bits(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn put_number(name: &str, value: u64, out: &mut BytesMut) {
    put_header(name, itoa::Buffer::new().format(value), out);
}

/// Neither text is empty: an empty one would be left out.
fn put_header(name: &str, value: &str, out: &mut BytesMut) {
    let field = |text: &str| 1 + width(text.len() as u64) + text.len() as u64;
    out.put_u8(0x1a);
    varint(out, field(name) + field(value));
    for (tag, text) in [(0x0a, name), (0x12, value)] {
        out.put_u8(tag);
        varint(out, text.len() as u64);
        out.put_slice(text.as_bytes());
    }
}

/// The fallback that decided without the store, as an entry of the metadata.
fn mark(degraded: Option<Degraded>) -> Option<(String, rls::Value)> {
    degraded.map(|degraded| ("degraded".to_owned(), text(degraded.name().to_owned())))
}

/// The descriptor that the header fields report: the last hard limit that is over, else the one with the
/// fewest permits left; the first of equals. `None` when no limit applies.
fn nearest<'a>(answer: &'a Answer<'_>, now: Timestamp) -> Option<DescriptorReply<'a>> {
    let mut least: Option<DescriptorReply<'a>> = None;
    for descriptor in answer.descriptors() {
        let line = DescriptorReply::new(&descriptor, now);
        let is_over = !line.is_admitted && !line.is_quota;
        let is_less = least.as_ref().is_none_or(|least| line.remaining < least.remaining);
        if is_over || line.limit.is_some() && is_less {
            least = Some(line);
        }
    }
    least
}

fn code(is_admitted: bool) -> u64 {
    if is_admitted { rls::Code::Ok as u64 } else { rls::Code::OverLimit as u64 }
}

fn name(limit: &Limit) -> Cow<'_, str> {
    if limit.unit.is_none() && limit.name.is_empty() {
        match limit.period {
            Duration::ZERO => Cow::Owned(format!("{} in all", limit.requests_per_unit)),
            period => Cow::Owned(format!("{} per {period:?}", limit.requests_per_unit)),
        }
    } else {
        Cow::Borrowed(&limit.name)
    }
}

fn reset_seconds(limit: &Limit, decision: &Decision, now: Timestamp) -> u64 {
    let mut reset = decision.reset_after();
    if reset.is_zero() && matches!(limit.quota.algorithm(), Algorithm::FixedWindow { .. }) {
        // Nothing was taken, so nothing refills; but the window has an end, and a hit now would show it.
        reset = limit.quota.take(&mut limit.quota.fresh(), Cost::ONE, now).reset_after();
    }
    seconds(reset)
}

/// Whole seconds, rounded up.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Any bytes as a text of protobuf: as they are if they are UTF-8, and escaped if not.
fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| show_bytes(bytes), Cow::Borrowed)
}

/// The request in a map, with the metadata of the rules that it passed.
fn metadata(answer: &Answer<'_>, request: &Request<'_>, hits_addend: u32) -> rls::Struct {
    let mut passed = BTreeMap::new();
    let mut descriptors = Vec::with_capacity(request.descriptors.len());
    for (asked, answered) in request.descriptors.iter().zip(answer.descriptors()) {
        let entries =
            asked.entries.iter().map(|it| text(format!("{}={}", utf8(it.key), utf8(it.value)))).collect();
        let mut fields = BTreeMap::from([("entries".to_owned(), list(entries))]);
        if let Some(limit) = asked.limit {
            let unit = limit.unit.name().to_ascii_uppercase();
            let limit = format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit);
            fields.insert("limit".into(), text(limit));
        }
        if let Some(hits) = asked.hits.filter(|&hits| hits > 0) {
            fields.insert("hitsAddend".into(), number(hits as f64));
        }
        fields.extend(mark(answered.degraded));
        descriptors.push(map(fields));
        let passed_by = answered.rule.filter(|_| answered.is_admitted() && answered.kind != Kind::Replaced);
        if let Some(serde_json::Value::Object(object)) = passed_by.and_then(|rule| rule.metadata.as_ref()) {
            merge(&mut passed, object);
        }
    }
    let mut fields = BTreeMap::from([
        ("domain".to_owned(), text(request.domain.to_owned())),
        ("descriptors".to_owned(), list(descriptors)),
    ]);
    if hits_addend > 0 {
        fields.insert("hitsAddend".into(), number(hits_addend.into()));
    }
    fields.extend(mark(answer.degraded()));
    if !passed.is_empty() {
        fields.insert("metadata".into(), map(passed));
    }
    rls::Struct { fields }
}

/// Adds the members of `from` that are new; existing values stay, maps are merged.
fn merge(into: &mut BTreeMap<String, rls::Value>, from: &serde_json::Map<String, serde_json::Value>) {
    for (key, value) in from {
        match into.get_mut(key) {
            None => {
                into.insert(key.clone(), value_of(value));
            }
            Some(rls::Value { kind: Some(rls::Kind::Struct(inner)) }) => {
                if let serde_json::Value::Object(value) = value {
                    merge(&mut inner.fields, value);
                }
            }
            Some(_) => {}
        }
    }
}

fn value_of(value: &serde_json::Value) -> rls::Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => rls::Value { kind: Some(rls::Kind::Null(0)) },
        Json::Bool(bool) => rls::Value { kind: Some(rls::Kind::Bool(*bool)) },
        Json::Number(n) => number(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(string) => text(string.clone()),
        Json::Array(items) => list(items.iter().map(value_of).collect()),
        Json::Object(members) => {
            map(members.iter().map(|(key, value)| (key.clone(), value_of(value))).collect())
        }
    }
}

fn text(text: String) -> rls::Value {
    rls::Value { kind: Some(rls::Kind::String(text)) }
}

fn number(number: f64) -> rls::Value {
    rls::Value { kind: Some(rls::Kind::Number(number)) }
}

fn list(values: Vec<rls::Value>) -> rls::Value {
    rls::Value { kind: Some(rls::Kind::List(rls::List { values })) }
}

fn map(fields: BTreeMap<String, rls::Value>) -> rls::Value {
    rls::Value { kind: Some(rls::Kind::Struct(rls::Struct { fields })) }
}

/// Bytes of a varint.
const fn width(value: u64) -> u64 {
    (63 - (value | 1).leading_zeros() as u64) / 7 + 1
}

/// Bytes of a number field with its key; a zero is not written.
const fn tagged(value: u64) -> u64 {
    if value == 0 { 0 } else { 1 + width(value) }
}

fn varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn tag_varint(out: &mut BytesMut, tag: u8, value: u64) {
    if value != 0 {
        out.put_u8(tag);
        varint(out, value);
    }
}

#[cfg(test)]
mod tests;
