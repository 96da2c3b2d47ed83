//! The earlier rates of a rule, and the debt of a word that one of them wrote.
//!
//! The word of a bucket: the instant at which its key is full again (TAT) in the units of the rate that wrote
//! it, modulo 2^60, then four bits for the generation of the rule that had that rate. The word's expiry gives
//! the TAT to a few seconds and its value gives the rest, so the TAT is known in full, in 128 bits.
//!
//! A decision that a change of the rate overtakes reads the words of a later rate: generations that follow
//! one another share their [`Lineage`], which knows those too.

mod lineage;

use alloc::boxed::Box;
use alloc::sync::Arc;

use once_cell::race::OnceBox;

pub(super) use self::lineage::GENERATION_BITS;
use self::lineage::{GENERATIONS, Lineage};
use crate::rational::Units;
use crate::state::Word;
use crate::time::Timestamp;

/// The most seconds by which a TAT may be behind the expiry of its word: the expiry is rounded up to a
/// second, and to four where it is sticky.
pub(super) const MAX_BEHIND_SECONDS: u64 = 5;

/// The generation of the rate in force, the rates before it, and those that may have followed.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Counts the rates. The low bits of every word that the rate in force writes are those of this number.
    generation: u64,
    /// Youngest first; at most as many as the bits of the generation can distinguish.
    past: Box<[Past]>,
    /// Empty before the first change of the rate.
    lineage: OnceBox<Arc<Lineage>>,
}

/// A rate that was in force until `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    generation: u64,
    units: Units,
    until: Timestamp,
}

/// The units that a key is missing of a full bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    /// In units of the rate in force.
    pub(crate) units: u128,
    /// False for a word that another rate wrote: it is written anew with the next decision, also when that is
    /// a denial, since after sixteen changes of the rate nobody could read it.
    pub(super) is_current: bool,
}

impl Clone for History {
    fn clone(&self) -> Self {
        let clone = Self { generation: self.generation, past: self.past.clone(), lineage: OnceBox::new() };
        clone.share_lineage_of(self);
        clone
    }
}

impl History {
    /// The low bits of every word that the rate in force writes.
    #[inline(always)]
    pub(super) const fn mark(&self) -> u64 {
        self.generation % GENERATIONS
    }

    /// The history of the rate of `next` units, which follows that of `units` at `at`.
    pub(super) fn followed_by(&self, units: Units, next: &Units, at: Timestamp) -> Self {
        let first = || Box::new(Arc::new(Lineage::new(self.generation, &units)));
        let lineage = Arc::clone(self.lineage.get_or_init(first));
        let generation = self.generation + 1;
        lineage.add(generation, next);
        let ended = Past { generation: self.generation, units, until: at };
        let is_told_apart = |past: &Past| generation - past.generation < GENERATIONS;
        let remembered = core::iter::once(ended).chain(self.past.iter().copied());
        Self {
            generation,
            past: remembered.filter(is_told_apart).collect(),
            lineage: OnceBox::with_value(Box::new(lineage)),
        }
    }

    /// From here on this history knows the rates that follow `other`.
    pub(super) fn share_lineage_of(&self, other: &Self) {
        if let Some(lineage) = other.lineage.get() {
            let _unless_it_has_one = self.lineage.set(Box::new(Arc::clone(lineage)));
        }
    }

    /// True when both have the same earlier rates, and the same generation now.
    pub(super) fn is_that_of(&self, other: &Self) -> bool {
        self.generation == other.generation && self.past == other.past
    }

    /// Whether the rate before was `units`, in the generation of `old`.
    pub(super) fn follows(&self, old: &Self, units: Units) -> bool {
        self.past.first().is_some_and(|past| past.generation == old.generation && past.units == units)
    }

    /// The debt at `now` of a word that the rate in force, whose units are `units`, has not written. A word
    /// of an unknown rate owes the time until its expiry, but at most `bucket_span`.
    #[cold]
    pub(super) fn debt(&self, word: Word, units: &Units, bucket_span: u128, now: Timestamp) -> Debt {
        let now_units = |units: &Units, at: Timestamp| u128::from(at.as_nanos()) * u128::from(units.scale());
        let written = word.value % GENERATIONS;
        let later = self.lineage.get().and_then(|lineage| lineage.later(self.generation, written));
        if let Some(later) = later {
            // Rounded up in the later rate's units and in these: never less than the debt.
            let owed = tat(word, &later).saturating_sub(now_units(&later, now));
            let units =
                owed.saturating_mul(u128::from(units.interval())).div_ceil(u128::from(later.interval()));
            return Debt { units, is_current: false };
        }
        let Some(first) = self.past.iter().position(|past| past.generation % GENERATIONS == written) else {
            let latest = u128::from(word.expires.seconds()) * u128::from(units.per_second());
            let units = latest.saturating_sub(now_units(units, now)).min(bucket_span);
            return Debt { units, is_current: false };
        };
        // The debt at the end of a rate is converted to permits of the next rate, and so on; the last leg is
        // in force.
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
