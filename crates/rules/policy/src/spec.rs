//! Rules as data, before they are built: the common form of a rule file, a control plane and a program.
//!
//! A spec may contain errors; [`PolicyBuilder`](crate::PolicyBuilder) finds every such error. Not here: how
//! specs become rules (`builder`).

mod check;
mod classes;
mod value;

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use tollgate_core::Slots;
use tollgate_store::Sharing;

pub use value::ValueSpec;
pub(crate) use value::{Kind as ValueKind, ListedValue, ValueMatch};

use crate::domain::{Charge, Unmatched};
use crate::limit::Limit;
use crate::place::Place;
use crate::response::Response;
use crate::rule::OnStoreFailure;

/// The rules of one domain.
#[derive(Clone, Debug)]
pub struct DomainSpec {
    pub(crate) name: String,
    pub(crate) charge: Option<Charge>,
    pub(crate) unmatched: Option<Unmatched>,
    pub(crate) response: Option<Response>,
    pub(crate) descriptors: Vec<DescriptorSpec>,
    pub(crate) place: Option<Place>,
}

impl DomainSpec {
    /// A domain without rules.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            charge: None,
            unmatched: None,
            response: None,
            descriptors: Vec::new(),
            place: None,
        }
    }

    /// Whether the limits of one request are charged separately or together; separately by default.
    #[must_use]
    pub const fn charge(mut self, charge: Charge) -> Self {
        self.charge = Some(charge);
        self
    }

    /// Sets the treatment of requests for which no rule matches; a setting of the limiter overrides it.
    #[must_use]
    pub const fn unmatched(mut self, unmatched: Unmatched) -> Self {
        self.unmatched = Some(unmatched);
        self
    }

    /// Sets the reply of HTTP surfaces to a denied request if the rule has no response of its own.
    #[must_use]
    pub fn response(mut self, response: Response) -> Self {
        self.response = Some(response);
        self
    }

    /// With a further descriptor. The order matters for patterns: the first that matches applies.
    #[must_use]
    pub fn descriptor(mut self, descriptor: DescriptorSpec) -> Self {
        self.descriptors.push(descriptor);
        self
    }

    /// Where the domain was written, for error messages.
    #[must_use]
    pub fn written_at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
}

/// One node of a domain's tree: the entry that it matches, its rule, and the nodes for the next entry.
#[derive(Clone, Debug)]
pub struct DescriptorSpec {
    pub(crate) key: String,
    pub(crate) value: ValueSpec,
    pub(crate) ipv6_prefix: Option<u8>,
    pub(crate) forwarded: Option<u8>,
    pub(crate) share_threshold: bool,
    pub(crate) value_to_metric: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) rule: Option<RuleSpec>,
    pub(crate) children: Vec<DescriptorSpec>,
    pub(crate) written: Option<Written>,
}

/// Where a descriptor was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) place: Place,
    /// As error messages name it, such as `descriptors[2]`.
    pub(crate) path: String,
}

impl DescriptorSpec {
    /// Matches entries of this key with any value. A `*` in the key is a pattern for `key_value`.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: ValueSpec::any(),
            ipv6_prefix: None,
            forwarded: None,
            share_threshold: false,
            value_to_metric: false,
            detailed_metric: false,
            rule: None,
            children: Vec::new(),
            written: None,
        }
    }

    /// Matches these values only.
    #[must_use]
    pub fn value(mut self, value: ValueSpec) -> Self {
        self.value = value;
        self
    }

    /// Counts IPv6 addresses by their first `bits` bits, 1 to 128.
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = Some(bits);
        self
    }

    /// Reads values as lists of addresses, as proxies write them into `X-Forwarded-For` and `Forwarded`: the
    /// address in the `nth` place from the right counts, 1 to [`MOST_FORWARDED`](crate::MOST_FORWARDED). That
    /// is the address that `nth` trusted proxies have recorded, whatever the client wrote in front of it. A
    /// list without an address in that place counts as an empty value.
    ///
    /// It applies to all descriptors of the level that have this key.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let each = DescriptorSpec::new("client").forwarded(1).rule(RuleSpec::new(Limit::per(5,
    /// Unit::Minute)?)); let office = DescriptorSpec::new("client").value(ValueSpec::network("10.0.0.0/8")?);
    /// let edge = DomainSpec::new("edge").descriptor(each).descriptor(office.rule(RuleSpec::unlimited()));
    /// let policy = PolicyBuilder::new().domain(edge).build()?; let is_free = |list|
    /// policy.domain("edge")?.find(&[Entry::new("client", list)]).map(|it| it.unlimited);
    /// assert_eq!(is_free("203.0.113.7, 10.1.2.3"), Some(true)); assert_eq!(is_free("10.1.2.3,
    /// 203.0.113.7:50001"), Some(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn forwarded(mut self, nth: u8) -> Self {
        self.forwarded = Some(nth);
        self
    }

    /// Whether all values that match a pattern share one counter.
    #[must_use]
    pub const fn share_threshold(mut self, share: bool) -> Self {
        self.share_threshold = share;
        self
    }

    /// Whether statistics paths show the value of the request on this level.
    #[must_use]
    pub const fn value_to_metric(mut self, show: bool) -> Self {
        self.value_to_metric = show;
        self
    }

    /// Whether statistics paths of the rule show the values of the request on all levels.
    #[must_use]
    pub const fn detailed_metric(mut self, show: bool) -> Self {
        self.detailed_metric = show;
        self
    }

    /// The rule of requests whose last entry this is.
    #[must_use]
    pub fn rule(mut self, rule: RuleSpec) -> Self {
        self.rule = Some(rule);
        self
    }

    /// With a further node for the next entry.
    #[must_use]
    pub fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Where the descriptor was written, and its path in that text such as `descriptors[2]`, for error
    /// messages.
    #[must_use]
    pub fn written_at(mut self, place: Place, path: impl Into<String>) -> Self {
        self.written = Some(Written { place, path: path.into() });
        self
    }
}

/// The limits of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Limits {
    /// The rule admits every request.
    Unlimited,
    /// The rule denies every request.
    Denied,
    One(Box<Limit>),
    /// Several, each with a name, except the only one in force.
    Named(Vec<Limit>),
    /// A number of requests at the same time.
    Slots(Slots),
}

/// The limits of one descriptor, and how they are applied.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let short = Limit::per(10, Unit::Second)?.named("short");
/// let long = Limit::per(1_000, Unit::Day)?.named("long");
/// let rule = RuleSpec::all_of([short, long]).sharing(Sharing::Local).shadow_mode(true);
/// let domain = DomainSpec::new("shop").descriptor(DescriptorSpec::new("user").rule(rule));
/// let policy = PolicyBuilder::new().domain(domain).build()?;
/// let rule = policy.rules().next().expect("a rule");
/// assert_eq!(rule.limits[1].to_string(), "long: 1000 per day, fixed_window");
/// assert!(rule.shadow_mode);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RuleSpec {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) replaces: Vec<String>,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) sharing: Sharing,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) response: Option<Response>,
}

impl RuleSpec {
    fn of(limits: Limits) -> Self {
        Self {
            name: String::new(),
            limits,
            replaces: Vec::new(),
            shadow_mode: false,
            quota_mode: false,
            metadata: None,
            on_store_failure: OnStoreFailure::default(),
            sharing: Sharing::default(),
            max_wait: None,
            response: None,
        }
    }

    /// A rule with one limit. The limit's name becomes the rule's.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { name: limit.name.clone(), ..Self::of(Limits::One(Box::new(limit))) }
    }

    /// A rule with several limits, all of which must admit a request. Each needs a name, except the only one
    /// that is not in shadow: without a name, it keeps the counter that it has when it is alone.
    #[must_use]
    pub fn all_of(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::of(Limits::Named(limits.into_iter().collect()))
    }

    /// A rule that caps concurrency: holders acquire its slots and release them.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_core::Slots;
    /// # use tollgate_policy::*;
    /// let rule = RuleSpec::concurrency(Slots::new(2, Duration::from_secs(30))?);
    /// let export = DescriptorSpec::new("export").rule(rule);
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("shop").descriptor(export)).build()?;
    /// let rule = policy.rules().next().expect("a rule");
    /// assert_eq!(rule.limits_in_words(), ["2 slots, concurrency, ttl 30s"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn concurrency(slots: Slots) -> Self {
        Self::of(Limits::Slots(slots))
    }

    /// A rule that counts nothing and admits everything.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::of(Limits::Unlimited)
    }

    /// A rule that counts nothing and denies everything.
    #[must_use]
    pub fn denied() -> Self {
        Self::of(Limits::Denied)
    }

    /// Under this name, which other rules can replace.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the rules of these names if they apply to the same request.
    #[must_use]
    pub fn replaces(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.replaces = names.into_iter().map(Into::into).collect();
        self
    }

    /// Whether it counts without ever denying.
    #[must_use]
    pub const fn shadow_mode(mut self, shadow: bool) -> Self {
        self.shadow_mode = shadow;
        self
    }

    /// Whether it is a soft limit: a request is denied only if all its quota rules deny.
    #[must_use]
    pub const fn quota_mode(mut self, quota: bool) -> Self {
        self.quota_mode = quota;
        self
    }

    /// Free data that is returned with an admitted request.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the treatment of requests while the store is unavailable.
    #[must_use]
    pub const fn on_store_failure(mut self, choice: OnStoreFailure) -> Self {
        self.on_store_failure = choice;
        self
    }

    /// Where the counters are kept if several nodes run.
    #[must_use]
    pub const fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Requests that are over a limit wait for their turn instead of being denied, for at most `max_wait`:
    /// from [`SHORTEST_WAIT`](crate::SHORTEST_WAIT) to [`LONGEST_WAIT`](crate::LONGEST_WAIT). They wait at
    /// the service, first come, first served.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_policy::*;
    /// let rule = RuleSpec::new(Limit::per(5, Unit::Second)?).queue(Duration::from_secs(2));
    /// let domain = DomainSpec::new("shop").descriptor(DescriptorSpec::new("user").rule(rule));
    /// let policy = PolicyBuilder::new().domain(domain).build()?;
    /// assert_eq!(policy.rules().next().and_then(|rule| rule.max_wait), Some(Duration::from_secs(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn queue(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Sets the reply of HTTP surfaces to a denied request.
    #[must_use]
    pub fn response(mut self, response: Response) -> Self {
        self.response = Some(response);
        self
    }
}

/// A part of a [`DescriptorSpec`]. Displays as the keys of rule files: `limits[1].name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The key of the descriptor.
    Key,
    /// The value of the descriptor.
    Value,
    /// The number of bits that group addresses.
    Ipv6Prefix,
    /// The place of an address in a list.
    Forwarded,
    /// The flag that makes all matches share a counter.
    ShareThreshold,
    /// The only limit.
    Limit,
    /// The list of several limits.
    Limits,
    /// One of several limits.
    LimitOfList(usize),
    /// The name of one of several limits.
    NameOfLimit(usize),
    /// A name in the list of the rules that this one replaces.
    Replaces(usize),
    /// The choice for requests over a limit.
    OnLimit,
    /// The longest wait of a request for its turn.
    MaxWait,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Value => f.write_str("value"),
            Self::Ipv6Prefix => f.write_str("ipv6_prefix"),
            Self::Forwarded => f.write_str("forwarded"),
            Self::ShareThreshold => f.write_str("share_threshold"),
            Self::Limit => f.write_str("rate_limit"),
            Self::Limits => f.write_str("limits"),
            Self::LimitOfList(index) => write!(f, "limits[{index}]"),
            Self::NameOfLimit(index) => write!(f, "limits[{index}].name"),
            Self::Replaces(index) => write!(f, "replaces[{index}]"),
            Self::OnLimit => f.write_str("on_limit"),
            Self::MaxWait => f.write_str("max_wait"),
        }
    }
}
