//! Patterns for values: `*` wildcards, address ranges, regular expressions. Matching allocates nothing of ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use regex::{Regex, RegexBuilder};

/// The longest regular expression, in bytes.
const LONGEST_REGEX: usize = 1_000;
/// The most memory that one compiled expression may take.
const REGEX_MEMORY: usize = 256 << 10;

/// A text in which `*` stands for any characters, also none. There is no escape for `*` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wildcard {
    text: Box<str>,
    first: Box<str>,
    middle: Vec<Box<str>>,
    last: Box<str>,
}

impl Wildcard {
    /// `None` for a text without `*`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|piece| !piece.is_empty()).map(Into::into).collect();
        Some(Self { text: text.into(), first: first.into(), middle, last: last.into() })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// True when the pieces stand in `value` in order without overlapping, the first and the last at its ends.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        // Taking each piece where it first stands leaves the most for the next.
        for piece in &self.middle {
            let Some((_, after)) = rest.split_once(&**piece) else { return false };
            rest = after;
        }
        true
    }

    /// As [`Self::matches`] for `key_value`, putting the two together on the stack.
    pub(crate) fn matches_joined(&self, key: &str, value: &str) -> bool {
        let length = key.len() + 1 + value.len();
        let mut short = [0; 256];
        let Some(buffer) = short.get_mut(..length) else { return self.matches(&format!("{key}_{value}")) };
        buffer[..key.len()].copy_from_slice(key.as_bytes());
        buffer[key.len()] = b'_';
        buffer[key.len() + 1..].copy_from_slice(value.as_bytes());
        std::str::from_utf8(buffer).is_ok_and(|joined| self.matches(joined))
    }
}

/// An address without its host part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotANetwork {
    /// Not `address/length`.
    Malformed,
    /// Bits are set behind the prefix; this is the network they lie in.
    HostBits(Network),
}

impl Network {
    /// The network of `prefix` bits in which `address` lies.
    pub(crate) fn of(address: IpAddr, prefix: u8) -> Self {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address, prefix }
    }

    /// From `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of itself.
    pub(crate) fn parse(text: &str) -> Result<Self, NotANetwork> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork::Malformed)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match length {
            None => longest,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= longest).ok_or(NotANetwork::Malformed)?
            }
            Some(_) => return Err(NotANetwork::Malformed),
        };
        let network = Self::of(address, prefix);
        if network.address == address { Ok(network) } else { Err(NotANetwork::HostBits(network)) }
    }

    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    pub(crate) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The address that a value is; an IPv4 address mapped into IPv6 counts as IPv4, so that no one escapes by its spelling.
pub(crate) fn address(value: &str) -> Option<IpAddr> {
    // The longest spelling of an address has 45 characters.
    if value.len() > 45 { None } else { value.parse().ok().map(|address: IpAddr| address.to_canonical()) }
}

/// An expression for whole values: it is anchored at both ends.
///
/// # Errors
/// What is wrong with the expression, for a fault.
pub(crate) fn whole_value_regex(text: &str) -> Result<Regex, String> {
    if text.len() > LONGEST_REGEX {
        return Err(format!("{} bytes are too long; the longest expression has {LONGEST_REGEX}", text.len()));
    }
    // Alone first, so that its parentheses cannot close those around it.
    compile(text).and_then(|_| compile(&format!(r"\A(?:{text})\z"))).map_err(|error| short(&error))
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(REGEX_MEMORY).dfa_size_limit(REGEX_MEMORY).nest_limit(50).build()
}

fn short(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("takes more than {limit} bytes when compiled; write a simpler expression")
        }
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("is no regular expression: {last}; see https://docs.rs/regex/latest/regex/#syntax")
        }
    }
}
