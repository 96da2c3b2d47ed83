//! One set of rules over a trace: the limiter that serves, with the memory store, on the trace's own clock.

use tollgate_buffers::recycle;
use tollgate_core::Timestamp;
use tollgate_limiter::{
    Answer, Descriptor, DescriptorAnswer, Entry, Kind, Limiter, LimiterSettings, Policy, Request, Scratch,
};
use tollgate_policy::{Charge, PATH_SEPARATOR, Rule};
use tollgate_store::block_on;
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

use crate::contest::Contest;
use crate::mapping::{Mapping, fields_of};
use crate::reader::At;
use crate::reserving::Reserving;
use crate::row::Wanted;
use crate::track::{How, Tracks};

/// From this share of a limit on, an admitted request is near it, as for the metrics of a server.
const NEAR: f64 = 0.8;
/// Added to the times of traces that count from their beginning: whole days, so that windows begin with the
/// trace.
const TEN_YEARS_NS: u64 = 3_650 * 86_400 * 1_000_000_000;

/// Counts of one rule's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleTally {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// Admitted requests that a rule in shadow mode would have denied.
    pub(crate) shadowed: u64,
    pub(crate) near: u64,
    pub(crate) permits: u64,
}

impl RuleTally {
    fn add(&mut self, answered: &DescriptorAnswer<'_>, cost: u64) {
        self.offered += 1;
        self.permits = self.permits.saturating_add(cost);
        self.shadowed += u64::from(answered.is_shadowed);
        if answered.is_admitted() {
            self.admitted += 1;
            let limit = answered.limit.map_or(0, |limit| limit.burst());
            let used = limit.saturating_sub(answered.remaining());
            let is_near = answered.decision.is_some() && used as f64 > NEAR * limit as f64;
            self.near += u64::from(is_near);
        } else {
            self.denied += 1;
        }
    }
}

/// Memory for one open reservation.
const RESERVATION_BYTES: usize = 512;

/// Keys of a descriptor, and the places of their values in a row.
#[derive(Clone, Debug)]
struct Chain {
    entries: Vec<(String, ValueSource)>,
    /// The first chain with the same keys.
    like: u16,
    came: u64,
}

impl Chain {
    /// Appends its entries, if the request has all of their fields; where they end.
    fn append_to<'a>(
        &'a mut self,
        entries: &mut Vec<Entry<'a>>,
        value: impl Fn(usize) -> Option<&'a str>,
    ) -> Option<usize> {
        let begin = entries.len();
        for (key, origin) in &self.entries {
            let value = match origin {
                ValueSource::Field(place) => value(*place),
                ValueSource::Text(text) => Some(text.as_str()),
            };
            let Some(value) = value else {
                entries.truncate(begin);
                return None;
            };
            entries.push(Entry::new(key, value));
        }
        self.came += 1;
        Some(entries.len())
    }
}

/// Where the value of an entry comes from.
#[derive(Clone, Debug)]
enum ValueSource {
    /// The field at this place of the wanted fields.
    Field(usize),
    /// The mapping has it: `model="large"`.
    Text(String),
}

/// The text of a field that is written in quotes.
fn quoted(field: &Wanted) -> Option<String> {
    let Wanted(names) = field;
    let [name] = names.as_slice() else { return None };
    name.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}

/// Why rules cannot be replayed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SideError {
    #[error("the rules are of the domains {0}; say which by --map domain=NAME")]
    ManyDomains(String),
    #[error("the rules have no domain {0}; they are of {1}")]
    UnknownDomain(String, String),
    #[error("the domain {0} has no rules")]
    NoRules(String),
}

pub(crate) struct Side {
    limiter: Limiter<MemoryStore, ()>,
    policy: Policy,
    domain: String,
    /// Each limit of a request is charged, whatever the others say.
    charges_each: bool,
    chains: Vec<Chain>,
    scratch: Scratch,
    entries: Vec<Entry<'static>>,
    descriptors: Vec<Descriptor<'static>>,
    /// For each descriptor the end of its entries, and the chain with its keys.
    ends: Vec<(usize, u16)>,
    key: Vec<u8>,
    pub(crate) rules: Vec<RuleTally>,
    pub(crate) tracks: Tracks,
    pub(crate) contest: Option<Contest>,
    /// `None` where costs are taken at once.
    pub(crate) reserving: Option<Reserving>,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// Requests without any descriptor, and those without a rule.
    pub(crate) bare: u64,
    pub(crate) unlimited: u64,
    pub(crate) undecided: u64,
    pub(crate) first_error: Option<String>,
}

impl Side {
    /// `wanted` gets the fields that the descriptors need.
    pub(crate) fn new(
        policy: Policy,
        mapping: &Mapping,
        wanted: &mut Vec<Wanted>,
        max_bytes: usize,
        compares_algorithms: bool,
    ) -> Result<Self, SideError> {
        let names = || policy.domains().iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
        let domain = match (&mapping.domain, policy.domains()) {
            (Some(name), _) => policy.domain(name).ok_or(SideError::UnknownDomain(name.clone(), names()))?,
            (None, [domain]) => domain,
            (None, _) => return Err(SideError::ManyDomains(names())),
        };
        if domain.rules().is_empty() {
            return Err(SideError::NoRules(domain.name().to_owned()));
        }
        let mut chains = mapping.descriptors.clone();
        if chains.is_empty() {
            for rule in domain.rules().iter().filter(|rule| rule.slots.is_none()) {
                let chain = keys_of(rule);
                if !chains.contains(&chain) {
                    chains.push(chain);
                }
            }
        }
        let mut place = |field: Wanted| match wanted.iter().position(|it| *it == field) {
            Some(place) => place,
            None => {
                wanted.push(field);
                wanted.len() - 1
            }
        };
        let keys_of = |entries: &[(String, Wanted)]| {
            entries.iter().map(|(key, _)| key.clone()).collect::<Vec<String>>()
        };
        let keys: Vec<Vec<String>> = chains.iter().map(|entries| keys_of(entries)).collect();
        let like = |nth: usize| keys.iter().position(|it| Some(it) == keys.get(nth)).unwrap_or(nth);
        let chains = chains.into_iter().enumerate().map(|(nth, entries)| Chain {
            like: u16::try_from(like(nth)).unwrap_or(WHOLE_KEY),
            entries: (entries.into_iter())
                .map(|(key, field)| match quoted(&field) {
                    Some(text) => (key, ValueSource::Text(text)),
                    None => (key, ValueSource::Field(place(field))),
                })
                .collect(),
            came: 0,
        });
        let store = MemoryStore::new(MemoryConfig {
            max_bytes: max_bytes as u64,
            request_share: 0.0,
            hash_key: HashKey::Fixed(1), // so that a trace has the same answers each time
        });
        let default = LimiterSettings::default();
        // All requests are of one domain, which gets half of the reservations at most.
        let max_reservations = default.max_reservations.max(max_bytes / RESERVATION_BYTES);
        let settings = LimiterSettings { max_reservations, ..default };
        Ok(Self {
            domain: domain.name().to_owned(),
            charges_each: domain.charge() == Charge::Each,
            chains: chains.collect(),
            rules: policy.rules().map(|_| RuleTally::default()).collect(),
            tracks: Tracks::new(policy.rules(), max_bytes),
            reserving: (!mapping.reserve.is_empty()).then(|| Reserving::new(mapping.commit_after)),
            contest: compares_algorithms.then(|| Contest::new(policy.rules(), max_bytes)),
            limiter: Limiter::with_observer(policy.clone(), store, settings, ()),
            policy,
            scratch: Scratch::new(),
            entries: Vec::new(),
            descriptors: Vec::new(),
            ends: Vec::new(),
            key: Vec::new(),
            admitted: 0,
            denied: 0,
            bare: 0,
            unlimited: 0,
            undecided: 0,
            first_error: None,
        })
    }

    /// Ends the trace: open reservations are committed.
    pub(crate) fn finish(&mut self) {
        if let Some(reserving) = &mut self.reserving {
            reserving.finish(&self.limiter);
        }
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Descriptors for which no request had all fields.
    pub(crate) fn chains_that_never_came(&self) -> impl Iterator<Item = String> {
        let never = self.chains.iter().filter(|chain| chain.came == 0);
        never.map(|chain| chain.entries.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", "))
    }

    /// Decides a request: whether it is admitted, or `None` if it was not decided. `value` has the fields by
    /// their places.
    pub(crate) fn decide<'a>(&mut self, value: impl Fn(usize) -> Option<&'a str>, at: At) -> Option<bool> {
        let At { ns, cost, reserved, .. } = at;
        // `recycle` needs the entries of this call to live no longer than it.
        let Self { entries: kept, chains, .. } = self;
        let mut entries: Vec<Entry<'_>> = recycle(std::mem::take(kept));
        self.ends.clear();
        for chain in chains.iter_mut() {
            let like = chain.like;
            #[allow(
                clippy::redundant_closure,
                reason = "a reference to it would have to outlive the entries"
            )]
            let end = chain.append_to(&mut entries, |place| value(place));
            if let Some(end) = end {
                self.ends.push((end, like));
            }
        }
        if self.ends.is_empty() {
            self.bare += 1;
            self.admitted += 1;
            *kept = recycle(entries);
            return Some(true);
        }
        let mut begin = 0;
        let mut descriptors: Vec<Descriptor<'_>> = recycle(std::mem::take(&mut self.descriptors));
        for &(end, _) in &self.ends {
            descriptors.push(Descriptor::new(&entries[begin..end]));
            begin = end;
        }
        let now = Timestamp::from_nanos(shifted(ns));
        let hits = reserved.unwrap_or(cost);
        let request = Request { domain: &self.domain, descriptors: &descriptors, hits };
        let asked = ask(&self.limiter, self.reserving.as_mut(), &request, cost, now, &mut self.scratch);
        let answer = match asked {
            Ok(answer) => answer,
            Err(error) => {
                self.undecided += 1;
                self.first_error.get_or_insert(error);
                self.descriptors = recycle(descriptors);
                *kept = recycle(entries);
                return None;
            }
        };
        let is_admitted = answer.is_admitted();
        let mut is_limited = false;
        let queues = answer.descriptors().any(|it| it.rule.is_some_and(|rule| rule.max_wait.is_some()));
        let is_apart = self.reserving.is_none() && !queues && self.charges_each;
        let asked = request.descriptors.iter().zip(&self.ends);
        for ((descriptor, &(_, like)), answered) in asked.zip(answer.descriptors()) {
            let Some(rule) = answered.rule else { continue };
            is_limited = true;
            let Some(tally) = self.rules.get_mut(rule.index) else { continue };
            tally.add(&answered, cost);
            if rule.limits.is_empty() || answered.kind != Kind::Limited {
                continue;
            }
            write_key(rule, &self.domain, descriptor.entries, like, &mut self.key);
            let admits = answered.decision.map_or(answered.is_admitted(), |decision| decision.is_admitted());
            let how = How {
                admits,
                admits_in_trial: admits && !answered.is_shadowed,
                counts: is_admitted || answered.is_charged || !admits,
                is_apart,
            };
            self.tracks.decided(&self.key, rule.index, cost, ns, how);
            if let Some(contest) = &mut self.contest {
                contest.offered(&self.key, rule.index, cost, ns, now);
            }
        }
        drop(answer);
        self.unlimited += u64::from(!is_limited);
        self.admitted += u64::from(is_admitted);
        self.denied += u64::from(!is_admitted);
        self.descriptors = recycle(descriptors);
        *kept = recycle(entries);
        Some(is_admitted)
    }
}

/// Takes the permits of a request, or reserves them if there are reservations.
fn ask<'s>(
    limiter: &Limiter<MemoryStore, ()>,
    reserving: Option<&mut Reserving>,
    request: &Request<'_>,
    cost: u64,
    now: Timestamp,
    scratch: &'s mut Scratch,
) -> Result<Answer<'s, ()>, String> {
    let Some(reserving) = reserving else {
        return block_on(limiter.decide(request, now, scratch)).map_err(|error| error.to_string());
    };
    reserving.commit_due(limiter, now);
    let reserved = block_on(limiter.reserve(request, Reserving::terms(), now, scratch));
    let reserved = reserved.map_err(|error| error.to_string())?;
    if let Some(id) = reserved.id {
        reserving.made(id, cost, now);
    }
    Ok(reserved.answer)
}

/// The keys of a rule's entries, each with the fields that it is taken from.
fn keys_of(rule: &Rule) -> Vec<(String, Wanted)> {
    let levels = rule.path.split(PATH_SEPARATOR);
    let keys = levels.map(|level| level.split(['=', ' ']).next().unwrap_or(level));
    keys.map(|key| (key.to_owned(), fields_of(key))).collect()
}

/// A time on the clock that rules see.
const fn shifted(ns: u64) -> u64 {
    if ns < 100_000_000_000_000_000 { ns + TEN_YEARS_NS } else { ns }
}

/// In place of a chain: the whole key of the counter follows.
const WHOLE_KEY: u16 = u16::MAX;
/// In no value, since it is in no text.
const AFTER_VALUE: u8 = 0xff;

/// In place of the number of a rule: the counter of a bucket follows, which several rules share.
const OF_A_BUCKET: u32 = u32::MAX;

/// Whether the one limit of a rule is that of a bucket.
pub(crate) fn has_bucket(rule: &Rule) -> bool {
    matches!(rule.limits.as_slice(), [limit] if limit.bucket.is_some())
}

/// Writes the key under which requests of a rule are tracked together: the number of the rule, and the
/// values, or what the rule counts in place of them. The key of the counter would do as well and takes longer
/// to write.
#[inline]
fn write_key(rule: &Rule, domain: &str, entries: &[Entry<'_>], like: u16, key: &mut Vec<u8>) {
    key.clear();
    let like = if rule.counts_values() { like } else { WHOLE_KEY };
    let number = if has_bucket(rule) { OF_A_BUCKET } else { rule.index as u32 };
    key.extend_from_slice(&number.to_be_bytes());
    key.extend_from_slice(&like.to_be_bytes());
    if like == WHOLE_KEY {
        rule.write_key(0, domain, entries, key);
        return;
    }
    for entry in entries {
        key.extend_from_slice(entry.value);
        key.push(AFTER_VALUE);
    }
}

impl Side {
    /// The key of the counter for a tracked key.
    pub(crate) fn key_text(&self, key: &[u8]) -> String {
        let Some((&[a, b, c, d, e, f], rest)) = key.split_first_chunk() else { return String::new() };
        let rule = self.policy.rules().nth(u32::from_be_bytes([a, b, c, d]) as usize);
        let chain = self.chains.get(usize::from(u16::from_be_bytes([e, f])));
        let mut text = rest.to_vec();
        if let Some((rule, chain)) = rule.zip(chain) {
            let values = rest.split(|byte| *byte == AFTER_VALUE);
            let keys = chain.entries.iter().map(|(key, _)| key);
            let entries: Vec<_> = keys.zip(values).map(|(key, value)| Entry::new(key, value)).collect();
            text.clear();
            rule.write_key(0, &self.domain, &entries, &mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
