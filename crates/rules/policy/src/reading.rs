//! Kinds of values of a key on a level: texts, addresses, or lists of addresses that proxies forward.
//!
//! Where they are addresses, every spelling of an address is the same value to matching and counting alike.
//! Nothing is allocated. Not here: how addresses are spelled (`human-text`), which descriptors say it
//! (`readings`).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::num::NonZeroU8;

use tollgate_human_text::{ReadAddress, forwarded_address, read_address};

/// Reading of the values of a key on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As they are.
    #[default]
    Text,
    /// As addresses, since a descriptor of the level takes addresses; any other value stays as it is.
    Address,
    /// As lists of addresses, of which the one in this place from the right counts. If the list has no
    /// address there, the value is empty.
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
    /// Room without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }

    /// The text of `ip`, in its one canonical spelling.
    pub(crate) fn spell(&mut self, ip: IpAddr) -> &[u8] {
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
    /// The counted value: the canonical spelling of an address, or the value itself.
    pub(crate) text: &'a [u8],
    /// The address, if it is one.
    pub(crate) address: Option<IpAddr>,
    /// It is the last address of a list, and no rule says which address counts. A proxy in between may have
    /// written it, so no limit may be lifted for it.
    pub(crate) is_unnamed: bool,
}

impl Reading {
    /// Reading of the values of a key that occurs in two descriptors of a level.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Forwarded(_), _) | (Self::Address, Self::Text) => self,
            _ => other,
        }
    }

    pub(crate) fn is_text(self) -> bool {
        self == Self::Text
    }

    /// The address that a value is, and whether it is the last of a list for which no rule says which address
    /// counts.
    #[inline]
    pub(crate) fn address(self, value: &[u8]) -> (Option<IpAddr>, bool) {
        match self {
            Self::Text => (None, false),
            Self::Address => match read_address(value) {
                Some(ReadAddress { ip, is_of_list }) => (Some(ip), is_of_list),
                None => (None, false),
            },
            Self::Forwarded(nth) => (forwarded_address(value, usize::from(nth.get())), false),
        }
    }

    /// Reads a value; its text may be in `room`.
    #[inline(never)]
    pub(crate) fn read<'a>(self, value: &'a [u8], room: &'a mut ValueRoom) -> Read<'a> {
        let (address, is_unnamed) = self.address(value);
        let text = match (address, self) {
            (Some(ip), _) => room.spell(ip),
            (None, Self::Forwarded(_)) => b"",
            (None, _) => value,
        };
        Read { text, address, is_unnamed }
    }
}

/// The address that an exact value of a rule is. Only in its plain form: `10.0.0.1:80` may be a host.
pub(crate) fn exact_address(value: &str) -> Option<IpAddr> {
    value.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}
