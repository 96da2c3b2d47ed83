//! Reservations that hold nothing: no rule matches, none limits, or 0 permits were asked for. Nothing has to
//! be remembered of them except what their ids say, so a client may have any number of them.

use super::{Ending, ReservationId, SettleError, Settled};

/// The upper half of the ids of reservations that hold nothing.
const MARK: u64 = u64::MAX;
/// Set in the lower half of reservations of 0 permits.
const OF_ZERO: u64 = 1 << 63;

/// A reservation that holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nothing {
    /// Permits that were asked for; below 2^63.
    pub(crate) hits: u64,
    /// A rule limits it, and 0 permits were asked for.
    pub(crate) is_of_zero: bool,
}

impl Nothing {
    /// The id that says so.
    pub(crate) const fn id(self) -> ReservationId {
        let low = self.hits | if self.is_of_zero { OF_ZERO } else { 0 };
        ReservationId((MARK as u128) << 64 | low as u128)
    }

    /// The reservation of this id; `None` for one that may hold something.
    pub(crate) const fn of(id: ReservationId) -> Option<Self> {
        let low = id.0 as u64;
        let is_nothing = (id.0 >> 64) as u64 == MARK;
        if is_nothing { Some(Self { hits: low & !OF_ZERO, is_of_zero: low & OF_ZERO != 0 }) } else { None }
    }

    /// An id of a reservation that holds something, made of `random` bits, the first of which is not used.
    pub(crate) const fn unlike(random: u128) -> ReservationId {
        ReservationId(random & (u128::MAX >> 1))
    }

    /// Result of settling it.
    pub(crate) fn settle(self, ending: Ending, actual: Option<u64>) -> Result<Settled, SettleError> {
        let used = actual.unwrap_or(self.hits);
        if self.is_of_zero && used > 0 {
            return Err(SettleError::HoldsNothing { actual: used });
        }
        Ok(Settled { ending, reserved: self.hits, used, is_degraded: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_was_asked_for_and_no_random_one_says_that_it_holds_nothing() {
        for hits in [0, 1, 800, (1 << 63) - 1] {
            for is_of_zero in [false, true] {
                let nothing = Nothing { hits, is_of_zero };
                assert_eq!(Nothing::of(nothing.id()), Some(nothing));
            }
        }
        for random in [0, 1, u128::MAX, u128::from(u64::MAX) << 64] {
            assert_eq!(Nothing::of(Nothing::unlike(random)), None, "{random:x}");
        }
    }
}
