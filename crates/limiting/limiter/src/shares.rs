//! Shares of common resources: open reservations, and places of requests that wait.
//!
//! A caller is a domain and the first entry of the first descriptor that asks for permits. It may have half
//! of the places and bytes at most, a domain four fifths; the rule is that of [`tollgate_shares`].

use std::fmt;

use tollgate_policy::{Entry, ValueRoom, seen_alone};
use tollgate_shares::{Part, Shares as Parts};

pub(crate) use tollgate_shares::Room;

/// Multiple of the free places and bytes that a caller may hold.
const OF_CALLER: u64 = 1;
/// Multiple of the free places and bytes that a domain may hold.
const OF_DOMAIN: u64 = 4;

/// Owner of a share of the open reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationShare {
    /// A domain and the first entry of the first descriptor that asks for permits.
    Caller,
    /// A domain with all of its callers.
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

/// Owner of a reservation or a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    caller: u64,
    domain: u64,
}

/// The places and bytes of each holder.
#[derive(Debug, Default)]
pub(crate) struct Shares(Parts);

impl Shares {
    /// The holder in `domain`, by the first entry.
    pub(crate) fn holder(&self, domain: &str, first: Option<&Entry<'_>>) -> Holder {
        // Another port of the same address is the same caller.
        let mut room = ValueRoom::new();
        let first = first.map(|entry| seen_alone(*entry, &mut room)).map(|entry| (entry.key, entry.value));
        Holder { caller: self.0.name((domain, first)), domain: self.0.name(domain) }
    }

    /// Gives `holder` `more` places and bytes, unless it has its share of what is `free`.
    pub(crate) fn take(
        &self,
        holder: Holder,
        more: Room,
        free: Room,
    ) -> Result<(), (ReservationShare, Room)> {
        let parts =
            [Part { name: holder.caller, times: OF_CALLER }, Part { name: holder.domain, times: OF_DOMAIN }];
        let of = [ReservationShare::Caller, ReservationShare::Domain];
        self.0.take(&parts, more, free).map_err(|(place, has)| (of[usize::from(place > 0)], has))
    }

    /// Takes places and bytes back from `holder`.
    pub(crate) fn give_back(&self, holder: Holder, held: Room) {
        self.0.give_back([holder.caller, holder.domain], held);
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
            let shares = Shares::default();
            let mut free = room;
            assert_eq!(fill(&shares, &mut free, "a", |_| 0), (500, Caller));
            assert_eq!(fill(&shares, &mut free, "b", |_| 0), (250, Caller));
            // Its callers have other names each time, so that only the domain has a share.
            assert_eq!(fill(&shares, &mut free, "a", |nth| 1 + nth), (100, Domain));
            assert_eq!(fill(&shares, &mut free, "c", |nth| nth), (120, Domain));
            assert_eq!(fill(&shares, &mut free, "a", |nth| 1_000 + nth), (0, Domain));
            // Each further domain gets some of the 30 that are left.
            for domain in 0..30 {
                let (made, _) = fill(&shares, &mut free, &domain.to_string(), |_| 0);
                assert!(made > 0 || free.places.min(free.bytes) == 0, "domain {domain}, {free:?}");
            }
        }
    }

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let shares = Shares::default();
        let free = Room { places: 9, bytes: 9_000 };
        let holder = shares.holder("a", None);
        let two = Room { places: 2, bytes: 7 };
        for _ in 0..3 {
            shares.take(holder, two, free).expect("it is below its share");
        }
        (0..3).for_each(|_| shares.give_back(holder, two));
        assert!(shares.0.is_empty());
    }
}
