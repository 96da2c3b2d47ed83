//! Which values of a key a descriptor matches.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

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
    List(ValueList),
}

/// Values that are listed elsewhere, under the name of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueList {
    pub(crate) name: String,
    pub(crate) values: Arc<[ListedValue]>,
}

/// One value of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListedValue {
    Exact(String),
    Network(IpNet),
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::Any) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Network(a), Self::Network(b)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.text() == b.text(),
            (Self::List(a), Self::List(b)) => a == b,
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

    /// The values of a list called `name`. An address or a network such as `10.0.0.0/8` matches the addresses
    /// in it, and any other text exactly itself. Later duplicates have no effect.
    ///
    /// # Errors
    /// [`RuleError::HostBits`] or [`RuleError::ListedPattern`] with the index of the value;
    /// [`RuleError::ListName`].
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let value = ValueSpec::list("blocked.values", ["10.0.0.0/8", "ann"]).expect("valid");
    /// let rule = DescriptorSpec::new("who").value(value).rule(RuleSpec::denied());
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("shop").descriptor(rule)).build()?;
    /// let find = |value| policy.domain("shop").and_then(|shop| shop.find(&[Entry::new("who", value)]));
    /// assert_eq!(find("10.1.2.3").map(|rule| rule.path.as_str()), Some("who in blocked.values"));
    /// assert!(find("ann").is_some() && find("bob").is_none());
    /// let errors = ValueSpec::list("l", ["a", "b*"]).expect_err("a pattern");
    /// assert_eq!(errors[0].0, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list<'a>(
        name: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Vec<(usize, RuleError)>> {
        let mut seen = HashSet::new();
        let mut listed = Vec::new();
        let mut errors = Vec::new();
        if name.is_empty() || name.contains('*') {
            errors.push((0, RuleError::ListName));
        }
        for (index, text) in values.into_iter().enumerate() {
            if !seen.insert(text) {
                continue;
            }
            match parse_network(text) {
                Ok(network) => listed.push(ListedValue::Network(network)),
                Err(error @ RuleError::HostBits { .. }) => errors.push((index, error)),
                Err(_) if text.contains('*') => errors.push((index, RuleError::ListedPattern)),
                Err(_) => listed.push(ListedValue::Exact(text.to_owned())),
            }
        }
        if errors.is_empty() {
            Ok(Self(Kind::List(ValueList { name: name.to_owned(), values: listed.into() })))
        } else {
            Err(errors)
        }
    }

    /// Values that match a regular expression as a whole.
    ///
    /// # Errors
    /// [`RuleError::Regex`], [`RuleError::LongRegex`] or [`RuleError::LargeRegex`].
    pub fn regex(text: &str) -> Result<Self, RuleError> {
        ValueRegex::new(text).map(|regex| Self(Kind::Regex(regex)))
    }
}

/// Match of an entry by a descriptor's key and value.
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
    /// Any of these.
    List(ValueList),
}

impl ValueMatch {
    pub(crate) fn of(key: &str, value: ValueSpec) -> Self {
        match value.0 {
            Kind::Network(network) => Self::Network(network),
            Kind::Regex(regex) => Self::Regex(regex),
            Kind::List(list) => Self::List(list),
            Kind::Any => Wildcard::new(key).map_or(Self::Any, Self::Joined),
            Kind::Text(text) if key.contains('*') => {
                let joined = format!("{key}_{text}");
                Wildcard::new(&joined).map_or(Self::Exact(text), Self::Joined)
            }
            Kind::Text(text) => Wildcard::new(&text).map_or(Self::Exact(text), Self::Wildcard),
        }
    }

    /// Identity of a value of one key on one level: the kind of match, and its text.
    pub(crate) fn identity(&self) -> (u8, Cow<'_, str>) {
        match self {
            Self::Any => (b' ', Cow::Borrowed("")),
            Self::Exact(value) => (b'=', Cow::Borrowed(value)),
            Self::Wildcard(wildcard) => (b'~', Cow::Borrowed(wildcard.text())),
            Self::Joined(wildcard) => (b'*', Cow::Borrowed(wildcard.text())),
            Self::Network(network) => (b'@', Cow::Owned(network.to_string())),
            Self::Regex(regex) => (b'^', Cow::Borrowed(regex.text())),
            Self::List(list) => (b'<', Cow::Borrowed(&list.name)),
        }
    }
}
