//! The fields of a reply. Called for every reply, so small numbers come from a table and texts out of one
//! buffer.

use std::cell::RefCell;
use std::thread::LocalKey;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};

use crate::span::{is_never, seconds, wait};
use crate::structured::{MAX_INTEGER, put_name};
use crate::{Ietf, LimitState, Style, most_restrictive};

/// The most limits that one field lists. The most restrictive one is always among them.
pub const MAX_LISTED: usize = 8;

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Marks a decision that was made while the store was unavailable: `deny`, `allow` or `local`. Sent in every
/// style.
pub const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
/// The field that marks a request which passes above a limit, within the excess of that limit.
pub const EXCESS: HeaderName = HeaderName::from_static("x-ratelimit-excess");

/// Adds the fields of `style` to a reply, replacing fields of the same names.
///
/// `limits` are all that were checked, in the order of the rules; without one nothing is added. On a denial
/// (`is_admitted` is false) the wait is added in whole seconds, rounded up, at least 1; a wait that never
/// ends has no field.
///
/// # Example
/// ```
/// # use tollgate_headers::*;
/// # use std::time::Duration;
/// let limit = LimitState {
///     name: "short",
///     limit: 10,
///     burst: 10,
///     window: Duration::from_secs(60),
///     remaining: 0,
///     reset_after: Duration::from_millis(41_200),
///     retry_after: RetryAfter::After(Duration::from_millis(41_200)),
///     is_unknown: false,
/// };
/// let mut fields = http::HeaderMap::new();
/// write(&[limit], false, &"legacy,draft-11".parse()?, &mut fields);
/// assert_eq!(fields["retry-after"], "42");
/// assert_eq!(fields["x-ratelimit-remaining"], "0");
/// assert_eq!(fields["ratelimit"], r#""short";r=0;t=42"#);
/// assert_eq!(fields["ratelimit-policy"], r#""short";q=10;w=60"#);
/// # Ok::<(), UnknownStyle>(())
/// ```
pub fn write(limits: &[LimitState<'_>], is_admitted: bool, style: &Style, fields: &mut HeaderMap) {
    let Some(shown) = most_restrictive(limits) else { return };
    if *style == Style::OFF {
        return;
    }
    // The remaining permits are shown as a part of this number.
    let shown_limit = shown.burst;
    let retry_after =
        if is_admitted { None } else { wait(shown.retry_after).map(|span| number(seconds(span))) };
    if style.legacy {
        fields.insert(X_LIMIT, kept_number(&LIMITS, shown_limit));
        fields.insert(X_REMAINING, number(shown.remaining));
        fields.insert(X_RESET, kept_number(&RESETS, seconds(shown.reset_after)));
        if let Some(value) = &retry_after {
            fields.insert(X_RETRY_AFTER, value.clone());
        }
    }
    match style.ietf {
        Ietf::Off => {}
        Ietf::Draft03 => write_draft_03(limits, shown, is_admitted, fields),
        Ietf::Draft07 => write_draft_07(limits, shown, is_admitted, fields),
        Ietf::Draft11 => write_draft_11(limits, shown, is_admitted, fields),
    }
    if let Some(value) = retry_after {
        fields.insert(RETRY_AFTER, value);
    }
}

fn write_draft_03(
    limits: &[LimitState<'_>],
    shown: &LimitState<'_>,
    is_admitted: bool,
    fields: &mut HeaderMap,
) {
    let policies = |out: &mut BytesMut| {
        put_number(shown.burst, out);
        for limit in listed(limits, shown) {
            out.put_slice(b", ");
            put_policy(limit, out);
        }
    };
    fields.insert(LIMIT, Pen(BytesMut::new()).value(policies));
    fields.insert(REMAINING, number(shown.remaining));
    fields.insert(RESET, number(effective_window(shown, is_admitted)));
}

fn write_draft_07(
    limits: &[LimitState<'_>],
    shown: &LimitState<'_>,
    is_admitted: bool,
    fields: &mut HeaderMap,
) {
    let mut pen = Pen(BytesMut::new());
    let state = |out: &mut BytesMut| {
        out.put_slice(b"limit=");
        put_number(shown.burst, out);
        out.put_slice(b", remaining=");
        put_number(shown.remaining, out);
        out.put_slice(b", reset=");
        put_number(effective_window(shown, is_admitted), out);
    };
    fields.insert(RATELIMIT, pen.value(state));
    let with_window = || listed(limits, shown).filter(|limit| !limit.window.is_zero());
    // Two policies of one quota are not allowed there: the longest window binds most.
    let quota = |limit: &LimitState<'_>| limit.limit.min(MAX_INTEGER);
    let is_listed = |limit: &LimitState<'_>| {
        let same = with_window().filter(|other| quota(other) == quota(limit));
        same.max_by_key(|other| other.window).is_some_and(|longest| std::ptr::eq(longest, limit))
    };
    let policies = |out: &mut BytesMut| {
        put_list(with_window().filter(|limit| is_listed(limit)), out, put_policy);
    };
    if with_window().next().is_some() {
        fields.insert(POLICY, pen.value(policies));
    }
}

fn write_draft_11(
    limits: &[LimitState<'_>],
    shown: &LimitState<'_>,
    is_admitted: bool,
    fields: &mut HeaderMap,
) {
    let mut pen = Pen(BytesMut::new());
    let states = |out: &mut BytesMut| {
        put_list(listed(limits, shown), out, |limit, out| {
            put_name(limit.name, out);
            out.put_slice(b";r=");
            // Remaining of `q`, which has a window and so cannot be the burst.
            put_number(limit.remaining.min(limit.limit), out);
            if !is_never(limit.reset_after) || wait(limit.retry_after).is_some() {
                out.put_slice(b";t=");
                put_number(effective_window(limit, is_admitted), out);
            }
        });
    };
    let policies = |out: &mut BytesMut| {
        put_list(listed(limits, shown), out, |limit, out| {
            put_name(limit.name, out);
            out.put_slice(b";q=");
            put_number(limit.limit, out);
            put_window(limit, out);
        });
    };
    fields.insert(RATELIMIT, pen.value(states));
    fields.insert(POLICY, pen.value(policies));
}

/// Seconds within which a client gets no more than what remains: until a denied request would be admitted, as
/// in `Retry-After`, otherwise until the quota is full.
fn effective_window(limit: &LimitState<'_>, is_admitted: bool) -> u64 {
    let wait = if is_admitted { None } else { wait(limit.retry_after) };
    seconds(wait.unwrap_or(limit.reset_after))
}

/// The first limits, in their order, and always the one that is shown.
fn listed<'s, 'a>(
    limits: &'s [LimitState<'a>],
    shown: &'s LimitState<'a>,
) -> impl Iterator<Item = &'s LimitState<'a>> + Clone {
    let (first, rest) = limits.split_at(limits.len().min(MAX_LISTED));
    let is_late = rest.iter().any(|limit| std::ptr::eq(limit, shown));
    let first = if is_late { &first[..MAX_LISTED - 1] } else { first };
    first.iter().chain(is_late.then_some(shown))
}

fn put_list<'s, 'a: 's>(
    limits: impl Iterator<Item = &'s LimitState<'a>>,
    out: &mut BytesMut,
    put: impl Fn(&LimitState<'a>, &mut BytesMut),
) {
    for (i, limit) in limits.enumerate() {
        if i > 0 {
            out.put_slice(b", ");
        }
        put(limit, out);
    }
}

/// `10;w=60`, or `10;w=60;burst=20`.
fn put_policy(limit: &LimitState<'_>, out: &mut BytesMut) {
    put_number(limit.limit, out);
    put_window(limit, out);
    if limit.burst != limit.limit {
        out.put_slice(b";burst=");
        put_number(limit.burst, out);
    }
}

/// `;w=60`, at least 1; nothing for a limit without a window.
fn put_window(limit: &LimitState<'_>, out: &mut BytesMut) {
    if !limit.window.is_zero() {
        out.put_slice(b";w=");
        put_number(seconds(limit.window), out);
    }
}

/// `number`, or the largest that a structured field can hold.
fn put_number(number: u64, out: &mut BytesMut) {
    out.put_slice(itoa::Buffer::new().format(number.min(MAX_INTEGER)).as_bytes());
}

fn number(number: u64) -> HeaderValue {
    if number >= 1_000 {
        let mut digits = itoa::Buffer::new();
        return HeaderValue::from_str(digits.format(number.min(MAX_INTEGER))).unwrap_or(EMPTY);
    }
    let at = number as usize * 3;
    let zeros = usize::from(number < 10) + usize::from(number < 100);
    HeaderValue::from_static(&SMALL[at + zeros..at + 3])
}

/// As [`number`], for a number that many replies repeat. Its value is kept: a copy costs a quarter.
fn kept_number(kept: &'static LocalKey<RefCell<NumberCache>>, of: u64) -> HeaderValue {
    if of < 1_000 {
        return number(of);
    }
    kept.with_borrow_mut(|kept| {
        let (number_of, value) = &mut kept[(of % KEPT as u64) as usize];
        if *number_of != of {
            (*number_of, *value) = (of, number(of));
        }
        value.clone()
    })
}

/// Prime, so that round numbers are kept apart.
const KEPT: usize = 7;

/// Numbers that this thread wrote last, by their rests.
type NumberCache = [(u64, HeaderValue); KEPT];

const NONE: (u64, HeaderValue) = (0, EMPTY);

thread_local! {
    /// There are a few limits.
    static LIMITS: RefCell<NumberCache> = const { RefCell::new([NONE; KEPT]) };
    /// Windows on the calendar end together: within a second all replies have the same.
    static RESETS: RefCell<NumberCache> = const { RefCell::new([NONE; KEPT]) };
}

/// Replaces a value that cannot be: only digits and the output of [`put_name`] go into one.
const EMPTY: HeaderValue = HeaderValue::from_static("");

/// Makes texts that share one buffer.
struct Pen(BytesMut);

impl Pen {
    fn value(&mut self, put: impl FnOnce(&mut BytesMut)) -> HeaderValue {
        if self.0.capacity() == 0 {
            self.0.reserve(256);
        }
        put(&mut self.0);
        HeaderValue::from_maybe_shared(self.0.split().freeze()).unwrap_or(EMPTY)
    }
}

/// `000001002…999`: values that need no memory.
const SMALL: &str = match std::str::from_utf8(&DIGITS) {
    Ok(digits) => digits,
    Err(_) => "",
};

static DIGITS: [u8; 3_000] = {
    let mut digits = [0; 3_000];
    let mut number = 0;
    while number < 1_000 {
        digits[number * 3] = b'0' + (number / 100) as u8;
        digits[number * 3 + 1] = b'0' + (number / 10 % 10) as u8;
        digits[number * 3 + 2] = b'0' + (number % 10) as u8;
        number += 1;
    }
    digits
};
