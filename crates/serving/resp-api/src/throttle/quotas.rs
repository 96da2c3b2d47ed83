//! The quotas used last. A client uses the same few again and again, and building a quota costs as much as
//! several decisions.

use std::time::Duration;

use tollgate_core::{Algorithm, Period, Quota, QuotaError, Refill};

use super::form::Form;
use crate::reply::saturate;

/// Quotas kept. Each rate has one slot, and a new quota replaces the one before it there.
const SLOTS: usize = 64;

/// A rate as the client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThrottleRate {
    pub(crate) form: Form,
    pub(crate) burst: i64,
    pub(crate) count: i64,
    pub(crate) period: i64,
}

/// Where a quota is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaSlot(u8);

/// A quota, built.
#[derive(Debug)]
pub(crate) struct BuiltQuota {
    rate: ThrottleRate,
    pub(crate) quota: Quota,
    /// Permits available at once; the limit of the reply.
    pub(crate) capacity: i64,
}

/// Quotas by their rates.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Vec<Option<BuiltQuota>>);

/// Why a rate is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRate {
    #[error("ERR max_burst is {0}; the smallest is {1}")]
    Burst(i64, i64),
    #[error("ERR count is {0}; the smallest is 1")]
    Count(i64),
    #[error("ERR period is {0}; the smallest is 1")]
    Period(i64),
    /// The message is the reply, so that the quota's error is part of it and not a source.
    #[error("ERR {0}")]
    Quota(QuotaError),
}

impl Quotas {
    /// The slot of the quota of `rate`, if it is kept.
    #[inline]
    pub(crate) fn find(&self, rate: &ThrottleRate) -> Option<QuotaSlot> {
        let slot = slot_of(rate);
        self.0.get(usize::from(slot.0))?.as_ref().filter(|kept| kept.rate == *rate).map(|_| slot)
    }

    /// Builds the quota of `rate` and puts it into its slot.
    #[cold]
    pub(crate) fn make(&mut self, rate: ThrottleRate) -> Result<QuotaSlot, InvalidRate> {
        let kept = BuiltQuota::new(rate)?;
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, || None);
        }
        let slot = slot_of(&rate);
        self.0[usize::from(slot.0)] = Some(kept);
        Ok(slot)
    }

    /// The quota in `slot`.
    #[inline]
    pub(crate) fn get(&self, slot: QuotaSlot) -> &BuiltQuota {
        match &self.0[usize::from(slot.0)] {
            Some(kept) => kept,
            None => unreachable!("a slot is returned only for a quota in it"),
        }
    }
}

/// The slot of `rate`. It does not matter which rates share a slot.
#[inline]
fn slot_of(rate: &ThrottleRate) -> QuotaSlot {
    let mix = |sum: u64, number: i64| (sum ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mix(mix(mix(rate.form as u64, rate.burst), rate.count), rate.period);
    QuotaSlot((mixed >> 32) as u8 % SLOTS as u8)
}

impl BuiltQuota {
    fn new(rate: ThrottleRate) -> Result<Self, InvalidRate> {
        let ThrottleRate { form, burst, count, period } = rate;
        // redis-cell admits one more than the burst at once; throttlecrab calls that sum the burst.
        let (smallest, beyond) = if form == Form::Crab { (1, 0) } else { (0, 1) };
        let burst = u64::try_from(burst).ok().filter(|_| burst >= smallest);
        let burst = burst.ok_or(InvalidRate::Burst(rate.burst, smallest))?;
        let count = u64::try_from(count).ok().filter(|&count| count > 0).ok_or(InvalidRate::Count(count))?;
        let period =
            u64::try_from(period).ok().filter(|&period| period > 0).ok_or(InvalidRate::Period(period))?;
        let period = match form {
            Form::Cell | Form::Crab => Duration::from_secs(period),
            Form::Millis => Duration::from_millis(period),
        };
        let capacity = burst + beyond;
        let algorithm = Algorithm::TokenBucket {
            burst: Some(capacity),
            initial: None,
            overdraft: 0,
            refill: Refill::Continuous,
        };
        let quota = Quota::new(count, Period::Span(period), algorithm)
            .map_err(InvalidRate::Quota)?
            .keeping_instants();
        Ok(Self { rate, quota, capacity: saturate(capacity) })
    }
}
