//! The calendar window of an instant: on the grid of the Unix epoch, or in the units of a time zone.
//!
//! A day of a time zone has 23 or 25 hours where its clocks are set. Working that out takes microseconds, so
//! the window asked for last is kept: a memo of a pure function of the instant.

use core::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::period::{CivilUnit, Period};
use crate::time::{NANOS_PER_SECOND, Timestamp, nanos};

#[derive(Debug)]
pub(super) struct Calendar {
    windows: Windows,
    memo: AtomicU64,
}

#[derive(Clone, Debug)]
enum Windows {
    /// Windows end at multiples of this many ns; the memo is the end in ns.
    Grid(u64),
    /// Units of a time zone; the memo is the end in s, then 32 bits of length in s.
    Civil(CivilUnit, TimeZone),
}

impl Clone for Calendar {
    fn clone(&self) -> Self {
        Self { windows: self.windows.clone(), memo: AtomicU64::new(self.memo.load(Ordering::Relaxed)) }
    }
}

impl Calendar {
    pub(super) fn new(period: &Period) -> Self {
        let windows = match period {
            Period::Span(span) => Windows::Grid(nanos(*span)),
            Period::Civil { unit, time_zone } => Windows::Civil(*unit, time_zone.clone()),
        };
        Self { windows, memo: AtomicU64::new(0) }
    }

    /// End of the window that `now_ns` lies in, in ns; later than now, except at the end of time.
    #[inline]
    pub(super) fn end_ns(&self, now_ns: u64) -> u64 {
        let memo = self.memo.load(Ordering::Relaxed);
        match &self.windows {
            Windows::Grid(period_ns) => {
                if memo > now_ns && memo - now_ns <= *period_ns {
                    return memo;
                }
                let end = (now_ns - now_ns % period_ns).saturating_add(*period_ns);
                self.memo.store(end, Ordering::Relaxed);
                end
            }
            Windows::Civil(unit, zone) => {
                let end = memo >> 32;
                let length = memo & u64::from(u32::MAX);
                let now = now_ns / NANOS_PER_SECOND;
                if end > now && end - now <= length {
                    return end * NANOS_PER_SECOND;
                }
                self.work_out(*unit, zone, now)
            }
        }
    }

    /// Beginning and end of the window that `now_ns` lies in, in ns.
    pub(super) fn around(&self, now_ns: u64) -> (u64, u64) {
        let end = self.end_ns(now_ns);
        let begin = match &self.windows {
            Windows::Grid(period_ns) => now_ns - now_ns % period_ns,
            Windows::Civil(..) => {
                // `end_ns` has just remembered the length, unless the end is beyond the last instant.
                let memo = self.memo.load(Ordering::Relaxed);
                let memo_end = memo >> 32;
                let length = memo & u64::from(u32::MAX);
                let begin = memo_end.saturating_sub(length) * NANOS_PER_SECOND;
                if memo_end * NANOS_PER_SECOND == end { begin.min(now_ns) } else { now_ns }
            }
        };
        (begin, end)
    }

    #[cold]
    fn work_out(&self, unit: CivilUnit, zone: &TimeZone, now: u64) -> u64 {
        let Some((begins, ends)) = civil_window(unit, zone, now) else {
            return u64::MAX; // centuries away: no calendar reaches there
        };
        let length = ends - begins;
        if ends <= u64::from(u32::MAX) && length <= u64::from(u32::MAX) {
            self.memo.store((ends << 32) | length, Ordering::Relaxed);
        }
        Timestamp::from_unix_seconds(ends).as_nanos()
    }
}

/// First second of the unit that `now` lies in, and of the next one.
fn civil_window(unit: CivilUnit, zone: &TimeZone, now: u64) -> Option<(u64, u64)> {
    let begins = |date: Date| {
        let instant = date.to_zoned(zone.clone()).ok()?.timestamp();
        Some(u64::try_from(instant.as_second()).unwrap_or(0))
    };
    let now_there = jiff::Timestamp::from_second(i64::try_from(now).ok()?).ok()?.to_zoned(zone.clone());
    let mut first = first_of(unit, now_there.date())?;
    loop {
        let next = next_of(unit, first)?;
        // Clocks that are set back over midnight show yesterday's date again: that hour belongs to today.
        if begins(next)? > now {
            return Some((begins(first)?.min(now), begins(next)?));
        }
        first = next;
    }
}

fn first_of(unit: CivilUnit, date: Date) -> Option<Date> {
    match unit {
        CivilUnit::Day => Some(date),
        CivilUnit::Week => {
            let days = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(jiff::Span::new().days(days)).ok()
        }
        CivilUnit::Month => Some(date.first_of_month()),
        CivilUnit::Year => Some(date.first_of_year()),
    }
}

fn next_of(unit: CivilUnit, first: Date) -> Option<Date> {
    let span = match unit {
        CivilUnit::Day => jiff::Span::new().days(1),
        CivilUnit::Week => jiff::Span::new().days(7),
        CivilUnit::Month => jiff::Span::new().months(1),
        CivilUnit::Year => jiff::Span::new().years(1),
    };
    first.checked_add(span).ok()
}
