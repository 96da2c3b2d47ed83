//! Decisions are true: a ledger asked call by call answers as `core` does, and the permits that a lease's
//! decisions report can be taken.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Cost, Decision, Period, Quota, Refill, RetryAfter, Timestamp};
use tollgate_lease::{
    LeaseRequest, Ledger, LedgerCall, LedgerReply, MOST_NODES, Mistake, Mono, Node, Op, Terms, Verdict,
};

use tollgate_lease_sim::Rng;

const BEGIN_US: u64 = 1_780_000_000_000_000;

fn bucket(limit: u64, period: Duration, burst: u64) -> Quota {
    let refill = Refill::Continuous;
    let algorithm = Algorithm::TokenBucket { burst: Some(burst), initial: None, overdraft: 0, refill };
    Quota::new(limit, Period::Span(period), algorithm).expect("within bounds")
}

fn window(limit: u64, period: Duration, align: Align) -> Quota {
    Quota::new(limit, Period::Span(period), Algorithm::FixedWindow { align }).expect("within bounds")
}

/// One node, alone with its ledger, on a network without delay.
#[derive(Clone)]
struct Alone {
    quota: Quota,
    terms: Terms,
    ledger: Ledger,
    node: Node,
    now_ns: u64,
    from_leases: u64,
}

impl Alone {
    fn new(quota: Quota) -> Self {
        let terms = Terms::of(&quota).expect("can be leased");
        Self { quota, terms, ledger: Ledger::default(), node: Node::new(7), now_ns: 0, from_leases: 0 }
    }

    fn take(&mut self, cost: u64) -> Decision {
        let now = Mono(self.now_ns);
        let mut step = self.node.take(&self.terms, Cost(cost), now);
        for _ in 0..10 {
            let before = step.send;
            if let Some(request) = step.send {
                let reply = self.call(Op::Lease(request));
                self.node.on_grant(&self.terms, &reply, now);
            }
            match step.verdict {
                Verdict::Decided(decision) => {
                    self.from_leases += 1;
                    return decision;
                }
                Verdict::Central => {
                    let reply = self.call(Op::Take { cost, times: 1 });
                    self.node.on_central(&self.terms, &reply, now, now);
                    return self.terms.decision(&reply, cost);
                }
                Verdict::Wait => assert!(before.is_some(), "waits for nothing"),
            }
            step = self.node.retake(&self.terms, Cost(cost), now);
        }
        panic!("a take waits forever");
    }

    fn call(&mut self, op: Op) -> tollgate_lease::LedgerReply {
        let now_us = BEGIN_US + self.now_ns / 1_000;
        let window_ends_us = self.terms.window_ends_us(&self.quota, Timestamp::from_nanos(now_us * 1_000));
        self.ledger.apply(&self.terms, LedgerCall { op, window_ends_us }, now_us)
    }

    fn is_admitted_after(&self, wait: Duration, cost: u64) -> bool {
        let mut later = self.clone();
        later.now_ns += wait.as_nanos() as u64;
        later.take(cost).is_admitted()
    }
}

#[test]
fn a_ledger_asked_call_by_call_answers_as_core_does() {
    let second = Duration::from_secs(1);
    for (at, quota) in [
        bucket(10, second, 10),
        bucket(3, second, 7),
        bucket(997, Duration::from_millis(700), 50),
        bucket(1_000_000, second, 5),
        window(10, second, Align::Calendar),
        window(10, Duration::from_millis(250), Align::FirstHit),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = Rng::new(at as u64);
        let terms = Terms::of(&quota).expect("can be leased");
        let is_first_hit = terms.begins_with_first_hit();
        let mut ledger = Ledger::default();
        let mut state = quota.fresh();
        let mut now_us = BEGIN_US;
        for _ in 0..3_000 {
            now_us += rng.pick(&[0, 1, 1_000, 40_000, 400_000, 3_000_000]);
            let now = Timestamp::from_nanos(now_us * 1_000);
            let cost = rng.pick(&[0, 1, 1, 1, 2, 5, 8, 100]);
            let (op, ours) = match rng.range(0, 9) {
                0..=1 if cost == 0 => continue,
                0 if is_first_hit => continue, // a first hit that is given back never was
                0 => (Op::GiveBack { cost }, quota.give_back(&mut state, Cost(cost), now)),
                1 => (Op::Charge { cost }, quota.charge(&mut state, Cost(cost), now)),
                _ => (Op::Take { cost, times: 1 }, quota.take(&mut state, Cost(cost), now)),
            };
            let call = LedgerCall { op, window_ends_us: terms.window_ends_us(&quota, now) };
            let mut reply = ledger.apply(&terms, call, now_us);
            if !matches!(op, Op::Take { .. }) {
                reply.admitted = 1; // core reports charges and returns as admitted, with any debt
            }
            let theirs = terms.decision(&reply, cost);
            let told = |decision: &Decision| (decision.is_admitted(), decision.limit(), decision.remaining());
            assert_eq!(told(&theirs), told(&ours), "{op:?} at {now_us} of {quota:?}");
            let near = |a: Duration, b: Duration| a.abs_diff(b) <= Duration::from_micros(1);
            assert!(near(theirs.reset_after(), ours.reset_after()), "{op:?}: {theirs:?} for {ours:?}");
            match (theirs.retry_after(), ours.retry_after()) {
                (RetryAfter::After(a), RetryAfter::After(b)) => {
                    assert!(near(a, b), "{op:?}: {a:?} for {b:?}")
                }
                (a, b) => assert_eq!(a, b, "{op:?} at {now_us}"),
            }
        }
    }
}

/// The largest difference between a ledger and core, in permits, with debts of seconds up to years.
fn furthest_in_deep_debt(quota: &Quota, fault: Option<Mistake>, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let terms = Terms::of(quota).expect("can be leased");
    let terms = terms.clone().making(fault);
    let mut ledger = Ledger::default();
    let mut state = quota.fresh();
    let mut now_us = BEGIN_US;
    let mut furthest = 0;
    for _ in 0..400 {
        now_us += rng.pick(&[0, 1, 1_000, 400_000, 3_600_000_000, 86_400_000_000]);
        let now = Timestamp::from_nanos(now_us * 1_000);
        // The refill of an hour, a day or a year, and less.
        let spans = [1, 1, 3_600, 86_400, 365 * 86_400].map(Duration::from_secs);
        let Period::Span(period) = quota.period() else { panic!("a span") };
        let most = rng.pick(&spans).as_nanos() * u128::from(quota.limit()) / period.as_nanos();
        let cost = rng.range(0, most as u64);
        let (op, ours) = match rng.range(0, 9) {
            0 => (Op::GiveBack { cost }, quota.give_back(&mut state, Cost(cost), now)),
            1..=3 => (Op::Charge { cost }, quota.charge(&mut state, Cost(cost), now)),
            _ => (Op::Take { cost: 1, times: 1 }, quota.take(&mut state, Cost::ONE, now)),
        };
        let reply = ledger.apply(&terms, LedgerCall { op, window_ends_us: 0 }, now_us);
        if let Op::Take { .. } = op {
            assert!(
                fault.is_some() || (reply.admitted == 1) == ours.is_admitted(),
                "{op:?}: {reply:?}, {ours:?}"
            );
        }
        let theirs = terms.used(&reply);
        let ours = quota.charge(&mut state, Cost::PEEK, now);
        furthest = furthest.max(theirs.owed().abs_diff(ours.owed()));
        if ledger.taken < terms.full() && ledger.dry_until_us > 0 {
            return u64::MAX; // permits are there that are owed
        }
    }
    furthest
}

/// Debts beyond the range of units are written as time, which comes back as fast, through returns of any
/// size.
#[test]
fn a_debt_deeper_than_units_is_owed_as_in_core() {
    let quotas = [
        bucket(1_000, Duration::from_secs(1), 100),
        bucket(86_399, Duration::from_secs(86_400), 86_399),
        bucket(50_001, Duration::from_secs(86_400), 50_001),
        bucket(1_000_000, Duration::from_secs(60), 5_000_000),
    ];
    for quota in &quotas {
        for seed in 0..20 {
            let furthest = furthest_in_deep_debt(quota, None, seed);
            assert!(furthest <= 20, "{furthest} permits off at seed {seed}: {quota:?}");
        }
    }
    let is_found =
        (0..20).any(|seed| furthest_in_deep_debt(&quotas[1], Some(Mistake::ForgetsDeepDebt), seed) > 20);
    assert!(is_found, "a ledger that forgets deep debts is not found");
}

/// A change of the rate keeps them in permits, and a clock that is set back keeps them as long.
#[test]
fn a_deep_debt_stays_the_same_through_a_change_of_rate_and_a_step_of_the_clock() {
    let day = Duration::from_secs(86_400);
    let [slow, fast] = [bucket(86_399, day, 86_399), bucket(172_801, day, 86_399)]
        .map(|quota| Terms::of(&quota).expect("can be leased"));
    let mut ledger = Ledger::default();
    let charged = 10_000_000;
    let call = |op| LedgerCall { op, window_ends_us: 0 };
    let owed = |reply: &LedgerReply, terms: &Terms| terms.used(reply).owed();
    let reply = ledger.apply(&slow, call(Op::Charge { cost: charged }), BEGIN_US);
    assert!(owed(&reply, &slow).abs_diff(charged - 86_399) <= 2, "{reply:?}");
    for (terms, at_us) in
        [(&fast, BEGIN_US), (&slow, BEGIN_US), (&fast, BEGIN_US), (&fast, BEGIN_US - 3_600_000_000)]
    {
        let reply = ledger.apply(terms, call(Op::Peek), at_us);
        assert!(owed(&reply, terms).abs_diff(charged - 86_399) <= 5, "{reply:?}");
    }
}

#[test]
fn merged_takes_are_answered_as_if_they_had_come_one_after_another() {
    for quota in [bucket(10, Duration::from_secs(1), 10), window(10, Duration::from_secs(1), Align::Calendar)]
    {
        let terms = Terms::of(&quota).expect("can be leased");
        let now = Timestamp::from_nanos(BEGIN_US * 1_000);
        let mut ledger = Ledger::default();
        let mut state = quota.fresh();
        let call = LedgerCall {
            op: Op::Take { cost: 3, times: 5 },
            window_ends_us: terms.window_ends_us(&quota, now),
        };
        let reply = ledger.apply(&terms, call, BEGIN_US);
        for nth in 0..5 {
            let one = quota.take(&mut state, Cost(3), now);
            // Everything except the state that a denial found, which the ledger does not know.
            let answer = |of: Decision| {
                (of.outcome(), of.limit(), of.remaining(), of.delay(), of.retry_after(), of.reset_after())
            };
            assert_eq!(answer(terms.decision_of(&reply, 3, nth, 5)), answer(one), "the {nth}th");
        }
    }
}

/// I7 and I11, for a single node: the reported permits can be taken, and not earlier than reported.
#[test]
fn what_a_leasing_node_reports_can_be_taken() {
    let second = Duration::from_secs(1);
    for (at, quota) in [
        bucket(1_000, second, 1_000),
        bucket(2_000, second, 300),
        bucket(997, Duration::from_millis(700), 900),
        window(3_000, second, Align::Calendar),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = Rng::new(at as u64);
        let mut alone = Alone::new(quota.clone());
        let mut denied = 0_u32;
        let mut early = 0_u32;
        for turn in 0..6_000 {
            let speed = [2_000_000, 400_000, 100_000][turn / 500 % 3];
            alone.now_ns += rng.range(0, speed);
            let cost = rng.pick(&[1, 1, 1, 1, 2, 7, 30]);
            let decision = alone.take(cost);
            assert_eq!(decision.limit(), quota.limit());
            let left = decision.remaining();
            if left > 0 {
                let mut clone = alone.clone();
                let taken = clone.take(left);
                assert!(
                    taken.is_admitted(),
                    "{left} told to be left at {turn}: {decision:?}, {taken:?} {:?} {:?}",
                    alone.node,
                    alone.ledger
                );
            }
            if let RetryAfter::After(wait) = decision.retry_after() {
                denied += 1;
                assert!(wait > Duration::ZERO);
                // The drift that is allowed for, and a microsecond for the ledger's clock.
                let wait = wait + Duration::from_micros(2);
                assert!(alone.is_admitted_after(wait, cost), "{cost} at {turn}: not after {wait:?}");
                let before = (wait * 9 / 10).saturating_sub(Duration::from_micros(100));
                early += u32::from(alone.is_admitted_after(before, cost));
            }
        }
        assert!(denied > 100 && alone.from_leases > 3_000, "{denied} denied, {} leased", alone.from_leases);
        assert!(early * 20 <= denied, "{early} of {denied} would have been admitted a tenth earlier");
    }
}

/// For example a host that was suspended: the permits that it held are not lost to others for the rest of the
/// window.
#[test]
fn permits_that_lapse_unspent_are_reported_and_come_back() {
    let mut alone = Alone::new(window(3_000, Duration::from_secs(60), Align::Calendar));
    while alone.node.held() == 0 {
        alone.now_ns += 100_000;
        assert!(alone.take(1).is_admitted());
    }
    let held = alone.node.held();
    let taken = alone.ledger.taken;
    alone.now_ns += alone.terms.tau_us() * 1_000;
    let now = Mono(alone.now_ns);
    let request = alone.node.on_time(&alone.terms, now).expect("news for the ledger");
    assert_eq!((request.held, alone.node.lapsed()), (0, held));
    let reply = alone.call(Op::Lease(request));
    assert!(alone.node.on_grant(&alone.terms, &reply, now));
    assert_eq!((reply.out, reply.taken), (0, taken - held));
    assert_eq!(alone.node.on_time(&alone.terms, now), None, "it is reported once");
}

/// Permits that the ledger does not know of go back to the lease, and only the others to the ledger, whose
/// book has the first as out.
#[test]
fn what_is_given_back_in_part_to_the_lease_is_all_there_again() {
    let mut alone = Alone::new(window(3_000, Duration::from_secs(60), Align::Calendar));
    let mut takes = 0;
    while alone.node.spent() < 50 {
        alone.now_ns += 100_000;
        assert!(alone.take(1).is_admitted());
        takes += 1;
    }
    let spent = alone.node.spent();
    let now = Mono(alone.now_ns);
    let rest = alone.node.give_back(&alone.terms, Cost(spent), now).expect_err("some are reported");
    assert!(rest < Cost(spent), "and some are not");
    alone.call(Op::GiveBack { cost: rest.permits() });
    let request = alone.node.give_up(&alone.terms, now).expect("it holds some");
    let reply = alone.call(Op::Lease(request));
    assert_eq!((reply.out, reply.taken), (0, takes - spent), "only what was taken centrally");
}

/// A lease ends a little before its window does: permits granted then can never be spent.
#[test]
fn right_before_a_windows_end_takes_go_to_the_ledger() {
    let mut alone = Alone::new(window(3_000, Duration::from_secs(1), Align::Calendar));
    while alone.now_ns < 999_000_000 {
        alone.now_ns += 1_000_000;
        assert!(alone.take(1).is_admitted());
    }
    let spent = alone.node.spent();
    let taken = alone.ledger.taken;
    assert!(alone.from_leases > 900, "{}", alone.from_leases);
    assert!(alone.take(1).is_admitted());
    assert_eq!((alone.node.spent(), alone.ledger.taken), (spent, taken + 1));
    alone.now_ns += 2_000_000;
    assert!(alone.take(1).is_admitted() && alone.ledger.taken < 500, "the next window");
}

/// Hits that a window denied do not swallow the permits that come back, and those permits forgive nothing of
/// the charges beyond the window.
#[test]
fn what_comes_back_to_a_full_window_can_be_taken_again() {
    let mut alone = Alone::new(window(10, Duration::from_secs(1), Align::Calendar));
    let request = LeaseRequest { node: 7, seq: 1, held: 0, spent: 0, want: 4, need: 4, least: 1 };
    assert_eq!(alone.call(Op::Lease(request)).granted, 4);
    assert_eq!(alone.call(Op::Take { cost: 1, times: 20 }).admitted, 6);
    alone.call(Op::Charge { cost: 1 });
    let back =
        alone.call(Op::Lease(LeaseRequest { seq: 2, spent: 1, want: 0, need: 0, least: 0, ..request }));
    assert_eq!((back.taken, back.out), (8, 0), "one is spent, three are back, and one was charged");
    assert_eq!(alone.call(Op::Take { cost: 1, times: 20 }).admitted, 2);
    // A return of taken permits is set against all that was counted, as in core.
    assert_eq!(alone.call(Op::GiveBack { cost: 1 }).taken, 27);
}

#[test]
fn a_node_for_which_the_ledger_has_no_place_takes_centrally() {
    let quota = bucket(1_000_000, Duration::from_secs(1), 1_000_000);
    let mut alone = Alone::new(quota);
    for node in 0..MOST_NODES as u64 {
        let request =
            LeaseRequest { node: 1_000 + node, seq: 1, held: 0, spent: 0, want: 1, need: 1, least: 1 };
        assert_eq!(alone.call(Op::Lease(request)).granted, 1);
    }
    for _ in 0..100 {
        alone.now_ns += 100_000;
        assert!(alone.take(5).is_admitted());
    }
    assert_eq!((alone.ledger.entries.len(), alone.from_leases), (MOST_NODES, 0));
}

/// A double holds every whole number up to 2^53: the script's numbers stay below.
#[test]
fn terms_fit_a_double_and_are_never_faster_than_their_quota() {
    let mut rng = Rng::new(1);
    let mut leased = 0;
    for _ in 0..20_000 {
        let most = (rng.pick(&[10, 1_000, 1_000_000, 1_000_000_000]), rng.pick(&[10, 10_000, 4_000_000_000]));
        let limit = rng.range(1, most.0);
        let burst = rng.range(1, most.1);
        let period_ns =
            rng.pick(&[1_000_000, 700_000_000, 1_000_000_000, 60_000_000_000, 86_400_000_000_000]);
        let refill = Refill::Continuous;
        let algorithm = Algorithm::TokenBucket { burst: Some(burst), initial: None, overdraft: 0, refill };
        let period = Period::Span(Duration::from_nanos(period_ns));
        let Ok(quota) = Quota::new(limit, period, algorithm) else { continue };
        let Some(terms) = Terms::of(&quota) else { continue };
        leased += 1;
        assert!(terms.full() + terms.max_promised() + terms.per_us() < 1 << 53, "{quota:?}");
        // The actual number of units in a permit's time, and the intended one.
        let ours = u128::from(terms.interval()) * u128::from(limit) * 1_000;
        let asked = u128::from(terms.per_us()) * u128::from(period_ns);
        assert!(ours >= asked, "too fast: {quota:?}");
        assert!((ours - asked) * 1_000_000 <= asked, "off by more than 1 ppm: {quota:?}");
    }
    assert!(leased > 10_000, "only {leased} could be leased");
}
