//! Fixed window: one counter per window, which counts every hit, also denied ones.
//!
//! A hit passes while the counter, after adding it, is not above the limit. Around an edge between two
//! windows up to twice the limit can pass. Existing users of this window rely on denied hits being counted,
//! so they are.
//!
//! A window that has begun keeps its end, also when the clock steps back before its beginning or the rule's
//! period is changed: neither gives anything away.
//!
//! The word: 34 bits of count, saturating, and 30 bits of the nanosecond within its second at which the
//! window ends; the second itself is the word's expiry.

mod calendar;

use self::calendar::Calendar;
use crate::algorithm::Align;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::period::Period;
use crate::state::{Expiry, FastStep, Word, WordStep};
use crate::time::{NANOS_PER_SECOND, Timestamp, nanos};

const SUBSECOND_BITS: u32 = 30;
const SUBSECOND: u64 = (1 << SUBSECOND_BITS) - 1;
const MOST: u64 = (1 << (64 - SUBSECOND_BITS)) - 1;

#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    limit: u64,
    windows: Windows,
}

#[derive(Clone, Debug)]
enum Windows {
    Calendar(Calendar),
    /// So many ns from a key's first hit.
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
        Ok(Self { limit, windows })
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

    pub(crate) fn word(hits: u64, end_ns: u64) -> Word {
        pack(hits.min(MOST), end_ns)
    }

    /// Adds `cost` hits to a window in force; the decision says whether they pass. `None` where none is.
    #[inline(always)]
    pub(crate) fn take_fast(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        let subsecond = word.value & SUBSECOND;
        let (count, end) = unpack(word);
        // More than a second within a second, a sticky expiry, and none, are not of a window's making.
        let is_odd =
            subsecond >= NANOS_PER_SECOND || word.expires.is_sticky() || word.expires == Expiry::PAST;
        if is_odd || end <= now.as_nanos() {
            return None;
        }
        let (counted, decision) = self.count(count, end, cost, now);
        let value = (counted << SUBSECOND_BITS) | subsecond;
        let write = (value != word.value).then_some(Word { value, expires: word.expires });
        Some(FastStep { write, decision })
    }

    /// Any word: begins a window where none is in force.
    pub(crate) fn take_slow(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        let (counted, decision) = self.count(count, end, cost, now);
        WordStep { word: if cost.is_peek() { word } else { pack(counted, end) }, decision }
    }

    #[inline]
    fn count(&self, count: u64, end: u64, cost: Cost, now: Timestamp) -> (u64, Decision) {
        let counted = count.saturating_add(cost.permits()).min(MOST);
        let left_ns = end - now.as_nanos();
        let decision = if counted <= self.limit {
            let reset_ns = if counted == 0 { 0 } else { left_ns };
            Decision::admit(self.limit, self.limit - counted, reset_ns)
        } else {
            let denied = match cost.permits() > self.limit {
                true => Decision::never(self.limit, 0, left_ns),
                false => Decision::deny(self.limit, 0, left_ns, left_ns),
            };
            denied.counted(self.limit.saturating_sub(count))
        };
        (counted, decision)
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        self.set_count(word, count, count.saturating_add(cost.permits()).min(MOST), end, now)
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        self.set_count(word, count, count.saturating_sub(cost.permits()), end, now)
    }

    fn set_count(&self, word: Word, count: u64, counted: u64, end: u64, now: Timestamp) -> WordStep {
        let reset_ns = if counted == 0 { 0 } else { end - now.as_nanos() };
        WordStep {
            word: if count == counted { word } else { pack(counted, end) },
            decision: Decision::admit(self.limit, self.limit.saturating_sub(counted), reset_ns),
        }
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

#[inline]
fn pack(count: u64, end_ns: u64) -> Word {
    Word {
        value: (count << SUBSECOND_BITS) | (end_ns % NANOS_PER_SECOND),
        expires: Expiry::at(Timestamp::from_nanos(end_ns)),
    }
}

/// Count, and end of the window in nanoseconds.
#[inline]
fn unpack(word: Word) -> (u64, u64) {
    let subsecond = word.value & SUBSECOND;
    let seconds = word.expires.seconds().saturating_sub(u64::from(subsecond > 0));
    (word.value >> SUBSECOND_BITS, seconds * NANOS_PER_SECOND + subsecond)
}
