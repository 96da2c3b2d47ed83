//! Classes of one parent: both sums, the parent's bound over all of them, the guaranteed part of each, and
//! the part that one may borrow.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Period, Quota, QuotaError, RetryAfter, State, StepParams, Timestamp};

use crate::any::{at, period, start};

#[derive(Clone, Debug)]
struct Parent {
    limit: u64,
    period_ns: u64,
    burst: u64,
    weights: Arc<[u32]>,
}

impl Parent {
    fn class(&self, class: usize) -> Result<Quota, QuotaError> {
        let algorithm =
            Algorithm::PriorityBuckets { burst: Some(self.burst), weights: self.weights.clone(), class };
        Quota::new(self.limit, Period::Span(Duration::from_nanos(self.period_ns)), algorithm)
    }

    fn classes(&self) -> Vec<Quota> {
        (0..self.weights.len()).map(|class| self.class(class).expect("within bounds")).collect()
    }

    fn sum(&self) -> u64 {
        self.weights.iter().map(|weight| u64::from(*weight)).sum()
    }
}

fn parent() -> impl Strategy<Value = Parent> {
    (1_u64..40, period(), 0_u64..60, prop::collection::vec(1_u32..12, 1..6)).prop_map(
        |(limit, period_ns, more, weights)| {
            let burst = weights.len() as u64 + more;
            Parent { limit, period_ns, burst, weights: weights.into() }
        },
    )
}

/// A request: the time since the previous one, in parts of the period (also back), its class, and its cost.
type ClassRequest = (f64, usize, u64);

fn asks() -> impl Strategy<Value = Vec<ClassRequest>> {
    let gap = prop_oneof![
        4 => Just(0.0), 4 => 0.0..0.2, 2 => 0.0..1.5, 1 => Just(1.0), 1 => 0.0..9.0, 1 => -1.0..0.0,
    ];
    // Most of the time one or two classes are busy and the others lend.
    let class = prop_oneof![3 => Just(0_usize), 2 => 0..2_usize, 2 => 0..6_usize];
    let cost = prop_oneof![6 => Just(1), 3 => 0..8_u64, 1 => 0..70_u64];
    prop::collection::vec((gap, class, cost), 1..120)
}

/// The requests at their instants, by a clock that may step back.
fn times(parent: &Parent, asks: &[ClassRequest], start: u64) -> Vec<(u64, usize, u64)> {
    let mut now = start;
    let classes = parent.weights.len();
    let at = |&(gap, class, cost): &ClassRequest| {
        now = now.saturating_add_signed((gap * parent.period_ns as f64).round() as i64).max(start);
        (now, class % classes, cost)
    };
    asks.iter().map(at).collect()
}

/// A bucket that remembers nothing but its level, in exact parts of a permit.
#[derive(Clone)]
struct ExactBucket {
    level: i128,
    full: i128,
    per_ns: i128,
    permit: i128,
    last: u64,
}

impl ExactBucket {
    fn new(burst: u64, weight: u64, parent: &Parent, start: u64) -> Self {
        let permit = i128::from(parent.period_ns) * i128::from(parent.sum());
        let full = i128::from(burst) * permit;
        let per_ns = i128::from(parent.limit) * i128::from(weight);
        Self { level: full, full, per_ns, permit, last: start }
    }

    fn refill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.last);
        self.level = self.full.min(self.level + self.per_ns * i128::from(passed));
        self.last = self.last.max(now);
    }

    fn has(&self, cost: u64) -> bool {
        self.level >= i128::from(cost) * self.permit
    }

    fn pay(&mut self, cost: u64) {
        self.level -= i128::from(cost) * self.permit;
    }
}

/// All levels, filled in phases: until the next of the classes is full, the inflow is divided by weight among
/// those that are not. In parts of a permit of 2^-40, so that the model's own roundings do not matter.
#[derive(Clone)]
struct Fluid {
    missing: Vec<i128>,
    weights: Vec<i128>,
    limit: i128,
    permit: i128,
    last: u64,
}

impl Fluid {
    fn new(parent: &Parent, start: u64) -> Self {
        let weights: Vec<i128> = parent.weights.iter().map(|weight| i128::from(*weight)).collect();
        let permit = (i128::from(parent.period_ns) * i128::from(parent.sum())) << 40;
        Self {
            missing: vec![0; weights.len()],
            weights,
            limit: i128::from(parent.limit),
            permit,
            last: start,
        }
    }

    fn refill(&mut self, now: u64) {
        let passed = i128::from(now.saturating_sub(self.last));
        self.last = self.last.max(now);
        let mut inflow = (self.limit * self.weights.iter().sum::<i128>() * passed) << 40;
        loop {
            let open: Vec<usize> = (0..self.missing.len()).filter(|class| self.missing[*class] > 0).collect();
            let weight: i128 = open.iter().map(|class| self.weights[*class]).sum();
            let Some(&next) =
                open.iter().min_by_key(|class| self.missing[**class] * 5_000 / self.weights[**class])
            else {
                return;
            };
            let until = self.missing[next] * weight / self.weights[next];
            let phase = inflow.min(until);
            for class in open {
                let part = phase * self.weights[class] / weight;
                self.missing[class] = (self.missing[class] - part).max(0);
            }
            inflow -= phase;
            if inflow == 0 {
                return;
            }
            self.missing[next] = 0;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn bursts_and_rates_of_the_classes_sum_to_those_of_the_parent(
        limit in 1..=Quota::LARGEST_LIMIT,
        period_ns in 1_u64..=3_000_000_000_000_000,
        burst in prop_oneof![16_u64..100, 16_u64..100_000],
        small in prop_oneof![1_u64..40, Just(u64::MAX)],
        weights in prop_oneof![
            prop::collection::vec(1_u32..=1_000, 1..=16), prop::collection::vec(1_u32..8, 1..5),
        ],
    ) {
        let parent = Parent { limit: limit.min(small), period_ns, burst, weights: weights.into() };
        let sum = u128::from(parent.sum());
        let classes = parent.weights.len();
        let fill_ns = u128::from(burst) * u128::from(period_ns) / u128::from(parent.limit);
        prop_assume!(fill_ns < 900_000_000_000_000_000);
        let quota = parent.class(classes - 1).expect("within bounds");
        let StepParams::Priority(params) = quota.step_params() else { panic!("it is one") };
        prop_assert_eq!(params.bursts().iter().sum::<u64>(), burst);
        prop_assert_eq!(params.bursts()[classes - 1], quota.burst());
        let units = params.units_per_permit();
        let limit = u128::from(parent.limit);
        prop_assert_eq!(params.flows().sum::<u128>() * u128::from(period_ns), limit * units);
        let has_permit = |weight: &u32| u128::from(*weight) * u128::from(burst) >= sum;
        let has_all_a_permit = parent.weights.iter().all(has_permit);
        for ((flow, &own), &weight) in params.flows().zip(params.bursts()).zip(parent.weights.iter()) {
            let weight = u128::from(weight);
            prop_assert_eq!(flow * sum * u128::from(period_ns), limit * weight * units);
            // Rounded by less than a permit, unless some class must be given its first.
            let exact = u128::from(burst) * weight;
            prop_assert!(own >= 1);
            if has_all_a_permit {
                let off = (u128::from(own) * sum).abs_diff(exact);
                prop_assert!(off < sum, "{} of {} by {}", own, burst, weight);
            }
        }
    }

    #[test]
    fn all_classes_together_never_exceed_the_burst_and_the_rate_of_the_parent(
        parent in parent(), asks in asks(), start in start(),
    ) {
        let quotas = parent.classes();
        let mut state = quotas[0].fresh();
        let mut whole = ExactBucket::new(parent.burst, parent.sum(), &parent, start);
        for (now, class, cost) in times(&parent, &asks, start) {
            let is_admitted = quotas[class].take(&mut state, Cost(cost), at(now)).is_admitted();
            if is_admitted && cost > 0 {
                whole.refill(now);
                prop_assert!(whole.has(cost), "too much at {} of class {}", now, class);
                whole.pay(cost);
            }
        }
    }

    /// A class owes nobody the permits that it borrows: compared with its own bucket alone, it is never
    /// behind by a whole request.
    #[test]
    fn a_class_gets_at_least_its_own_rate_and_burst_whatever_the_others_do(
        parent in parent(), asks in asks(), start in start(),
    ) {
        let quotas = parent.classes();
        let mut state = quotas[0].fresh();
        let weight = |class: usize| u64::from(parent.weights[class]);
        let own = |class: usize| ExactBucket::new(quotas[class].burst(), weight(class), &parent, start);
        // One bucket pays the admissions of the class, and one lives alone.
        let mut paying: Vec<ExactBucket> = (0..quotas.len()).map(own).collect();
        let mut alone: Vec<ExactBucket> = (0..quotas.len()).map(own).collect();
        let mut got = vec![0; quotas.len()];
        let mut got_alone = vec![0; quotas.len()];
        let mut largest = 1;
        let mut now = start;
        for (then, class, cost) in times(&parent, &asks, start) {
            now = now.max(then);
            largest = largest.max(cost);
            paying[class].refill(now);
            alone[class].refill(now);
            let is_promised = paying[class].has(cost);
            let is_admitted = quotas[class].take(&mut state, Cost(cost), at(now)).is_admitted();
            prop_assert!(is_admitted || !is_promised, "class {} was denied its own", class);
            if is_admitted {
                paying[class].pay(cost);
                got[class] += cost;
            }
            if alone[class].has(cost) {
                alone[class].pay(cost);
                got_alone[class] += cost;
            }
            prop_assert!(got[class] + largest > got_alone[class], "class {} is behind", class);
        }
    }

    /// From both sides: a cost that the fluid covers is admitted, any other is denied.
    #[test]
    fn what_the_others_leave_idle_is_lent_by_weight(parent in parent(), asks in asks(), start in start()) {
        let quotas = parent.classes();
        let mut state = quotas[0].fresh();
        let mut fluid = Fluid::new(&parent, start);
        let unsure = (fluid.permit >> 24).max(1); // 1,400 times the units of all steps
        for (now, class, cost) in times(&parent, &asks, start) {
            let before = fluid.clone();
            fluid.refill(now);
            let full = i128::from(quotas[class].burst()) * fluid.permit;
            let after = full - fluid.missing[class] - i128::from(cost) * fluid.permit;
            let said = quotas[class].take(&mut state, Cost(cost), at(now));
            if said.is_admitted() {
                prop_assert!(after > -unsure, "class {} has no {} at {}", class, cost, now);
                fluid.missing[class] += i128::from(cost) * fluid.permit;
            } else {
                prop_assert!(after < unsure, "class {} has {} at {}", class, cost, now);
            }
            let left = i128::from(said.remaining()) * fluid.permit;
            let has = full - fluid.missing[class];
            prop_assert!(left < has + unsure && (has < left + fluid.permit + unsure), "{} of {}", left, has);
            if !said.is_admitted() || cost == 0 {
                fluid = before; // what changes nothing remembers no time either
            }
        }
    }

    #[test]
    fn a_class_that_is_busy_alone_gets_the_whole_rate(
        parent in parent(), class in 0_usize..6, permits in 1_u64..200, start in start(),
    ) {
        prop_assume!(parent.limit <= parent.period_ns);
        let mut parent = parent;
        parent.burst = 2 * parent.sum(); // with one permit, the part of a nanosecond is lost that fills it
        let quotas = parent.classes();
        let quota = &quotas[class % quotas.len()];
        let mut state = quota.fresh();
        prop_assert!(quota.take(&mut state, Cost(quota.burst()), at(start)).is_admitted());
        let mut now = at(start);
        for nth in 1..=permits {
            let denied = quota.take(&mut state, Cost::ONE, now);
            if let RetryAfter::After(wait) = denied.retry_after() {
                now = now + wait;
                prop_assert!(quota.take(&mut state, Cost::ONE, now).is_admitted());
            }
            let flows_ns = u128::from(nth) * u128::from(parent.period_ns);
            let due = u128::from(start) + flows_ns.div_ceil(parent.limit.into());
            prop_assert_eq!(u128::from(now.as_nanos()), due, "permit {}", nth);
        }
    }

    #[test]
    fn classes_that_are_all_busy_get_what_their_weights_say(parent in parent(), ticks in 1_u64..300) {
        let mut parent = parent;
        parent.burst = 2 * parent.sum(); // at least 2 each, so that a fresh permit always has room
        let quotas = parent.classes();
        let tick_ns = (parent.period_ns / parent.limit).max(1);
        prop_assume!(tick_ns * parent.limit <= parent.period_ns);
        let mut state = quotas[0].fresh();
        let mut got = vec![0; quotas.len()];
        for tick in 0..=ticks {
            for (quota, got) in quotas.iter().zip(&mut got) {
                *got += quota.take_at_most(&mut state, Cost(1_000), at(1 + tick * tick_ns)).0.permits();
            }
        }
        for ((quota, got), &weight) in quotas.iter().zip(got).zip(parent.weights.iter()) {
            let flowed = u128::from(ticks * tick_ns) * u128::from(parent.limit) * u128::from(weight)
                / (u128::from(parent.period_ns) * u128::from(parent.sum()));
            prop_assert_eq!(u128::from(got), u128::from(quota.burst()) + flowed, "weight {}", weight);
        }
    }

    #[test]
    fn waits_are_exact_and_denials_change_nothing(parent in parent(), asks in asks(), start in start()) {
        let quotas = parent.classes();
        let mut state = quotas[0].fresh();
        for (now, class, cost) in times(&parent, &asks, start) {
            let quota = &quotas[class];
            let before = state.clone();
            let said = quota.take(&mut state, Cost(cost), at(now));
            match said.retry_after() {
                RetryAfter::Now => prop_assert!(said.is_admitted()),
                RetryAfter::After(wait) => {
                    prop_assert_eq!(&state, &before);
                    let retry = at(now) + wait;
                    let early = at(retry.as_nanos() - 1);
                    let fits = |at| quota.take(&mut state.clone(), Cost(cost), at).is_admitted();
                    prop_assert!(!fits(early), "{:?} early", said);
                    prop_assert!(fits(retry), "{:?} late", said);
                }
                RetryAfter::Never => prop_assert!(cost > quota.burst() && state == before),
            }
            let full = at(now) + said.reset_after();
            let left = |at: Timestamp| quota.take(&mut state.clone(), Cost::PEEK, at).remaining();
            prop_assert_eq!(left(full), quota.burst());
            if !said.reset_after().is_zero() {
                prop_assert!(left(at(full.as_nanos() - 1)) < quota.burst());
            }
        }
        // A state that has expired is as none: every class is full.
        let expired = Timestamp::from_unix_seconds(state.expires().seconds());
        if state.expires().is_past(expired) {
            for quota in &quotas {
                prop_assert_eq!(quota.take(&mut state, Cost::PEEK, expired).remaining(), quota.burst());
            }
        }
    }

    #[test]
    fn a_refund_restores_what_was_taken_and_never_more(
        parent in parent(), asks in asks(), class in 0_usize..6, cost in 1_u64..60, later in 0.0..3.0,
        start in start(),
    ) {
        let quotas = parent.classes();
        let mut state = quotas[0].fresh();
        let mut now = start;
        for (then, class, cost) in times(&parent, &asks, start) {
            let _ = quotas[class].take(&mut state, Cost(cost), at(then));
            now = then.max(now);
        }
        let quota = &quotas[class % quotas.len()];
        let mut without = state.clone();
        let (Cost(cost), said) = quota.take_at_most(&mut state, Cost(cost), at(now));
        let then = now + (later * parent.period_ns as f64) as u64;
        let back = quota.refundable(Cost(cost), &said, at(now), at(then));
        if then == now {
            prop_assert_eq!(back, Cost(cost));
        }
        let _ = quota.give_back(&mut state, back, at(then));
        for quota in &quotas {
            let left = |state: &mut State| quota.take(state, Cost::PEEK, at(then)).remaining();
            prop_assert!(left(&mut state) <= left(&mut without), "more than if it had never been taken");
        }
    }

    #[test]
    fn a_changed_parent_keeps_what_was_taken_to_a_permit(
        old in parent(), new in parent(), asks in asks(), start in start(),
    ) {
        let quotas = old.classes();
        let mut state = quotas[0].fresh();
        let mut now = start;
        for (then, class, cost) in times(&old, &asks, start) {
            let _ = quotas[class].take(&mut state, Cost(cost), at(then));
            now = then.max(now);
        }
        // Written as of now, so that the new rate has no part in the earlier inflow.
        let _ = quotas[0].charge(&mut state, Cost::ONE, at(now));
        for (was, is) in quotas.iter().zip(new.classes()) {
            let missing = was.burst() - was.take(&mut state.clone(), Cost::PEEK, at(now)).remaining();
            let left = is.take(&mut state.clone(), Cost::PEEK, at(now)).remaining();
            let burst = is.burst();
            prop_assert!(left <= (burst + 1).saturating_sub(missing), "{} of {} less {}", left, burst, missing);
            // The first class may owe the permit that it was charged.
            prop_assert!(left + missing + 2 >= burst, "{} of {} less {}", left, burst, missing);
        }
    }

    /// The largest numbers, debts of all classes, and clocks at both ends of time.
    #[test]
    fn nothing_overflows(
        limit in prop_oneof![
            Just(1), Just(Quota::LARGEST_LIMIT), Just(Quota::LARGEST_LIMIT - 1), Just(999_999_937_u64),
        ],
        period in prop_oneof![
            Just(1_u64), Just(315_360_000_000_000_000), Just(315_359_999_999_999_989), Just(7),
        ],
        burst in prop_oneof![Just(16_u64), Just(Quota::LARGEST_LIMIT)],
        steps in prop::collection::vec(
            (0_usize..16, any::<u64>(), prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 0_u8..4), 1..40,
        ),
    ) {
        let weights: Vec<u32> = (0..16).map(|class| if class % 3 == 0 { 1 } else { 1_000 - class }).collect();
        let parent = Parent { limit, period_ns: period, burst, weights: weights.into() };
        let Ok(first) = parent.class(0) else {
            let fill_ns = u128::from(burst) * u128::from(period) / u128::from(limit);
            prop_assert!(fill_ns > 900_000_000_000_000_000, "only a bucket that takes decades is rejected");
            return Ok(());
        };
        let mut state = first.fresh();
        for (class, cost, now, what) in steps {
            let quota = parent.class(class).expect("as the first");
            let said = match what {
                0 => quota.take(&mut state, Cost(cost % 40), at(now)),
                1 => quota.take(&mut state, Cost(cost), at(now)),
                2 => quota.charge(&mut state, Cost(cost), at(now)),
                _ => quota.give_back(&mut state, Cost(cost), at(now)),
            };
            prop_assert!(said.remaining() <= quota.burst());
        }
    }
}

#[test]
fn what_cannot_be_split_is_an_error_that_says_why() {
    let parent = |burst, weights: &[u32]| Parent {
        limit: 10,
        period_ns: 1_000_000_000,
        burst,
        weights: weights.into(),
    };
    let class =
        |burst, weights: &[u32], class| parent(burst, weights).class(class).map(|quota| quota.burst());
    assert_eq!(class(10, &[6, 3, 1], 0), Ok(6));
    assert_eq!(class(3, &[98, 1, 1], 0), Ok(1), "each has at least one");
    assert_eq!(class(10, &[1, 1, 1], 0), Ok(4), "what is left over goes to the first");
    assert_eq!(class(10, &[], 0), Err(QuotaError::Classes(0)));
    assert_eq!(class(99, &[1; 17], 0), Err(QuotaError::Classes(17)));
    assert_eq!(class(10, &[1, 0], 0), Err(QuotaError::Weight(0)));
    assert_eq!(class(10, &[1, 1_001], 0), Err(QuotaError::Weight(1_001)));
    assert_eq!(class(10, &[1, 1], 2), Err(QuotaError::NoSuchClass { class: 2, classes: 2 }));
    assert_eq!(class(1, &[1, 1], 0), Err(QuotaError::FewForClasses { burst: 1, classes: 2 }));
    assert_eq!(class(0, &[1, 1], 0), Err(QuotaError::Empty("burst")));
    let denied = Parent { limit: 0, ..parent(2, &[1, 1]) }.class(1).expect("a limit of 0 admits nothing");
    assert!(denied.take(&mut denied.fresh(), Cost::ONE, at(1)).never_fits());
}

#[test]
fn the_shares_of_nodes_have_a_permit_for_each_class() {
    let parent = Parent { limit: 90, period_ns: 1_000_000_000, burst: 60, weights: [2, 1].into() };
    let quota = parent.class(0).expect("a class");
    let bursts = |nodes| match quota.share_of(nodes).step_params() {
        StepParams::Priority(params) => params.bursts().to_vec(),
        _ => Vec::new(),
    };
    assert_eq!((bursts(1), bursts(3), bursts(100)), (vec![40, 20], vec![13, 7], vec![1, 1]));
    assert_eq!(quota.share_of(3).period(), &Period::Span(Duration::from_secs(3)));
}
