//! Patterns for values: `*` wildcards, networks, regular expressions. Matching allocates nothing.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::{Regex, RegexBuilder};
use tollgate_human_text::{ReadAddress, read_address};

use crate::error::{LONGEST_REGEX, MAX_REGEX_BYTES, RuleError};

/// A text in which `*` matches any characters, also none. There is no escape for `*` itself.
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

    /// True if `value` contains the pieces in order without overlap, the first and the last at its ends.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        // Taking the first occurrence of each piece leaves the most for the next.
        for piece in &self.middle {
            let Some((_, after)) = rest.split_once(&**piece) else { return false };
            rest = after;
        }
        true
    }

    /// As [`Self::matches`] for `key_value`, joined on the stack.
    pub(crate) fn matches_joined(&self, key: &[u8], value: &str) -> bool {
        let Ok(key) = std::str::from_utf8(key) else {
            return self.matches(&format!("{}_{value}", String::from_utf8_lossy(key)));
        };
        let length = key.len() + 1 + value.len();
        let mut short = [0; 256];
        let Some(buffer) = short.get_mut(..length) else { return self.matches(&format!("{key}_{value}")) };
        buffer[..key.len()].copy_from_slice(key.as_bytes());
        buffer[key.len()] = b'_';
        buffer[key.len() + 1..].copy_from_slice(value.as_bytes());
        std::str::from_utf8(buffer).is_ok_and(|joined| self.matches(joined))
    }
}

/// The network of `prefix` bits that contains `address`.
#[inline]
pub(crate) fn network_of(address: IpAddr, prefix: u8) -> IpNet {
    IpNet::new(address, prefix).map_or_else(|_| IpNet::from(address), |network| network.trunc())
}

/// Reads `10.0.0.0/8` or `2001:db8::/32`; an address alone, in any spelling, is a network of its own. A
/// network of IPv4 addresses that is written as IPv6 is one of IPv4.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, RuleError> {
    let invalid = || RuleError::Network(text.to_owned());
    let network = match text.split_once('/') {
        None => match read_address(text.as_bytes()) {
            Some(ReadAddress { ip, is_of_list: false }) => IpNet::from(ip),
            _ => return Err(invalid()),
        },
        Some((address, length)) => {
            let address: IpAddr = address.parse().map_err(|_| invalid())?;
            let is_number = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
            let length = length.parse().ok().filter(|_| is_number).ok_or_else(invalid)?;
            IpNet::new(address, length).map_err(|_| invalid())?
        }
    };
    let whole = network.trunc();
    if whole == network {
        Ok(as_ipv4(network).unwrap_or(network))
    } else {
        Err(RuleError::HostBits { text: text.to_owned(), network: whole })
    }
}

/// The IPv4 network that an IPv6 network represents, if all of its addresses are IPv4 addresses.
fn as_ipv4(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(six) = network else { return None };
    let bits = six.prefix_len().checked_sub(96)?;
    IpNet::new(six.addr().to_ipv4_mapped()?.into(), bits).ok()
}

/// A regular expression for whole values: it is anchored at both ends.
#[derive(Clone, Debug)]
pub(crate) struct ValueRegex {
    text: String,
    regex: Regex,
}

impl ValueRegex {
    pub(crate) fn new(text: &str) -> Result<Self, RuleError> {
        if text.len() > LONGEST_REGEX {
            return Err(RuleError::LongRegex(text.len()));
        }
        // Compiled alone first, so that its parentheses cannot close the added ones.
        let regex = compile(text)
            .and_then(|_| compile(&format!(r"\A(?:{text})\z")))
            .map_err(|error| reason(&error))?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// As written, without the anchors.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_BYTES).nest_limit(50).build()
}

fn reason(error: &regex::Error) -> RuleError {
    match error {
        regex::Error::CompiledTooBig(_) => RuleError::LargeRegex,
        other => {
            let text = other.to_string();
            RuleError::Regex(text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
        }
    }
}
