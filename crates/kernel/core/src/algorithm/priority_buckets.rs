//! Priority buckets: one parent of `limit` permits per period and `burst` at once, split over classes by
//! weight. A class takes from its own bucket alone, and may borrow the idle permits of the others.
//!
//! - Class k has the rate limit·w_k/sum(w), exactly, and a burst of burst·w_k/sum(w), rounded so that the
//!   bursts are whole, at least 1, and sum to the parent's.
//! - The inflow of a full class is split by weight over the classes that are not full. So a class gets at
//!   least its own rate and burst whatever the others do, a single busy class gets the whole rate, and the
//!   permits of all classes at one instant are never above `burst`: over any span t all classes together are
//!   admitted at most burst + limit·t/period. The saved permits of a class are never lent.
//!
//! Levels are whole numbers of units of at most 2^-32 permits, in which all rates are whole too. The inflow
//! is divided down to whole units, and the units that remain (fewer than one per class) go to the first
//! classes that are not full: the parent's rate and each class's own rate are exact, and a class gets its
//! part of the borrowed units up to one unit per step.
//!
//! The cells: a tag, the last instant in ns, units of a permit (two cells), and per class the units that are
//! missing (two cells each).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bounds::{LONGEST_FILL, MAX_CLASSES, MAX_COUNT, MAX_WEIGHT};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::state::{Expiry, Wide};
use crate::time::Timestamp;

/// First cell of every state of this algorithm.
pub(crate) const TAG: u64 = 7;
/// A unit is at most 1/2^32 of a permit.
const LEAST_UNITS: u64 = 1 << 32;

type Missing = [u128; MAX_CLASSES];

/// One class of a parent.
#[derive(Clone, Debug)]
pub(crate) struct PriorityBuckets {
    class: usize,
    burst: u64,
    parent: Arc<Parent>,
}

#[derive(Debug)]
struct Parent {
    limit: u64,
    weights: Vec<u64>,
    bursts: Vec<u64>,
    /// Units of one permit.
    permit: u128,
    /// Units that flow in per ns.
    inflow: u128,
}

/// The units that each class is missing, as of an instant.
#[derive(Clone, Copy)]
struct Levels {
    last: u64,
    missing: Missing,
}

impl PriorityBuckets {
    pub(crate) fn new(
        limit: u64,
        period_ns: u64,
        burst: u64,
        weights: &[u32],
        class: usize,
    ) -> Result<Self, QuotaError> {
        check(burst, weights)?;
        let classes = weights.len();
        let shared = gcd(limit, period_ns);
        let limit_part = limit / shared;
        let period_part = period_ns / shared;
        let fine = u128::from((LEAST_UNITS / period_part).max(1));
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let permit = u128::from(period_part) * fine * u128::from(sum);
        let inflow = u128::from(limit_part) * fine * u128::from(sum);
        if u128::from(burst) * permit / inflow > u128::from(LONGEST_FILL) {
            return Err(QuotaError::SlowBucket { capacity: burst });
        }
        let bursts = split(burst, weights);
        let Some(&own) = bursts.get(class) else {
            return Err(QuotaError::NoSuchClass { class, classes });
        };
        let weights = weights.iter().map(|weight| u64::from(*weight)).collect();
        let parent = Arc::new(Parent { limit, weights, bursts, permit, inflow });
        Ok(Self { class, burst: own, parent })
    }

    /// The most permits that this class has at once.
    pub(crate) const fn burst(&self) -> u64 {
        self.burst
    }

    /// The most permits that each class has at once.
    pub(crate) fn bursts(&self) -> &[u64] {
        &self.parent.bursts
    }

    /// Units that flow to each class per ns.
    pub(crate) fn flows(&self) -> impl Iterator<Item = u128> + '_ {
        let sum = self.parent.weights.iter().map(|weight| u128::from(*weight)).sum::<u128>();
        let flow = self.parent.inflow / sum.max(1);
        self.parent.weights.iter().map(move |weight| flow * u128::from(*weight))
    }

    pub(crate) const fn class(&self) -> usize {
        self.class
    }

    pub(crate) fn weights(&self) -> &[u64] {
        &self.parent.weights
    }

    /// Units that flow in per ns.
    pub(crate) fn inflow(&self) -> u128 {
        self.parent.inflow
    }

    /// A state that another rule wrote, in units of this rule.
    pub(crate) fn carried(&self, state: &Wide, now: Timestamp) -> Wide {
        let mut after = Wide::default();
        let _peek = self.write(&mut after, &self.stored(state, now), now);
        after
    }

    /// Units of one permit.
    pub(crate) fn permit(&self) -> u128 {
        self.parent.permit
    }

    pub(crate) fn take(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let stored = self.stored(state, now);
        let mut levels = self.filled(&stored, now);
        let limit = self.parent.limit;
        if cost.permits() > self.burst {
            return Decision::never(limit, self.left(&levels), self.until(&stored, 0, now));
        }
        let room = self.parent.permit * u128::from(self.burst - cost.permits());
        if levels.missing[self.class] > room {
            let retry_ns = self.until(&stored, room, now);
            let reset_ns = self.until(&stored, 0, now);
            return Decision::deny(limit, self.left(&levels), retry_ns, reset_ns);
        }
        if cost.is_peek() {
            return Decision::admit(limit, self.left(&levels), self.until(&stored, 0, now));
        }
        levels.missing[self.class] += self.parent.permit * u128::from(cost.permits());
        self.write(state, &levels, now)
    }

    pub(crate) fn give_back(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let back = self.parent.permit * u128::from(cost.permits().min(MAX_COUNT));
        let mut levels = self.filled(&self.stored(state, now), now);
        let missing = levels.missing[self.class];
        if missing == 0 || back == 0 {
            return self.take(state, Cost::PEEK, now);
        }
        levels.missing[self.class] = missing.saturating_sub(back);
        self.write(state, &levels, now)
    }

    pub(crate) fn charge(&self, state: &mut Wide, cost: Cost, now: Timestamp) -> Decision {
        let permit = self.parent.permit;
        let mut stored = self.stored(state, now);
        let mut levels = self.filled(&stored, now);
        if !cost.is_peek() {
            let missing = levels.missing[self.class];
            let more = permit * u128::from(cost.permits().min(MAX_COUNT));
            levels.missing[self.class] = (missing + more).min(permit * u128::from(MAX_COUNT)).max(missing);
            let _admitted = self.write(state, &levels, now);
            stored = levels;
        }
        let lacking = levels.missing[self.class].saturating_sub(permit * u128::from(self.burst));
        let until_one_ns = self.until(&stored, permit * u128::from(self.burst - 1), now);
        let owed = clamped(lacking.div_ceil(permit));
        let reset_ns = self.until(&stored, 0, now);
        Decision::used(self.parent.limit, self.left(&levels), owed, until_one_ns, reset_ns)
    }

    /// Whole permits of this class.
    fn left(&self, levels: &Levels) -> u64 {
        let full = self.parent.permit * u128::from(self.burst);
        (full.saturating_sub(levels.missing[self.class]) / self.parent.permit) as u64
    }

    /// The wait until this class lacks no more than `room` units. Computed from the stored state, as the take
    /// that comes then will be: two steps may round differently from one.
    fn until(&self, stored: &Levels, room: u128, now: Timestamp) -> u64 {
        let need = stored.missing[self.class].saturating_sub(room);
        let wait = if need == 0 { 0 } else { self.parent.wait_ns(&stored.missing, self.class, need) };
        if wait == 0 { 0 } else { stored.last.saturating_add(wait).saturating_sub(now.as_nanos()) }
    }

    /// The missing units of each class when the state was written; zero as of `now` for an empty state.
    fn stored(&self, state: &Wide, now: Timestamp) -> Levels {
        let parent = &*self.parent;
        let mut missing = [0; MAX_CLASSES];
        let [_, last, low, high, rest @ ..] = &state.cells[..] else {
            return Levels { last: now.as_nanos(), missing };
        };
        let was_permit = wide(*low, *high);
        for (missing, cells) in missing.iter_mut().zip(rest.chunks_exact(2)).take(parent.weights.len()) {
            let units = wide(cells[0], cells[1]);
            *missing = if was_permit == parent.permit { units } else { parent.converted(units, was_permit) };
        }
        Levels { last: *last, missing }
    }

    /// The missing units at `now`; nothing flows in while the clock is behind.
    fn filled(&self, stored: &Levels, now: Timestamp) -> Levels {
        let mut levels = *stored;
        levels.last = levels.last.max(now.as_nanos());
        self.parent.fill(&mut levels.missing, levels.last - stored.last);
        levels
    }

    fn write(&self, state: &mut Wide, levels: &Levels, now: Timestamp) -> Decision {
        let parent = &*self.parent;
        let missing = &levels.missing[..parent.weights.len()];
        write_cells(&mut state.cells, levels.last, parent.permit, missing);
        let until_all_full = clamped(sum(missing).div_ceil(parent.inflow));
        state.expires = Expiry::at(Timestamp::from_nanos(levels.last.saturating_add(until_all_full)));
        Decision::admit(parent.limit, self.left(levels), self.until(levels, 0, now))
    }
}

impl Parent {
    /// Lets `ns` nanoseconds' worth flow in: to the classes that are not full, by weight.
    fn fill(&self, missing: &mut Missing, ns: u64) {
        let mut inflow = self.inflow.saturating_mul(u128::from(ns));
        if sum(missing) <= inflow {
            *missing = [0; MAX_CLASSES];
            return;
        }
        // A class that its part fills is full in the end: the rest only makes the parts of the others larger.
        let mut weight: u64 = self.open(missing).map(|(_, weight)| weight).sum();
        let mut filled = true;
        while filled {
            filled = false;
            for (missing, &own) in missing.iter_mut().zip(&self.weights) {
                if *missing > 0 && *missing <= part(inflow, own, weight) {
                    (inflow, weight, filled) = (inflow - *missing, weight - own, true);
                    *missing = 0;
                }
            }
        }
        let mut rest = inflow;
        for (missing, &own) in missing.iter_mut().zip(&self.weights).filter(|(missing, _)| **missing > 0) {
            let part = part(inflow, own, weight);
            *missing -= part;
            rest -= part;
        }
        // Every part was below the missing units, so one unit more fits.
        for missing in missing.iter_mut().filter(|missing| **missing > 0) {
            let more = rest.min(1);
            *missing -= more;
            rest -= more;
        }
    }

    /// The classes that are not full, and their weights.
    fn open<'a>(&'a self, missing: &'a Missing) -> impl Iterator<Item = (u128, u64)> + 'a {
        missing.iter().copied().zip(self.weights.iter().copied()).filter(|(missing, _)| *missing > 0)
    }

    /// The time until `need` units have flowed to `class`, which lacks at least as many.
    fn wait_ns(&self, missing: &Missing, class: usize, need: u128) -> u64 {
        // While this class gets `need`, every other gets as much by weight, and no more than it lacks.
        let own = self.weights[class];
        let flows = self.open(missing).map(|(missing, weight)| part_of_any(need, weight, own).min(missing));
        let inflow = flows.fold(0, u128::saturating_add);
        // The result is off by the units of the rounding, which are fewer than those of a nanosecond.
        let first = clamped(inflow / self.inflow).saturating_sub(1);
        let has_it = |ns: u64| {
            let mut after = *missing;
            self.fill(&mut after, ns);
            missing[class] - after[class] >= need
        };
        let last = first.saturating_add(4);
        (first..last).find(|ns| has_it(*ns)).unwrap_or(last)
    }

    /// `units` of a permit of `was_permit` units in units of this parent, rounded up.
    fn converted(&self, units: u128, was_permit: u128) -> u128 {
        let was_permit = was_permit.max(1);
        let permits = units / was_permit;
        let rest = units % was_permit;
        let most = u128::from(MAX_COUNT);
        if permits >= most {
            return self.permit * most;
        }
        // 48 bits of the part of a permit are enough.
        let shift = (u128::BITS - was_permit.leading_zeros()).saturating_sub(48);
        let rest = rest.div_ceil(1 << shift);
        let was_permit = was_permit >> shift;
        permits * self.permit + (rest * self.permit).div_ceil(was_permit).min(self.permit)
    }
}

/// The missing units of all classes together. The sum saturates: more than 2^128 units take longer to flow in
/// than any caller waits.
fn sum(missing: &[u128]) -> u128 {
    missing.iter().copied().fold(0, u128::saturating_add)
}

/// A state with these numbers; its expiry is not set.
pub(crate) fn state(last: u64, permit: u128, missing: &[u128]) -> Wide {
    let mut state = Wide::default();
    write_cells(&mut state.cells, last, permit, missing);
    state
}

fn write_cells(cells: &mut Vec<u64>, last: u64, permit: u128, missing: &[u128]) {
    let halves = |units: u128| [units as u64, (units >> 64) as u64];
    cells.clear();
    cells.reserve_exact(4 + 2 * missing.len());
    cells.extend([TAG, last]);
    cells.extend(halves(permit));
    cells.extend(missing.iter().flat_map(|units| halves(*units)));
}

/// Whether `burst` can be split over `weights`.
fn check(burst: u64, weights: &[u32]) -> Result<(), QuotaError> {
    let classes = weights.len();
    if classes == 0 || classes > MAX_CLASSES {
        return Err(QuotaError::Classes(classes));
    }
    if let Some(&weight) = weights.iter().find(|weight| !(1..=MAX_WEIGHT).contains(*weight)) {
        return Err(QuotaError::Weight(weight));
    }
    if burst < classes as u64 {
        return Err(QuotaError::FewForClasses { burst, classes });
    }
    Ok(())
}

/// `total`·`own`/`sum`, rounded down, for `own` ≤ `sum`.
const fn part(total: u128, own: u64, sum: u64) -> u128 {
    let sum = if sum == 0 { 1 } else { sum as u128 };
    (total / sum) * own as u128 + (total % sum) * own as u128 / sum
}

/// The same for any `own`, saturating.
const fn part_of_any(total: u128, own: u64, sum: u64) -> u128 {
    let sum = sum as u128;
    (total / sum).saturating_mul(own as u128).saturating_add((total % sum) * own as u128 / sum)
}

/// `burst` split by weight: whole numbers of at least 1 that sum to it. The permits that rounding down leaves
/// go to the largest remainders; a class with less than 1 is filled up from the largest.
fn split(burst: u64, weights: &[u32]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let exact = |weight: u32| u128::from(burst) * u128::from(weight);
    let mut bursts: Vec<u64> = weights.iter().map(|weight| (exact(*weight) / sum) as u64).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|class| core::cmp::Reverse(exact(weights[*class]) % sum));
    let left = burst - bursts.iter().sum::<u64>();
    for class in by_remainder.into_iter().take(left as usize) {
        bursts[class] += 1;
    }
    while let Some(class) = bursts.iter().position(|burst| *burst == 0) {
        let Some(largest) = bursts.iter_mut().max().filter(|largest| **largest > 1) else { break };
        *largest -= 1;
        bursts[class] = 1;
    }
    bursts
}

const fn wide(low: u64, high: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

fn clamped(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
