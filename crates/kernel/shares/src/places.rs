//! Places that are counted, with a share for each holder and a reserve. A place is free as soon as it is
//! dropped.

use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::shares::{Part, Room, Shares};

/// Places of one kind.
#[derive(Debug)]
pub struct Places {
    total: Room,
    /// Places and bytes only for holders that may use the reserve.
    reserve: Room,
    taken: Mutex<Room>,
    shares: Shares,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    holders: Vec<u64>,
    room: Room,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// None is free.
    All,
    /// The holder at this place of the list has its share.
    Share(usize),
}

impl Places {
    /// `total` in all, of which `reserve` is only for holders that may use the reserve.
    #[must_use]
    pub fn new(total: Room, reserve: Room) -> Arc<Self> {
        let reserve =
            Room { places: reserve.places.min(total.places), bytes: reserve.bytes.min(total.bytes) };
        Arc::new(Self { total, reserve, taken: Mutex::default(), shares: Shares::default() })
    }

    /// `total` places that hold nothing.
    #[must_use]
    pub fn of(total: u64, reserve: u64) -> Arc<Self> {
        let room = |places| Room { places, bytes: 1 };
        Self::new(room(total), Room { places: reserve, bytes: 0 })
    }

    /// Takes `room` for `holders`, each with its factor: it may have at most that many times the free room.
    /// For holders that may use the reserve, the reserve counts as free.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(
        self: &Arc<Self>,
        holders: &[(&dyn Named, u64)],
        room: Room,
        may_have_reserve: bool,
    ) -> Result<Place, Full> {
        let parts: Vec<Part> = holders
            .iter()
            .map(|(holder, times)| Part { name: holder.name_in(&self.shares), times: *times })
            .collect();
        let mut taken = self.taken();
        let reserve = if may_have_reserve { Room::default() } else { self.reserve };
        let free = |total: u64, reserve: u64, taken: u64| total.saturating_sub(reserve).saturating_sub(taken);
        let free = Room {
            places: free(self.total.places, reserve.places, taken.places),
            bytes: free(self.total.bytes, reserve.bytes, taken.bytes),
        };
        if free.places < room.places || free.bytes < room.bytes {
            return Err(Full::All);
        }
        self.shares.take(&parts, room, free).map_err(|(place, _)| Full::Share(place))?;
        taken.places += room.places;
        taken.bytes += room.bytes;
        drop(taken);
        let holders = parts.into_iter().map(|it| it.name).collect();
        Ok(Place { places: Arc::clone(self), holders, room })
    }

    /// The places and bytes that are taken now.
    #[must_use]
    pub fn in_use(&self) -> Room {
        *self.taken()
    }

    fn taken(&self) -> MutexGuard<'_, Room> {
        self.taken.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.places = taken.places.saturating_sub(self.room.places);
        taken.bytes = taken.bytes.saturating_sub(self.room.bytes);
        self.places.shares.give_back(self.holders.iter().copied(), self.room);
    }
}

/// A holder, identified by a name.
pub trait Named {
    /// Its name in these shares.
    fn name_in(&self, shares: &Shares) -> u64;
}

impl<T: Hash> Named for T {
    fn name_in(&self, shares: &Shares) -> u64 {
        shares.name(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_has_half_the_next_a_quarter_and_the_reserve_is_kept_for_those_who_may_have_it() {
        let places = Places::of(110, 10);
        let take = |who: &str, may| places.take(&[(&who, 1)], Room::PLACE, may);
        let mut kept: Vec<Place> = Vec::new();
        for (who, gets) in [("a", 50), ("b", 25), ("c", 13), ("a", 0)] {
            let before = kept.len();
            kept.extend(std::iter::from_fn(|| take(who, false).ok()));
            assert_eq!(kept.len() - before, gets, "{who}");
        }
        assert_eq!(take("a", false).err(), Some(Full::Share(0)));
        kept.extend((0..13).map_while(|nth| take(&nth.to_string(), false).ok()));
        assert_eq!(take("d", false).err(), Some(Full::All), "the rest is the reserve");
        for who in ["operator", "another"] {
            kept.push(take(who, true).expect("a place of the reserve"));
        }
        assert_eq!(places.in_use().places, 102);
        drop(kept);
        assert_eq!(places.in_use(), Room::default());
        assert!(places.shares.is_empty() && take("a", false).is_ok(), "all of them are free at once");
    }

    #[test]
    fn bytes_have_shares_as_places_have() {
        let places = Places::new(Room { places: 100, bytes: 1_000 }, Room { places: 0, bytes: 100 });
        let take = |who: &str, bytes, may| places.take(&[(&who, 1)], Room { places: 1, bytes }, may);
        let first = take("a", 600, false).expect("less than what is free");
        assert_eq!(take("a", 1, false).err(), Some(Full::Share(0)), "it has more than is left");
        assert_eq!(take("b", 301, false).err(), Some(Full::All));
        let _second = take("b", 300, false).expect("what is left");
        assert_eq!(take("c", 1, false).err(), Some(Full::All));
        assert!(take("operator", 100, true).is_ok());
        drop(first);
        assert!(take("a", 1, false).is_ok());
    }
}
