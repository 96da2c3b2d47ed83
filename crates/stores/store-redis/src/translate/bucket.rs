//! Buckets: one whole number, and the key's expiry.
//!
//! The key expires at the ms at or after which it is full again (and 30 days later, where it does not start
//! full). The number holds the time from the instant itself to that ms, and the rate by which the instant is
//! counted, so that a node of any rate can read it. A rate writes [its own form](Form), which is exact, until
//! it meets another rate; from then on, and until the key is full, all rates write whole ns. The step
//! computes the debt of a key of another rate; its reply is in units of the caller's rate. Rates that keep
//! instants take the instant as it is, so each may write its own form.

mod code;

use tollgate_core::{BucketParams, Cost, Quota, State};
use tollgate_redis_link::Value;

use self::code::Form;
use super::arguments::{Packed, groups};
use super::values::{StoredValue, foreign, int, text};
use crate::ask::{Ask, AskError, KeyOperation};

pub(super) fn argument(packed: &mut Packed, quota: &Quota, bucket: BucketParams<'_>, asks: &[&Ask]) {
    let form = Form::new(bucket.scale(), bucket.interval(), quota.starts_partial());
    form.pack(packed, bucket.initially_owed(), bucket.keeps_instants());
    push_groups(packed, form, bucket, asks);
}

/// Appends the asks of another class of the same bucket, whose numbers differ in the overdraft alone.
pub(super) fn push_class(packed: &mut Packed, quota: &Quota, bucket: BucketParams<'_>, asks: &[&Ask]) {
    let form = Form::new(bucket.scale(), bucket.interval(), quota.starts_partial());
    push_groups(packed, form, bucket, asks);
}

fn push_groups(packed: &mut Packed, form: Form, bucket: BucketParams<'_>, asks: &[&Ask]) {
    for (n, kind) in groups(asks) {
        let (code, cost, room) = match kind {
            KeyOperation::Take(cost) => (n as f64, cost, bucket.room_to_take(cost)),
            KeyOperation::Reserve(cost, max_wait) => (n as f64, cost, bucket.room_to_reserve(cost, max_wait)),
            // Where an unseen key has nothing, a check begins to fill it, as a take does that never fits.
            KeyOperation::Pay(Cost::PEEK) if bucket.starts_empty() => (1.0, Cost::ONE, None),
            KeyOperation::Pay(Cost::PEEK) => (-3.0, Cost::PEEK, None),
            KeyOperation::Charge(cost) | KeyOperation::Pay(cost) => (0.0, cost, Some(bucket.most_owed())),
            KeyOperation::GiveBack(cost) => (-1.0, cost, None),
            KeyOperation::Reset => (-2.0, Cost::PEEK, None),
            KeyOperation::Inspect => (-3.0, Cost::PEEK, None),
        };
        packed.number(code).limbs(bucket.units(cost), form.per_ms());
        match room {
            Some(room) => packed.limbs(room, form.per_ms()),
            None => packed.number(-1e15).number(0.0), // never fits: no key ever has that room
        };
    }
}

/// The state that the step began with: the ms at or after which the key is full, and the units by which it is
/// so before that.
pub(super) fn read(
    quota: &Quota,
    bucket: BucketParams<'_>,
    status: i64,
    full_ms: &Value,
    before: &Value,
) -> Result<StoredValue, AskError> {
    if status < 0 {
        return Ok(foreign(&text(before)?.unwrap_or_default()));
    }
    if matches!(before, Value::Nil | Value::Boolean(false)) {
        return Ok(StoredValue::State(quota.fresh(), false));
    }
    let count = |value| Ok(u128::try_from(int(value)?).unwrap_or(0));
    let full_at = count(full_ms)? * u128::from(bucket.scale()) * 1_000_000;
    Ok(StoredValue::State(State::Word(bucket.word(full_at.saturating_sub(count(before)?))), true))
}
