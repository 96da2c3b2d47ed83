//! Which values of a key a descriptor matches.

use std::borrow::Cow;

use ipnet::IpNet;

use crate::error::RuleError;
use crate::pattern::{ValueRegex, Wildcard, parse_network};

/// Which values of a key a descriptor matches.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// assert_eq!(ValueSpec::text("staff*"), ValueSpec::text("staff*"));
/// let error = ValueSpec::network("10.0.0.1/8").expect_err("a host, not a network");
/// assert_eq!(error.to_string(), "10.0.0.1/8 has bits set behind its prefix; write 10.0.0.0/8");
/// assert!(ValueSpec::regex("[a-z").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSpec(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Any,
    Text(String),
    Network(IpNet),
    Regex(ValueRegex),
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::Any) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Network(a), Self::Network(b)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.text() == b.text(),
            _ => false,
        }
    }
}

impl Eq for Kind {}

impl ValueSpec {
    /// Any value, if no other descriptor of the level matches it.
    #[must_use]
    pub const fn any() -> Self {
        Self(Kind::Any)
    }

    /// This value, or the values that match it if it contains a `*`. An empty text is any value.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self(if text.is_empty() { Kind::Any } else { Kind::Text(text) })
    }

    /// Addresses of a network such as `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of its
    /// own.
    ///
    /// # Errors
    /// [`RuleError::Network`] or [`RuleError::HostBits`].
    pub fn network(text: &str) -> Result<Self, RuleError> {
        parse_network(text).map(|network| Self(Kind::Network(network)))
    }

    /// Values that match a regular expression as a whole.
    ///
    /// # Errors
    /// [`RuleError::Regex`], [`RuleError::LongRegex`] or [`RuleError::LargeRegex`].
    pub fn regex(text: &str) -> Result<Self, RuleError> {
        ValueRegex::new(text).map(|regex| Self(Kind::Regex(regex)))
    }
}

/// How a descriptor's key and value match an entry.
#[derive(Clone, Debug)]
pub(crate) enum ValueMatch {
    /// Any value that nothing else on the level matches.
    Any,
    Exact(String),
    /// A pattern for the value.
    Wildcard(Wildcard),
    /// A pattern for `key_value`, because the key contains a `*`.
    Joined(Wildcard),
    Network(IpNet),
    Regex(ValueRegex),
}

impl ValueMatch {
    pub(crate) fn of(key: &str, value: ValueSpec) -> Self {
        match value.0 {
            Kind::Network(network) => Self::Network(network),
            Kind::Regex(regex) => Self::Regex(regex),
            Kind::Any => Wildcard::new(key).map_or(Self::Any, Self::Joined),
            Kind::Text(text) if key.contains('*') => {
                let joined = format!("{key}_{text}");
                Wildcard::new(&joined).map_or(Self::Exact(text), Self::Joined)
            }
            Kind::Text(text) => Wildcard::new(&text).map_or(Self::Exact(text), Self::Wildcard),
        }
    }

    /// What distinguishes two values of one key on one level: the kind of match, and its text.
    pub(crate) fn identity(&self) -> (u8, Cow<'_, str>) {
        match self {
            Self::Any => (b' ', Cow::Borrowed("")),
            Self::Exact(value) => (b'=', Cow::Borrowed(value)),
            Self::Wildcard(wildcard) => (b'~', Cow::Borrowed(wildcard.text())),
            Self::Joined(wildcard) => (b'*', Cow::Borrowed(wildcard.text())),
            Self::Network(network) => (b'@', Cow::Owned(network.to_string())),
            Self::Regex(regex) => (b'^', Cow::Borrowed(regex.text())),
        }
    }
}
