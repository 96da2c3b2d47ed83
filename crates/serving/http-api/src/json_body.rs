//! Reads `/v1/check`'s JSON into a [`ParsedBody`]: borrowed texts, caps while reading, every error with line
//! and column.
//!
//! Unknown and duplicate members are rejected. Not here: the query form (`query`), and the shorter way of the
//! usual body (`usual_body`).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;

use crate::parsed::{Bytes, Caps, ParsedBody, ParsedDescriptor, ParsedRequest, Text, text};
use tollgate_http_kit::{Problem, Reason};
use tollgate_limiter::MAX_HITS;

/// Reads the body of `/v1/check` into `parsed`, which is empty, and returns its longest wait for a turn, in
/// milliseconds.
pub(crate) fn check<'b>(
    body: &'b [u8],
    parsed: &mut ParsedBody<'b>,
    caps: Caps,
) -> Result<Option<u64>, Problem> {
    let mut terms = Terms::of(BodyKind::Check);
    body_of(body, parsed, caps, &mut terms).map_err(|error| rejected(&error, parsed))?;
    Ok(terms.max_wait_ms.flatten())
}

/// Reads the body of `/v1/reserve` into `parsed`, which is empty, and returns its terms.
pub(crate) fn reserve<'b>(body: &'b [u8], parsed: &mut ParsedBody<'b>, caps: Caps) -> Result<Terms, Problem> {
    let mut terms = Terms::of(BodyKind::Reserve);
    body_of(body, parsed, caps, &mut terms).map_err(|error| rejected(&error, parsed))?;
    Ok(terms)
}

/// Reads the body of `/v1/acquire` or `/v1/release` into `parsed`, which is empty, and returns the holder's
/// id.
pub(crate) fn slot<'b>(
    body: &'b [u8],
    parsed: &mut ParsedBody<'b>,
    caps: Caps,
) -> Result<Option<String>, Problem> {
    let mut terms = Terms::of(BodyKind::Slot);
    body_of(body, parsed, caps, &mut terms).map_err(|error| rejected(&error, parsed))?;
    Ok(terms.id.flatten())
}

/// Reads a body of a few members.
pub(crate) fn small<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| invalid(&error))
}

/// Why a body is rejected. The error has its line and column.
pub(crate) fn invalid(error: &serde_json::Error) -> Problem {
    let reason = if error.is_data() { Reason::Invalid } else { Reason::Malformed };
    Problem::bad(format!("invalid request body: {error}")).because(reason)
}

/// Like [`invalid`], for a body that may exceed the caps.
fn rejected(error: &serde_json::Error, parsed: &ParsedBody<'_>) -> Problem {
    let problem = invalid(error);
    // In a batch each request gets its own decision.
    if parsed.is_above_caps && !parsed.is_batch { problem.because(Reason::TooLarge) } else { problem }
}

/// Operation that a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    Check,
    Reserve,
    Slot,
}

/// Options in a body besides its request, as far as its operation has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    call: BodyKind,
    id: Option<Option<String>>,
    pub(crate) max_wait_ms: Option<Option<u64>>,
    pub(crate) ttl_ms: Option<Option<u64>>,
}

impl Terms {
    const fn of(call: BodyKind) -> Self {
        Self { call, id: None, max_wait_ms: None, ttl_ms: None }
    }
}

impl BodyKind {
    const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Check => &["domain", "descriptors", "hits", "consumed", "max_wait_ms", "requests"],
            Self::Reserve => &["domain", "descriptors", "hits", "max_wait_ms", "ttl_ms"],
            Self::Slot => &["domain", "descriptors", "hits", "id"],
        }
    }
}

fn body_of<'b>(
    body: &'b [u8],
    parsed: &mut ParsedBody<'b>,
    caps: Caps,
    terms: &mut Terms,
) -> Result<(), serde_json::Error> {
    // Checking all of it at once is cheaper than checking each text. If it is not UTF-8, the reader finds the
    // place.
    match std::str::from_utf8(body) {
        Ok(text) => Body { parsed, caps, terms }.read(&mut serde_json::Deserializer::from_str(text)),
        Err(_) => Body { parsed, caps, terms }.read(&mut serde_json::Deserializer::from_slice(body)),
    }
}

/// A whole body: one request, or `requests`.
struct Body<'s, 'b> {
    parsed: &'s mut ParsedBody<'b>,
    caps: Caps,
    terms: &'s mut Terms,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Domain,
    Descriptors,
    Hits,
    /// Only of a check.
    Consumed,
    /// Only of a check.
    Requests,
    /// Only of a check or a reservation.
    MaxWaitMs,
    /// Only of a reservation.
    TtlMs,
    /// Only of a slot.
    Id,
}

const OF_REQUEST: &[&str] = &["domain", "descriptors", "hits", "consumed"];

/// Hits that are wanted and hits that are used already, in one request.
pub(crate) const NOT_BOTH: &str = "`hits` and `consumed` cannot be combined: `hits` asks for permits, `consumed` counts what is used already";

impl<'b> Body<'_, 'b> {
    fn read<R: Read<'b>>(self, json: &mut serde_json::Deserializer<R>) -> Result<(), serde_json::Error> {
        self.deserialize(&mut *json)?;
        json.end()
    }
}

impl<'b> DeserializeSeed<'b> for Body<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'b> Visitor<'b> for Body<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `domain` and `descriptors`, or with `requests`")
    }

    fn visit_map<M: MapAccess<'b>>(self, mut map: M) -> Result<(), M::Error> {
        let Self { parsed, caps, terms } = self;
        let mut one = One::default();
        while let Some(member) = map.next_key::<Member>()? {
            match (member, terms.call) {
                (Member::Requests, BodyKind::Check) => {
                    if parsed.is_batch {
                        return Err(M::Error::duplicate_field("requests"));
                    }
                    parsed.is_batch = true;
                    map.next_value_seed(Requests { parsed: &mut *parsed, caps })?;
                }
                (Member::Id, BodyKind::Slot) => once(&mut terms.id, "id", || map.next_value())?,
                (Member::MaxWaitMs, BodyKind::Check | BodyKind::Reserve) => {
                    once(&mut terms.max_wait_ms, "max_wait_ms", || number(&mut map))?;
                }
                (Member::TtlMs, BodyKind::Reserve) => once(&mut terms.ttl_ms, "ttl_ms", || number(&mut map))?,
                (Member::Consumed, call) if call != BodyKind::Check => {
                    return Err(M::Error::unknown_field("consumed", call.members()));
                }
                (member, call) => one.member(member, &mut map, parsed, caps, call.members())?,
            }
        }
        if !parsed.is_batch {
            if terms.call != BodyKind::Check && parsed.descriptors.iter().any(|it| it.is_consumed) {
                return Err(M::Error::unknown_field("consumed", &["entries", "hits"]));
            }
            let ask = one.finish(&parsed.descriptors)?;
            if ask.is_consumed && terms.max_wait_ms.is_some() {
                return Err(M::Error::custom(
                    "`max_wait_ms` belongs to `hits`: what is used already never waits",
                ));
            }
            parsed.requests.push(ask);
        } else if one.is_begun() || terms.max_wait_ms.is_some() {
            return Err(M::Error::custom("`requests` cannot be combined with members of a single request"));
        }
        Ok(())
    }
}

/// The members of one request, as they come.
#[derive(Default)]
pub(crate) struct One<'b> {
    pub(crate) domain: Option<Text<'b>>,
    pub(crate) hits: Option<Option<u64>>,
    pub(crate) consumed: Option<Option<u64>>,
    pub(crate) descriptors: Option<std::ops::Range<usize>>,
}

impl<'b> One<'b> {
    fn member<M: MapAccess<'b>>(
        &mut self,
        member: Member,
        map: &mut M,
        parsed: &mut ParsedBody<'b>,
        caps: Caps,
        known: &'static [&'static str],
    ) -> Result<(), M::Error> {
        match member {
            Member::Domain => {
                once(&mut self.domain, "domain", || Ok(text(map.next_value::<Borrowed<'b>>()?.0)))
            }
            Member::Hits => once(&mut self.hits, "hits", || number(map)),
            Member::Consumed => once(&mut self.consumed, "consumed", || number(map)),
            Member::Descriptors => once(&mut self.descriptors, "descriptors", || {
                let begin = parsed.descriptors.len();
                map.next_value_seed(Descriptors { parsed, caps })?;
                Ok(begin..parsed.descriptors.len())
            }),
            Member::Requests => Err(M::Error::unknown_field("requests", known)),
            Member::MaxWaitMs => Err(M::Error::unknown_field("max_wait_ms", known)),
            Member::TtlMs => Err(M::Error::unknown_field("ttl_ms", known)),
            Member::Id => Err(M::Error::unknown_field("id", known)),
        }
    }

    const fn is_begun(&self) -> bool {
        self.domain.is_some() || self.hits.is_some() || self.consumed.is_some() || self.descriptors.is_some()
    }

    /// `all` are the descriptors of the body.
    pub(crate) fn finish<E: Error>(self, all: &[ParsedDescriptor]) -> Result<ParsedRequest<'b>, E> {
        let domain = self.domain.ok_or_else(|| E::missing_field("domain"))?;
        let descriptors = self.descriptors.ok_or_else(|| E::missing_field("descriptors"))?;
        let hits = self.hits.flatten();
        let consumed = self.consumed.flatten();
        let own = all.get(descriptors.clone()).unwrap_or_default();
        let is_consumed = consumed.is_some() || own.iter().any(|it| it.is_consumed);
        if is_consumed {
            if hits.is_some() || own.iter().any(|it| it.hits.is_some() && !it.is_consumed) {
                return Err(E::custom(NOT_BOTH));
            }
            if consumed.is_none()
                && let Some(index) = own.iter().position(|it| it.hits.is_none())
            {
                let lacks = "has no `consumed`, as another descriptor has; write it there or in the request";
                return Err(E::custom(format!("descriptors[{index}] {lacks}")));
            }
        }
        Ok(ParsedRequest { domain, hits: consumed.or(hits).unwrap_or(1), is_consumed, descriptors })
    }
}

/// A member that may be left out, or null, which means the same.
fn number<'b, M: MapAccess<'b>>(map: &mut M) -> Result<Option<u64>, M::Error> {
    Ok(map.next_value::<Option<Hits>>()?.map(|hits| hits.0))
}

/// Fills `place`, which a member may do only once.
fn once<T, E: Error>(
    place: &mut Option<T>,
    name: &'static str,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<(), E> {
    if place.is_some() {
        return Err(E::duplicate_field(name));
    }
    *place = Some(read()?);
    Ok(())
}

/// The list of a batch.
struct Requests<'s, 'b> {
    parsed: &'s mut ParsedBody<'b>,
    caps: Caps,
}

impl<'b> DeserializeSeed<'b> for Requests<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'b> Visitor<'b> for Requests<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<Q: SeqAccess<'b>>(self, mut seq: Q) -> Result<(), Q::Error> {
        let Self { parsed, caps } = self;
        while seq.next_element_seed(BatchRequest { parsed, caps })?.is_some() {}
        Ok(())
    }
}

/// One request of a batch.
struct BatchRequest<'s, 'b> {
    parsed: &'s mut ParsedBody<'b>,
    caps: Caps,
}

impl<'b> DeserializeSeed<'b> for BatchRequest<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'b> Visitor<'b> for BatchRequest<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `domain` and `descriptors`")
    }

    fn visit_map<M: MapAccess<'b>>(self, mut map: M) -> Result<(), M::Error> {
        if self.parsed.requests.len() == self.caps.requests {
            return Err(M::Error::custom(format!("more than {} requests", self.caps.requests)));
        }
        let mut one = One::default();
        while let Some(member) = map.next_key::<Member>()? {
            one.member(member, &mut map, self.parsed, self.caps, OF_REQUEST)?;
        }
        let ask = one.finish(&self.parsed.descriptors)?;
        self.parsed.requests.push(ask);
        Ok(())
    }
}

/// The list of one request's descriptors.
pub(crate) struct Descriptors<'s, 'b> {
    pub(crate) parsed: &'s mut ParsedBody<'b>,
    pub(crate) caps: Caps,
}

impl<'b> DeserializeSeed<'b> for Descriptors<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'b> Visitor<'b> for Descriptors<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of descriptors, each a list of entries")
    }

    fn visit_seq<Q: SeqAccess<'b>>(self, mut seq: Q) -> Result<(), Q::Error> {
        let Self { parsed, caps } = self;
        let begin = parsed.descriptors.len();
        while let Some(part) = seq.next_element_seed(DescriptorSeed { parsed, caps })? {
            if parsed.descriptors.len() - begin == caps.descriptors {
                parsed.is_above_caps = true;
                return Err(Q::Error::custom(format!("more than {} descriptors", caps.descriptors)));
            }
            parsed.descriptors.push(part);
        }
        Ok(())
    }
}

/// One descriptor: a list of entries, or that list with its own `hits` or `consumed`.
struct DescriptorSeed<'s, 'b> {
    parsed: &'s mut ParsedBody<'b>,
    caps: Caps,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum DescriptorMember {
    Entries,
    Hits,
    Consumed,
}

impl<'b> DeserializeSeed<'b> for DescriptorSeed<'_, 'b> {
    type Value = ParsedDescriptor;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<ParsedDescriptor, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'b> Visitor<'b> for DescriptorSeed<'_, 'b> {
    type Value = ParsedDescriptor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries, or an object with `entries`, and `hits` or `consumed`")
    }

    fn visit_seq<Q: SeqAccess<'b>>(self, mut seq: Q) -> Result<ParsedDescriptor, Q::Error> {
        let Self { parsed, caps } = self;
        let begin = parsed.entries.len();
        while let Some(EntryBody { key, value }) = seq.next_element()? {
            if parsed.entries.len() == caps.entries {
                parsed.is_above_caps = true;
                return Err(Q::Error::custom(format!("more than {} entries", caps.entries)));
            }
            parsed.entries.push((key.0, value.map_or(Cow::Borrowed(&b""[..]), |value| value.0)));
        }
        Ok(ParsedDescriptor::of(begin..parsed.entries.len()))
    }

    fn visit_map<M: MapAccess<'b>>(self, mut map: M) -> Result<ParsedDescriptor, M::Error> {
        let Self { parsed, caps } = self;
        let mut part = None;
        let mut hits = None;
        let mut consumed = None;
        while let Some(member) = map.next_key()? {
            match member {
                DescriptorMember::Entries => once(&mut part, "entries", || {
                    map.next_value_seed(Entries(DescriptorSeed { parsed: &mut *parsed, caps }))
                })?,
                DescriptorMember::Hits => once(&mut hits, "hits", || number(&mut map))?,
                DescriptorMember::Consumed => once(&mut consumed, "consumed", || number(&mut map))?,
            }
        }
        let part = part.ok_or_else(|| M::Error::missing_field("entries"))?;
        let hits = hits.flatten();
        let consumed = consumed.flatten();
        if hits.is_some() && consumed.is_some() {
            return Err(M::Error::custom(NOT_BOTH));
        }
        Ok(ParsedDescriptor { hits: consumed.or(hits), is_consumed: consumed.is_some(), ..part })
    }
}

/// The list of a descriptor that is an object.
struct Entries<'s, 'b>(DescriptorSeed<'s, 'b>);

impl<'b> DeserializeSeed<'b> for Entries<'_, 'b> {
    type Value = ParsedDescriptor;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<ParsedDescriptor, D::Error> {
        struct Only<'s, 'b>(DescriptorSeed<'s, 'b>);
        impl<'b> Visitor<'b> for Only<'_, 'b> {
            type Value = ParsedDescriptor;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of entries")
            }
            fn visit_seq<Q: SeqAccess<'b>>(self, seq: Q) -> Result<ParsedDescriptor, Q::Error> {
                self.0.visit_seq(seq)
            }
        }
        deserializer.deserialize_seq(Only(self.0))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryBody<'b> {
    #[serde(borrow)]
    key: Borrowed<'b>,
    #[serde(borrow, default)]
    value: Option<Borrowed<'b>>,
}

/// A string that stays where it is, unless it needs unescaping. It may contain bytes that are not UTF-8,
/// since some programs copy such bytes from their clients; a lone half of a surrogate pair is read as its
/// three bytes.
struct Borrowed<'b>(Bytes<'b>);

impl<'de: 'b, 'b> Deserialize<'de> for Borrowed<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Bytes<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Bytes<'de>, E> {
                Ok(Cow::Borrowed(bytes))
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes<'de>, E> {
                Ok(Cow::Owned(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(TextVisitor).map(Borrowed)
    }
}

/// A string of any bytes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    Borrowed::deserialize(deserializer).map(|bytes| bytes.0.into_owned())
}

/// A number of permits; a larger one than [`MAX_HITS`] counts as that.
pub(crate) struct Hits(pub(crate) u64);

impl<'de> Deserialize<'de> for Hits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Hits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0")
            }
            fn visit_u64<E: Error>(self, hits: u64) -> Result<Hits, E> {
                Ok(Hits(hits.min(MAX_HITS)))
            }
            /// A number of more than 64 bits.
            fn visit_f64<E: Error>(self, hits: f64) -> Result<Hits, E> {
                if hits < MAX_HITS as f64 {
                    return Err(E::invalid_type(serde::de::Unexpected::Float(hits), &self));
                }
                Ok(Hits(MAX_HITS))
            }
        }
        deserializer.deserialize_u64(Whole)
    }
}
