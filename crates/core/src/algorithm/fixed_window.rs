//! Fixed window: one counter a window, counting every hit, also refused ones.
//!
//! A hit passes while the counter, after adding it, is not above the limit. Around an edge between two windows up to
//! twice the limit can pass. Existing users of this window rely on refused hits being counted, so they are.
//!
//! The word: 34 bits of count, saturating, and 30 bits of the nanosecond within its second at which the window ends;
//! the second itself is the word's expiry.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::Align;
use crate::quota::Period;
use crate::time::NANOS_PER_SECOND;
use crate::{Cost, Decision, Expiry, QuotaError, Timestamp, Word, WordStep};

const SUBSECOND_BITS: u32 = 30;
const MOST: u64 = (1 << (64 - SUBSECOND_BITS)) - 1;

#[derive(Debug)]
pub(crate) struct FixedWindow {
    limit: u64,
    period_ns: u64,
    align: Align,
    /// End of the window that was asked for last, in nanoseconds: a memo of a pure function of now.
    end_memo: AtomicU64,
}

impl Clone for FixedWindow {
    fn clone(&self) -> Self {
        let end_memo = AtomicU64::new(self.end_memo.load(Ordering::Relaxed));
        Self { limit: self.limit, period_ns: self.period_ns, align: self.align, end_memo }
    }
}

impl FixedWindow {
    pub(crate) fn new(limit: u64, period: &Period, align: Align) -> Result<Self, QuotaError> {
        let Period::Span(span) = period else {
            return Err(QuotaError::Unsupported { algorithm: "fixed_window", what: "this build" });
        };
        let period_ns = u64::try_from(span.as_nanos()).map_err(|_| QuotaError::LongPeriod(*span))?;
        Ok(Self { limit, period_ns, align, end_memo: AtomicU64::new(0) })
    }

    #[inline]
    pub(crate) fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        let counted = count.saturating_add(cost.permits()).min(MOST);
        let left_ns = end - now.as_nanos();
        let decision = if counted <= self.limit {
            let remaining = self.limit - counted;
            let reset_ns = if counted == 0 { 0 } else { left_ns };
            Decision::admit(self.limit, remaining, reset_ns)
        } else if cost.permits() > self.limit {
            Decision::never(self.limit, 0, left_ns)
        } else {
            Decision::deny(self.limit, 0, left_ns, left_ns)
        };
        WordStep { word: if cost.is_peek() { word } else { pack(counted, end) }, decision }
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let (count, end) = self.window(word, now);
        let counted = count.saturating_sub(cost.permits());
        let left_ns = end - now.as_nanos();
        let reset_ns = if counted == 0 { 0 } else { left_ns };
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
        // A window that has not ended stays in force, also when the clock stepped back before its beginning.
        if end > now_ns { (count, end) } else { (0, self.end(now_ns)) }
    }

    #[inline]
    fn end(&self, now_ns: u64) -> u64 {
        if self.align == Align::FirstHit {
            return now_ns.saturating_add(self.period_ns);
        }
        let memo = self.end_memo.load(Ordering::Relaxed);
        if memo > now_ns && memo - now_ns <= self.period_ns {
            return memo;
        }
        let end = (now_ns - now_ns % self.period_ns).saturating_add(self.period_ns);
        self.end_memo.store(end, Ordering::Relaxed);
        end
    }
}

fn pack(count: u64, end_ns: u64) -> Word {
    Word {
        value: count << SUBSECOND_BITS | end_ns % NANOS_PER_SECOND,
        expires: Expiry::at(Timestamp::from_nanos(end_ns)),
    }
}

/// Count, and end of the window in nanoseconds.
fn unpack(word: Word) -> (u64, u64) {
    let subsecond = word.value & ((1 << SUBSECOND_BITS) - 1);
    let seconds = word.expires.seconds().saturating_sub(u64::from(subsecond > 0));
    (word.value >> SUBSECOND_BITS, seconds * NANOS_PER_SECOND + subsecond)
}
