//! The answer to a request, as transports get it.

use std::time::Duration;

use arc_swap::Guard;
use std::sync::Arc;
use tollgate_core::{Decision, Outcome, RetryAfter};
use tollgate_policy::{Domain, Limit, Policy, Rule};

use crate::rules::Rules;
use crate::scratch::Scratch;
use tollgate_observe::{Degraded, Kind, LimitRef, Metrics, Observer, retry_after};

/// The answer to one request. Holds the rules that it was decided by, so that a reload does not change it.
pub struct Answer<'s, O: Observer = Metrics> {
    pub(crate) rules: Guard<Arc<Rules<O>>>,
    pub(crate) domain: Option<usize>,
    pub(crate) overall: Outcome,
    pub(crate) is_shadowed: bool,
    pub(crate) waited_ns: u64,
    /// Only the results are read. One reference, since answers are moved a lot.
    pub(crate) scratch: &'s Scratch,
}

/// The answer of one of several limits of a descriptor.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitAnswer<'a> {
    /// The limit, as the rule defines it or as it came with the request.
    pub limit: &'a Limit,
    /// Whether the limit itself admits. The effect on the request, and shadow mode of the rule, are not
    /// included.
    pub outcome: Outcome,
    /// Permits left; 0 if it denies.
    pub remaining: u64,
    /// The choice that decided without the store; `None` if the store answered.
    pub degraded: Option<Degraded>,
    /// The limit that [`DescriptorAnswer::limit`] shows.
    pub is_shown: bool,
    decision: Option<Decision>,
}

impl LimitAnswer<'_> {
    /// Time until the full quota is restored.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.as_ref().map_or(Duration::ZERO, Decision::reset_after)
    }

    /// Time until this cost fits.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        retry_after(self.decision.as_ref(), self.outcome, self.degraded)
    }
}

/// The answer to one descriptor.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DescriptorAnswer<'a> {
    /// The rule it falls under; `None` when nothing limits it.
    pub rule: Option<&'a Rule>,
    /// The limit that binds: the rule's (or the request's own) that has denied longest, or has the least
    /// left. `None` when no counter was asked: no rule, an unlimited or a replaced one.
    pub limit: Option<&'a Limit>,
    /// Whether it may pass. A shadow rule always admits.
    pub outcome: Outcome,
    /// The decision of the binding limit's counter; `None` without one, or if the store did not answer.
    pub decision: Option<Decision>,
    /// Permits asked for.
    pub hits: u64,
    /// Kind of the limit, or the reason why there is none.
    pub kind: Kind,
    /// A soft limit: the request is denied only when all its soft limits deny.
    pub is_quota: bool,
    /// It would have been denied, but its rule is in shadow mode.
    pub is_shadowed: bool,
    /// Its hits were counted. False also when another limit denied and the domain charges all together.
    pub is_charged: bool,
    /// It was admitted above a limit, within the excess of that limit.
    pub in_excess: bool,
    /// The choice of the rule that decided, if the store did not answer.
    pub degraded: Option<Degraded>,
    /// Time that the request has waited for its turn, if its rule queues: a part of [`delay`](Self::delay).
    pub waited: Duration,
    remaining: u64,
}

impl DescriptorAnswer<'_> {
    /// True when it may pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admit)
    }

    /// Permits left: `u64::MAX` when unlimited, 0 when no counter was asked.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Permits used beyond those available, where the hits were used already: by a post-paid limit, or
    /// reported as consumed.
    #[must_use]
    pub fn owed(&self) -> u64 {
        self.decision.as_ref().map_or(0, Decision::owed)
    }

    /// Time until the full quota is restored; zero if no counter was asked.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.as_ref().map_or(Duration::ZERO, Decision::reset_after)
    }

    /// Time until this cost fits. This is the counter's answer, also if a shadow rule admits the request.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        retry_after(self.decision.as_ref(), self.outcome, self.degraded)
    }

    /// Delay after which an admitted request should act, counted from its arrival; zero except with pacing
    /// rules, and with rules that queue: there the request has [`waited`](Self::waited) for that long
    /// already.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.waited + self.decision.as_ref().map_or(Duration::ZERO, Decision::delay)
    }
}

impl<O: Observer> Answer<'_, O> {
    /// Whether the request may pass.
    #[must_use]
    pub const fn overall(&self) -> Outcome {
        self.overall
    }

    /// True when the request may pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.overall, Outcome::Admit)
    }

    /// It would have been denied as a whole, but the server is in shadow mode.
    #[must_use]
    pub const fn is_shadowed(&self) -> bool {
        self.is_shadowed
    }

    /// Time until a retry can pass: the longest wait of the descriptors that deny. `Now` if the request is
    /// admitted.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        let denying = self.descriptors().filter(|descriptor| !descriptor.is_admitted());
        match self.overall {
            Outcome::Admit => RetryAfter::Now,
            Outcome::Deny => denying.map(|it| it.retry_after()).max().unwrap_or(RetryAfter::Now),
        }
    }

    /// Time that the request has waited for its turn, because a rule queues.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns)
    }

    /// The choice that decided without the store; `None` if the store answered everything. Of several
    /// descriptors, the greatest [`Degraded`] is reported.
    #[must_use]
    pub fn degraded(&self) -> Option<Degraded> {
        self.scratch.statuses.iter().filter_map(|status| status.degraded).max()
    }

    /// Whether the request passes above a limit, within the excess of that limit.
    #[must_use]
    pub fn is_in_excess(&self) -> bool {
        self.is_admitted() && self.scratch.statuses.iter().any(|status| status.in_excess)
    }

    /// The request's domain, where there are rules for it.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        self.domain.map(|index| &self.rules.policy().domains()[index])
    }

    /// The rules by which it was decided.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.rules.policy()
    }

    /// One answer for each descriptor, in the request's order.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = DescriptorAnswer<'_>> {
        let domain = self.domain();
        self.scratch.statuses.iter().map(move |status| {
            let rule = domain.zip(status.rule).map(|(domain, place)| &domain.rules()[place as usize]);
            let limit = match status.limit {
                None => None,
                Some(LimitRef::Rule(index)) => rule.map(|rule| &rule.limits[index as usize]),
                Some(LimitRef::Override(index)) => Some(&self.scratch.overrides[index as usize].limit),
            };
            DescriptorAnswer {
                rule,
                limit,
                outcome: status.outcome,
                decision: status.decision,
                hits: status.hits,
                kind: status.kind,
                is_quota: status.is_quota,
                is_shadowed: status.is_shadowed,
                is_charged: status.is_charged,
                in_excess: status.in_excess,
                degraded: status.degraded,
                waited: match rule {
                    Some(rule) if rule.max_wait.is_some() && status.kind == Kind::Limited => self.waited(),
                    _ => Duration::ZERO,
                },
                remaining: status.remaining,
            }
        })
    }

    /// The limits of the descriptor at `index`, in the order of its rule, if it has several: those that could
    /// bind it. Empty where no limit was asked, and where [`DescriptorAnswer::limit`] is the only one.
    pub fn limits(&self, index: usize) -> impl Iterator<Item = LimitAnswer<'_>> {
        let status = self.scratch.statuses.get(index);
        let rule = self.domain().zip(status.and_then(|status| status.rule));
        let rule = rule.map(|(domain, place)| &domain.rules()[place as usize]);
        let own = self.scratch.settled.iter().filter(move |it| it.descriptor as usize == index);
        own.filter_map(move |it| match it.limit {
            LimitRef::Rule(place) => Some(LimitAnswer {
                limit: rule.filter(|rule| rule.limits.len() > 1)?.limits.get(place as usize)?,
                outcome: it.outcome,
                remaining: it.remaining,
                degraded: it.degraded,
                is_shown: status.is_some_and(|status| status.limit == Some(it.limit)),
                decision: it.decision,
            }),
            LimitRef::Override(_) => None,
        })
    }

    /// Whether the rule of any descriptor has several limits.
    #[must_use]
    pub const fn has_several_limits(&self) -> bool {
        !self.scratch.settled.is_empty()
    }

    /// The answer to the descriptor at `index`.
    #[must_use]
    pub fn descriptor(&self, index: usize) -> Option<DescriptorAnswer<'_>> {
        self.descriptors().nth(index)
    }
}

impl<O: Observer> std::fmt::Debug for Answer<'_, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("overall", &self.overall)
            .field("statuses", &self.scratch.statuses)
            .finish_non_exhaustive()
    }
}
