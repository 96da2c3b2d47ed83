//! The interface between a limiter and its observer.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Outcome, Timestamp};
use tollgate_policy::{Domain, Entry, Policy};
use tollgate_store::{StoreError, StoreName};
use tracing::Span;

use crate::rejections::Rejected;
use crate::status::{Intervened, Status};
use crate::throttled::{Throttle, Throttled};

/// Receives the events of a limiter. Most calls are made while a request is decided, and must neither block
/// nor fail.
///
/// `()` observes nothing: its calls vanish at compile time.
pub trait Observer: Send + Sync + 'static {
    /// Data prepared for a policy when it is loaded, and passed back with each decision by it.
    type Rules: Send + Sync + 'static;

    /// Makes ready for the rules of `policy`, which are put into force next.
    fn prepare(&self, policy: &Policy) -> Self::Rules;

    /// Rules were loaded, or rejected.
    fn rules_loaded(&self, loaded: RulesLoaded<'_>, now: Timestamp);

    /// The limiter is in use from `now` on. Limiters are made without a clock, so `now` is about the time at
    /// which its first rules were loaded.
    fn started(&self, now: Timestamp);

    /// Reservations can be asked for their numbers from now on.
    fn watch_reservations(&self, stats: impl Fn() -> ReservationStats + Send + Sync + 'static);

    /// Slots can be asked for their numbers from now on.
    fn watch_slots(&self, stats: impl Fn() -> SlotStats + Send + Sync + 'static);

    /// Queues can be asked for their numbers from now on.
    fn watch_queue(&self, stats: impl Fn() -> QueueStats + Send + Sync + 'static);

    /// A request was not answered by the rules.
    fn request_rejected(&self, rejected: Rejected<'_>);

    /// A request was for a domain without rules, and was decided as the settings say.
    fn unknown_domain(&self, domain: &str, outcome: Outcome);

    /// A request came while no rules were loaded, so that nothing was decided.
    fn no_rules(&self);

    /// Blocks and allowances by operators were replaced; `in_force` are left.
    fn interventions_changed(&self, in_force: usize);

    /// A descriptor was decided by a block or an allowance.
    fn intervened(&self, how: Intervened);

    /// The store was called with a batch of `takes`.
    fn store_called(&self, takes: usize);

    /// The store did not answer a take.
    fn take_unanswered(&self);

    /// Hits that were used already could not be counted, since the store did not answer.
    fn charge_lost(&self, permits: u64);

    /// A call to the store failed; `is_first` is false while it stays unavailable.
    fn store_failed(&self, error: &StoreError, is_first: bool, now: Timestamp);

    /// The store answers again.
    fn store_recovered(&self, store: &StoreName);

    /// A request was decided; `entries` returns the entries of a descriptor by its place.
    fn decided<'e>(
        &self,
        rules: &Self::Rules,
        decided: Decided<'_>,
        entries: impl Fn(usize) -> &'e [Entry<'e>],
    );

    /// Quotas that came with their requests were decided; `throttled` has one answer for each of `asks`.
    fn throttled(&self, asks: &[Throttle<'_>], throttled: &[Throttled], now: Timestamp);

    /// Whether any request is sampled.
    fn is_sampling(&self) -> bool;

    /// A span for a request over `surface`, if it is sampled: as its `traceparent` says, else by chance.
    fn call_span(&self, surface: &'static str, domain: &str, traceparent: Option<&str>) -> Option<Span>;
}

/// An attempt to load rules.
#[derive(Clone, Copy, Debug)]
pub enum RulesLoaded<'a> {
    /// The rules of this version are in force.
    InForce {
        /// Twelve hexadecimal digits.
        version: &'a str,
    },
    /// The new rules were faulty, so the previous ones stay in force.
    Rejected {
        /// The version that stays in force.
        version: &'a str,
        /// The error in the new ones.
        why: Option<&'a Arc<str>>,
    },
}

/// One decided request.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// Domain of the request.
    pub domain: &'a Domain,
    /// States of its descriptors, in their order.
    pub statuses: &'a [Status],
    /// It would have been denied as a whole, but the server is in shadow mode.
    pub is_shadowed: bool,
    /// The time of the decision.
    pub now: Timestamp,
}

/// Numbers of reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationStats {
    /// Reservations that are neither settled nor over.
    pub open: u64,
    /// Most reservations that may be open at a time.
    pub max: u64,
    /// Bytes that the open ones take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub max_bytes: u64,
    /// All reservations ever made.
    pub made: u64,
    /// Reservations that were committed.
    pub committed: u64,
    /// Reservations that were cancelled.
    pub cancelled: u64,
    /// Reservations that expired without a commit or a cancel.
    pub expired: u64,
    /// Reservations that were not made, since all places were taken.
    pub full: u64,
    /// Reservations that were not made, since the domain and first entry had its share of the places.
    pub caller_share: u64,
    /// Reservations that were not made, since the domain had its share of the places.
    pub domain_share: u64,
}

/// Numbers of events of slots, as far as this node was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// Slots that holders took.
    pub acquired: u64,
    /// Slots that were renewed.
    pub renewed: u64,
    /// Attempts that found no free slot.
    pub denied: u64,
    /// Slots that their holders released.
    pub released: u64,
    /// Releases of slots that their holders did not have (any more).
    pub not_held: u64,
    /// Slots that were found expired.
    pub expired: u64,
}

impl SlotStats {
    /// Slots that are held, of those that this node gave out. Below zero if slots of other nodes were
    /// released here: only the sum over all nodes has a meaning.
    #[must_use]
    pub const fn in_use(&self) -> i64 {
        self.acquired.wrapping_sub(self.released).wrapping_sub(self.expired) as i64
    }
}

/// Upper bounds of the buckets of waits; one further bucket has no bound.
pub const QUEUE_WAITS: [Duration; 12] = {
    let ms = Duration::from_millis;
    [
        ms(1),
        ms(5),
        ms(10),
        ms(50),
        ms(100),
        ms(250),
        ms(500),
        ms(1_000),
        ms(2_500),
        ms(5_000),
        ms(10_000),
        ms(30_000),
    ]
};

/// Numbers of requests that a rule with a queue made wait for their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Requests that wait now.
    pub waiting: u64,
    /// Most requests that may wait at a time.
    pub max: u64,
    /// Requests that began to wait.
    pub joined: u64,
    /// Requests that were admitted at their turn.
    pub passed: u64,
    /// Requests that something else denied at their turn.
    pub denied: u64,
    /// Requests whose time was up before their turn.
    pub timed_out: u64,
    /// Requests whose callers went away before their turn.
    pub left: u64,
    /// Requests that were denied because the process ends.
    pub ended: u64,
    /// Requests that were denied at once, since all places were taken.
    pub full: u64,
    /// Requests that were denied at once, since their domain or caller had its share of the places.
    pub over_share: u64,
    /// Requests that were denied at once, since they would have waited for too long.
    pub too_long: u64,
    /// Waits of the requests that passed, by [`QUEUE_WAITS`] and one further bucket; not cumulative.
    pub waits: [u64; QUEUE_WAITS.len() + 1],
    /// The sum of these waits, in nanoseconds.
    pub wait_ns: u64,
}

impl Observer for () {
    type Rules = ();

    fn prepare(&self, _: &Policy) {}

    fn rules_loaded(&self, _: RulesLoaded<'_>, _: Timestamp) {}

    fn started(&self, _: Timestamp) {}

    fn watch_reservations(&self, _: impl Fn() -> ReservationStats + Send + Sync + 'static) {}

    fn watch_slots(&self, _: impl Fn() -> SlotStats + Send + Sync + 'static) {}

    fn watch_queue(&self, _: impl Fn() -> QueueStats + Send + Sync + 'static) {}

    #[inline(always)]
    fn request_rejected(&self, _: Rejected<'_>) {}

    #[inline(always)]
    fn unknown_domain(&self, _: &str, _: Outcome) {}

    #[inline(always)]
    fn no_rules(&self) {}

    fn interventions_changed(&self, _: usize) {}

    fn intervened(&self, _: Intervened) {}

    #[inline(always)]
    fn store_called(&self, _: usize) {}

    #[inline(always)]
    fn take_unanswered(&self) {}

    fn charge_lost(&self, _: u64) {}

    #[inline(always)]
    fn store_failed(&self, _: &StoreError, _: bool, _: Timestamp) {}

    #[inline(always)]
    fn store_recovered(&self, _: &StoreName) {}

    #[inline(always)]
    fn decided<'e>(&self, (): &(), _: Decided<'_>, _: impl Fn(usize) -> &'e [Entry<'e>]) {}

    #[inline(always)]
    fn throttled(&self, _: &[Throttle<'_>], _: &[Throttled], _: Timestamp) {}

    #[inline(always)]
    fn is_sampling(&self) -> bool {
        false
    }

    #[inline(always)]
    fn call_span(&self, _: &'static str, _: &str, _: Option<&str>) -> Option<Span> {
        None
    }
}
