//! Buckets: one whole number, and the key's expiry.
//!
//! The key expires at the ms at or after which it is full again (and [`KEPT_MS`] later, where it does not start full). The number is
//! a fingerprint of the rate times the units in a ms, plus the units by which that ms is later than the instant itself. So the
//! instant is exact, and the number small enough for Redis to keep it in the place of a pointer.

use redis::Value;
use tollgate_core::{BucketNumbers, Cost, MOST_COUNTED, Quota, State, Timestamp, Word};

use super::{Packed, Read, foreign, groups, int, whole};
use crate::ask::{Ask, Fault, Kind};
use crate::script::Swap;

const NANOS_PER_MS: u64 = 1_000_000;
/// How long the key of a bucket that does not start full is kept after it is: 30 days.
const KEPT_MS: u64 = 30 * 86_400_000;
/// Numbers stay below this, so that a double holds them exactly.
const EXACT: u64 = 1 << 53;

/// How one rate writes its states.
#[derive(Clone, Copy)]
struct Form {
    per_ms: u64,
    /// The fingerprint, times the units in a ms.
    mark: u64,
    keep_ms: u64,
}

impl Form {
    fn new(scale: u64, interval: u64, starts_short: bool) -> Self {
        let per_ms = scale * NANOS_PER_MS;
        let marks = EXACT / per_ms - 1;
        let mixed = mix(mix(scale) ^ interval) ^ u64::from(starts_short);
        let keep_ms = if starts_short { KEPT_MS } else { 0 };
        Self { per_ms, mark: (1 + mixed % marks) * per_ms, keep_ms }
    }

    /// When the key is full again, in units since the Unix epoch, if this rate has written the number.
    fn full_at(&self, number: u64, expires_ms: u64) -> Option<u128> {
        let behind = number.checked_sub(self.mark).filter(|behind| *behind < self.per_ms)?;
        let full_ms = u128::from(expires_ms.saturating_sub(self.keep_ms));
        Some((full_ms * u128::from(self.per_ms)).saturating_sub(u128::from(behind)))
    }

    /// Number and expiry of a key that is full again at `full_at`.
    fn write(&self, full_at: u128) -> (u64, u64) {
        let per_ms = u128::from(self.per_ms);
        let full_ms = full_at.div_ceil(per_ms);
        let behind = (full_ms * per_ms - full_at) as u64;
        (self.mark + behind, full_ms as u64 + self.keep_ms)
    }
}

/// Spreads the bits of a number.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

pub(super) fn argument(packed: &mut Packed, quota: &Quota, bucket: BucketNumbers<'_>, asks: &[&Ask]) {
    let form = Form::new(bucket.scale(), bucket.interval(), quota.starts_short());
    packed.count(form.per_ms).count(form.mark).count(form.keep_ms);
    packed.limbs(u128::from(bucket.initially_owed()), form.per_ms);
    for (n, kind) in groups(asks) {
        let (code, cost, room) = match kind {
            Kind::Take(cost) => (n as f64, cost, bucket.room_to_take(cost)),
            Kind::Hold(cost, max_wait) => (n as f64, cost, bucket.room_to_hold(cost, max_wait)),
            Kind::Charge(cost) => (0.0, cost, Some(bucket.most_owed())),
            Kind::GiveBack(cost) => (-1.0, cost, Some(bucket.most_owed())),
            Kind::Reset => (-2.0, Cost::PEEK, None),
            Kind::Inspect => (-3.0, Cost::PEEK, None),
        };
        packed.number(code).limbs(u128::from(bucket.units(cost)), form.per_ms);
        match room {
            Some(room) => packed.limbs(u128::from(room), form.per_ms),
            None => packed.number(-1e15).number(0.0), // never: a room that no key ever has
        };
    }
}

/// What is done about a number that was written at a rate of which nothing is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// The step has left its form, and counted in the time that is owed.
    WasLeft,
    /// The step is to do so: whoever wrote it may have a newer rule, and goes on in permits from what we would write.
    IsLeft,
    /// It goes on as ours.
    IsWrittenAnew,
}

pub(super) fn read(
    quota: &Quota,
    bucket: BucketNumbers<'_>,
    expires: &Value,
    value: &Value,
    at: Timestamp,
    other: Other,
) -> Result<Read, Fault> {
    let Some(held) = whole(value)? else { return Ok(Read::State(quota.fresh(), false)) };
    let form = Form::new(bucket.scale(), bucket.interval(), quota.starts_short());
    let now = u128::from(at.as_nanos()) * u128::from(bucket.scale());
    if let (Ok(used), -1) = (&held, int(expires)?)
        && *used <= MOST_COUNTED
    {
        // The rule's limit was 0, and what it admitted a total: so many permits are owed.
        let owed = bucket.units(Cost(*used)).min(bucket.empty());
        let seen = [used.to_string().into_bytes(), b"-1".to_vec()];
        return Ok(go_on(quota, form, seen, now, now + u128::from(owed)));
    }
    let (number, expires_ms) = match (held, u64::try_from(int(expires)?)) {
        (Ok(number), Ok(expires_ms)) if (NANOS_PER_MS..EXACT).contains(&number) => (number, expires_ms),
        (held, _) => return Ok(foreign(&held.map_or_else(|text| text, |number| number.to_string()))),
    };
    let seen = || [number.to_string().into_bytes(), expires_ms.to_string().into_bytes()];
    if let Some(full_at) = form.full_at(number, expires_ms) {
        let word = bucket.word(full_at);
        if bucket.full_at(word).is_some() {
            return Ok(Read::State(State::Word(word), true));
        }
        return Ok(go_on(quota, form, seen(), now, settled(quota, bucket, word, at)));
    }
    // Another rate has written it: one that this rule had, or one of which nothing is known.
    let owed_until = u128::from(expires_ms) * u128::from(form.per_ms);
    if other == Other::WasLeft {
        return Ok(Read::State(State::Word(bucket.word(owed_until)), true));
    }
    let known = rates(quota, bucket).find_map(|(form, word)| word(form.full_at(number, expires_ms)?));
    let empty = now + u128::from(bucket.empty());
    let full_at = match known {
        Some(word) => settled(quota, bucket, word, at),
        // More than a bucket can owe says nothing of time: it does not start full, and is kept for long.
        None if other == Other::IsLeft && owed_until <= empty && is_slow(bucket, form) => {
            return Ok(Read::Newer);
        }
        None => owed_until.min(empty),
    };
    Ok(go_on(quota, form, seen(), now, full_at))
}

/// Whole ms are told of it: what is rounded up is a twentieth of a permit at most.
fn is_slow(bucket: BucketNumbers<'_>, form: Form) -> bool {
    bucket.units(Cost::ONE) >= 20 * form.per_ms
}

type WordOf<'a> = Box<dyn Fn(u128) -> Option<Word> + 'a>;

/// The forms that this rule may have written before, and how each one's states become words.
fn rates<'a>(quota: &'a Quota, bucket: BucketNumbers<'a>) -> impl Iterator<Item = (Form, WordOf<'a>)> + 'a {
    let short = quota.starts_short();
    let own = Form::new(bucket.scale(), bucket.interval(), !short);
    let present = std::iter::once((own, Box::new(move |at| Some(bucket.word(at))) as WordOf<'a>));
    let rates: Vec<(u64, u64)> = bucket.past().collect();
    let past = rates.into_iter().enumerate().flat_map(move |(nth, (scale, interval))| {
        [short, !short].map(|short| {
            let word = Box::new(move |at| bucket.past_word(nth, at)) as WordOf<'a>;
            (Form::new(scale, interval, short), word)
        })
    });
    present.chain(past)
}

/// When a key with this word, which the rate in force has not written or cannot have meant, is full again.
fn settled(quota: &Quota, bucket: BucketNumbers<'_>, word: Word, at: Timestamp) -> u128 {
    let now = u128::from(at.as_nanos()) * u128::from(bucket.scale());
    if word.expires.seconds() <= at.unix_seconds() {
        return now; // it is full again
    }
    let word = quota.take_word(word, Cost::PEEK, at).word;
    // A clock that stepped far back: as much as can be owed.
    bucket.full_at(word).unwrap_or(now + u128::from(bucket.most_owed()))
}

/// What was seen goes on as a key that is full again at `full_at`, in units as `now`.
fn go_on(quota: &Quota, form: Form, seen: [Vec<u8>; 2], now: u128, full_at: u128) -> Read {
    let to_be = if full_at <= now && !quota.starts_short() {
        [Vec::new(), Vec::new()]
    } else {
        let (number, expires_ms) = form.write(full_at);
        [number.to_string().into_bytes(), expires_ms.to_string().into_bytes()]
    };
    Read::Odd(Swap::Strings, seen.into_iter().chain(to_be).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tollgate_core::Numbers;

    use super::*;

    proptest! {
        #[test]
        fn an_instant_survives_being_written_and_read(
            limit in 1_u64..4_000_000_000, seconds in 1_u64..100_000, ahead in 0_u64..1 << 50, short in any::<bool>(),
        ) {
            let Ok(quota) = Quota::token_bucket(limit, Duration::from_secs(seconds)) else { return Ok(()) };
            let Numbers::Bucket(bucket) = quota.numbers() else { unreachable!() };
            let form = Form::new(bucket.scale(), bucket.interval(), short);
            let full_at = 1_800_000_000_000_u128 * u128::from(form.per_ms) + u128::from(ahead);
            let (number, expires_ms) = form.write(full_at);
            prop_assert!(number < EXACT);
            prop_assert_eq!(form.full_at(number, expires_ms), Some(full_at));
            prop_assert_eq!(Form::new(bucket.scale(), bucket.interval(), !short).full_at(number, expires_ms), None);
        }
    }
}
