//! Programs that lease from one bucket, over a network that delays and loses messages, beside exact buckets.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Period, Quota, Refill, State, Timestamp};

use super::*;

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const KEY: &str = "key";

struct Bucket {
    quota: Quota,
    state: State,
}

impl Bucket {
    fn new(per_second: u64, burst: u64) -> Self {
        let burst = Some(burst);
        let refill = Refill::Continuous;
        let algorithm = Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill };
        let quota = Quota::new(per_second, Period::Span(Duration::from_secs(1)), algorithm).expect("a quota");
        Self { state: quota.fresh(), quota }
    }

    /// Takes `n` permits if they are there; returns the permits left.
    fn take(&mut self, n: u64, now: Timestamp) -> Option<u64> {
        let decision = self.quota.take(&mut self.state, Cost(n), now);
        decision.is_admitted().then(|| decision.remaining())
    }

    fn give_back(&mut self, n: u64, now: Timestamp) {
        let _ = self.quota.give_back(&mut self.state, Cost(n), now);
    }
}

/// A message in transit between programs and the service.
enum Message {
    Lease { client: usize, permits: u64, began: Instant },
    Leased { client: usize, lease: Option<Lease> },
    Returned { good: u64 },
}

/// Everything at one instant.
struct LeaseModel {
    per_second: u64,
    burst: u64,
    began: Instant,
    elapsed: Duration,
    service: Bucket,
    /// An exact bucket, of which each permit handed out is taken.
    handed_out: Bucket,
    /// A bucket of half the burst, which shows whether arrivals are modest.
    modest: Bucket,
    clients: Vec<Leases>,
    messages: Vec<(Duration, Message)>,
    /// Calls that the service did not have to answer.
    local: u64,
}

impl LeaseModel {
    fn new(per_second: u64, burst: u64, clients: usize) -> Self {
        Self {
            per_second,
            burst,
            began: Instant::now(),
            elapsed: Duration::ZERO,
            service: Bucket::new(per_second, burst),
            handed_out: Bucket::new(per_second, burst),
            modest: Bucket::new(per_second, burst / 2),
            clients: (0..clients).map(|_| Leases::default()).collect(),
            messages: Vec::new(),
            local: 0,
        }
    }

    fn now(&self) -> (Instant, Timestamp) {
        (self.began + self.elapsed, NOON + self.elapsed)
    }

    fn refill(&self, permits: u64) -> Duration {
        Duration::from_nanos(1_000_000_000 * permits / self.per_second)
    }

    /// Moves the time on; messages arrive in the order of their times.
    fn pass(&mut self, span: Duration, delay: Duration) {
        let until = self.elapsed + span;
        while let Some(next) = (0..self.messages.len()).min_by_key(|&at| self.messages[at].0) {
            if self.messages[next].0 > until {
                break;
            }
            let (at, message) = self.messages.swap_remove(next);
            self.elapsed = self.elapsed.max(at);
            self.arrive(message, delay);
        }
        self.elapsed = until;
    }

    fn arrive(&mut self, message: Message, delay: Duration) {
        let (_, at) = self.now();
        match message {
            Message::Lease { client, permits, began } => {
                let left = self.service.take(permits, at);
                let is_plenty = left.is_some_and(|left| left >= self.burst / 2);
                if left.is_some() && !is_plenty {
                    self.service.give_back(permits, at);
                }
                let refill = self.refill(permits);
                let lease = is_plenty.then(|| Lease { id: String::new(), permits, refill, began, used: 0 });
                self.messages.push((self.elapsed + delay, Message::Leased { client, lease }));
            }
            Message::Leased { client, lease } => self.clients[client].keep(KEY, lease),
            Message::Returned { good } => self.service.give_back(good, at),
        }
    }

    /// One call, which is answered at once; leases and returned permits take their time. Where all calls are
    /// `modest`, those beyond half of the burst do not happen.
    fn call(&mut self, client: usize, n: u64, delay: Duration, is_lost: bool, is_modest: bool) {
        let (now, at) = self.now();
        if is_modest && self.modest.take(n, at).is_none() {
            return;
        }
        match self.clients[client].take(KEY, n, now) {
            Taken::Here => {
                self.local += 1;
                assert!(
                    self.handed_out.take(n, at).is_some(),
                    "{n} from a lease are more than the bucket has"
                );
                return;
            }
            Taken::Ask(None) => {}
            Taken::Ask(Some(over)) if is_lost => assert!(over.good < n),
            Taken::Ask(Some(over)) => {
                assert!(over.good < n);
                self.messages.push((self.elapsed + delay, Message::Returned { good: over.good }));
            }
        }
        let left = self.service.take(n, at);
        assert!(left.is_some() || !is_modest, "a call within half of the burst was denied");
        let Some(left) = left else { return };
        assert!(self.handed_out.take(n, at).is_some(), "{n} of the service are more than the bucket has");
        let permits = (left.saturating_sub(self.burst / 2) / 8).min(self.burst / 16);
        if permits >= 8
            && let Some(permits) =
                self.clients[client].want(KEY, Offer { permits, refill: self.refill(permits) }, now)
        {
            assert!((8..=self.burst / 16).contains(&permits), "{permits}");
            let message = Message::Lease { client, permits, began: now };
            self.messages.push((self.elapsed + delay, message));
        }
    }
}

/// A call: which client, what it costs, the time before it, a message's delay, and what fails.
#[derive(Clone, Debug)]
struct ClientCall {
    client: usize,
    cost: u64,
    before: Duration,
    delay: Duration,
    is_lost: bool,
    dies: bool,
}

fn step() -> impl Strategy<Value = ClientCall> {
    // One of a hundred calls is of each of the other clients.
    let client = prop_oneof![98 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let cost = prop_oneof![8 => Just(1_u64), 1 => 1..10_u64, 1 => 1..200_u64];
    let before = prop_oneof![90 => 0..1_000_u64, 9 => 0..20_000_u64, 1 => 0..2_000_000_u64];
    (client, cost, before, 0..5_000_u64, prop::bool::weighted(0.05), prop::bool::weighted(0.01)).prop_map(
        |(client, cost, before, delay, is_lost, dies)| ClientCall {
            client,
            cost,
            before: Duration::from_micros(before),
            delay: Duration::from_micros(delay),
            is_lost,
            dies,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_permit_that_is_handed_out_is_one_of_an_exact_bucket_and_half_of_the_burst_is_never_denied(
        is_modest: bool,
        per_second in 100..20_000_u64,
        burst in 200..20_000_u64,
        steps in prop::collection::vec(step(), 1..2_000),
    ) {
        let mut world = LeaseModel::new(per_second, burst / 2 * 2, 3);
        for ClientCall { client, cost, before, delay, is_lost, dies } in steps {
            world.pass(before, delay);
            if dies {
                world.clients[client] = Leases::default();
            }
            world.call(client, cost, delay, is_lost, is_modest);
        }
    }
}

#[test]
fn a_busy_program_answers_most_calls_by_itself_and_one_in_a_hundred_of_another_is_never_denied() {
    let mut world = LeaseModel::new(10_000, 10_000, 2);
    for call in 0..40_000_u64 {
        world.pass(Duration::from_millis(1), Duration::from_micros(500));
        world.call(usize::from(call % 100 == 0), 1, Duration::from_micros(500), false, true);
    }
    assert!(world.local > 30_000, "{} of 40,000", world.local);
}

#[test]
fn a_program_that_is_slow_or_that_dies_keeps_no_permits_from_the_others() {
    let mut world = LeaseModel::new(1_000, 1_000, 2);
    let half = Duration::from_micros(500);
    for _ in 0..2_000 {
        world.pass(Duration::from_millis(2), half);
        world.call(0, 1, half, false, true);
    }
    assert!(world.local > 0, "it leases");
    world.clients[0] = Leases::default(); // with all that it held
    let (_, at) = world.now();
    let left = world.service.quota.take(&mut world.service.state, Cost(0), at).remaining();
    assert!(left >= 500, "{left}: half of the burst is there at once");
    world.pass(world.refill(1_000 / 16), half);
    let (_, at) = world.now();
    let later = world.service.quota.take(&mut world.service.state, Cost(0), at).remaining();
    assert!(later >= (left + 62).min(1_000), "{later}: and its lease a moment later");
}
