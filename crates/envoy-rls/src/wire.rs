//! Reads a `RateLimitRequest` in place: texts stay where the network put them, nothing is copied, and with lent room
//! nothing is allocated. Accepts and refuses exactly what a general protobuf reader does (a property holds it to one).
//!
//! Not here: what the request means (`service`), framing of messages (`body`).

use std::ops::Range;

use tollgate_limiter::{Descriptor, Entry, LimitOverride, Request, Unit};

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
    #[error("a text is not UTF-8")]
    Utf8,
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

/// How much of a request is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) descriptors: usize,
    pub(crate) entries: usize,
}

/// Room for the parts of a request, kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Room {
    entries: Vec<Entry<'static>>,
    parts: Vec<Part>,
    descriptors: Vec<Descriptor<'static>>,
}

/// A request's texts in place; [`Parsed::descriptors`] makes it a [`Request`].
pub(crate) struct Parsed<'m> {
    pub(crate) domain: &'m str,
    /// As sent: 0 means that it was not said.
    pub(crate) hits_addend: u32,
    entries: Vec<Entry<'m>>,
    parts: Vec<Part>,
}

/// One descriptor.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    entries: Range<usize>,
    hits: Option<u64>,
    limit: Option<(u32, i32)>,
    is_negative: bool,
}

impl<'m> Parsed<'m> {
    /// Reads `message`.
    pub(crate) fn read(message: &'m [u8], room: &mut Room, caps: Caps) -> Result<Self, WireError> {
        let mut parsed = Parsed {
            domain: "",
            hits_addend: 0,
            entries: rehouse_entries(std::mem::take(&mut room.entries)),
            parts: std::mem::take(&mut room.parts),
        };
        parsed.parts.clear();
        let mut reader = Reader(message);
        while let Some((field, wire)) = reader.key()? {
            match field {
                1 => parsed.domain = reader.text(wire)?,
                2 => {
                    if parsed.parts.len() == caps.descriptors {
                        return Err(WireError::Descriptors(caps.descriptors));
                    }
                    let part = read_descriptor(reader.nested(wire)?, &mut parsed.entries, caps)?;
                    parsed.parts.push(part);
                }
                3 => parsed.hits_addend = reader.varint_field(wire)? as u32,
                _ => reader.skip(field, wire)?,
            }
        }
        Ok(parsed)
    }

    /// The descriptors, with what they ask for made sense of.
    pub(crate) fn descriptors<'p>(&'p self, room: &mut Room) -> Result<Vec<Descriptor<'p>>, WireError> {
        let mut descriptors = rehouse_descriptors(std::mem::take(&mut room.descriptors));
        for (index, part) in self.parts.iter().enumerate() {
            if part.is_negative {
                return Err(WireError::Negative(index));
            }
            let limit = match part.limit {
                None => None,
                Some((requests_per_unit, number)) => {
                    let unit = unit(number).ok_or(WireError::Unit(index))?;
                    Some(LimitOverride { requests_per_unit, unit })
                }
            };
            let entries = &self.entries[part.entries.clone()];
            descriptors.push(Descriptor { entries, hits: part.hits, limit });
        }
        Ok(descriptors)
    }

    /// The question. A missing addend means one hit.
    pub(crate) fn request<'p>(&'p self, descriptors: &'p [Descriptor<'p>]) -> Request<'p> {
        Request { domain: self.domain, descriptors, hits: u64::from(self.hits_addend.max(1)) }
    }

    /// Puts the room back for the next call.
    pub(crate) fn give_back(self, room: &mut Room) {
        room.entries = rehouse_entries(self.entries);
        room.parts = self.parts;
    }
}

impl Room {
    /// Puts the room of descriptors back.
    pub(crate) fn keep(&mut self, descriptors: Vec<Descriptor<'_>>) {
        self.descriptors = rehouse_descriptors(descriptors);
    }
}

/// The room of an emptied vector for another lifetime: collecting in place moves it without a copy.
fn rehouse_entries<'a>(mut items: Vec<Entry<'_>>) -> Vec<Entry<'a>> {
    items.clear();
    items.into_iter().map(|_| Entry { key: "", value: "" }).collect()
}

fn rehouse_descriptors<'a>(mut items: Vec<Descriptor<'_>>) -> Vec<Descriptor<'a>> {
    items.clear();
    items.into_iter().map(|_| Descriptor::new(&[])).collect()
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

/// Number of a unit on the wire; 0 for a period that is none.
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
    mut reader: Reader<'m>,
    entries: &mut Vec<Entry<'m>>,
    caps: Caps,
) -> Result<Part, WireError> {
    let mut part = Part { entries: entries.len()..entries.len(), ..Part::default() };
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
                let limit = part.limit.get_or_insert_default();
                while let Some((field, wire)) = nested.key()? {
                    match field {
                        1 => limit.0 = nested.varint_field(wire)? as u32,
                        2 => limit.1 = nested.varint_field(wire)? as i32,
                        _ => nested.skip(field, wire)?,
                    }
                }
            }
            3 => {
                let mut nested = reader.nested(wire)?;
                let hits = part.hits.get_or_insert_default();
                while let Some((field, wire)) = nested.key()? {
                    match field {
                        1 => *hits = nested.varint_field(wire)?,
                        _ => nested.skip(field, wire)?,
                    }
                }
            }
            4 => part.is_negative = reader.varint_field(wire)? != 0,
            _ => reader.skip(field, wire)?,
        }
    }
    part.entries.end = entries.len();
    Ok(part)
}

fn read_entry(mut reader: Reader<'_>) -> Result<Entry<'_>, WireError> {
    let mut entry = Entry { key: "", value: "" };
    while let Some((field, wire)) = reader.key()? {
        match field {
            1 => entry.key = reader.text(wire)?,
            2 => entry.value = reader.text(wire)?,
            _ => reader.skip(field, wire)?,
        }
    }
    Ok(entry)
}

/// What is left of a message.
struct Reader<'m>(&'m [u8]);

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const GROUP: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;

/// Groups within groups that are skipped; more is refused.
const MAX_GROUPS: usize = 100;

impl<'m> Reader<'m> {
    /// Number and wire type of the next field; `None` at the end.
    #[inline]
    fn key(&mut self) -> Result<Option<(u32, u8)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| WireError::Key)?;
        let (field, wire) = (key >> 3, (key & 7) as u8);
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
        self.bytes(wire).map(Reader)
    }

    fn text(&mut self, wire: u8) -> Result<&'m str, WireError> {
        std::str::from_utf8(self.bytes(wire)?).map_err(|_| WireError::Utf8)
    }

    /// Passes over a field that is not known.
    fn skip(&mut self, field: u32, wire: u8) -> Result<(), WireError> {
        let mut open = [0; MAX_GROUPS];
        let mut depth = 0;
        let (mut field, mut wire) = (field, wire);
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
