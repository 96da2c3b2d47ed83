//! The values in memcached: a state of `core` as an item's flags, data and life.
//!
//! A fixed window is a number, so that `incr` counts in it: `1` bit of ours, 27 bits of the window's end, 36
//! bits of the count; the rest of the end is in the item's flags. The count has room for four times the most
//! that is kept in this form, so that hits added before it is lowered or rewritten never run into the end.
//! Read as a decimal, it has 19 or 20 digits:
//!
//! ```text
//! data   1 << 63 | (end >> 6 & 27 bits) << 36 | count      end: ns since the Unix epoch, modulo 2^59 (18
//! years) flags  (end >> 33 & 26 bits) << 6 | end & 6 bits
//! ```
//!
//! So the number that `incr` returns shows in which window it counted: two ends that are whole milliseconds
//! have the same 27 bits only when they lie a multiple of 2^27 ms (37 hours) apart, two that are whole
//! seconds 2^24 s (194 days).
//!
//! A window with more hits is text, which `incr` rejects: its name, the hits, and its end in ns.
//!
//! A sliding window counter is text: its name, the length of a window in ns, the window's number, its count,
//! the count of the one before, and the second at which it is all over.

use std::time::Duration;

use tollgate_core::{Expiry, MAX_COUNT, NANOS_PER_SECOND, State, Timestamp, Wide, WindowParams, Word};

/// The most hits of a window that is kept as a number.
pub(crate) const MOST_IN_NUMBER: u64 = WindowParams::MOST_BESIDE_NANOS;
const OURS: u64 = 1 << 63;
const COUNT_BITS: u32 = 36;
const MARK: u64 = (1 << 27) - 1;
const END: u64 = (1 << 59) - 1;
/// Ends up to four years before now and fourteen after it can be distinguished. Periods have ten years at
/// most, and nothing is kept for long past its end.
const PAST: u64 = 4 * 365 * 86_400 * NANOS_PER_SECOND;
const NAME: &str = "sliding_window_counter";
const WINDOW: &str = "fixed_window";
/// First cell of the state of a sliding window counter.
const TAG: u64 = 3;
/// memcached reads a longer life as an instant.
const LONGEST_SPAN: u64 = 30 * 86_400;

/// A fixed window with hits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) count: u64,
    pub(crate) end_ns: u64,
}

/// The content of an item's data without its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    /// Some bits of the window's end.
    pub(crate) mark: u64,
}

impl Counted {
    /// `None` for a number that is not ours.
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        if number & OURS == 0 {
            return None;
        }
        Some(Self { count: number & ((1 << COUNT_BITS) - 1), mark: number >> COUNT_BITS & MARK })
    }
}

impl Window {
    /// The bits of its end that the data hold.
    pub(crate) const fn mark(&self) -> u64 {
        self.end_ns >> 6 & MARK
    }

    const fn number(&self) -> u64 {
        OURS | self.mark() << COUNT_BITS | self.count
    }

    const fn flags(&self) -> u32 {
        ((self.end_ns & END) >> 33 << 6 | (self.end_ns & 63)) as u32
    }

    /// From an item's data and flags, read at `now`.
    fn from_item(counted: Counted, flags: u32, now: Timestamp) -> Self {
        let flags = u64::from(flags);
        let end = flags >> 6 << 33 | counted.mark << 6 | flags & 63;
        let earliest = now.as_nanos().saturating_sub(PAST);
        Self { count: counted.count, end_ns: earliest.saturating_add(end.wrapping_sub(earliest) & END) }
    }

    /// As `core` keeps it: with a great count, it may end a little later.
    pub(crate) fn to_word(self) -> Word {
        WindowParams::word(self.count, self.end_ns)
    }

    /// `None` for the state of an unseen key.
    pub(crate) fn from_word(word: Word) -> Option<Self> {
        let (count, end_ns) = WindowParams::hits_of(word);
        (!word.is_fresh()).then_some(Self { count, end_ns })
    }
}

/// The stored form of a state: flags, data and life of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) flags: u32,
    pub(crate) data: String,
    /// Seconds from now, or the Unix second, or 0 for ever, as memcached distinguishes them.
    pub(crate) exptime: u64,
}

/// `None` for a state that says the same as no state.
pub(crate) fn write(state: &State, now: Timestamp, keep: Duration) -> Option<Stored> {
    let (flags, data, expires) = match state {
        State::Word(word) => {
            let window @ Window { count, end_ns } = Window::from_word(*word)?;
            if count > MOST_IN_NUMBER {
                (0, format!("{WINDOW} {count} {end_ns}"), word.expires)
            } else {
                (window.flags(), window.number().to_string(), word.expires)
            }
        }
        State::Wide(Wide { cells, expires }) => {
            let [_, window_ns, window, current, previous] = cells[..] else { return None };
            let data = format!("{NAME} {window_ns} {window} {current} {previous} {}", expires.to_bits());
            (0, data, *expires)
        }
    };
    Some(Stored { flags, data, exptime: exptime(expires.seconds(), now.unix_seconds(), keep.as_secs()) })
}

/// `None` for a foreign value.
pub(crate) fn read(flags: u32, data: &[u8], now: Timestamp) -> Option<State> {
    if let Some(mut window) = window(flags, data, now) {
        if window.end_ns <= now.as_nanos() {
            // The window has ended, and must not end later since its end would be rounded.
            window.count = window.count.min(MOST_IN_NUMBER);
        }
        return Some(State::Word(window.to_word()));
    }
    let mut numbers = text(data)?.strip_prefix(NAME)?.strip_prefix(' ')?.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let cells = vec![TAG, next()?, next()?, next()?, next()?];
    let expires = Expiry::from_bits(u32::try_from(next()?).ok()?);
    (numbers.next().is_none() && cells[1] > 0).then_some(State::Wide(Wide { cells, expires }))
}

/// The window that an item holds, with all of its hits; `None` for anything else.
pub(crate) fn window(flags: u32, data: &[u8], now: Timestamp) -> Option<Window> {
    let text = text(data)?;
    if let Ok(number) = text.parse() {
        return Some(Window::from_item(Counted::from_number(number)?, flags, now));
    }
    let (count, end_ns) = text.strip_prefix(WINDOW)?.strip_prefix(' ')?.split_once(' ')?;
    let count = count.parse().ok()?;
    let end_ns = end_ns.parse().ok()?;
    (count <= MAX_COUNT).then_some(Window { count, end_ns })
}

fn text(data: &[u8]) -> Option<&str> {
    Some(std::str::from_utf8(data).ok()?.trim_ascii_end()) // `decr` leaves spaces
}

fn exptime(expires_s: u64, now_s: u64, keep_s: u64) -> u64 {
    let span = expires_s.saturating_sub(now_s) + keep_s;
    if span <= LONGEST_SPAN {
        return span.max(1);
    }
    let at = expires_s + keep_s;
    if at > i32::MAX as u64 { 0 } else { at } // memcached reads 32 bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::{Algorithm, Align, Cost, Period, Quota};

    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    /// The state after a first take, and the same state after it was stored and read again.
    fn kept(quota: &Quota, cost: u64, now: Timestamp) -> (State, Option<State>) {
        let mut state = quota.fresh();
        let _ = quota.charge(&mut state, Cost(cost), now);
        let stored = write(&state, now, KEEP).expect("there is something to keep");
        let read = read(stored.flags, stored.data.as_bytes(), now);
        (state, read)
    }

    fn first_hit(period_ns: u64) -> Quota {
        let span = Period::Span(Duration::from_nanos(period_ns));
        Quota::new(5, span, Algorithm::FixedWindow { align: Align::FirstHit }).expect("a quota")
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_is_read(
            period_ns in 1..10 * 365 * 86_400 * NANOS_PER_SECOND,
            shift in 0..60_u32,
            cost in prop_oneof![1..=MOST_IN_NUMBER, 1..=MAX_COUNT],
            now_s in 1_600_000_000..2_700_000_000_u64,
            ns in 0..NANOS_PER_SECOND,
        ) {
            let now = Timestamp::from_unix_seconds(now_s) + Duration::from_nanos(ns);
            let period_ns = (period_ns >> shift).max(1);
            let (state, read) = kept(&first_hit(period_ns), cost, now);
            prop_assert_eq!(Some(state), read);
            let span = Period::Span(Duration::from_nanos(period_ns));
            let limit = Quota::LARGEST_LIMIT;
            let quota = Quota::new(limit, span, Algorithm::SlidingWindowCounter).expect("a quota");
            let (state, read) = kept(&quota, cost.min(limit), now);
            prop_assert_eq!(Some(state), read);
        }

        #[test]
        fn adding_to_the_number_adds_to_the_count(
            count in 0..=MOST_IN_NUMBER, more in 0..=MOST_IN_NUMBER, end_ns in 0..u64::MAX / 2,
        ) {
            let window = Window { count, end_ns };
            let counted = Counted::from_number(window.number() + more).expect("ours");
            prop_assert_eq!(counted, Counted { count: count + more, mark: window.mark() });
        }

        #[test]
        fn what_is_not_ours_is_never_read(flags in any::<u32>(), number in 0..OURS, text in "[ -~]{0,40}") {
            prop_assert_eq!(read(flags, number.to_string().as_bytes(), Timestamp::ZERO), None);
            prop_assume!(!text.starts_with(NAME) && text.trim_ascii_end().parse::<u64>().is_err());
            prop_assert_eq!(read(flags, text.as_bytes(), Timestamp::ZERO), None);
        }
    }

    #[test]
    fn the_word_is_laid_out_as_core_says() {
        let now = Timestamp::from_nanos(1_700_000_000_250_000_000);
        let quota = first_hit(1_500_000_000);
        let mut state = quota.fresh();
        let _ = quota.take(&mut state, Cost(3), now);
        let State::Word(word) = state else { panic!("a word") };
        let window = Window { count: 3, end_ns: 1_700_000_001_750_000_000 };
        assert_eq!(Window::from_word(word), Some(window));
        assert_eq!(window.to_word(), word);
    }

    #[test]
    fn no_window_of_a_grid_is_taken_for_one_near_it() {
        for (unit_ms, windows) in
            [(1_u64, 1_u64 << 20), (1_000, 1 << 20), (60_000, 1 << 18), (86_400_000, 194)]
        {
            let base = 1_700_000_000_000 / unit_ms * unit_ms;
            let mark = |n| Window { count: 0, end_ns: (base + n * unit_ms) * 1_000_000 }.mark();
            let first = mark(0);
            assert!((1..windows).all(|n| mark(n) != first), "windows of {unit_ms} ms");
        }
    }

    #[test]
    fn texts_that_are_nearly_ours_are_not_read() {
        for text in [
            "",
            "1",
            "9223372036854775807",
            "-1",
            "+9223372036854775808x",
            "sliding_window_counter",
            "sliding_window_counter 1 2 3 4",
            "sliding_window_counter 1 2 3 4 5 6",
            "sliding_window_counter 0 2 3 4 5",
            "sliding_window_counter 1 2 3 4 x",
            "sliding_window_counter  1 2 3 4 5",
            "sliding_window_counter1 2 3 4 5",
            "fixed_window",
            "fixed_window 1",
            "fixed_window 1 2 3",
            "fixed_window 1 x",
            "fixed_window 9007199254740992 1",
            "sliding_window_counter 1 2 3 4 4294967296",
            "\u{fffd}",
        ] {
            assert_eq!(read(0, text.as_bytes(), Timestamp::ZERO), None, "{text}");
        }
        assert_eq!(read(0, b"\xff", Timestamp::ZERO), None);
    }

    #[test]
    fn a_long_life_is_written_as_an_instant() {
        let day = 86_400;
        for (expires, now, want) in [
            (1_700_000_001, 1_700_000_000, 61),
            (1_700_000_000, 1_700_000_009, 60), // the clock is past it already
            (1_700_000_000 + 29 * day, 1_700_000_000, 29 * day + 60),
            (1_700_000_000 + 30 * day - 60, 1_700_000_000, 30 * day), // the longest that is a span
            (1_700_000_000 + 30 * day - 59, 1_700_000_000, 1_700_000_000 + 30 * day + 1),
            (1_700_000_000 + 30 * day, 1_700_000_000, 1_700_000_000 + 30 * day + 60),
            (2_147_483_647, 1_700_000_000, 0), // past 2038 it can only be for ever
        ] {
            assert_eq!(exptime(expires, now, 60), want);
        }
    }
}
