//! What the values of a key are on a level: texts, addresses, or lists of addresses that proxies forward.
//!
//! Where they are addresses, every spelling of an address is the same value to matching and counting alike.
//! Nothing is allocated. Not here: how addresses are spelled (`human-text`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::num::NonZeroU8;

use tollgate_human_text::{ReadAddress, forwarded_address, read_address};

use crate::domain::{Domain, Entry};
use crate::rule::Rule;
use crate::spec::{DescriptorSpec, ListedValue, ValueKind};

/// How the values of a key are read on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As they are.
    #[default]
    Text,
    /// As addresses, since a descriptor of the level takes some; what is not an address stays as it is.
    Address,
    /// As lists of addresses, of which the one in this place from the right counts. Without one in that place
    /// the value is empty.
    Forwarded(NonZeroU8),
}

/// The last place of a list, from the right, that rules can name.
pub const MOST_FORWARDED: u8 = 32;

/// The longest text of an address.
const LONGEST: usize = 46;

/// Room for the text of an address, which a value may count as.
#[derive(Clone, Copy, Debug)]
pub struct ValueRoom {
    bytes: [u8; LONGEST],
    length: usize,
}

impl ValueRoom {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }

    /// The text of `ip`, in its one canonical spelling.
    fn spell(&mut self, ip: IpAddr) -> &[u8] {
        self.length = 0;
        // The room is enough for every address.
        let _ = write!(self, "{ip}");
        &self.bytes[..self.length]
    }
}

impl Default for ValueRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Write for ValueRoom {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// A value as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    /// What it counts as: the canonical spelling of an address, or the value itself.
    pub(crate) text: &'a [u8],
    /// The address, if it is one.
    pub(crate) address: Option<IpAddr>,
    /// It is the last address of a list of which no rule says which one counts, so a proxy in between may have
    /// written it: nothing may be lifted for it.
    pub(crate) is_unnamed: bool,
}

/// An entry as the rules of its domain read it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its value is the canonical spelling of an address if the value is one.
    pub entry: Entry<'a>,
    /// The value is a list of addresses of which no rule says which one counts, and this is the last. A proxy
    /// in between may have written it, so nothing may be lifted for it.
    pub is_unnamed: bool,
}

impl Rule {
    /// An entry as this rule counts it; `index` is its place in the descriptor. Allocates nothing.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let each = DescriptorSpec::new("ip").ipv6_prefix(64).rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("edge").descriptor(each)).build()?;
    /// let (rule, mut room) = (policy.rules().next().expect("a rule"), ValueRoom::new());
    /// let seen = rule.seen(0, Entry::new("ip", "[2001:db8::1]:443"), &mut room);
    /// assert_eq!(seen.to_string(), "ip=2001:db8::1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn seen<'a>(&self, index: usize, entry: Entry<'a>, room: &'a mut ValueRoom) -> Entry<'a> {
        match self.levels.get(index) {
            Some(level) if !level.reading.is_text() => {
                Entry { key: entry.key, value: level.reading.read(entry.value, room).text }
            }
            _ => entry,
        }
    }
}

impl Domain {
    /// The entries of a descriptor as the rules read them, as many as there are `rooms`. Where the rules do
    /// not say what values are, one that is an address counts as it; a list stays as it is. Allocates nothing.
    pub fn seen<'a>(
        &'a self,
        entries: &'a [Entry<'a>],
        rooms: &'a mut [ValueRoom],
    ) -> impl Iterator<Item = Seen<'a>> {
        let mut node = self.nodes.first();
        entries.iter().zip(rooms).map(move |(entry, room)| {
            let reading = node.map_or(Reading::Text, |node| node.reading_of(entry.key));
            node = node
                .and_then(|node| node.next(entry, &self.rules))
                .and_then(|(next, _)| self.nodes.get(next.node as usize));
            match reading {
                Reading::Text => Seen { entry: seen_alone(*entry, room), is_unnamed: false },
                reading => {
                    let Read { text, is_unnamed, .. } = reading.read(entry.value, room);
                    Seen { entry: Entry { key: entry.key, value: text }, is_unnamed }
                }
            }
        })
    }
}

/// An entry whose value counts as an address if it is one; a list stays as it is.
pub fn seen_alone<'a>(entry: Entry<'a>, room: &'a mut ValueRoom) -> Entry<'a> {
    match read_address(entry.value) {
        Some(ReadAddress { ip, is_of_list: false }) => Entry { key: entry.key, value: room.spell(ip) },
        _ => entry,
    }
}

impl Reading {
    /// How a descriptor reads the values of its key.
    pub(crate) fn of(spec: &DescriptorSpec) -> Self {
        if spec.key.contains('*') {
            return Self::Text; // no one key
        }
        if let Some(nth) = spec.forwarded.and_then(NonZeroU8::new) {
            return Self::Forwarded(nth);
        }
        let takes_addresses = match &spec.value.0 {
            ValueKind::Network(_) => true,
            ValueKind::List(list) => list.values.iter().any(|it| matches!(it, ListedValue::Network(_))),
            ValueKind::Text(text) => exact_address(text).is_some(),
            ValueKind::Any | ValueKind::Regex(_) => false,
        };
        if takes_addresses || spec.ipv6_prefix.is_some() { Self::Address } else { Self::Text }
    }

    /// How the values of a key are read that two descriptors of a level have.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Forwarded(_), _) | (Self::Address, Self::Text) => self,
            _ => other,
        }
    }

    pub(crate) fn is_text(self) -> bool {
        self == Self::Text
    }

    /// Reads a value; its text may be in `room`.
    #[inline(never)]
    pub(crate) fn read<'a>(self, value: &'a [u8], room: &'a mut ValueRoom) -> Read<'a> {
        let found = match self {
            Self::Text => None,
            Self::Address => read_address(value),
            Self::Forwarded(nth) => forwarded_address(value, usize::from(nth.get()))
                .map(|ip| ReadAddress { ip, is_of_list: false }),
        };
        match found {
            Some(ReadAddress { ip, is_of_list }) => {
                Read { text: room.spell(ip), address: Some(ip), is_unnamed: is_of_list }
            }
            None if matches!(self, Self::Forwarded(_)) => {
                Read { text: b"", address: None, is_unnamed: false }
            }
            None => Read { text: value, address: None, is_unnamed: false },
        }
    }
}

/// How the values of each key of a level are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings(HashMap<String, Reading>);

impl Readings {
    /// Adds what the descriptors of the level say. Of two places in a list the first counts.
    pub(crate) fn note(&mut self, level: &[DescriptorSpec]) {
        for spec in level {
            let reading = Reading::of(spec);
            if !reading.is_text() {
                let known = self.0.entry(spec.key.clone()).or_default();
                *known = known.and(reading);
            }
        }
    }

    pub(crate) fn of(&self, key: &str) -> Reading {
        self.0.get(key).copied().unwrap_or_default()
    }
}

/// The address that an exact value of a rule is. Only in its plain form: `10.0.0.1:80` may be a host.
pub(crate) fn exact_address(value: &str) -> Option<IpAddr> {
    value.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}
