//! States of a few numbers, kept as a short text: buckets that refill by the period, and the two weighted
//! windows.

use tollgate_core::{Cost, CounterParams, IntervalParams, MAX_COUNT, Quota, State, Timestamp};
use tollgate_redis_link::Value;

use super::arguments::{Packed, holds, push_counts};
use super::values::{StoredValue, foreign, int, numbers, text};
use crate::ask::{Ask, AskError, KeyOperation};
use crate::script::Swap;

/// Lifetime of the key of a bucket that does not start full, after it is full: 30 days.
const KEPT_MS: u64 = 30 * 86_400_000;

pub(super) fn interval_argument(
    packed: &mut Packed,
    quota: &Quota,
    interval: IntervalParams<'_>,
    asks: &[&Ask],
) {
    let keep_ms = if interval.initially_missing() > 0 { KEPT_MS } else { 0 };
    let _ = quota;
    packed.count(interval.limit()).nanos(interval.period_ns()).count(keep_ms);
    packed.count(interval.initially_missing());
    push_class_of_interval(packed, interval, asks);
}

/// Appends asks only: those of another class of the same bucket, whose numbers differ in the overdraft alone.
pub(super) fn push_class_of_interval(packed: &mut Packed, interval: IntervalParams<'_>, asks: &[&Ask]) {
    let never = -1.0;
    let room = |cost, _| interval.room_to_take(cost).map_or(never, |room| room as f64);
    if !interval.starts_empty() {
        return push_counts(packed, asks, room);
    }
    // An unseen key has nothing, and a check begins to fill it, as a take does that never fits.
    for ask in asks {
        match ask.kind {
            KeyOperation::Pay(Cost::PEEK) => {
                packed.number(1.0).number(1.0).number(never);
            }
            _ => push_counts(packed, &[ask], room),
        }
    }
}

pub(super) fn read_interval(
    quota: &Quota,
    interval: IntervalParams<'_>,
    value: &Value,
    at: Timestamp,
) -> Result<StoredValue, AskError> {
    let Some(text) = text(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    Ok(match numbers(&text) {
        Some([began_ms, began_ns, missing]) => {
            let began = began_ms.saturating_mul(1_000_000).saturating_add(began_ns);
            StoredValue::State(State::Wide(interval.state(began, missing)), true)
        }
        None => match numbers(&text) {
            // The rule's limit was 0, and it counted a total: that many permits are missing.
            Some([used]) if used <= MAX_COUNT => {
                let missing = used.min(interval.most_missing());
                let to_be = format!("{} {} {missing}", at.as_nanos() / 1_000_000, at.as_nanos() % 1_000_000);
                let periods = missing.div_ceil(interval.limit().max(1));
                let full_ns = at.as_nanos().saturating_add(periods.saturating_mul(interval.period_ns()));
                let expires_ms = full_ns.div_ceil(1_000_000).saturating_add(KEPT_MS).to_string();
                let words = [text, "-1".into(), to_be, expires_ms].map(String::into_bytes);
                StoredValue::Odd(Swap::Strings, words.into())
            }
            _ => foreign(&text),
        },
    })
}

pub(super) fn counter_argument(
    packed: &mut Packed,
    counter: CounterParams<'_>,
    asks: &[&Ask],
    hint: Timestamp,
) -> Result<(), AskError> {
    let window_ns = counter.window_ns();
    if window_ns < 1_000 {
        let what = "a window below a microsecond";
        return Err(AskError::Unsupported { algorithm: "sliding_window_counter", what });
    }
    let number = hint.as_nanos() / window_ns;
    packed.count(counter.limit()).nanos(window_ns).count(number).nanos(number * window_ns);
    packed.text(&window_ns.to_string());
    push_counts(packed, asks, holds);
    Ok(())
}

pub(super) fn read_counter(
    quota: &Quota,
    counter: CounterParams<'_>,
    expires: &Value,
    value: &Value,
    at: Timestamp,
) -> Result<StoredValue, AskError> {
    let Some(text) = text(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    let Some([window_ns, number, current, previous]) = numbers(&text) else { return Ok(foreign(&text)) };
    if window_ns == 0 {
        return Ok(foreign(&text));
    }
    let state = CounterParams::state(window_ns, number, current, previous);
    if window_ns == counter.window_ns() {
        return Ok(StoredValue::State(State::Wide(state), true));
    }
    // The rule had another window: its estimate is counted in this one.
    let own_ns = counter.window_ns();
    let current = counter.carried(&state, at);
    let number = at.as_nanos() / own_ns;
    let to_be = if current == 0 {
        [Vec::new(), Vec::new()]
    } else {
        let until_ms = ((number + 2) * own_ns).div_ceil(1_000_000);
        [format!("{own_ns} {number} {current} 0").into_bytes(), until_ms.to_string().into_bytes()]
    };
    let seen = [text.into_bytes(), int(expires)?.to_string().into_bytes()];
    Ok(StoredValue::Odd(Swap::Strings, seen.into_iter().chain(to_be).collect()))
}
