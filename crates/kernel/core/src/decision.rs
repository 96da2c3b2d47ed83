//! The answer to one take.

use core::time::Duration;

/// Whether the request may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request may pass (after [`Decision::delay`], where that is not zero).
    Admit,
    /// The request may not pass now; [`Decision::retry_after`] says whether it may later.
    Deny,
}

/// The wait until the same cost would be admitted, if nothing else is taken meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryAfter {
    /// The request was admitted: no wait is needed.
    Now,
    /// A retry after exactly this span passes, and one nanosecond earlier does not.
    After(Duration),
    /// The cost is above what the quota can ever hold: no wait helps.
    Never,
}

/// The answer to one take: whether it may pass, and the permits that are left.
///
/// All spans are exact to the nanosecond; protocols round them up to whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// The delay in nanoseconds; with [`Self::DENIED`] for a denial, so that a caller that needs only the
    /// outcome does not pay for computing the wait. With [`Self::COUNTED`] or [`Self::OWES`], permits
    /// instead.
    delay: u64,
    /// `0`: admitted; `u64::MAX`: never. A denial always waits. For permits that were used already, the time
    /// until one is left, also where the payment is admitted.
    pub(crate) retry_ns: u64,
    pub(crate) reset_ns: u64,
}

impl Decision {
    const NEVER: u64 = u64::MAX;
    /// The highest bit marks a denial: no delay is as long as 73 years.
    const DENIED: u64 = 1 << 63;
    /// The bits below [`Self::COUNTED`] are the permits that are owed, and not a delay.
    const OWES: u64 = 1 << 62;
    /// The denied hits were counted; the bits below are the permits that were left before.
    const COUNTED: u64 = 1 << 61;

    /// Admitted at once: `remaining` permits are left, and the quota is full again after `reset_ns`. For
    /// stores that decide by themselves, such as one that has leased permits; all other decisions come from
    /// this crate.
    pub const fn admit(limit: u64, remaining: u64, reset_ns: u64) -> Self {
        Self { limit, remaining, delay: 0, retry_ns: 0, reset_ns }
    }

    /// A denial that ends after `retry_ns`, which is made at least 1: a denial never returns 0.
    #[inline]
    pub fn deny(limit: u64, remaining: u64, retry_ns: u64, reset_ns: u64) -> Self {
        let retry_ns = retry_ns.clamp(1, Self::NEVER - 1);
        Self { limit, remaining, delay: Self::DENIED, retry_ns, reset_ns }
    }

    /// Denied for good: no wait helps.
    pub const fn never(limit: u64, remaining: u64, reset_ns: u64) -> Self {
        Self { limit, remaining, delay: Self::DENIED, retry_ns: Self::NEVER, reset_ns }
    }

    /// The same denial, for hits that were counted all the same; `left` permits were available before.
    #[inline]
    pub(crate) fn counted(mut self, left: u64) -> Self {
        self.delay = Self::DENIED | Self::COUNTED | left.min(Self::COUNTED - 1);
        self
    }

    /// The decision on permits that are used already: `remaining` are left, or `owed` are missing beyond the
    /// full quota. One is left after `until_one_ns`; [`u64::MAX`]: never. For stores that decide by
    /// themselves, as [`Self::admit`].
    pub fn used(limit: u64, remaining: u64, owed: u64, until_one_ns: u64, reset_ns: u64) -> Self {
        let retry_ns = if remaining > 0 { 0 } else { until_one_ns.max(1) };
        let delay = if owed > 0 { Self::OWES | owed.min(Self::COUNTED - 1) } else { 0 };
        Self { limit, remaining, delay, retry_ns, reset_ns }
    }

    /// The same decision on used permits, denied: nothing was left before.
    pub fn denied(mut self) -> Self {
        self.delay |= Self::DENIED;
        self.retry_ns = self.retry_ns.max(1);
        self
    }

    /// The same decision on used permits, admitted even if no permit was left before.
    pub const fn admitted(mut self) -> Self {
        self.delay &= !Self::DENIED;
        self
    }

    /// The same decision, to act `delay_ns` later.
    pub(crate) const fn with_delay(mut self, delay_ns: u64) -> Self {
        let delay_ns = if delay_ns < Self::COUNTED { delay_ns } else { Self::COUNTED - 1 };
        self.delay = self.delay & Self::DENIED | delay_ns;
        self
    }

    /// A copy, made field by field: 250 instructions per decision in memory, where a plain copy makes them
    /// 270 to 273. Where one of two answers comes from a call that is not inlined, the compiler keeps the
    /// other in registers only if they are not copied as blocks of memory.
    #[doc(hidden)]
    #[inline]
    pub const fn by_fields(&self) -> Self {
        let Self { limit, remaining, delay, retry_ns, reset_ns } = *self;
        Self { limit, remaining, delay, retry_ns, reset_ns }
    }

    /// Admit or deny.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        if self.is_admitted() { Outcome::Admit } else { Outcome::Deny }
    }

    /// True when it may pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.delay & Self::DENIED == 0
    }

    /// Permits per window that the quota states.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Permits that an immediate take could still get.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The time by which an admitted request should be delayed (pacing); zero in every algorithm except the
    /// queue form. There, a denial has the delay that the request would have had.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        let is_delay = self.delay & (Self::COUNTED | Self::OWES) == 0;
        Duration::from_nanos(if is_delay { self.delay & !Self::DENIED } else { 0 })
    }

    /// The permits that a denied take found, which were fewer than its cost. These are [`Self::remaining`],
    /// unless the denied hits were counted, as a fixed window does: then nothing remains of them.
    #[must_use]
    pub const fn found(&self) -> u64 {
        match self.delay & Self::COUNTED {
            0 => self.remaining,
            _ => self.delay & (Self::COUNTED - 1),
        }
    }

    /// The permits that were used beyond all available ones; they are repaid before anything is left. Known
    /// for decisions on permits that were used already ([`Quota::charge`](crate::Quota::charge),
    /// [`Quota::pay`](crate::Quota::pay)); otherwise 0.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        if self.delay & Self::OWES == 0 { 0 } else { self.delay & (Self::COUNTED - 1) }
    }

    /// The wait until this cost fits. After a denial of [`Quota::pay`](crate::Quota::pay): until a permit is
    /// left, so that a check is admitted.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        if self.is_admitted() { RetryAfter::Now } else { self.left_after() }
    }

    /// After a payment for permits that were used already, admitted or not: the wait until one is left, so
    /// that a check is admitted. After any other decision: as [`Self::retry_after`].
    #[must_use]
    pub const fn left_after(&self) -> RetryAfter {
        match self.retry_ns {
            0 => RetryAfter::Now,
            Self::NEVER => RetryAfter::Never,
            ns => RetryAfter::After(Duration::from_nanos(ns)),
        }
    }

    /// True when no wait would help: the cost is above what the quota can hold.
    #[must_use]
    pub const fn never_fits(&self) -> bool {
        self.retry_ns == Self::NEVER && !self.is_admitted()
    }

    /// The time until the full quota is available again, if nothing is taken meanwhile; [`u64::MAX`] ns (584
    /// years) for never.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_ns)
    }
}
