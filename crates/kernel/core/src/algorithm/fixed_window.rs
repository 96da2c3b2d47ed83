//! Fixed window: one counter per window, which counts every hit, also denied ones.
//!
//! A hit passes while the counter, after adding it, is not above the limit. Around an edge between two
//! windows up to twice the limit can pass. Existing users of this window rely on denied hits being counted,
//! so they are.
//!
//! A window that has begun keeps its end, also when the clock steps back before its beginning or the rule's
//! period is changed: neither gives anything away.
//!
//! The word: 34 bits of count and 30 bits of the nanosecond within its second at which the window ends; the
//! second itself is the word's expiry. A greater count, up to [`MAX_COUNT`], takes most of those 30 bits too,
//! in numbers that no nanosecond within a second has: its window ends at the next whole [`STEP_NS`]. Its
//! highest bit is set, so that words order by use.

mod calendar;

use self::calendar::Calendar;
use crate::algorithm::Align;
use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::period::Period;
use crate::state::{Expiry, FastStep, Word, WordStep};
use crate::time::{NANOS_PER_SECOND, Timestamp, nanos};

const SUBSECOND_BITS: u32 = 30;
const SUBSECOND: u64 = (1 << SUBSECOND_BITS) - 1;
/// The greatest count beside a nanosecond.
pub(crate) const MOST_BESIDE_NANOS: u64 = (1 << (64 - SUBSECOND_BITS)) - 1;
/// A window with a greater count ends at a multiple of this.
const STEP_NS: u64 = 20_000_000;
const STEPS: u64 = NANOS_PER_SECOND / STEP_NS;
/// Number of parts of a count that fit beside a step, above all nanoseconds within a second.
const PARTS: u64 = (SUBSECOND + 1 - NANOS_PER_SECOND) / STEPS;
const GREAT: u64 = 1 << 63;
const _: () = assert!(MAX_COUNT / PARTS < GREAT >> SUBSECOND_BITS);

#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    limit: u64,
    /// The limit, or the greatest count beside a nanosecond.
    fast_limit: u64,
    windows: Windows,
}

#[derive(Clone, Debug)]
enum Windows {
    Calendar(Calendar),
    /// Length of a window, in ns from a key's first hit.
    FirstHit(u64),
}

impl FixedWindow {
    pub(crate) fn new(limit: u64, period: &Period, align: Align) -> Result<Self, QuotaError> {
        let windows = match (align, period) {
            (Align::Calendar, period) => Windows::Calendar(Calendar::new(period)),
            (Align::FirstHit, Period::Span(span)) => Windows::FirstHit(nanos(*span)),
            (Align::FirstHit, Period::Civil { .. }) => {
                return Err(QuotaError::Unsupported {
                    algorithm: "fixed_window",
                    what: "a calendar's unit from the first hit; give a length",
                });
            }
        };
        Ok(Self { limit, fast_limit: limit.min(MOST_BESIDE_NANOS), windows })
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of a window from its first hit, in ns; `None` on the calendar.
    pub(crate) const fn first_hit_ns(&self) -> Option<u64> {
        match self.windows {
            Windows::Calendar(_) => None,
            Windows::FirstHit(period_ns) => Some(period_ns),
        }
    }

    /// Beginning (or later, but not after now) and end of the window that `now_ns` lies in.
    pub(crate) fn around(&self, now_ns: u64) -> (u64, u64) {
        match &self.windows {
            Windows::Calendar(calendar) => calendar.around(now_ns),
            Windows::FirstHit(period_ns) => (now_ns, now_ns.saturating_add(*period_ns)),
        }
    }

    pub(crate) fn unpack(word: Word) -> (u64, u64) {
        unpack(word)
    }

    pub(crate) fn word(hits: u64, end_ns: u64) -> Word {
        let hits = hits.min(MAX_COUNT);
        pack(hits, stored_end(hits, end_ns))
    }

    /// Adds `cost` hits to a window in force; the decision says whether they pass. `None` where no window is
    /// in force, and for great counts.
    #[inline(always)]
    pub(crate) fn take_fast(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        let subsecond = word.value & SUBSECOND;
        // A great count.
        if subsecond >= NANOS_PER_SECOND {
            return None;
        }
        // A fixed window never writes the expiry of no state, or a sticky one.
        let second_before = word.expires.to_bits().wrapping_sub(1);
        if second_before >= Expiry::LATEST_SECOND {
            return None;
        }
        let within = if subsecond == 0 { NANOS_PER_SECOND } else { subsecond };
        let end = u64::from(second_before) * NANOS_PER_SECOND + within;
        if end <= now.as_nanos() {
            return None;
        }
        let count = word.value >> SUBSECOND_BITS;
        let counted = count.saturating_add(cost.permits());
        let decision = if counted <= self.fast_limit {
            self.admit(counted, end - now.as_nanos())
        } else if counted <= MOST_BESIDE_NANOS {
            self.deny(count, end - now.as_nanos(), cost)
        } else {
            return None;
        };
        let value = word.value.wrapping_add(cost.permits() << SUBSECOND_BITS);
        let write = (!cost.is_peek()).then_some(Word { value, expires: word.expires });
        Some(FastStep { write, decision })
    }

    /// For any word: begins a window where none is in force.
    pub(crate) fn take_slow(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        // The exact number of hits above a small limit is not worth a rounding of the end.
        let most = if self.limit < MOST_BESIDE_NANOS { MOST_BESIDE_NANOS } else { MAX_COUNT };
        let (counted, end) = self.counted(word, cost, most, now);
        let left_ns = end - now.as_nanos();
        let decision = if counted <= self.limit {
            self.admit(counted, left_ns)
        } else {
            self.deny(self.window(word, now).0, left_ns, cost)
        };
        WordStep { word: if cost.is_peek() { word } else { pack(counted, end) }, decision }
    }

    #[inline(always)]
    const fn admit(&self, counted: u64, left_ns: u64) -> Decision {
        let reset_ns = if counted == 0 { 0 } else { left_ns };
        Decision::admit(self.limit, self.limit - counted, reset_ns)
    }

    /// `count` is the number of hits before the denied ones.
    #[inline(always)]
    fn deny(&self, count: u64, left_ns: u64, cost: Cost) -> Decision {
        let denied = match cost.permits() > self.limit {
            true => Decision::never(self.limit, 0, left_ns),
            false => Decision::deny(self.limit, 0, left_ns, left_ns),
        };
        denied.counted(self.limit.saturating_sub(count))
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (counted, end) = self.counted(word, cost, MAX_COUNT, now);
        let left_ns = end - now.as_nanos();
        let until_one_ns = if self.limit == 0 { u64::MAX } else { left_ns };
        let remaining = self.limit.saturating_sub(counted);
        let owed = counted.saturating_sub(self.limit);
        let reset_ns = if counted == 0 { 0 } else { left_ns };
        let decision = Decision::used(self.limit, remaining, owed, until_one_ns, reset_ns);
        WordStep { word: if cost.is_peek() { word } else { pack(counted, end) }, decision }
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        let counted = count.saturating_sub(cost.permits());
        let reset_ns = if counted == 0 { 0 } else { end - now.as_nanos() };
        WordStep {
            word: if count == counted { word } else { pack(counted, end) },
            decision: Decision::admit(self.limit, self.limit.saturating_sub(counted), reset_ns),
        }
    }

    /// The count with `cost` more hits, up to `most`, and the end of the window.
    fn counted(&self, word: Word, cost: Cost, most: u64, now: Timestamp) -> (u64, u64) {
        let (count, end) = self.window(word, now);
        let counted = count.saturating_add(cost.permits()).min(most).max(count);
        (counted, stored_end(counted, end))
    }

    /// Hits counted so far in the window in force, and its end in nanoseconds, which is later than now.
    #[inline]
    fn window(&self, word: Word, now: Timestamp) -> (u64, u64) {
        let now_ns = now.as_nanos();
        let (count, end) = unpack(word);
        if end > now_ns && !word.expires.is_sticky() { (count, end) } else { (0, self.end_ns(now_ns)) }
    }

    #[inline]
    fn end_ns(&self, now_ns: u64) -> u64 {
        match &self.windows {
            Windows::Calendar(calendar) => calendar.end_ns(now_ns),
            Windows::FirstHit(period_ns) => now_ns.saturating_add(*period_ns),
        }
    }
}

/// The end of a window as a word with this count holds it.
#[inline]
const fn stored_end(count: u64, end_ns: u64) -> u64 {
    if count <= MOST_BESIDE_NANOS { end_ns } else { end_ns.div_ceil(STEP_NS).saturating_mul(STEP_NS) }
}

/// `end_ns` is a [`stored_end`].
#[inline]
fn pack(count: u64, end_ns: u64) -> Word {
    let subsecond = end_ns % NANOS_PER_SECOND;
    let (high, low) = if count <= MOST_BESIDE_NANOS {
        (count, subsecond)
    } else {
        let low = NANOS_PER_SECOND + subsecond / STEP_NS + count % PARTS * STEPS;
        ((GREAT >> SUBSECOND_BITS) | (count / PARTS), low)
    };
    Word { value: high << SUBSECOND_BITS | low, expires: Expiry::at(Timestamp::from_nanos(end_ns)) }
}

/// Count, and end of the window in nanoseconds.
#[inline]
fn unpack(word: Word) -> (u64, u64) {
    let Some(great) = (word.value & SUBSECOND).checked_sub(NANOS_PER_SECOND) else {
        let subsecond = word.value & SUBSECOND;
        return (word.value >> SUBSECOND_BITS, end_ns(word, subsecond));
    };
    let subsecond = great % STEPS * STEP_NS;
    let high = (word.value & !GREAT) >> SUBSECOND_BITS;
    let count = high.saturating_mul(PARTS).saturating_add(great / STEPS);
    (count.min(MAX_COUNT), end_ns(word, subsecond))
}

#[inline]
fn end_ns(word: Word, subsecond: u64) -> u64 {
    let seconds = word.expires.seconds().saturating_sub(u64::from(subsecond > 0));
    seconds * NANOS_PER_SECOND + subsecond
}
