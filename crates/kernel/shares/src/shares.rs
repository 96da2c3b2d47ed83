//! The places and bytes of each holder, and whether it may have more.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};

use parking_lot::{Mutex, MutexGuard};

const PARTS: usize = 16;

/// A holder, and its factor: it may have at most that many times the free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The holder's name, as [`Shares::name`] returns it.
    pub name: u64,
    /// 1: half of everything at most. 4: four fifths.
    pub times: u64,
}

/// Places and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Number of places.
    pub places: u64,
    /// Bytes that these places hold.
    pub bytes: u64,
}

impl Room {
    /// One place that holds nothing.
    pub const PLACE: Self = Self { places: 1, bytes: 0 };

    /// The places with `more` are at most `times` of those that are `free`, and the bytes were less.
    const fn is_below(self, more: Self, free: Self, times: u64) -> bool {
        self.places.saturating_add(more.places) <= free.places.saturating_mul(times)
            && self.bytes < free.bytes.saturating_mul(times)
    }
}

/// The places and bytes of each holder.
///
/// # Example
/// ```
/// # use tollgate_shares::{Part, Room, Shares};
/// let shares = Shares::default();
/// let ann = [Part { name: shares.name("ann"), times: 1 }];
/// let free = |places| Room { places, bytes: 1 };
/// assert!(shares.take(&ann, Room::PLACE, free(3)).is_ok());
/// // Of the two that are left she may have as many as she has then.
/// assert!(shares.take(&ann, Room::PLACE, free(2)).is_ok());
/// assert!(shares.take(&ann, Room::PLACE, free(1)).is_err());
/// ```
#[derive(Debug, Default)]
pub struct Shares {
    hasher: RandomState,
    parts: [Mutex<HashMap<u64, Room>>; PARTS],
}

impl Shares {
    /// The name of a holder.
    pub fn name(&self, holder: impl Hash) -> u64 {
        self.hasher.hash_one(holder)
    }

    /// Gives every one of `holders` as much as `more`, unless one has its share of the `free` room.
    ///
    /// # Errors
    /// The index of that holder in the list, and the room that it has; nothing is given then.
    pub fn take(&self, holders: &[Part], more: Room, free: Room) -> Result<(), (usize, Room)> {
        for (place, holder) in holders.iter().enumerate() {
            if let Err(has) = self.add(*holder, more, free) {
                self.give_back(holders[..place].iter().map(|it| it.name), more);
                return Err((place, has));
            }
        }
        Ok(())
    }

    /// Takes back the room that every one of `holders` was given.
    pub fn give_back(&self, holders: impl IntoIterator<Item = u64>, held: Room) {
        for name in holders {
            let mut part = self.part(name);
            let Some(has) = part.get_mut(&name) else { continue };
            has.places = has.places.saturating_sub(held.places);
            has.bytes = has.bytes.saturating_sub(held.bytes);
            if has.places == 0 {
                part.remove(&name);
            }
        }
    }

    /// Whether no holder has anything.
    pub fn is_empty(&self) -> bool {
        (0..PARTS as u64).all(|part| self.part(part).is_empty())
    }

    fn add(&self, Part { name, times }: Part, more: Room, free: Room) -> Result<(), Room> {
        let mut part = self.part(name);
        let has = part.get(&name).copied().unwrap_or_default();
        if !has.is_below(more, free, times) {
            return Err(has);
        }
        let places = has.places.saturating_add(more.places);
        let bytes = has.bytes.saturating_add(more.bytes);
        part.insert(name, Room { places, bytes });
        Ok(())
    }

    fn part(&self, name: u64) -> MutexGuard<'_, HashMap<u64, Room>> {
        self.parts[(name % PARTS as u64) as usize].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_is_refused_takes_nothing_from_the_others() {
        let shares = Shares::default();
        let free = Room { places: 4, bytes: 1 };
        let holders = |user: &str| {
            [Part { name: shares.name(user), times: 1 }, Part { name: shares.name("all"), times: 4 }]
        };
        let taken = (0..9).filter(|_| shares.take(&holders("a"), Room::PLACE, free).is_ok()).count();
        assert_eq!(taken, 4);
        assert_eq!(shares.take(&holders("a"), Room::PLACE, free), Err((0, Room { places: 4, bytes: 0 })));
        let all = (0..90).filter(|nth| {
            let user = format!("b{nth}");
            shares.take(&holders(&user), Room::PLACE, free).is_ok()
        });
        assert_eq!(all.count(), 12, "sixteen of the wide holder, with the four of a");
        (0..4).for_each(|_| shares.give_back(holders("a").map(|it| it.name), Room::PLACE));
        (0..12).for_each(|nth| {
            shares.give_back(holders(&format!("b{nth}")).map(|it| it.name), Room::PLACE);
        });
        assert!(shares.is_empty());
    }
}
