//! Reads a `RateLimitRequest` in place: texts stay where the network put them, nothing is copied, and with
//! lent lists nothing is allocated. Texts may be any bytes, since clients choose them. Otherwise it accepts
//! and rejects exactly what a general protobuf reader does (a property holds it to one).
//!
//! Not here: what the request means (`service`), framing of messages (`body`).

use std::borrow::Cow;
use std::ops::Range;

use tollgate_buffers::recycle;
use tollgate_human_text::lossy;
use tollgate_limiter::{Descriptor, Entry, LimitOverride, Request, Unit};

use crate::status::Reason;

/// Why a message cannot be used. Nothing was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the message ends too early")]
    Truncated,
    #[error("a number of more than 64 bits")]
    Varint,
    #[error("a field with a key that cannot be")]
    Key,
    #[error("a field of another type than it should have")]
    WireType,
    #[error("groups too deep, or not closed")]
    Group,
    #[error("more than {0} descriptors")]
    Descriptors(usize),
    #[error("more than {0} entries")]
    Entries(usize),
    #[error(
        "descriptors[{0}].limit.unit is not a unit of time; use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
    )]
    Unit(usize),
    #[error("descriptors[{0}].is_negative_hits is not supported: hits cannot be given back")]
    Negative(usize),
}

impl WireError {
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::Descriptors(_) | Self::Entries(_) => Reason::TooLarge,
            Self::Unit(_) | Self::Negative(_) => Reason::Invalid,
            _ => Reason::Malformed,
        }
    }
}

/// Most parts of a request that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) descriptors: usize,
    pub(crate) entries: usize,
}

/// The allocations of a parsed request, kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    entries: Vec<Entry<'static>>,
    parsed: Vec<ParsedDescriptor>,
    descriptors: Vec<Descriptor<'static>>,
}

/// A request's texts in place; [`Parsed::descriptors`] makes it a [`Request`].
pub(crate) struct Parsed<'m> {
    /// A name that is not UTF-8 matches no domain.
    pub(crate) domain: Cow<'m, str>,
    /// As sent: 0 means that it was left out.
    pub(crate) hits_addend: u32,
    entries: Vec<Entry<'m>>,
    descriptors: Vec<ParsedDescriptor>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ParsedDescriptor {
    entries: Range<usize>,
    hits: Option<u64>,
    limit: Option<ParsedLimit>,
    is_negative: bool,
}

/// A limit that came with the request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ParsedLimit {
    requests_per_unit: u32,
    /// Number of the unit.
    unit: i32,
}

impl<'m> Parsed<'m> {
    pub(crate) fn read(message: &'m [u8], lists: &mut Lists, caps: Caps) -> Result<Self, WireError> {
        let mut parsed = Parsed {
            domain: Cow::Borrowed(""),
            hits_addend: 0,
            entries: recycle(std::mem::take(&mut lists.entries)),
            descriptors: std::mem::take(&mut lists.parsed),
        };
        parsed.descriptors.clear();
        let mut reader = MessageReader(message);
        while let Some((field, wire)) = reader.key()? {
            match field {
                1 => parsed.domain = lossy(reader.bytes(wire)?),
                2 => {
                    if parsed.descriptors.len() == caps.descriptors {
                        return Err(WireError::Descriptors(caps.descriptors));
                    }
                    let descriptor = read_descriptor(reader.nested(wire)?, &mut parsed.entries, caps)?;
                    parsed.descriptors.push(descriptor);
                }
                3 => parsed.hits_addend = reader.varint_field(wire)? as u32,
                _ => reader.skip(field, wire)?,
            }
        }
        Ok(parsed)
    }

    /// The descriptors as the limiter takes them.
    pub(crate) fn descriptors<'p>(&'p self, lists: &mut Lists) -> Result<Vec<Descriptor<'p>>, WireError> {
        let mut descriptors = recycle(std::mem::take(&mut lists.descriptors));
        for (index, parsed) in self.descriptors.iter().enumerate() {
            if parsed.is_negative {
                return Err(WireError::Negative(index));
            }
            let limit = match parsed.limit {
                None => None,
                Some(ParsedLimit { requests_per_unit, unit: number }) => {
                    let unit = unit(number).ok_or(WireError::Unit(index))?;
                    Some(LimitOverride { requests_per_unit, unit })
                }
            };
            let entries = &self.entries[parsed.entries.clone()];
            descriptors.push(Descriptor { entries, hits: parsed.hits, limit });
        }
        Ok(descriptors)
    }

    /// The question. A missing addend means one hit.
    pub(crate) fn request<'p>(&'p self, descriptors: &'p [Descriptor<'p>]) -> Request<'p> {
        Request { domain: &self.domain, descriptors, hits: u64::from(self.hits_addend.max(1)) }
    }

    /// Puts the allocations back for the next call.
    pub(crate) fn put_back(self, lists: &mut Lists) {
        lists.entries = recycle(self.entries);
        lists.parsed = self.descriptors;
    }
}

impl Lists {
    /// Puts the allocation of descriptors back.
    pub(crate) fn put_back_descriptors(&mut self, descriptors: Vec<Descriptor<'_>>) {
        self.descriptors = recycle(descriptors);
    }
}

/// The unit of that number on the wire.
fn unit(number: i32) -> Option<Unit> {
    Some(match number {
        1 => Unit::Second,
        2 => Unit::Minute,
        3 => Unit::Hour,
        4 => Unit::Day,
        5 => Unit::Month,
        6 => Unit::Year,
        7 => Unit::Week,
        _ => return None,
    })
}

/// Number of a unit on the wire; 0 for a period that is not one unit.
pub(crate) const fn unit_number(unit: Option<Unit>) -> u8 {
    match unit {
        None => 0,
        Some(Unit::Second) => 1,
        Some(Unit::Minute) => 2,
        Some(Unit::Hour) => 3,
        Some(Unit::Day) => 4,
        Some(Unit::Month) => 5,
        Some(Unit::Year) => 6,
        Some(Unit::Week) => 7,
    }
}

fn read_descriptor<'m>(
    mut reader: MessageReader<'m>,
    entries: &mut Vec<Entry<'m>>,
    caps: Caps,
) -> Result<ParsedDescriptor, WireError> {
    let mut parsed =
        ParsedDescriptor { entries: entries.len()..entries.len(), ..ParsedDescriptor::default() };
    while let Some((field, wire)) = reader.key()? {
        match field {
            1 => {
                if entries.len() == caps.entries {
                    return Err(WireError::Entries(caps.entries));
                }
                entries.push(read_entry(reader.nested(wire)?)?);
            }
            2 => {
                let mut nested = reader.nested(wire)?;
                let limit = parsed.limit.get_or_insert_default();
                while let Some((field, wire)) = nested.key()? {
                    match field {
                        1 => limit.requests_per_unit = nested.varint_field(wire)? as u32,
                        2 => limit.unit = nested.varint_field(wire)? as i32,
                        _ => nested.skip(field, wire)?,
                    }
                }
            }
            3 => {
                let mut nested = reader.nested(wire)?;
                let hits = parsed.hits.get_or_insert_default();
                while let Some((field, wire)) = nested.key()? {
                    match field {
                        1 => *hits = nested.varint_field(wire)?,
                        _ => nested.skip(field, wire)?,
                    }
                }
            }
            4 => parsed.is_negative = reader.varint_field(wire)? != 0,
            _ => reader.skip(field, wire)?,
        }
    }
    parsed.entries.end = entries.len();
    Ok(parsed)
}

fn read_entry(mut reader: MessageReader<'_>) -> Result<Entry<'_>, WireError> {
    let mut entry = Entry::new("", "");
    while let Some((field, wire)) = reader.key()? {
        match field {
            1 => entry.key = reader.bytes(wire)?,
            2 => entry.value = reader.bytes(wire)?,
            _ => reader.skip(field, wire)?,
        }
    }
    Ok(entry)
}

/// The unread rest of a message.
struct MessageReader<'m>(&'m [u8]);

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const GROUP: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;

/// Nested groups that are skipped; more are rejected.
const MAX_GROUPS: usize = 100;

impl<'m> MessageReader<'m> {
    /// Number and wire type of the next field; `None` at the end.
    #[inline]
    fn key(&mut self) -> Result<Option<(u32, u8)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| WireError::Key)?;
        let field = key >> 3;
        let wire = (key & 7) as u8;
        if field == 0 || wire > FIXED32 { Err(WireError::Key) } else { Ok(Some((field, wire))) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for (i, &byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                // The tenth byte holds the last one of 64 bits.
                if i == 9 && byte > 1 {
                    return Err(WireError::Varint);
                }
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { WireError::Truncated } else { WireError::Varint })
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'m [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint_field(&mut self, wire: u8) -> Result<u64, WireError> {
        if wire == VARINT { self.varint() } else { Err(WireError::WireType) }
    }

    #[inline]
    fn bytes(&mut self, wire: u8) -> Result<&'m [u8], WireError> {
        if wire != BYTES {
            return Err(WireError::WireType);
        }
        let length = self.varint()?;
        self.take(length)
    }

    fn nested(&mut self, wire: u8) -> Result<Self, WireError> {
        self.bytes(wire).map(MessageReader)
    }

    /// Passes over a field that is not known.
    fn skip(&mut self, field: u32, wire: u8) -> Result<(), WireError> {
        let mut open = [0; MAX_GROUPS];
        let mut depth = 0;
        let mut field = field;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                FIXED32 => drop(self.take(4)?),
                BYTES => drop(self.bytes(wire)?),
                GROUP => {
                    *open.get_mut(depth).ok_or(WireError::Group)? = field;
                    depth += 1;
                }
                GROUP_END => {
                    if depth == 0 || open[depth - 1] != field {
                        return Err(WireError::Group);
                    }
                    depth -= 1;
                }
                _ => return Err(WireError::Key),
            }
            if depth == 0 {
                return Ok(());
            }
            (field, wire) = self.key()?.ok_or(WireError::Truncated)?;
        }
    }
}

#[cfg(test)]
mod tests;
