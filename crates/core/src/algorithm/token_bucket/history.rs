//! The rates that a rule had before, and what a word owes that one of them wrote.
//!
//! The word of a bucket: the instant at which its key is full again (TAT) in the units of the rate that wrote
//! it, modulo 2^62, then two bits that say which generation of the rule that rate was. The word's expiry
//! tells the TAT to a few seconds and its value the rest, so the TAT is known in full, in 128 bits.

use alloc::boxed::Box;

use crate::rational::Units;
use crate::state::Word;
use crate::time::Timestamp;

pub(super) const GENERATION_BITS: u32 = 2;
const GENERATIONS: u64 = 1 << GENERATION_BITS;

/// How far a TAT may be behind the expiry of its word: that is rounded up to a second, and to four where it
/// is sticky.
pub(super) const MAX_BEHIND_SECONDS: u64 = 5;

/// The generation of the rate in force, and the rates before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// The low bits of every word that the rate in force writes.
    pub(super) generation: u64,
    /// Youngest first; at most as many as the bits of the generation can distinguish.
    past: Box<[Past]>,
}

/// A rate that was in force until `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    generation: u64,
    units: Units,
    until: Timestamp,
}

/// What a key lacks of a full bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    /// In units of the rate in force.
    pub(crate) units: u128,
    /// False for a word that another rate wrote: it is written anew with the next decision, also when that is
    /// a denial, since after four changes of the rate nobody could read it.
    pub(super) is_current: bool,
}

impl History {
    /// The history of the rate that follows `units` at `at`.
    pub(super) fn followed_by(&self, units: Units, at: Timestamp) -> Self {
        let ended = Past { generation: self.generation, units, until: at };
        let remembered = self.past.iter().copied().take(GENERATIONS as usize - 2);
        Self {
            generation: (self.generation + 1) % GENERATIONS,
            past: core::iter::once(ended).chain(remembered).collect(),
        }
    }

    /// Whether the rate before was `units`, in the generation of `old`.
    pub(super) fn follows(&self, old: &Self, units: Units) -> bool {
        self.past.first().is_some_and(|past| past.generation == old.generation && past.units == units)
    }

    /// What a word owes at `now` that the rate in force, whose units are `units`, has not written. A word of
    /// a forgotten rate owes what its expiry says, but at most `bucket_span`.
    #[cold]
    pub(super) fn debt(&self, word: Word, units: &Units, bucket_span: u64, now: Timestamp) -> Debt {
        let now_units = |units: &Units, at: Timestamp| u128::from(at.as_nanos()) * u128::from(units.scale());
        let written = word.value % GENERATIONS;
        let Some(first) = self.past.iter().position(|past| past.generation == written) else {
            let latest = u128::from(word.expires.seconds()) * u128::from(units.per_second());
            let units = latest.saturating_sub(now_units(units, now)).min(u128::from(bucket_span));
            return Debt { units, is_current: false };
        };
        // What it owed when its rate ended is owed in permits at the next rate, and so on; the last leg is in
        // force.
        let Past { units: mut rate, until: mut at, .. } = self.past[first];
        let mut debt = tat(word, &rate).saturating_sub(now_units(&rate, at));
        let younger = self.past[..first].iter().rev().map(|past| (past.units, past.until));
        for (next, ends) in younger.chain(core::iter::once((*units, now))) {
            let owed = debt.saturating_mul(u128::from(next.interval())).div_ceil(u128::from(rate.interval()));
            let elapsed =
                u128::from(ends.as_nanos().saturating_sub(at.as_nanos())) * u128::from(next.scale());
            debt = owed.saturating_sub(elapsed);
            (rate, at) = (next, ends);
        }
        Debt { units: debt, is_current: false }
    }
}

/// The whole TAT of a word in units since the Unix epoch; where value and expiry disagree, the latest that
/// the expiry allows.
fn tat(word: Word, units: &Units) -> u128 {
    const MODULUS: u128 = 1 << (64 - GENERATION_BITS);
    let latest = u128::from(word.expires.seconds()) * u128::from(units.per_second());
    let behind = (latest % MODULUS + MODULUS - u128::from(word.value >> GENERATION_BITS)) % MODULUS;
    let is_behind = behind <= u128::from(MAX_BEHIND_SECONDS) * u128::from(units.per_second());
    if is_behind { latest.saturating_sub(behind) } else { latest }
}
