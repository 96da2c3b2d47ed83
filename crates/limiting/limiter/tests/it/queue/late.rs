//! Timers that fire late, and a store that is not at hand: the rate flows all the same, and never more.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Cost, Decision, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Patience, Request, Scratch};
use tollgate_store::{Charge, Counter, Inspection, ModelStore, Store, StoreError, StoreName, Take, Verdicts};

use super::sim::{MOST_LATE, SimClock, Tasks};
use crate::common::{NOON, policy};

/// A node's way to a store that decides by its own clock, and is so far away.
#[derive(Clone)]
struct Far {
    store: Arc<ModelStore>,
    world: Arc<SimClock>,
    way: Duration,
}

impl Far {
    /// `call` on the store, at the instant at which it gets there.
    async fn there<R>(&self, call: impl AsyncFnOnce(&ModelStore, Timestamp) -> R) -> R {
        if self.way.is_zero() {
            return call(&self.store, self.world.now()).await;
        }
        self.world.pass(self.way).await;
        let result = call(&self.store, self.world.now()).await;
        self.world.pass(self.way).await;
        result
    }
}

impl Store for Far {
    fn name(&self) -> StoreName {
        StoreName::new("far")
    }

    fn is_remote(&self) -> bool {
        !self.way.is_zero()
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, _: Timestamp, verdicts: &mut Verdicts) {
        self.there(async |store, now| store.take(batch, charge, now, verdicts).await).await;
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        _: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.there(async |store, now| store.give_back(counter, cost, now).await).await
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, _: Timestamp, verdicts: &mut Verdicts) {
        self.there(async |store, now| store.reserve(batch, max_wait, now, verdicts).await).await;
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, _: Timestamp) -> Result<Decision, StoreError> {
        self.there(async |store, now| store.charge(counter, cost, now).await).await
    }

    async fn reset(&self, counter: Counter<'_>, _: Timestamp) -> Result<bool, StoreError> {
        self.there(async |store, now| store.reset(counter, now).await).await
    }

    async fn inspect(&self, counter: Counter<'_>, _: Timestamp) -> Result<Inspection, StoreError> {
        self.there(async |store, now| store.inspect(counter, now).await).await
    }
}

/// Clients that send their next request as soon as they have the answer to the one before.
#[derive(Clone, Debug)]
struct Clients {
    rate: u64,
    burst: u64,
    /// Each client's requests have one of these costs.
    costs: Vec<u64>,
    clients: usize,
    nodes: usize,
    /// To the store and back.
    trip: Duration,
    /// More limits of the rule.
    beside: &'static str,
    seed: u64,
}

impl Default for Clients {
    fn default() -> Self {
        let costs = vec![1];
        let trip = Duration::ZERO;
        Self { rate: 100, burst: 1, costs, clients: 64, nodes: 1, trip, beside: "", seed: 1 }
    }
}

impl Clients {
    /// Long enough for some tens of permits, and for timers to be late often.
    fn runs_for(&self) -> Duration {
        Duration::from_millis((200_000 / self.rate).clamp(400, 20_000))
    }

    /// When requests passed, and with how many permits; and how many were denied.
    fn passed(&self) -> (Vec<(Timestamp, u64)>, usize) {
        let limit = format!("{{name: first, rate: {}/s burst {}}}", self.rate, self.burst);
        let rule = format!("{{key: k, on_limit: queue, max_wait: 30s, limits: [{limit}{}]}}", self.beside);
        let text = format!("{{domain: d, descriptors: [{rule}]}}");
        let world = SimClock::at(NOON + Duration::from_micros(self.seed % 1_000));
        world.be_late(self.seed);
        let store = Arc::new(ModelStore::default());
        let limiters: Vec<_> = (0..self.nodes)
            .map(|_| {
                let store = Far { store: store.clone(), world: world.clone(), way: self.trip / 2 };
                Limiter::new(policy(&text), store, LimiterSettings::default())
            })
            .collect();
        let passed = RefCell::new(Vec::new());
        let denied = Cell::new(0);
        let mut tasks = Tasks::new(&world);
        for client in 0..self.clients {
            let world = Arc::clone(&world);
            let limiter = &limiters[client % limiters.len()];
            let cost = self.costs[client / limiters.len() % self.costs.len()];
            let passed = &passed;
            let denied = &denied;
            tasks.start(async move {
                loop {
                    if ask(limiter, &world, cost).await {
                        passed.borrow_mut().push((world.now(), cost));
                    } else {
                        denied.set(denied.get() + 1);
                        world.pass(Duration::from_millis(100)).await;
                    }
                }
            });
        }
        tasks.run_until(world.now() + self.runs_for());
        drop(tasks);
        (passed.into_inner(), denied.get())
    }

    /// At least `part` of the rate flows, and never more than it.
    fn check(&self, part: f64) {
        let (passed, denied) = self.passed();
        let began = NOON + Duration::from_micros(self.seed % 1_000);
        let all: u64 = passed.iter().map(|(_, cost)| cost).sum();
        let rated = self.rate as f64 * self.runs_for().as_secs_f64();
        assert!(all as f64 >= part * rated, "{all} of {rated} permits: {self:?}");
        // All of them could wait, with some time to spare.
        let wanted = self.clients as u64 * self.costs.iter().max().unwrap_or(&1);
        assert!(denied == 0 || wanted > 19 * self.rate, "{denied} denials: {self:?}");
        // Since the beginning, and, since some are later than their turns and others not, in any interval.
        for (from, burst) in [
            (Some(began), self.burst as f64),
            (None, self.burst as f64 + self.rate as f64 * (MOST_LATE + self.trip).as_secs_f64()),
        ] {
            // The level of a bucket, which overflows; or, from the beginning on, does not.
            let mut level = burst;
            let mut last = from.unwrap_or(began);
            for &(at, cost) in &passed {
                level += at.since(last).as_secs_f64() * self.rate as f64;
                if from.is_none() {
                    level = level.min(burst);
                }
                level -= cost as f64;
                last = at;
                assert!(level > -1e-6, "more than the rate at {at:?}, {level}: {self:?}");
            }
        }
    }
}

/// Whether a request passes.
async fn ask(limiter: &Limiter<Far>, world: &Arc<SimClock>, cost: u64) -> bool {
    let entries = [Entry { key: b"k", value: b"v" }];
    let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: cost };
    let now = || world.now();
    let sleep = |span| world.sleep(span);
    let patience = Patience { now: &now, sleep, longest: Duration::from_secs(30), left: None };
    let mut scratch = Scratch::new();
    let answer = limiter.decide_patiently(&request, world.now(), &patience, &mut scratch).await;
    answer.expect("a valid request").is_admitted()
}

#[test]
fn at_every_rate_and_burst_at_least_95_percent_flow_with_late_timers_and_never_more() {
    for rate in [1, 10, 60, 100, 333, 500, 1_000, 2_000, 5_000, 10_000] {
        for (burst, costs) in [(1, vec![1]), (3, vec![3]), (3, vec![1, 3, 2]), (5, vec![1])] {
            Clients { rate, burst, costs, ..Clients::default() }.check(0.95);
        }
    }
}

#[test]
fn the_same_holds_over_a_store_that_one_or_several_nodes_share() {
    let micros = Duration::from_micros;
    for rate in [2, 100, 1_000, 10_000] {
        for (nodes, trip) in [(1, micros(300)), (3, micros(300)), (2, micros(2_000))] {
            let burst = 3;
            let costs = vec![1, 3, 2];
            Clients { rate, nodes, trip, clients: 128, ..Clients::default() }.check(0.95);
            Clients { rate, burst, costs, nodes, trip, clients: 128, ..Clients::default() }.check(0.95);
        }
    }
}

#[test]
fn another_limit_beside_does_not_slow_it_down() {
    for rate in [100, 10_000] {
        for beside in [", {name: day, rate: 1000000/d}", ", {name: wide, rate: 20000/s burst 9}"] {
            for trip in [Duration::ZERO, Duration::from_micros(300)] {
                Clients { rate, beside, trip, ..Clients::default() }.check(0.95);
            }
        }
    }
}

/// A caller leaves while the store is asked for its request and those behind it.
#[test]
fn one_that_leaves_while_the_store_is_asked_holds_nobody_up() {
    let way = Duration::from_millis(4);
    for left_after_ms in 0..30 {
        let world = SimClock::at(NOON);
        let store = Far { store: Arc::default(), world: world.clone(), way };
        let rule = "{key: k, rate_limit: {rate: 100/s burst 1, on_limit: queue, max_wait: 1s}}";
        let text = format!("{{domain: d, descriptors: [{rule}]}}");
        let limiter = Limiter::new(policy(&text), store, LimiterSettings::default());
        let passed = RefCell::new(Vec::new());
        let mut tasks = Tasks::new(&world);
        for index in 0..9 {
            let limiter = &limiter;
            let world = Arc::clone(&world);
            let passed = &passed;
            tasks.start(async move {
                assert!(ask(limiter, &world, 1).await, "{index} is denied");
                passed.borrow_mut().push((index, world.now().since(NOON).as_millis()));
            });
        }
        tasks.run_until(NOON + Duration::from_millis(30 + left_after_ms));
        let next = (0..9).find(|index| !passed.borrow().iter().any(|(it, _)| it == index)).unwrap_or(9);
        tasks.drop_task(next);
        tasks.run_until(NOON + Duration::from_secs(1));
        let passed = passed.borrow();
        assert_eq!(passed.len(), 8, "{left_after_ms} ms: {passed:?}");
        // The one that left took the permits of a call with it, at most: there are two ways in its 20 ms.
        let last = passed.last().map_or(0, |(_, ms)| *ms);
        assert!(last <= 110, "{left_after_ms} ms: {passed:?}");
        assert!(passed.is_sorted(), "{left_after_ms} ms: {passed:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_rate_flows_and_never_more(
        rate in prop_oneof![1..100_u64, 100..10_000_u64],
        costs in prop::collection::vec(1..=5_u64, 1..4),
        more in 0..3_u64,
        (nodes, trip) in prop_oneof![
            Just((1, Duration::ZERO)),
            (1..4_usize, 100..3_000_u64).prop_map(|(nodes, us)| (nodes, Duration::from_micros(us))),
        ],
        seed in any::<u64>(),
    ) {
        let burst = costs.iter().max().copied().unwrap_or(1) + more;
        Clients { rate, burst, costs, clients: 128, nodes, trip, seed, ..Clients::default() }.check(0.95);
    }
}
