//! Several rates on one key: callers of all of them get at most what the most generous rule admits, and at
//! least about what the least generous one would admit, in any order of callers.

use tollgate_core::RetryAfter;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

/// A token bucket as numbers.
#[derive(Clone, Debug)]
struct Rule {
    limit: u64,
    period: Duration,
    burst: u64,
    quota: Quota,
}

fn rule(limit: u64, period: Duration, burst: u64) -> Rule {
    Rule {
        limit,
        period,
        burst,
        quota: quota(limit, period, bucket(Some(burst), None, 0, Refill::Continuous)),
    }
}

/// The rule with the higher rate, and the one with the lower.
fn extremes(rules: &[Rule]) -> (&Rule, &Rule) {
    let interval = |rule: &&Rule| rule.period.as_nanos() * 1_000_000_000 / u128::from(rule.limit);
    (rules.iter().min_by_key(interval).expect("a rule"), rules.iter().max_by_key(interval).expect("a rule"))
}

/// All that may be admitted over every interval: a bucket of the highest rate and the largest burst, in whole
/// numbers.
struct Most {
    limit: u128,
    period_ns: u128,
    burst: u128,
    /// Permits, times the period.
    level: u128,
    at: Timestamp,
}

impl Most {
    fn new(rules: &[Rule]) -> Self {
        let fastest = extremes(rules).0;
        let burst = rules.iter().map(|rule| rule.burst).max().expect("a rule");
        Self {
            limit: fastest.limit.into(),
            period_ns: fastest.period.as_nanos(),
            burst: burst.into(),
            level: 0,
            at: AHEAD,
        }
    }

    /// Takes it; returns the number of permits by which it is too much.
    fn admit(&mut self, cost: u64, now: Timestamp) -> f64 {
        let passed = u128::from(now.as_nanos() - self.at.as_nanos());
        self.at = now;
        self.level = self.level.saturating_sub(passed * self.limit) + u128::from(cost) * self.period_ns;
        let over = self.level.saturating_sub(self.burst * self.period_ns);
        over as f64 / self.period_ns as f64
    }
}

/// The least that must be admitted: the model's bucket of the lowest rate and the smallest burst.
struct Least {
    quota: Quota,
    model: ModelStore,
    admitted: u64,
}

impl Least {
    fn new(rules: &[Rule]) -> Self {
        let slowest = extremes(rules).1;
        let burst = rules.iter().map(|rule| rule.burst).min().expect("a rule");
        let quota = rule(slowest.limit, slowest.period, burst).quota;
        Self { quota, model: ModelStore::default(), admitted: 0 }
    }

    fn take(&mut self, cost: u64, now: Timestamp) {
        let answers = one_by_one(&self.model, &self.quota, &[KeyOperation::Take(Cost(cost))], now);
        if matches!(answers[..], [Answer::Decision(it)] if it.is_admitted()) {
            self.admitted += cost;
        }
    }
}

fn decision(store: &Direct, quota: &Quota, kind: KeyOperation, now: Timestamp) -> tollgate_core::Decision {
    match &store.run(&[store.ask(b"k", quota, kind)], now).expect("an answer")[..] {
        [Answer::Decision(it)] => *it,
        other => panic!("{other:?}"),
    }
}

/// Takes at these instants by these rules: the permits admitted, and the two bounds.
struct Run {
    admitted: u64,
    least: u64,
    over: f64,
}

fn run(store: &Direct, rules: &[Rule], takes: impl Iterator<Item = (Timestamp, usize, u64)>) -> Run {
    let mut most = Most::new(rules);
    let mut least = Least::new(rules);
    let mut run = Run { admitted: 0, least: 0, over: 0.0 };
    for (nth, (now, which, cost)) in takes.enumerate() {
        let asks = [store.ask(b"k", &rules[which].quota, KeyOperation::Take(Cost(cost)))];
        let alone = nth % 3 > 0;
        let answers = if alone { store.run(&asks, now) } else { store.run_together(&asks, now) };
        if matches!(answers.expect("an answer")[..], [Answer::Decision(it)] if it.is_admitted()) {
            run.admitted += cost;
            run.over = run.over.max(most.admit(cost, now));
        }
        least.take(cost, now);
    }
    run.least = least.admitted;
    run
}

/// Every node asks at a steady pace, each of them a little later than the one before it.
fn paced(nodes: u64, every: Duration, span: Duration) -> impl Iterator<Item = (Timestamp, usize, u64)> {
    let every_ns = every.as_nanos() as u64;
    let rounds = (span.as_nanos() / every.as_nanos()) as u64;
    (0..rounds).flat_map(move |round| {
        (0..nodes).map(move |node| {
            let after_ns = round * every_ns + node * every_ns / nodes;
            (AHEAD + Duration::from_nanos(after_ns), node as usize % 2, 1)
        })
    })
}

#[test]
fn nodes_of_two_rates_admit_between_what_the_one_and_the_other_would() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let ms = Duration::from_millis;
    for (rules, nodes, every, span) in [
        ([rule(1, SECOND, 10), rule(2, SECOND, 10)], 2, ms(50), SECOND * 6),
        ([rule(10, SECOND, 10), rule(11, SECOND, 10)], 8, ms(20), SECOND * 6),
        ([rule(100, SECOND, 100), rule(110, SECOND, 100)], 32, ms(33), SECOND * 6),
        ([rule(999_999, SECOND, 1_000), rule(1_000_003, SECOND, 1_000)], 4, Duration::from_micros(2), ms(8)),
        ([rule(1_000_000, SECOND, 10), rule(1_100_000, SECOND, 10)], 4, Duration::from_nanos(1_999), ms(8)),
        (
            [rule(12_345_678, SECOND, 100), rule(12_345_677, SECOND, 100)],
            4,
            Duration::from_nanos(4_001),
            Duration::from_millis(3),
        ),
        ([rule(1, DAY, 10), rule(2, DAY, 10)], 2, HOUR, DAY * 60),
        ([rule(2, SECOND, 10), rule(1, SECOND, 30)], 4, ms(100), SECOND * 60),
    ] {
        let run = run(&store(&redis, StoreTime::Node), &rules, paced(nodes, every, span));
        let shown = [&rules[0], &rules[1]].map(|rule| (rule.limit, rule.period, rule.burst));
        println!("{shown:?}, {nodes} nodes: {} admitted, {} of the least", run.admitted, run.least);
        assert!(run.over <= 0.0, "{} too many: {shown:?}", run.over);
        assert!(
            run.admitted as f64 >= 0.95 * run.least as f64,
            "{} of {}: {shown:?}",
            run.admitted,
            run.least
        );
    }
}

fn rates() -> impl Strategy<Value = (u64, Duration)> {
    let known = prop::sample::select(vec![
        (1, SECOND),
        (2, SECOND),
        (3, SECOND),
        (10, SECOND),
        (11, SECOND),
        (50, SECOND),
        (51, SECOND),
        (1_000, SECOND),
        (100_003, SECOND),
        (999_999, SECOND),
        (1_000_000, SECOND),
        (1_000_003, SECOND),
        (12_345_677, SECOND),
        (100_000_000, SECOND),
        (1_000_000_000, SECOND),
        (1, DAY),
        (2, DAY),
        (7, DAY),
        (999_983, DAY),
        (1_000_000_007, DAY),
        (1, Duration::from_nanos(12_345_678_901_234_567)),
    ]);
    let any = (1..20_000_000_u64, 1_000..100_000_000_000_u64)
        .prop_map(|(limit, period_ns)| (limit, Duration::from_nanos(period_ns)));
    prop_oneof![3 => known, 1 => any]
}

/// Law: over every interval, callers of all rates together are admitted at most what a bucket of the largest
/// burst and the highest rate admits; and in all at least 95 % of what a bucket of the smallest burst and the
/// lowest rate would have admitted to them.
#[test]
fn takes_by_several_rates_stay_between_the_least_and_the_most_generous() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let rules = prop::collection::vec((rates(), prop_oneof![1..12_u64, 12..5_000_u64]), 2..4);
    // Demand in tenths of the highest rate; costs of takes; lengths of each rate's turn.
    let plan = (
        rules,
        2..40_u64,
        1..5_u64,
        prop_oneof![2 => Just(1_usize), 1 => 2..200_usize],
        any::<u64>(),
        any::<bool>(),
    );
    let config = Config { cases: cases(48), failure_persistence: None, ..Config::default() };
    let law = TestRunner::new(config).run(&plan, |(rates, demand, mixed, turn, seed, by_chance)| {
        // One by one, no key is asked more often than about every µs.
        let fastest_ns = |unit: u64| {
            let of = |((limit, period), _): &((u64, Duration), u64)| {
                u128::from(unit) * period.as_nanos() / u128::from(*limit)
            };
            rates.iter().map(of).min().expect("a rate")
        };
        let unit = if fastest_ns(1) < 4_000 { 40_000 } else { 1 };
        let rules: Vec<Rule> = rates
            .iter()
            .filter(|((limit, period), burst)| {
                let algorithm = bucket(Some(burst * unit), None, 0, Refill::Continuous);
                Quota::new(*limit, Period::Span(*period), algorithm).is_ok()
            })
            .map(|((limit, period), burst)| rule(*limit, *period, burst * unit))
            .collect();
        // A debt at one rate is owed at the others too, and no debt may end after 2072.
        let most_owed = rules.iter().map(|rule| u128::from(rule.burst)).max().unwrap_or_default();
        let interval_ns = |rule: &Rule| rule.period.as_nanos() / u128::from(rule.limit);
        let slowest_ns = rules.iter().map(interval_ns).max().unwrap_or_default();
        if rules.len() < 2 || most_owed * slowest_ns > (20 * 365 * DAY).as_nanos() {
            return Ok(());
        }
        let gap_ns = (fastest_ns(unit * mixed.div_ceil(2)) * 10 / u128::from(demand)).max(1) as u64;
        let mut random = seed | 1;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut now = AHEAD;
        let takes: Vec<_> = (0..400)
            .map(|nth| {
                now = now + Duration::from_nanos(next(2 * gap_ns + 1));
                let which =
                    if by_chance { next(rules.len() as u64) as usize } else { nth / turn % rules.len() };
                (now, which, unit * (1 + next(mixed)))
            })
            .collect();
        let run = run(&store(&redis, StoreTime::Node), &rules, takes.into_iter());
        prop_assert!(run.over <= 0.0, "{} too many: {rules:?}", run.over);
        // Takes of several permits are denied at other moments: one of them may be missing at the end.
        let least = 0.95 * run.least as f64 - (unit * mixed) as f64;
        prop_assert!(
            run.admitted as f64 >= least,
            "{} admitted, {} of the least: {rules:?}",
            run.admitted,
            run.least
        );
        Ok(())
    });
    law.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Law: at one instant a key owes permits, taken at any rate: takes, returns and charges of one node are seen
/// by every other. A rate whose interval is no whole number of ns may find a part of a permit more.
#[test]
fn every_rate_finds_the_permits_that_the_others_took() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let step = (0..3_usize, 0..5_u8, 0..9_u64);
    let plan = (prop::collection::vec((rates(), 1..60_u64), 3), prop::collection::vec(step, 1..40));
    let config = Config { cases: cases(64), failure_persistence: None, ..Config::default() };
    let law = TestRunner::new(config).run(&plan, |(rates, steps)| {
        // Rounding up adds ns: at rates of a permit in a few of them it adds permits. (And a debt ends in
        // 2072.)
        let rules: Vec<Rule> = rates
            .iter()
            .map(|((limit, period), burst)| {
                let period = DAY.min(*period);
                rule((*limit).min((period.as_nanos() / 200).max(1) as u64), period, *burst)
            })
            .collect();
        let store = store(&redis, StoreTime::Node);
        let mut owed = 0_u64;
        for (which, what, cost) in steps {
            let Rule { burst, quota, .. } = &rules[which];
            let fits = owed + cost <= *burst;
            let kind = match what {
                0 => KeyOperation::Charge(Cost(cost)),
                1 => KeyOperation::GiveBack(Cost(cost)),
                2 => KeyOperation::Reserve(Cost(cost), Duration::ZERO),
                _ => KeyOperation::Take(Cost(cost)),
            };
            let said = decision(&store, quota, kind, AHEAD);
            match kind {
                KeyOperation::Charge(_) => owed += cost,
                KeyOperation::GiveBack(_) => owed = owed.saturating_sub(cost),
                _ => {
                    prop_assert!(fits || !said.is_admitted(), "{cost} of {burst}, {owed} owed: {rules:?}");
                    prop_assert!(
                        said.is_admitted() || owed + cost + 1 > *burst,
                        "{cost} of {burst}, {owed} owed: {rules:?}"
                    );
                    owed += if said.is_admitted() { cost } else { 0 };
                }
            }
            let left = burst.saturating_sub(owed);
            let within = left.saturating_sub(1)..=left;
            prop_assert!(
                within.contains(&said.remaining()),
                "{}, not {left} left: {rules:?}",
                said.remaining()
            );
        }
        let reset =
            store.run(&[store.ask(b"k", &rules[0].quota, KeyOperation::Reset)], AHEAD).expect("an answer");
        prop_assert!(matches!(reset[..], [Answer::Reset(_)]));
        for rule in &rules {
            prop_assert_eq!(
                decision(&store, &rule.quota, KeyOperation::Take(Cost(0)), AHEAD).remaining(),
                rule.burst
            );
        }
        Ok(())
    });
    law.unwrap_or_else(|failure| panic!("{failure}"));
}

/// After the last node has the new rule, its admissions follow the new rule, also where permits are used up
/// all the time and the key is never full.
#[test]
fn once_all_nodes_have_the_new_rate_it_holds() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for (old, new) in [
        (rule(10, SECOND, 20), rule(20, SECOND, 20)),
        (rule(20, SECOND, 20), rule(10, SECOND, 20)),
        (rule(7, SECOND, 20), rule(11, SECOND, 20)),
        (rule(100_003, DAY, 20), rule(999_983, DAY, 20)),
        (rule(1, DAY, 1), rule(1, SECOND, 1)), // a denial suffices: the test does not wait for a day
    ] {
        let store = store(&redis, StoreTime::Node);
        let interval_ns = (new.period.as_nanos() / u128::from(new.limit)) as u64;
        let mut now = AHEAD;
        let mut admitted = 0;
        for nth in 0..4_000_u64 {
            now = now + Duration::from_nanos(interval_ns / 5);
            let quota = if nth < 500 && nth % 2 == 0 { &old.quota } else { &new.quota };
            let said = decision(&store, quota, KeyOperation::Take(Cost(1)), now);
            admitted += u64::from(nth >= 500 && said.is_admitted());
        }
        // 3,500 fifths of a permit. (Fifths are whole ns, so that one of 86.4 ms comes a fifth later.)
        assert!((699..=701).contains(&admitted), "{admitted}: {new:?}");
    }
}

/// A debt that a rate cannot express stays: a million permits are three thousand years of one a day.
#[test]
fn a_debt_beyond_all_time_is_kept_for_the_rate_that_can_pay_it() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let [fast, slow] = [rule(1_000_000, SECOND, 1_000_000), rule(1, DAY, 3)];
    let left = |rule: &Rule, kind| decision(&store, &rule.quota, kind, AHEAD).remaining();
    assert_eq!(left(&fast, KeyOperation::Take(Cost(900_000))), 100_000);
    let refused = decision(&store, &slow.quota, KeyOperation::Take(Cost(1)), AHEAD);
    assert!(
        !refused.is_admitted()
            && matches!(refused.retry_after(), RetryAfter::After(it) if it > DAY * 365 * 10)
    );
    assert_eq!(left(&slow, KeyOperation::GiveBack(Cost(2))), 0);
    assert_eq!(left(&slow, KeyOperation::Charge(Cost(2))), 0);
    assert_eq!(left(&fast, KeyOperation::Take(Cost(0))), 100_000);
    assert_eq!(left(&fast, KeyOperation::Take(Cost(1))), 99_999);
}

/// The key of a bucket that does not start full lives on for long, that of another bucket does not: each
/// reads the other's.
#[test]
fn how_a_bucket_starts_may_change_with_its_rate() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for limit in [10, 8] {
        let store = store(&redis, StoreTime::Node);
        let full = rule(10, SECOND, 10);
        let short = quota(limit, SECOND, bucket(Some(10), Some(4), 0, Refill::Continuous));
        let left = |quota: &Quota, cost, now| {
            decision(&store, quota, KeyOperation::Take(Cost(cost)), now).remaining()
        };
        let near = |left: u64, want: u64| assert!(left == want || left + 1 == want, "{left}, not {want}");
        assert_eq!(left(&short, 3, AHEAD), 1);
        near(left(&full.quota, 1, AHEAD), 0);
        near(left(&short, 0, AHEAD + Duration::from_millis(501)), 5);
        near(left(&full.quota, 0, AHEAD + SECOND * 3), 10);
        assert_eq!(left(&short, 1, AHEAD + SECOND * 3), 9, "full, and no new key");
        near(left(&full.quota, 1, AHEAD + SECOND * 3), 8);
        near(left(&short, 1, AHEAD + SECOND * 3), 7);
    }
}

/// Two rates that write the same digits, which differ by less than a thousandth: reading one as the other is
/// off by at most that part of the burst.
#[test]
fn rates_that_are_taken_for_one_exceed_the_burst_by_what_they_differ() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let rules = [rule(100_003, SECOND, 50_000), rule(100_007, SECOND, 50_000)];
    for turns in [1, 700] {
        let takes = (0..1_500_usize)
            .map(|nth| (AHEAD + Duration::from_micros(nth as u64), (nth / turns) % 2, 1 + nth as u64 % 200));
        let run = run(&store(&redis, StoreTime::Node), &rules, takes);
        assert!(run.over <= 50_000.0 * 4.0 / 100_003.0, "{} too many", run.over);
        assert!(run.admitted as f64 >= 0.95 * run.least as f64, "{} of {}", run.admitted, run.least);
    }
}
