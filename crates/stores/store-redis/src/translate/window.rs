//! Fixed windows and totals: one whole number.

use tollgate_core::{Expiry, MAX_COUNT, Quota, State, Timestamp, WindowParams, Word};
use tollgate_redis_link::Value;

use super::arguments::{Packed, holds, push_counts};
use super::values::{StoredValue, foreign, int, numbers, whole};
use crate::ask::{Ask, AskError};

pub(super) fn argument(packed: &mut Packed, window: WindowParams<'_>, asks: &[&Ask], hint: Timestamp) {
    match window.first_hit_ns() {
        Some(span_ns) => packed.number(-1.0).number(0.0).nanos(span_ns),
        None => {
            let (begins_ns, ends_ns) = window.around(hint);
            packed.nanos(begins_ns).nanos(ends_ns)
        }
    };
    packed.count(window.limit());
    push_counts(packed, asks, holds);
}

pub(super) fn read(quota: &Quota, expires: &Value, value: &Value) -> Result<StoredValue, AskError> {
    let Some(held) = whole(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    // (hits + 1) · 10^6 + ns by which the window ends before the key expires; of many hits, both in words.
    let read = match &held {
        Ok(number) if *number >= 1_000_000 => Some([number / 1_000_000 - 1, number % 1_000_000]),
        Ok(_) => None,
        Err(text) => numbers(text).filter(|[hits, left_ns]| *hits <= MAX_COUNT && *left_ns < 1_000_000),
    };
    let ([hits, left_ns], expires_ms) = match (read, u64::try_from(int(expires)?)) {
        (Some(read), Ok(expires_ms)) => (read, expires_ms),
        _ => return Ok(foreign(&held.map_or_else(|text| text, |number| number.to_string()))),
    };
    let end_ns = expires_ms.saturating_mul(1_000_000).saturating_sub(left_ns);
    Ok(StoredValue::State(State::Word(WindowParams::word(hits, end_ns)), true))
}

pub(super) fn total_argument(packed: &mut Packed, stock: u64, asks: &[&Ask]) {
    packed.count(stock);
    push_counts(packed, asks, holds);
}

pub(super) fn read_total(quota: &Quota, value: &Value) -> Result<StoredValue, AskError> {
    let Some(held) = whole(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    Ok(match held {
        Ok(used) if used <= MAX_COUNT => {
            StoredValue::State(State::Word(Word { value: used, expires: Expiry::NEVER }), true)
        }
        held => foreign(&held.map_or_else(|text| text, |number| number.to_string())),
    })
}
