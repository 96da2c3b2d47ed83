//! The shares of what all callers have in common (open reservations, places of requests that wait): the
//! places and bytes that each domain and each caller has, and how many of them one may have.
//!
//! A caller is a domain and the first entry of the first descriptor that asks for permits. It may have as
//! many places as are free, so half of them at most; and the fewer are free, the fewer it may have. n callers
//! that want all they can get have one of n + 1 parts each, and one part stays free for others. A domain may
//! have [`OF_DOMAIN`] times as many places as are free, so four fifths at most. The same holds for bytes.
//!
//! Names are kept as hashes with a random seed. Two callers with equal hashes would share a share.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_policy::{Entry, ValueRoom, seen_alone};

const PARTS: usize = 16;
/// What a caller may have, in parts of what is free.
const OF_CALLER: u64 = 1;
/// What a domain may have, in parts of what is free.
const OF_DOMAIN: u64 = 4;

/// Whose share of the open reservations it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationShare {
    /// A domain and the first entry of the first descriptor that asks for permits.
    Caller,
    /// A domain.
    Domain,
}

impl fmt::Display for ReservationShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "this domain and first entry",
            Self::Domain => "this domain",
        })
    }
}

/// Whose reservation or place it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    caller: u64,
    domain: u64,
}

/// Places and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) places: u64,
    pub(crate) bytes: u64,
}

impl Room {
    /// The places with `more` are at most `times` of what is `free`, and the bytes were less.
    const fn is_below(self, more: Self, free: Self, times: u64) -> bool {
        self.places.saturating_add(more.places) <= free.places.saturating_mul(times)
            && self.bytes < free.bytes.saturating_mul(times)
    }
}

/// What each holder has.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    hasher: RandomState,
    parts: [Mutex<HashMap<u64, Room>>; PARTS],
}

impl Shares {
    /// Whoever reserves in `domain`, by the first entry.
    pub(crate) fn holder(&self, domain: &str, first: Option<&Entry<'_>>) -> Holder {
        // A port of its own makes no caller of its own.
        let mut room = ValueRoom::new();
        let first = first.map(|entry| seen_alone(*entry, &mut room)).map(|entry| (entry.key, entry.value));
        Holder { caller: self.hasher.hash_one((domain, first)), domain: self.hasher.hash_one(domain) }
    }

    /// Gives `holder` as much `more`, unless it has its share of what is `free`.
    pub(crate) fn take(
        &self,
        holder: Holder,
        more: Room,
        free: Room,
    ) -> Result<(), (ReservationShare, Room)> {
        self.add(holder.caller, more, free, OF_CALLER).map_err(|has| (ReservationShare::Caller, has))?;
        self.add(holder.domain, more, free, OF_DOMAIN).map_err(|has| {
            self.remove(holder.caller, more);
            (ReservationShare::Domain, has)
        })
    }

    /// Takes it back.
    pub(crate) fn give_back(&self, holder: Holder, held: Room) {
        self.remove(holder.caller, held);
        self.remove(holder.domain, held);
    }

    fn add(&self, name: u64, more: Room, free: Room, times: u64) -> Result<(), Room> {
        let mut part = self.part(name);
        let has = part.get(&name).copied().unwrap_or_default();
        if !has.is_below(more, free, times) {
            return Err(has);
        }
        part.insert(name, Room { places: has.places + more.places, bytes: has.bytes + more.bytes });
        Ok(())
    }

    fn remove(&self, name: u64, held: Room) {
        let mut part = self.part(name);
        let Some(has) = part.get_mut(&name) else { return };
        has.places = has.places.saturating_sub(held.places);
        has.bytes = has.bytes.saturating_sub(held.bytes);
        if has.places == 0 {
            part.remove(&name);
        }
    }

    fn part(&self, name: u64) -> MutexGuard<'_, HashMap<u64, Room>> {
        self.parts[(name % PARTS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes places in `domain` until it gets no more; the first entries are those of `caller`.
    fn fill(
        shares: &Shares,
        free: &mut Room,
        domain: &str,
        caller: impl Fn(u64) -> u64,
    ) -> (u64, ReservationShare) {
        let mut made = 0;
        loop {
            let value = caller(made).to_string();
            let holder = shares.holder(domain, Some(&Entry::new("user", &value)));
            match shares.take(holder, Room { places: 1, bytes: 10 }, *free) {
                Ok(()) => *free = Room { places: free.places - 1, bytes: free.bytes - 10 },
                Err((of, _)) => return (made, of),
            }
            made += 1;
        }
    }

    #[test]
    fn a_caller_gets_half_a_domain_four_fifths_and_those_that_come_later_their_part_of_the_rest() {
        use ReservationShare::{Caller, Domain};
        for room in [Room { places: 1_000, bytes: 1 << 40 }, Room { places: 1 << 40, bytes: 10_000 }] {
            let (shares, mut free) = (Shares::default(), room);
            assert_eq!(fill(&shares, &mut free, "a", |_| 0), (500, Caller));
            assert_eq!(fill(&shares, &mut free, "b", |_| 0), (250, Caller));
            // Its callers have other names each time, so that only the domain has a share.
            assert_eq!(fill(&shares, &mut free, "a", |nth| 1 + nth), (100, Domain));
            assert_eq!(fill(&shares, &mut free, "c", |nth| nth), (120, Domain));
            assert_eq!(fill(&shares, &mut free, "a", |nth| 1_000 + nth), (0, Domain));
            // Of 30 that are left, each further domain gets some.
            for domain in 0..30 {
                let (made, _) = fill(&shares, &mut free, &domain.to_string(), |_| 0);
                assert!(made > 0 || free.places.min(free.bytes) == 0, "domain {domain}, {free:?}");
            }
        }
    }

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let (shares, free) = (Shares::default(), Room { places: 9, bytes: 9_000 });
        let (holder, two) = (shares.holder("a", None), Room { places: 2, bytes: 7 });
        for _ in 0..3 {
            shares.take(holder, two, free).expect("it is below its share");
        }
        (0..3).for_each(|_| shares.give_back(holder, two));
        assert!((0..PARTS as u64).all(|part| shares.part(part).is_empty()));
    }
}
