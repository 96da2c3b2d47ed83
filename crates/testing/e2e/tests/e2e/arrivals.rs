//! An open loop of gRPC calls: a seed sets the moment, node and cost of each call, and no call waits for the
//! ones before it. Also the checks that fleet tests make on the recorded calls.
//!
//! A load asks several keys at the same moments for the same costs, so that a test can compare a leased key
//! with an exact one. Not here: callers that wait for an answer before they ask again (`fleet`).

use std::net::SocketAddr;
use std::time::Duration;

use prost_types::value::Kind;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::fleet::What;
use crate::rls::{self, Client, RateLimitResponse};

/// The life of a lease.
pub(crate) const TAU: Duration = Duration::from_millis(500);

/// Numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed + 1));
        for _ in 0..8 {
            random.next(); // seeds that are near each other part
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of `1..=most`.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        1 + (self.next() % u64::from(most)) as u32
    }

    /// Until the next of events that come `rate` times a second by chance, in seconds.
    fn wait(&mut self, rate: f64) -> f64 {
        let unit = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -unit.ln() / rate
    }
}

/// One call, to be made for each key.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    after: f64,
    node: usize,
    cost: u32,
}

/// The calls of a test.
#[derive(Clone)]
pub(crate) struct Load {
    keys: &'static [&'static str],
    arrivals: Vec<Arrival>,
}

impl Load {
    /// Calls about these keys of `domain: fleet`: none yet.
    pub(crate) fn of(keys: &'static [&'static str]) -> Self {
        Self { keys, arrivals: Vec::new() }
    }

    /// Adds Poisson arrivals at one node, `rate` calls a second in all, in groups of `1..=2 * group - 1`
    /// calls.
    pub(crate) fn at(
        mut self,
        node: usize,
        (rate, group): (f64, u32),
        seconds: f64,
        seed: u64,
        mut cost: impl FnMut(&mut Random) -> u32,
    ) -> Self {
        let mut random = Random::new(seed * 1_000 + node as u64);
        let mut after = 0.0;
        loop {
            after += random.wait(rate / f64::from(group));
            if after > seconds {
                return self;
            }
            for _ in 0..random.up_to(2 * group - 1) {
                self.arrivals.push(Arrival { after, node, cost: cost(&mut random) });
            }
        }
    }

    /// Keeps only the calls of the first `seconds`.
    pub(crate) fn first(mut self, seconds: f64) -> Self {
        self.arrivals.retain(|it| it.after < seconds);
        self
    }

    /// Starts the calls, on one connection per node.
    pub(crate) async fn start(self, nodes: &[SocketAddr]) -> Running {
        let mut clients = Vec::new();
        for node in nodes {
            clients.push(Client::connect(*node).await.expect("it listens"));
        }
        let began = Instant::now();
        let mut asking = JoinSet::new();
        for (node, client) in clients.into_iter().enumerate() {
            let mut arrivals: Vec<_> = self.arrivals.iter().filter(|it| it.node == node).copied().collect();
            arrivals.sort_by(|a, b| a.after.total_cmp(&b.after));
            asking.spawn(ask_all(client, self.keys, arrivals, began));
        }
        Running { began, asking }
    }

    /// Makes all calls and returns them.
    pub(crate) async fn run(self, nodes: &[SocketAddr]) -> Calls {
        self.start(nodes).await.end().await
    }
}

/// Calls that are being made.
pub(crate) struct Running {
    pub(crate) began: Instant,
    asking: JoinSet<Vec<Call>>,
}

impl Running {
    /// Waits for the end of each call and returns all of them.
    pub(crate) async fn end(self) -> Calls {
        let mut all = self.asking.join_all().await.concat();
        all.sort_by_key(|it| it.heard);
        Calls { began: self.began, all }
    }
}

async fn ask_all(
    client: Client,
    keys: &'static [&'static str],
    arrivals: Vec<Arrival>,
    began: Instant,
) -> Vec<Call> {
    let mut asking = JoinSet::new();
    for Arrival { after, node, cost } in arrivals {
        sleep_until(began + Duration::from_secs_f64(after)).await;
        for &key in keys {
            let mut client = client.clone();
            asking.spawn(async move {
                let sent = Instant::now();
                let what = ask(&mut client, key, cost).await;
                Call { key, node, cost: f64::from(cost), sent, heard: Instant::now(), what }
            });
        }
    }
    asking.join_all().await
}

/// Asks for `cost` permits of `key`; 0 peeks.
pub(crate) async fn ask(client: &mut Client, key: &str, cost: u32) -> What {
    let mut request = rls::hit("fleet", key, "all");
    request.hits_addend = cost;
    let answer = client.ask(if cost == 0 { request.peek() } else { request }).await;
    answer.map_or(What::Unknown, |answer| what(&answer))
}

/// The outcome in an answer.
pub(crate) fn what(answer: &RateLimitResponse) -> What {
    let admitted = answer.overall_code == rls::OK;
    assert!(admitted || answer.overall_code == rls::OVER_LIMIT, "{answer:?}");
    let mark = answer.dynamic_metadata.as_ref().and_then(|it| it.fields.get("degraded"));
    match mark.and_then(|it| it.kind.as_ref()) {
        Some(Kind::StringValue(how)) => What::Degraded { how: how.clone(), admitted },
        Some(other) => panic!("{other:?}"),
        None => {
            assert!(answer.statuses.iter().all(|it| it.current_limit.is_some()), "no rule: {answer:?}");
            if admitted { What::Admitted } else { What::Denied }
        }
    }
}

/// One call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: &'static str,
    pub(crate) node: usize,
    pub(crate) cost: f64,
    pub(crate) sent: Instant,
    pub(crate) heard: Instant,
    pub(crate) what: What,
}

impl Call {
    /// Admitted, by the store or without it.
    pub(crate) fn passed(&self) -> bool {
        matches!(self.what, What::Admitted | What::Degraded { admitted: true, .. })
    }

    /// Answered, and decided by the store.
    pub(crate) fn decided(&self) -> bool {
        matches!(self.what, What::Admitted | What::Denied)
    }

    pub(crate) fn degraded(&self) -> bool {
        matches!(self.what, What::Degraded { .. })
    }
}

/// Sum of the costs.
pub(crate) fn permits<'a>(calls: impl IntoIterator<Item = &'a Call>) -> f64 {
    calls.into_iter().fold(0.0, |sum, it| sum + it.cost)
}

/// Recorded calls, in the order of their answers.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) began: Instant,
    all: Vec<Call>,
}

impl Calls {
    /// Calls of one key.
    pub(crate) fn of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Call> + Clone {
        self.all.iter().filter(move |it| it.key == key)
    }

    /// Calls of one key that were sent in this span, in seconds from the beginning.
    pub(crate) fn between<'a>(
        &'a self,
        key: &'a str,
        (from, to): (f64, f64),
    ) -> impl Iterator<Item = &'a Call> + Clone {
        let at = |seconds| self.began + Duration::from_secs_f64(seconds);
        let span = at(from)..at(to);
        self.of(key).filter(move |it| span.contains(&it.sent))
    }

    /// Asserts that no call of this key failed or was degraded.
    pub(crate) fn assert_unmarked(&self, key: &str) {
        let odd = self.of(key).find(|it| !it.decided());
        assert!(
            odd.is_none(),
            "{key}: {odd:?}, sent {:?} after the beginning",
            odd.map(|it| it.sent - self.began)
        );
    }
}

/// Largest correction of the counting clock against ours while we measure: stores count by the time of day,
/// which a machine may move; we measure by a clock that is never moved.
const CORRECTION: f64 = 0.001;

/// Asserts that at most `burst + rate * t` permits passed in every interval of t seconds between a call and
/// an answer. Returns the largest burst measured.
pub(crate) fn assert_bound<'a>(calls: impl Iterator<Item = &'a Call>, burst: f64, rate: f64) -> f64 {
    let passed: Vec<_> = calls.filter(|it| it.passed()).collect(); // in the order of their answers
    let Some(first) = passed.first().map(|it| it.sent) else { return 0.0 };
    let seconds = |at: Instant| at.saturating_duration_since(first).as_secs_f64();
    let passed: Vec<_> = passed.iter().map(|it| (seconds(it.sent), seconds(it.heard), it.cost)).collect();
    let mut worst = 0.0_f64;
    for &(from, ..) in &passed {
        let mut sum = 0.0;
        for &(_, heard, cost) in passed.iter().filter(|(sent, ..)| *sent >= from) {
            sum += cost;
            let span = heard - from;
            let over = sum - rate * (heard - from);
            let most = burst + rate * CORRECTION;
            assert!(over <= most, "{sum} admitted in {span:.3} s, at most {burst} and {rate}/s");
            worst = worst.max(over);
        }
    }
    worst
}

/// Seconds of the slowest call, if longer than the life of a lease; otherwise 0. A node that hangs for
/// so long loses the permits it held, which happens on an overloaded machine only.
pub(crate) fn longest_stall<'a>(calls: impl IntoIterator<Item = &'a Call>) -> f64 {
    let slowest = calls.into_iter().map(|it| it.heard - it.sent).max().unwrap_or_default();
    if slowest > TAU { slowest.as_secs_f64() } else { 0.0 }
}

/// Permits that one bucket, full at first, would admit of these calls.
pub(crate) fn one_bucket<'a>(calls: impl Iterator<Item = &'a Call>, burst: f64, rate: f64) -> f64 {
    let mut sent: Vec<_> = calls.map(|it| (it.sent, it.cost)).collect();
    sent.sort_by_key(|it| it.0);
    let mut level = burst;
    let mut last = None;
    let mut admitted = 0.0;
    for (at, cost) in sent {
        level = burst.min(level + rate * (at - last.unwrap_or(at)).as_secs_f64());
        last = Some(at);
        if level >= cost {
            (level, admitted) = (level - cost, admitted + cost);
        }
    }
    admitted
}

/// Max-min fair shares of `whole`: a node gets at most what it asked for, and the others share the rest
/// evenly.
pub(crate) fn fair_shares(asked: &[f64], whole: f64) -> Vec<f64> {
    let mut order: Vec<_> = (0..asked.len()).collect();
    order.sort_by(|a, b| asked[*a].total_cmp(&asked[*b]));
    let mut shares = vec![0.0; asked.len()];
    let mut left = whole;
    for (done, node) in order.into_iter().enumerate() {
        shares[node] = asked[node].min(left / (asked.len() - done) as f64);
        left -= shares[node];
    }
    shares
}
