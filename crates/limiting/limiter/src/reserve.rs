//! Reservations: hold the permits that a call may cost, then commit its actual cost, or cancel.
//!
//! A reservation holds the permits of all limits of all its descriptors, or none. Where a bucket will have
//! them within the time that the caller is willing to wait, they are held for that instant
//! ([`Reserved::delay`]). Until its end a reservation is settled once, by [`commit`](crate::Limiter::commit)
//! or [`cancel`](crate::Limiter::cancel); a second call returns the first result. A reservation that is not
//! settled counts as used.
//!
//! Giving back never admits more than if the permits had never been taken: permits that have flowed back by
//! themselves ([`Quota::refundable`](tollgate_core::Quota::refundable)) are not given back twice. Not here:
//! the HTTP calls (`http-api`; `docs/reservations.md` has them).

mod hold;
mod nothing;
mod settle;
pub(crate) mod table;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_observe::{Metrics, Observer};

use crate::answer::Answer;
use crate::request::RequestError;
use crate::shares::ReservationShare;

/// Longest wait for permits, and the time for which they are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveTerms {
    /// Most time from now until the permits may be used; zero wants them now. Longer times are reduced to
    /// [`longest_reservation`](crate::LimiterSettings::longest_reservation).
    pub max_wait: Duration,
    /// Time for which they are held from that instant on, before they count as used; not zero, and at most
    /// [`longest_reservation`](crate::LimiterSettings::longest_reservation).
    pub ttl: Duration,
}

impl Default for ReserveTerms {
    /// No wait, and held for a minute.
    fn default() -> Self {
        Self { max_wait: Duration::ZERO, ttl: Duration::from_secs(60) }
    }
}

/// The name of a reservation: 127 random bits, shown as 32 hexadecimal digits. A caller that knows it may
/// settle it. (The id of a reservation that holds nothing is not random.)
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReservationId(pub(crate) u128);

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Shows only the beginning, since the whole id is a secret.
impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReservationId({:08x}…)", self.0 >> 96)
    }
}

/// Not a reservation id: anything but 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reservation's id is 32 hexadecimal digits")]
pub struct BadReservationId;

impl FromStr for ReservationId {
    type Err = BadReservationId;

    fn from_str(text: &str) -> Result<Self, BadReservationId> {
        let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_one.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or(BadReservationId)
    }
}

/// The answer to a request to reserve.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reserved<'s, O: Observer = Metrics> {
    /// As [`Limiter::decide`](crate::Limiter::decide) would answer, except that the caller may wait for
    /// permits.
    pub answer: Answer<'s, O>,
    /// The id to settle it by; `None` if it is denied. (If it is granted and holds nothing, settling it
    /// changes nothing.)
    pub id: Option<ReservationId>,
    /// Time until the permits may be used; zero if they may be used at once.
    pub delay: Duration,
    /// The instant at which it counts as used, unless it is settled before.
    pub expires_at: Timestamp,
}

/// Why nothing was reserved. No permit was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The time to live is zero or too long.
    #[error(
        "a reservation lives for more than nothing and at most {longest:?}, not {ttl:?}; no permit was taken"
    )]
    BadTtl {
        /// The requested time.
        ttl: Duration,
        /// The longest time.
        longest: Duration,
    },
    /// The table of open reservations is full.
    #[error(
        "there is no room for another open reservation, of at most {most} ({most_bytes} bytes); no permit was taken"
    )]
    Full {
        /// Most reservations that may be open at a time.
        most: usize,
        /// Bytes that they may take together.
        most_bytes: u64,
    },
    /// The caller or the domain has its share of the open reservations: a domain and first entry may have as
    /// many as there are free places, a domain four times as many; the same holds for bytes.
    #[error(
        "{of} has {open} open reservations ({bytes} bytes), which is its share while {free} places ({free_bytes} \
         bytes) are free; commit or cancel some; no permit was taken"
    )]
    Share {
        /// Owner of the share.
        of: ReservationShare,
        /// Number of reservations that it has open.
        open: u64,
        /// Bytes that these take.
        bytes: u64,
        /// Places that are free.
        free: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The counters' keys are too long to be remembered.
    #[error(
        "the descriptors are too long for a reservation: {bytes} bytes of at most {most}; no permit was taken"
    )]
    LongKeys {
        /// Bytes of all keys.
        bytes: usize,
        /// Most bytes of all keys.
        most: usize,
    },
    /// The operating system returned no random numbers for an id.
    #[error("the system gives no random numbers, so that the reservation has no id; no permit was taken")]
    NoRandomness,
}

/// End of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By a commit.
    Committed,
    /// By a cancel in time.
    Cancelled,
    /// By a cancel after the instant that it had waited for: all of it counts as used.
    CancelledLate,
}

/// The result of a reservation; the same for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Kind of the end: a commit, or a cancel in time or too late.
    pub ending: Ending,
    /// Permits that were reserved at first.
    pub reserved: u64,
    /// Permits that count as used.
    pub used: u64,
    /// The store did not answer for some counters: there, permits to give back count as used, and permits to
    /// charge are not charged.
    pub is_degraded: bool,
}

impl Settled {
    /// Permits given back: those reserved and not used.
    #[must_use]
    pub const fn returned(&self) -> u64 {
        self.reserved.saturating_sub(self.used)
    }

    /// Permits charged above the reservation, a debt that later permits repay.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        self.used.saturating_sub(self.reserved)
    }
}

/// Why nothing was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// Unknown reservation: it never existed, or it expired and its permits count as used, or it was settled
    /// some time ago.
    #[error(
        "there is no such open reservation; if there was one, its time is over and its permits count as used"
    )]
    Unknown,
    /// The reservation was made for 0 permits, so no counter was remembered that others could be charged to.
    #[error(
        "the reservation is of 0 permits, so that {actual} cannot be charged to it; no permit was taken; reserve \
         an estimate, or take the permits with a check"
    )]
    HoldsNothing {
        /// The number of permits used.
        actual: u64,
    },
    /// The number of permits is 2^63 or more.
    #[error("{actual} permits are more than can be meant; the most is 2^63 - 1; the reservation stays open")]
    HugeActual {
        /// The number of permits, as given.
        actual: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_it_is_shown_and_nothing_else_does() {
        for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef << 64] {
            let shown = ReservationId(id).to_string();
            assert_eq!(shown.len(), 32);
            assert_eq!(shown.parse(), Ok(ReservationId(id)));
        }
        for text in [
            "",
            "1",
            "+0000000000000000000000000000001",
            &"0".repeat(33),
            &"g".repeat(32),
            "０".repeat(32).as_str(),
        ] {
            assert_eq!(text.parse::<ReservationId>(), Err(BadReservationId), "{text:?}");
        }
        assert_eq!(format!("{:?}", ReservationId(u128::MAX)), "ReservationId(ffffffff…)");
    }
}
