//! Errors in a set of rules, wherever it came from. Each message says what to write instead.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::QuotaError;
use tollgate_headers::{Placeholder, TemplateError};
use tollgate_human_text::{clip, did_you_mean, with_causes};

use crate::place::Place;
use crate::reading::MOST_FORWARDED;
use crate::wait::{LONGEST_WAIT, SHORTEST_WAIT};

/// The longest regular expression, in bytes.
pub(crate) const LONGEST_REGEX: usize = 1_000;
/// The most memory that one compiled expression may take.
pub(crate) const MAX_REGEX_BYTES: usize = 256 << 10;

/// One thing that is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A domain without a name.
    #[error("is empty; write the domain of your requests")]
    EmptyDomain,
    /// Two sets of descriptors for one domain, without
    /// [`PolicyBuilder::merge_domains`](crate::PolicyBuilder).
    #[error("{} is already the domain of {}; write another, or allow merging with MERGE_DOMAIN_CONFIG=true", clip(name), place_of(first.as_ref()))]
    DuplicateDomain {
        /// Name of the domain.
        name: String,
        /// Where the first one was written.
        first: Option<Place>,
    },
    /// Two descriptors of one level that match the same values.
    #[error(
        "{} occurs twice on this level; merge them, or list several limits under limits",
        clip(descriptor)
    )]
    DuplicateDescriptor {
        /// As people read it, such as `key=value`.
        descriptor: String,
    },
    /// A descriptor without a key.
    #[error("is empty; write the key of a request's entry")]
    EmptyKey,
    /// A `*` in the key beside a network or a regular expression.
    #[error("cannot be combined with a * in the key; write the whole key")]
    PatternKey,
    /// A network that is not of the form `address/length`.
    #[error("invalid network {}: expected something like 10.0.0.0/8 or 2001:db8::/32", quoted(.0))]
    Network(String),
    /// Bits behind the prefix are set.
    #[error("{text} has bits set behind its prefix; write {network}")]
    HostBits {
        /// The network as written.
        text: String,
        /// The network that contains the address.
        network: IpNet,
    },
    /// A `*` in a list of values.
    #[error("is a pattern, which a list of values cannot have; write it as value: in the rule file")]
    ListedPattern,
    /// A list of values without a usable name.
    #[error("is not the name of a list of values; write a file name without *")]
    ListName,
    /// An expression that does not compile.
    #[error("invalid regular expression: {0}; see https://docs.rs/regex/latest/regex/#syntax")]
    Regex(String),
    /// An expression that is too long.
    #[error("{0} bytes are too long; the longest expression has {LONGEST_REGEX}")]
    LongRegex(usize),
    /// An expression that needs too much memory.
    #[error("takes more than {MAX_REGEX_BYTES} bytes when compiled; write a simpler expression")]
    LargeRegex,
    /// `share_threshold` without a pattern.
    #[error("has no pattern to share; write a * into value, or remove it")]
    NothingToShare,
    /// A prefix that is not 1 to 128 bits long.
    #[error("{0} is out of range; write a whole number from 1 to 128")]
    Ipv6PrefixRange(u8),
    /// `ipv6_prefix` on an IPv4 network.
    #[error("has no effect on an IPv4 value_cidr; remove it")]
    Ipv6PrefixOfIpv4,
    /// `ipv6_prefix` shorter than the network's own prefix.
    #[error("{bits} is wider than value_cidr; write {least} or more")]
    Ipv6PrefixTooWide {
        /// Number of bits, as written.
        bits: u8,
        /// The network's own prefix.
        least: u8,
    },
    /// `ipv6_prefix` on a value that is not an address.
    #[error("groups addresses, but this value is not an address; leave value out, or write value_cidr")]
    Ipv6PrefixOfText,
    /// A place in a list that is not 1 to [`MOST_FORWARDED`].
    #[error(
        "{0} is out of range; write the number of proxies that you trust, each of which adds an address: 1 to \
         {MOST_FORWARDED}"
    )]
    ForwardedRange(u8),
    /// `forwarded` on a pattern that begins in the key.
    #[error("needs a key without *; write the key whose value is the list")]
    ForwardedOfPattern,
    /// Two places in one list.
    #[error(
        "{nth} differs from the {first} of another descriptor with this key on this level; a list has one address \
         that counts, so write the same number, or write it once"
    )]
    ForwardedDiffers {
        /// Number of the place, as written here.
        nth: u8,
        /// Number of the place in the earlier descriptor.
        first: u8,
    },
    /// A list of limits without a limit.
    #[error("is empty; write a limit, or remove it")]
    NoLimits,
    /// One of several limits without a name.
    #[error("is missing; the counter is kept under this name, so write one, such as name: short")]
    MissingLimitName,
    /// Two limits of one name.
    #[error("{} is already the name of limits[{first}]; write another", clip(name))]
    DuplicateLimitName {
        /// Name of both limits.
        name: String,
        /// Index of the first one.
        first: usize,
    },
    /// A rule that replaces a rule without a name.
    #[error("is empty; write the name of another rule")]
    EmptyReplaces,
    /// A rule that replaces itself.
    #[error("names this rule itself; name another")]
    ReplacesItself,
    /// A rule that replaces one of its own limits.
    #[error("names a limit of this list; name another rule's")]
    ReplacesOwnLimit,
    /// Limits that are all in shadow, so that none is in force.
    #[error("every limit is in shadow, so nothing is in force; write shadow_mode: true for the whole rule")]
    OnlyShadow,
    /// A bucket without a name.
    #[error("is empty; write the name of the bucket")]
    EmptyBucket,
    /// Two limits of one rule that share a bucket, so that each hit would take from it twice.
    #[error(
        "{} is already the bucket of limits[{first}], so a hit would take from it twice; remove one",
        clip(name)
    )]
    BucketTwice {
        /// Name of the bucket.
        name: String,
        /// Index of the first one.
        first: usize,
    },
    /// A bucket of classes of priority.
    #[error("cannot be combined with priority_buckets, whose classes share a counter already; remove it")]
    BucketOfClasses,
    /// Limits of one bucket that count in different ways.
    #[error(
        "{} is also the bucket of {first}, which has {what} {theirs}, not {ours}; write the same, or another name",
        clip(name)
    )]
    BucketDiffers {
        /// Name of the bucket.
        name: String,
        /// The first limit of the bucket, and its place.
        first: String,
        /// The setting that differs, such as `the rate`.
        what: &'static str,
        /// That setting of the first limit.
        theirs: String,
        /// That setting of this limit.
        ours: String,
    },
    /// Limits of one bucket whose largest overdraft leaves no room in their counter.
    #[error("the largest overdraft of the bucket: {0}")]
    BucketQuota(QuotaError),
    /// A limit that cannot be leased.
    #[error(
        "{algorithm} cannot be leased; token_bucket (refill: continuous, full at first, without overdraft), leaky_bucket \
         (form: meter) and fixed_window can; write one of them, or sharing: exact"
    )]
    NotLeasable {
        /// Name of the limit's algorithm.
        algorithm: &'static str,
    },
    /// A limit that the configured store cannot count.
    #[error("{algorithm}: {reason}")]
    NotCountable {
        /// Name of the limit's algorithm.
        algorithm: &'static str,
        /// The reason and the remedy.
        reason: &'static str,
    },
    /// A wait that is too short or too long.
    #[error("{0:?} is out of range; write a duration from {SHORTEST_WAIT:?} to {LONGEST_WAIT:?}")]
    WaitRange(Duration),
    /// A rule whose requests cannot wait for their turn.
    #[error("queue does not work here: {reason}")]
    NoQueue {
        /// The reason and the remedy.
        reason: &'static str,
    },
    /// A status that is not one of a denial.
    #[error("{0} is out of range; write a whole number from 400 to 599")]
    Status(u16),
    /// A value that is not a content type.
    #[error("invalid content type {}: expected something like application/json", quoted(.0))]
    ContentType(String),
    /// A JSON body that is not JSON once filled in.
    #[error("is not JSON once filled in ({0}); texts such as {{{{rule}}}} belong in quotes")]
    BodyNotJson(String),
    /// A placeholder that is misspelt or not closed.
    #[error("{}", template_message(.0))]
    Template(TemplateError),
    /// A text that is not a name of a header field.
    #[error("is not a header name; write letters, digits and -")]
    HeaderName,
    /// `Content-Type` among the header fields.
    #[error("has a key of its own; write content_type: under response")]
    ContentTypeHeader,
    /// A header field that frames the message.
    #[error("is written by the server; remove it")]
    FramingHeader,
    /// Two header fields of one name.
    #[error("occurs twice, since header names ignore case; keep one")]
    DuplicateHeader,
    /// A control character in a header field.
    #[error("contains a control character; write it on one line")]
    HeaderControlCharacter,
}

fn place_of(place: Option<&Place>) -> String {
    place.map_or_else(|| "another set of rules".to_owned(), Place::to_string)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", clip(text))
}

fn template_message(error: &TemplateError) -> String {
    match error {
        TemplateError::Unknown { at, name } => {
            let names = Placeholder::ALL.map(Placeholder::name);
            let hint =
                did_you_mean(name, &names).unwrap_or_else(|| format!("there are {}", names.join(", ")));
            format!("character {at}: {{{{{}}}}} is unknown; {hint}", clip(name))
        }
        error => error.to_string(),
    }
}

/// Where a [`RuleError`] is: `shop: descriptors[2].limits[1].name`. The error itself is the source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildError {
    /// Name of the domain.
    pub domain: String,
    /// Path within the domain, in the keys of rule files, such as `descriptors[2].rate_limit`.
    pub path: String,
    /// Where the descriptor was written, if it was read from a text.
    pub place: Option<Place>,
    /// The error itself, without its place.
    pub error: RuleError,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: ")?,
            None => write!(f, "{}: ", clip(&self.domain))?,
        }
        f.write_str(&self.path)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Everything that is wrong with a set of rules, in the order of the set; never empty. Displays one error per
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    /// `None` if there is no error.
    pub(crate) fn new(errors: Vec<BuildError>) -> Option<Self> {
        if errors.is_empty() { None } else { Some(Self(errors)) }
    }

    /// The errors, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[BuildError] {
        &self.0
    }
}

impl IntoIterator for BuildErrors {
    type Item = BuildError;
    type IntoIter = std::vec::IntoIter<BuildError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", with_causes(error))?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}
