//! Blocks and allowances by operators: a key, a caller or a whole domain, for a time, whatever the rules say.
//!
//! A request pays for them only where there are any for its domain ([`Rules::usual`](crate::rules::Rules)
//! finds no other). Values are compared as they were sent, except that all spellings of an address are equal,
//! and that a list of addresses counts as the address that the rules name. Not here: the rights to set them,
//! and their durations (the control plane); quotas that come with a request, which belong to no domain.

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use tollgate_core::{Decision, Outcome, Timestamp, nanos};
use tollgate_observe::{Intervened, Kind, Status};
use tollgate_policy::{Domain, Entry, EntryReading, ValueRoom, seen_alone};

/// Most interventions in force.
pub const MAX_INTERVENTIONS: usize = 50_000;
/// Most bytes of their texts together.
pub const MAX_INTERVENTION_BYTES: usize = 32 << 20;
/// Most entries of one intervention.
pub const MAX_INTERVENTION_ENTRIES: usize = 16;
/// Longest time that an intervention is in force.
pub const LONGEST_INTERVENTION: Duration = Duration::from_secs(30 * 86_400);

/// Key and value of an entry.
type OwnEntry = (Box<[u8]>, Box<[u8]>);

/// A block or an allowance of requests in `domain` that begin with `entries`, until an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervention {
    /// Name of the domain.
    pub domain: String,
    /// The first entries of a descriptor, as key and value; none for the whole domain.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether to block or to allow.
    pub action: Intervened,
    /// The instant at which it ends.
    pub until: Timestamp,
}

/// Result of putting a list of interventions in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intervening {
    /// Interventions that are in force now.
    pub in_force: usize,
    /// Interventions that were over already.
    pub ended: usize,
    /// Interventions above a cap, which are not in force.
    pub dropped: usize,
}

/// The intervention that applies to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InForce {
    /// Whether requests are blocked or allowed.
    pub action: Intervened,
    /// Number of the descriptor's entries that it names; 0 for the whole domain.
    pub entries: usize,
    /// Time until it ends.
    pub left: Duration,
}

/// All interventions in force.
#[derive(Debug, Default)]
pub(crate) struct Interventions {
    domains: Vec<OfDomain>,
    /// Places in `domains`.
    by_name: HashMap<Box<str>, usize>,
}

/// The interventions in one domain.
#[derive(Debug, Default)]
pub(crate) struct OfDomain {
    name: Box<str>,
    /// Bit `n` is set if an intervention names `n` entries.
    lengths: u32,
    table: HashTable<OwnIntervention>,
    hasher: DefaultHashBuilder,
    /// When the last of them ends.
    last: Timestamp,
}

#[derive(Debug)]
struct OwnIntervention {
    entries: Box<[OwnEntry]>,
    action: Intervened,
    until: Timestamp,
}

impl OwnIntervention {
    /// Whether it is about these `entries`; `seen` are the entries as the rules read them.
    #[inline]
    fn names(&self, entries: &[Entry<'_>], seen: &[EntryReading<'_>]) -> bool {
        let same = |(own, (entry, seen)): (&OwnEntry, (&Entry<'_>, &EntryReading<'_>))| {
            // `10.0.0.1:80` may be a host, so only an address alone stands for all of its spellings. Nothing
            // is allowed for a list whose last address a proxy in between may have written.
            let is_seen =
                *own.1 == *seen.entry.value && !(seen.is_unnamed && self.action == Intervened::Allowed);
            *own.0 == *entry.key && (is_seen || *own.1 == *entry.value)
        };
        let both = entries.iter().zip(seen);
        self.entries.len() == entries.len() && self.entries.iter().zip(both).all(same)
    }
}

/// The value of an intervention: an address alone in its canonical spelling, anything else as it is.
fn kept_value(value: Vec<u8>) -> Box<[u8]> {
    let ip = std::str::from_utf8(&value).ok().and_then(|text| text.parse::<std::net::IpAddr>().ok());
    match ip {
        Some(ip) => ip.to_canonical().to_string().into_bytes().into(),
        None => value.into(),
    }
}

impl Interventions {
    /// Takes the interventions of `list` that are not over at `now`, as far as the caps allow. Of two for the
    /// same entries, a block precedes an allowance, and the later end precedes the earlier.
    pub(crate) fn new(list: Vec<Intervention>, now: Timestamp) -> (Self, Intervening) {
        let mut all = Self::default();
        let mut result = Intervening::default();
        let mut bytes = 0;
        for one in list {
            if one.until <= now {
                result.ended += 1;
                continue;
            }
            let text: usize = one.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
            bytes += one.domain.len() + text;
            let is_too_much = result.in_force >= MAX_INTERVENTIONS || bytes > MAX_INTERVENTION_BYTES;
            if is_too_much || one.entries.len() > MAX_INTERVENTION_ENTRIES {
                result.dropped += 1;
                continue;
            }
            result.in_force += usize::from(all.insert(one, now));
        }
        (all, result)
    }

    /// Adds an intervention; returns whether it is a further one.
    fn insert(&mut self, one: Intervention, now: Timestamp) -> bool {
        let until = one.until.min(now + LONGEST_INTERVENTION);
        let next = self.domains.len();
        let place = *self.by_name.entry(one.domain.clone().into()).or_insert(next);
        if place == next {
            self.domains.push(OfDomain { name: one.domain.into(), ..OfDomain::default() });
        }
        let Some(of) = self.domains.get_mut(place) else { return false };
        of.last = of.last.max(until);
        of.lengths |= 1 << one.entries.len();
        let entries: Box<[OwnEntry]> =
            one.entries.into_iter().map(|(key, value)| (key.into(), kept_value(value))).collect();
        let hash = hash_of(&of.hasher, &entries);
        if let Some(same) = of.table.find_mut(hash, |it| it.entries == entries) {
            let is_stronger = match (one.action, same.action) {
                (Intervened::Blocked, Intervened::Allowed) => true,
                (Intervened::Allowed, Intervened::Blocked) => false,
                _ => until > same.until,
            };
            if is_stronger {
                (same.action, same.until) = (one.action, until);
            }
            return false;
        }
        let hasher = of.hasher.clone();
        of.table.insert_unique(hash, OwnIntervention { entries, action: one.action, until }, |it| {
            hash_of(&hasher, &it.entries)
        });
        true
    }

    /// The interventions in `domain`, if there are any.
    pub(crate) fn of(&self, domain: &str) -> Option<&OfDomain> {
        self.domains.get(*self.by_name.get(domain)?)
    }

    /// As [`of`](Self::of), for a domain that is probably at `slot` of the list.
    #[inline]
    pub(crate) fn at(&self, slot: usize, domain: &str) -> Option<&OfDomain> {
        match self.domains.get(slot) {
            Some(of) if *of.name == *domain => Some(of),
            _ => self.of(domain), // the list has been replaced meanwhile
        }
    }

    /// Slot of `domain` in the list, unless all of its interventions are over at `now`.
    pub(crate) fn slot(&self, domain: &str, now: Timestamp) -> Option<usize> {
        let slot = *self.by_name.get(domain)?;
        self.domains.get(slot).filter(|of| !of.is_over(now)).map(|_| slot)
    }
}

impl OfDomain {
    /// Whether all of them are over at `now`.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.last
    }

    /// The intervention that applies to a descriptor of `entries`: of several, the one that names the most of
    /// them. `rules` are those of the domain, if it has any.
    pub(crate) fn find(
        &self,
        rules: Option<&Domain>,
        entries: &[Entry<'_>],
        now: Timestamp,
    ) -> Option<InForce> {
        let mut rooms = [ValueRoom::new(); MAX_INTERVENTION_ENTRIES];
        let mut seen = [const { EntryReading { entry: Entry { key: &[], value: &[] }, is_unnamed: false } };
            MAX_INTERVENTION_ENTRIES];
        match rules {
            Some(rules) => seen.iter_mut().zip(rules.seen(entries, &mut rooms)).for_each(|(to, it)| *to = it),
            None => {
                for ((to, entry), room) in seen.iter_mut().zip(entries).zip(&mut rooms) {
                    to.entry = seen_alone(*entry, room);
                }
            }
        }
        let mut hasher = self.hasher.build_hasher();
        let mut found = None;
        for named in 0..=entries.len().min(MAX_INTERVENTION_ENTRIES) {
            if named > 0 {
                write(&mut hasher, &seen[named - 1].entry);
            }
            if self.lengths >> named == 0 {
                break;
            }
            if self.lengths >> named & 1 == 0 {
                continue;
            }
            let entries = &entries[..named];
            let seen = &seen[..named];
            let names = |it: &OwnIntervention| now < it.until && it.names(entries, seen);
            if let Some(kept) = self.table.find(hasher.clone().finish(), names) {
                found = Some((kept, named));
            }
        }
        let (kept, entries) = found?;
        Some(InForce { action: kept.action, entries, left: kept.until.since(now) })
    }
}

/// Hash of the entries, read as those of a request.
fn hash_of(hasher: &DefaultHashBuilder, entries: &[OwnEntry]) -> u64 {
    let mut hasher = hasher.build_hasher();
    let mut room = ValueRoom::new();
    for (key, value) in entries {
        write(&mut hasher, &seen_alone(Entry::new(key, value), &mut room));
    }
    hasher.finish()
}

#[inline]
fn write(hasher: &mut impl std::hash::Hasher, entry: &Entry<'_>) {
    hasher.write(entry.key);
    hasher.write(entry.value);
    hasher.write_usize(entry.key.len());
}

impl InForce {
    /// Makes `status` that of a descriptor with this intervention.
    pub(crate) fn apply(&self, status: &mut Status) {
        status.is_shadow_rule = false;
        match self.action {
            Intervened::Blocked => {
                let left = nanos(self.left);
                (status.kind, status.outcome, status.remaining) = (Kind::Blocked, Outcome::Deny, 0);
                status.decision = Some(Decision::deny(0, 0, left, left));
                status.is_quota = false;
            }
            Intervened::Allowed => {
                (status.kind, status.outcome, status.remaining) = (Kind::Allowed, Outcome::Admit, u64::MAX);
            }
        }
    }
}

impl std::fmt::Display for InForce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.action {
            Intervened::Blocked => "blocked",
            Intervened::Allowed => "allowed without being counted",
        };
        let seconds = Duration::from_secs(self.left.as_nanos().div_ceil(1_000_000_000) as u64);
        write!(f, "{what} for another {seconds:?}")?;
        match self.entries {
            0 => f.write_str(", as is the whole domain"),
            1 => f.write_str(", by its first entry"),
            named => write!(f, ", by its first {named} entries"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

    fn one(entries: &[(&str, &str)], action: Intervened, seconds: u64) -> Intervention {
        let entries =
            entries.iter().map(|(key, value)| (key.as_bytes().into(), value.as_bytes().into())).collect();
        Intervention {
            domain: "shop".to_owned(),
            entries,
            action,
            until: NOON + Duration::from_secs(seconds),
        }
    }

    fn found(all: &Interventions, entries: &[(&str, &str)], after: u64) -> Option<(Intervened, usize, u64)> {
        let entries: Vec<_> = entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
        let found = all.of("shop")?.find(None, &entries, NOON + Duration::from_secs(after))?;
        Some((found.action, found.entries, found.left.as_secs()))
    }

    #[test]
    fn the_one_that_names_most_applies_until_it_ends() {
        use Intervened::{Allowed, Blocked};
        let list = vec![
            one(&[], Blocked, 30),
            one(&[("user", "ann")], Allowed, 10),
            one(&[("user", "ann"), ("path", "/b")], Blocked, 20),
        ];
        let (all, result) = Interventions::new(list, NOON);
        assert_eq!((result.in_force, result.dropped), (3, 0));
        let ann = [("user", "ann")];
        let both = [("user", "ann"), ("path", "/b")];
        let more = [both[0], both[1], ("method", "GET")];
        for (entries, after, want) in [
            (&ann[..], 0, Some((Allowed, 1, 10))),
            (&ann, 9, Some((Allowed, 1, 1))),
            (&ann, 10, Some((Blocked, 0, 20))), // that of the domain is left
            (&both, 10, Some((Blocked, 2, 10))),
            (&more, 19, Some((Blocked, 2, 1))), // it begins as that does
            (&[("user", "bob")], 0, Some((Blocked, 0, 30))),
            (&[("use", "rann")], 0, Some((Blocked, 0, 30))), // the same bytes, cut elsewhere
            (&more, 30, None),
        ] {
            assert_eq!(found(&all, entries, after), want, "{entries:?} after {after} s");
        }
        assert_eq!(all.slot("shop", NOON + Duration::from_secs(29)), Some(0));
        assert_eq!(all.slot("shop", NOON + Duration::from_secs(30)), None);
        assert_eq!(all.slot("bank", NOON), None);
        assert!(all.at(7, "shop").is_some() && all.at(0, "bank").is_none());
    }

    #[test]
    fn a_block_goes_before_an_allowance_and_the_later_end_before_the_earlier() {
        use Intervened::{Allowed, Blocked};
        for list in [[(Blocked, 5), (Allowed, 9), (Blocked, 7)], [(Allowed, 9), (Blocked, 7), (Blocked, 5)]] {
            let list = list.map(|(action, seconds)| one(&[("user", "ann")], action, seconds)).to_vec();
            let (all, result) = Interventions::new(list, NOON);
            assert_eq!(result.in_force, 1);
            assert_eq!(found(&all, &[("user", "ann")], 0), Some((Blocked, 1, 7)));
        }
    }

    #[test]
    fn none_holds_for_more_than_thirty_days_and_what_is_over_is_not_kept() {
        let list =
            vec![one(&[], Intervened::Blocked, 31 * 86_400), one(&[("a", "b")], Intervened::Allowed, 0)];
        let (all, result) = Interventions::new(list, NOON);
        assert_eq!((result.in_force, result.ended), (1, 1));
        assert_eq!(found(&all, &[("a", "b")], 0), Some((Intervened::Blocked, 0, 30 * 86_400)));
    }

    #[test]
    fn what_is_above_a_cap_is_dropped_and_said() {
        let values: Vec<String> = (0..=MAX_INTERVENTIONS).map(|n| n.to_string()).collect();
        let list = values.iter().map(|value| one(&[("user", value)], Intervened::Blocked, 9)).collect();
        let (all, result) = Interventions::new(list, NOON);
        assert_eq!((result.in_force, result.dropped), (MAX_INTERVENTIONS, 1));
        assert!(found(&all, &[("user", "49999")], 0).is_some());
        assert!(found(&all, &[("user", "50000")], 0).is_none());
        let long = "x".repeat(MAX_INTERVENTION_BYTES / 4);
        let list = ["a", "b", "c", "d"].map(|key| one(&[(key, &long)], Intervened::Blocked, 9)).to_vec();
        let (_, result) = Interventions::new(list, NOON);
        assert_eq!((result.in_force, result.dropped), (3, 1));
        let deep = [("a", "b"); MAX_INTERVENTION_ENTRIES + 1];
        let list = vec![one(&deep[1..], Intervened::Blocked, 9), one(&deep, Intervened::Blocked, 9)];
        assert_eq!(Interventions::new(list, NOON).1.dropped, 1);
    }
}
