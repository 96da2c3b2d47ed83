//! The state of a key between two takes.
//!
//! A state is opaque to the store that keeps it: the quota alone reads its bits. A store may only know when
//! it [expires](Expiry): from then on it is equivalent to no state, so its place may be reused.

use alloc::vec::Vec;

use crate::decision::Decision;
use crate::time::{NANOS_PER_SECOND, Timestamp};

/// The kind of state that a quota needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One [`Word`]: a store can keep it in an atomic and decide by compare-and-swap.
    Word,
    /// A [`Wide`] state of several numbers, changed in place under the store's own exclusion.
    Wide,
}

/// The expiry of a state, in whole seconds since the Unix epoch rounded up, valid until the year 2072.
///
/// A *sticky* state stays meaningful past that instant (a quota that never refills, a bucket that does not
/// start full): it goes only when the store is at its cap, and then the one with the earliest instant first.
///
/// # Example
/// ```
/// # use tollgate_core::{Expiry, Timestamp};
/// let soon = Expiry::at(Timestamp::from_nanos(1_500_000_000));
/// assert!(!soon.is_past(Timestamp::from_unix_seconds(1)));
/// assert!(soon.is_past(Timestamp::from_unix_seconds(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expiry(u32);

impl Expiry {
    /// Bits from here on are sticky, counted in steps of [`Self::STICKY_STEP`] seconds; below, seconds.
    const STICKY: u32 = 0xC000_0000;
    const STICKY_STEP: u32 = 4;
    /// An expiry in the past, that of an unseen key's state.
    pub const PAST: Self = Self(0);
    /// An expiry at no time: the state is kept for as long as there is room.
    pub const NEVER: Self = Self(u32::MAX);

    /// The last instant that an expiry can hold: in January 2072.
    pub const LATEST: Timestamp = Timestamp::from_unix_seconds(Self::LATEST_SECOND as u64);
    /// The same in seconds since the Unix epoch, which are its bits.
    pub(crate) const LATEST_SECOND: u32 = Self::STICKY - 1;

    /// The end of the second in which `instant` lies (exactly `instant` when it is a whole second).
    #[must_use]
    pub const fn at(instant: Timestamp) -> Self {
        let seconds = instant.as_nanos().saturating_add(NANOS_PER_SECOND - 1) / NANOS_PER_SECOND;
        if seconds >= Self::STICKY as u64 { Self(Self::STICKY - 1) } else { Self(seconds as u32) }
    }

    /// The instant that many seconds since the Unix epoch; `None` if that is later than an expiry can hold.
    #[inline]
    pub(crate) const fn of_seconds(seconds: u64) -> Option<Self> {
        if seconds < Self::STICKY as u64 - 1 { Some(Self(seconds as u32)) } else { None }
    }

    /// The same instant (up to 4 s later), with the state kept past it while there is room.
    #[must_use]
    pub(crate) const fn sticky(self) -> Self {
        if self.is_sticky() {
            return self;
        }
        Self(Self::STICKY + self.0.div_ceil(Self::STICKY_STEP))
    }

    /// True for a state that is kept past its instant while there is room.
    #[must_use]
    pub const fn is_sticky(self) -> bool {
        self.0 >= Self::STICKY
    }

    /// True when the state is equivalent to no state at `now`.
    #[must_use]
    pub const fn is_past(self, now: Timestamp) -> bool {
        !self.is_sticky() && self.0 as u64 <= now.unix_seconds()
    }

    /// The instant, in seconds since the Unix epoch; the order of eviction in a store at its cap.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        if self.is_sticky() {
            (self.0 - Self::STICKY) as u64 * Self::STICKY_STEP as u64
        } else {
            self.0 as u64
        }
    }

    /// The bits of the expiry, for a store to keep.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The expiry from bits that [`Expiry::to_bits`] returned.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// A state of one word, and when it expires. The value's meaning belongs to the quota that wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// The bits of the state. Any value is possible, also 0. If two words of one fixed window or total expire
    /// together, the greater has used more. (This holds for counts below 2^33; words of counts from 2^34 on
    /// are greater than those.)
    pub value: u64,
    /// The instant from which this word is equivalent to [`Word::FRESH`].
    pub expires: Expiry,
}

impl Word {
    /// The state of a key that was never seen.
    pub const FRESH: Self = Self { value: 0, expires: Expiry::PAST };

    /// True for the state of an unseen key.
    #[must_use]
    pub const fn is_fresh(self) -> bool {
        self.value == 0 && self.expires.to_bits() == 0
    }
}

/// New word and decision of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct WordStep {
    /// The word to keep; equal to the old one when nothing is to be written.
    pub word: Word,
    /// The result for the caller.
    pub decision: Decision,
}

/// New word and decision of [`WordAlgorithm::take_fast`](crate::WordAlgorithm::take_fast).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct FastStep {
    /// The word to keep; `None` when nothing is to be written.
    pub write: Option<Word>,
    /// The result for the caller.
    pub decision: Decision,
}

/// A state of several numbers, changed in place. Empty is the state of an unseen key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wide {
    /// The numbers; their meaning belongs to the quota that wrote them.
    pub cells: Vec<u64>,
    /// The instant from which this state is equivalent to no state.
    pub expires: Expiry,
}

/// Either kind of state, for callers that keep one key by themselves (tests, models, a single limiter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// One number and its expiry.
    Word(Word),
    /// Several numbers, changed in place.
    Wide(Wide),
}

impl State {
    /// The kind of this state.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match self {
            Self::Word(_) => Shape::Word,
            Self::Wide(_) => Shape::Wide,
        }
    }

    /// The instant from which this state is equivalent to no state.
    #[must_use]
    pub const fn expires(&self) -> Expiry {
        match self {
            Self::Word(word) => word.expires,
            Self::Wide(wide) => wide.expires,
        }
    }

    /// The word; the fresh one in place of a wide state.
    pub(crate) const fn word(&self) -> Word {
        match self {
            Self::Word(word) => *word,
            Self::Wide(_) => Word::FRESH,
        }
    }

    /// The wide state, moved out; the fresh one in place of a word.
    pub(crate) fn take_wide(&mut self) -> Wide {
        match core::mem::replace(self, Self::Word(Word::FRESH)) {
            Self::Wide(wide) => wide,
            Self::Word(_) => Wide::default(),
        }
    }
}
