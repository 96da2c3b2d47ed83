//! The last rates of a rule, shared by all its generations.

use core::sync::atomic::Ordering;

use portable_atomic::AtomicU64;

use crate::rational::Units;

/// The low bits of a word: the generation of the rate that wrote it.
pub(crate) const GENERATION_BITS: u32 = 4;
pub(super) const GENERATIONS: u64 = 1 << GENERATION_BITS;

/// The rates whose generations have different bits in a word. A decision that was overtaken by changes of the
/// rate finds here the units of the later rates.
#[derive(Debug)]
pub(super) struct Lineage {
    newest: AtomicU64,
    /// The rate of generation n is at index n modulo 16.
    rates: [Rate; GENERATIONS as usize],
}

/// Units of a rate; neither number is 0 once they are known.
#[derive(Debug, Default)]
struct Rate {
    scale: AtomicU64,
    interval: AtomicU64,
}

impl Lineage {
    /// The lineage of a rate that nothing has followed yet.
    pub(super) fn new(generation: u64, units: &Units) -> Self {
        let lineage = Self { newest: AtomicU64::new(generation), rates: Default::default() };
        lineage.rate(generation).set(units);
        lineage
    }

    /// Records that `generation` has the rate of `units`.
    pub(super) fn add(&self, generation: u64, units: &Units) {
        self.rate(generation).set(units);
        self.newest.fetch_max(generation, Ordering::AcqRel);
    }

    /// The units of the youngest rate after `generation` whose words have `mark` as their low bits.
    pub(super) fn later(&self, generation: u64, mark: u64) -> Option<Units> {
        let newest = self.newest.load(Ordering::Acquire);
        let before_newest = newest.wrapping_sub(mark) % GENERATIONS;
        let written = newest.checked_sub(before_newest)?;
        if written > generation { self.rate(written).units() } else { None }
    }

    fn rate(&self, generation: u64) -> &Rate {
        &self.rates[(generation % GENERATIONS) as usize]
    }
}

impl Rate {
    fn set(&self, units: &Units) {
        self.scale.store(units.scale(), Ordering::Release);
        self.interval.store(units.interval(), Ordering::Release);
    }

    fn units(&self) -> Option<Units> {
        let scale = self.scale.load(Ordering::Acquire);
        let interval = self.interval.load(Ordering::Acquire);
        (scale > 0 && interval > 0).then(|| Units::of(scale, interval))
    }
}
