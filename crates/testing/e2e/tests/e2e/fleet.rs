//! Several real nodes on one real store, and clients that ask any of them at random: the helpers for such
//! tests, and the rows where nothing fails.
//!
//! Each row asserts a statement of `docs/guarantees.md`. Not here: stores and nodes that fail (`outage*`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::Instant;
use tollgate_testkit::redis::{Options, Redis};

use crate::http::{self, Kept};
use crate::start::rules;
use crate::tollgate::{Start, Tollgate};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Deadline of store calls. The default is for a network; here the store shares two cores with all nodes.
pub(crate) const DEADLINE: Duration = Duration::from_millis(400);

/// Asks every few milliseconds until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Nodes with the same rules and the same store.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Tollgate>,
    rules: TempDir,
    store: String,
    args: Vec<String>,
}

impl Fleet {
    /// Starts `nodes` nodes, all at once; returns when all are up, though not always the store.
    pub(crate) fn start(nodes: usize, text: &str, store: &str, args: &[&str]) -> Self {
        let mut fleet = Self {
            nodes: Vec::new(),
            rules: rules(text),
            store: store.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        };
        fleet.nodes = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..nodes).map(|_| scope.spawn(|| fleet.node())).collect();
            starting.into_iter().map(|it| it.join().expect("it starts")).collect()
        });
        fleet
    }

    /// One more node like the others.
    pub(crate) fn node(&self) -> Tollgate {
        self.prepare().go()
    }

    fn prepare(&self) -> Start {
        Start::new(self.rules.path())
            .args(["--store", &self.store, "--workers", "1", "--memory-max", "16MiB"])
            .args(["--store-deadline", &format!("{}ms", DEADLINE.as_millis())])
            .args(self.args.iter().map(String::as_str))
    }

    /// Replaces the rules and signals all nodes to reload.
    pub(crate) fn replace(&self, text: &str) {
        let beside = self.rules.path().join(".rules.new");
        std::fs::write(&beside, text).expect("written beside");
        std::fs::rename(&beside, self.rules.path().join("rules.yaml")).expect("and moved over it");
        self.nodes.iter().for_each(|node| node.signal("HUP"));
    }

    /// Stops a node gracefully and starts it again with other rules, on the same gRPC port.
    pub(crate) fn restart(&mut self, node: usize, text: &str) {
        let mut old = self.nodes.remove(node);
        old.signal("TERM");
        old.wait();
        self.replace(text);
        let new = self.prepare().grpc(old.grpc).go();
        self.nodes.insert(node, new);
    }

    /// Waits until each node says that its store is `up`, or `down`.
    pub(crate) async fn wait_for_store(&self, state: &str) {
        for node in &self.nodes {
            until(&format!("the store to be {state}"), async || {
                (store_state(node).await? == state).then_some(())
            })
            .await;
        }
    }

    /// The sum of a metric over all nodes that run.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let mut sum = 0.0;
        for node in &self.nodes {
            sum += node.metric(name, labels).await.unwrap_or(0.0);
        }
        sum
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.http).collect()
    }

    /// Where the gRPC service of each node listens.
    pub(crate) fn grpc(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.grpc).collect()
    }
}

/// State of the store in a node's readiness.
pub(crate) async fn store_state(node: &Tollgate) -> Option<String> {
    let answer = http::get(node.http, "/readyz", &[]).await.ok()?;
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    Some(body["store"]["state"].as_str()?.to_owned())
}

/// Outcome of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Admitted,
    Denied,
    /// Decided without the store, as this says: `deny`, `allow` or `local`.
    Degraded {
        how: String,
        admitted: bool,
    },
    /// The node ended before it answered.
    Unknown,
}

/// One request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) key: &'static str,
    pub(crate) client: usize,
    pub(crate) sent: Instant,
    pub(crate) heard: Instant,
    pub(crate) what: What,
}

impl Seen {
    /// Admitted by the store's word.
    pub(crate) fn counted(&self) -> bool {
        self.what == What::Admitted
    }
}

/// Pattern of requests: each by a random client, at a random node.
#[derive(Clone)]
pub(crate) struct Demand {
    /// The keys of the rules to ask about, `domain: fleet`.
    pub(crate) keys: &'static [&'static str],
    /// Clients of each key.
    pub(crate) clients: usize,
    /// Requests that travel together, for one client.
    pub(crate) batch: usize,
    /// Requests in flight at once.
    pub(crate) callers: usize,
    /// A pause after each, so that a long fault does not fill the memory.
    pub(crate) pause: Duration,
}

impl Default for Demand {
    fn default() -> Self {
        Self { keys: &[], clients: 4, batch: 1, callers: 8, pause: Duration::ZERO }
    }
}

/// Clients that ask until they are stopped.
pub(crate) struct Traffic {
    asking: JoinSet<Vec<Seen>>,
    end: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Traffic {
    pub(crate) fn start(fleet: &Fleet, demand: &Demand) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let mut asking = JoinSet::new();
        for caller in 0..demand.callers {
            let nodes = fleet.addresses();
            let demand = demand.clone();
            let end = end.clone();
            let answered = answered.clone();
            let random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(caller as u64 + 1);
            asking.spawn(async move {
                let mut caller = Caller { connections: nodes.iter().map(|_| None).collect(), nodes, random };
                let mut seen = Vec::new();
                while !end.load(Ordering::Relaxed) {
                    caller.ask(&demand, &mut seen).await;
                    answered.fetch_add(demand.batch, Ordering::Relaxed);
                    tokio::time::sleep(demand.pause).await;
                }
                seen
            });
        }
        Self { asking, end, answered }
    }

    /// Requests that have been answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until this number of further requests has been answered.
    pub(crate) async fn more(&self, requests: usize) {
        let to = self.answered() + requests;
        until("more requests", async || (self.answered() >= to).then_some(())).await;
    }

    /// Ends it; all requests in the order of their answers.
    pub(crate) async fn end(self) -> Vec<Seen> {
        self.end.store(true, Ordering::Relaxed);
        let mut all = self.asking.join_all().await.concat();
        all.sort_by_key(|seen| seen.heard);
        all
    }

    /// Asks `requests` times in all.
    pub(crate) async fn run(fleet: &Fleet, demand: &Demand, requests: usize) -> Vec<Seen> {
        let traffic = Self::start(fleet, demand);
        traffic.more(requests).await;
        traffic.end().await
    }
}

struct Caller {
    nodes: Vec<SocketAddr>,
    connections: Vec<Option<Kept>>,
    random: u64,
}

impl Caller {
    /// One of `n`, by chance.
    fn one_of(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % n as u64) as usize
    }

    async fn ask(&mut self, demand: &Demand, seen: &mut Vec<Seen>) {
        let key = demand.keys[self.one_of(demand.keys.len())];
        let client = self.one_of(demand.clients);
        let node = self.one_of(self.nodes.len());
        let one = format!(r#"{{"domain":"fleet","descriptors":[[{{"key":"{key}","value":"c{client}"}}]]}}"#);
        let body = format!(r#"{{"requests":[{}]}}"#, vec![one; demand.batch].join(","));
        if self.connections[node].is_none() {
            self.connections[node] = Kept::connect(self.nodes[node]).await.ok();
        }
        let Some(connection) = &mut self.connections[node] else { return }; // the node is gone
        let sent = Instant::now();
        let answer = connection.post("/v1/check", &body).await;
        let heard = Instant::now();
        let mut add = |what| seen.push(Seen { key, client, sent, heard, what });
        match answer {
            Err(_) => {
                (0..demand.batch).for_each(|_| add(What::Unknown));
                self.connections[node] = None;
            }
            Ok(answer) => {
                let body: Value = serde_json::from_str(&answer.body).expect("JSON");
                let decisions = body["decisions"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
                assert_eq!(decisions.len(), demand.batch, "{answer:?}");
                decisions.iter().for_each(|it| add(what(it)));
            }
        }
    }
}

/// The outcome in a decision.
fn what(decision: &Value) -> What {
    let admitted = match decision["outcome"].as_str() {
        Some("admit") => true,
        Some("deny") => false,
        _ => panic!("{decision}"),
    };
    match (decision["degraded"].as_str(), admitted) {
        (Some(how), admitted) => What::Degraded { how: how.to_owned(), admitted },
        (None, true) => What::Admitted,
        (None, false) => What::Denied,
    }
}

/// Requests of one client of one key.
pub(crate) fn of<'a>(
    seen: &'a [Seen],
    key: &'a str,
    client: usize,
) -> impl Iterator<Item = &'a Seen> + Clone {
    seen.iter().filter(move |it| it.key == key && it.client == client)
}

/// Law I1: in every interval between two instants at which something was asked and answered, at most `burst`
/// and `rate` a second more. Returns the largest burst that there was.
pub(crate) fn assert_within_bucket<'a>(
    admitted: impl Iterator<Item = &'a Seen>,
    burst: f64,
    rate: f64,
) -> f64 {
    let all: Vec<_> = admitted.collect(); // in the order of their answers
    let mut worst = 0.0_f64;
    for first in &all {
        let inside = all.iter().filter(|it| it.sent >= first.sent);
        for (count, last) in inside.enumerate() {
            let admitted = (count + 1) as f64;
            let span = last.heard - first.sent;
            let over = admitted - rate * span.as_secs_f64();
            assert!(over <= burst, "{admitted} admitted in {span:?}, at most {burst} + {rate}/s");
            worst = worst.max(over);
        }
    }
    worst
}

const RULES: &str = "domain: fleet
descriptors:
  - {key: window, rate_limit: {unit: year, requests_per_unit: 30}}
  - {key: sliding, rate_limit: {unit: hour, requests_per_unit: 30, algorithm: sliding_window}}
  - {key: log, rate_limit: {unit: hour, requests_per_unit: 30, algorithm: sliding_window_log}}
  - {key: total, rate_limit: {requests_per_unit: 30, algorithm: total}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 25}}
";

#[tokio::test(flavor = "multi_thread")]
async fn four_nodes_admit_each_client_exactly_what_one_would() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let keys = &["window", "sliding", "log", "total", "bucket"];
    let demand = Demand { keys, ..Demand::default() };
    let began = Instant::now();
    let seen = Traffic::run(&fleet, &demand, 2400).await;
    for client in 0..demand.clients {
        for key in ["window", "sliding", "log", "total"] {
            let asked = of(&seen, key, client).count();
            let admitted = of(&seen, key, client).filter(|it| it.counted()).count();
            assert_eq!(admitted, asked.min(30), "{key} of client {client}, {asked} asked");
            assert!(asked > 30, "{key} of client {client} was asked only {asked} times");
        }
        let bucket = of(&seen, "bucket", client);
        let admitted = bucket.clone().filter(|it| it.counted());
        assert_within_bucket(admitted.clone(), 25.0, 5.0);
        // Nothing was denied that was there: permits admitted before a denial had used up the bucket.
        let denied = bucket.clone().filter(|it| it.what == What::Denied).last();
        let denied = denied.unwrap_or_else(|| panic!("client {client} was never denied"));
        let used = admitted.filter(|it| it.sent <= denied.heard).count() as f64;
        let first = bucket.clone().map(|it| it.heard).min().expect("some");
        let there = 25.0 + 5.0 * denied.sent.saturating_duration_since(first).as_secs_f64();
        assert!(used >= there - 2.0, "{used} of {there} had been admitted at a denial");
    }
    assert!(seen.iter().all(|it| matches!(it.what, What::Admitted | What::Denied)), "no fault, no mark");
    println!("4 nodes, {} decisions in {:?}", seen.len(), began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_one_caller_leaves_the_others_what_is_theirs_on_every_node() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    // B asks all the time; C, D and E 25 times each, as often as their limits allow.
    let b =
        Traffic::start(&fleet, &Demand { keys: &["bucket"], clients: 1, callers: 6, ..Demand::default() });
    b.more(200).await;
    for other in ["C", "D", "E"] {
        for turn in 0..25 {
            let body =
                format!(r#"{{"domain":"fleet","descriptors":[[{{"key":"bucket","value":"{other}"}}]]}}"#);
            let answer = http::post(fleet.nodes[turn % 4].http, "/v1/check", &body).await.expect("an answer");
            let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
            assert_eq!(answer["outcome"], "admit", "{other} at its {turn}th: {answer}");
        }
    }
    let seen = b.end().await;
    assert_within_bucket(of(&seen, "bucket", 0).filter(|it| it.counted()), 25.0, 5.0);
    assert!(seen.iter().filter(|it| it.what == What::Denied).count() > 100, "B was held to its own");
}

const LOCAL: &str = "domain: fleet
descriptors:
  - {key: own, rate_limit: {unit: year, requests_per_unit: 10, sharing: local}}
  - {key: all, rate_limit: {unit: year, requests_per_unit: 10}}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_local_rule_counts_in_each_nodes_memory_and_an_exact_one_in_the_store() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(2, LOCAL, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    for (key, most) in [("own", [10, 10]), ("all", [10, 0])] {
        let mut admitted = [0, 0];
        for (node, admitted) in fleet.nodes.iter().zip(&mut admitted) {
            for _ in 0..15 {
                let body = format!(r#"{{"domain":"fleet","descriptors":[[{{"key":"{key}","value":"c"}}]]}}"#);
                let answer = http::post(node.http, "/v1/check", &body).await.expect("an answer");
                let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
                assert_eq!(answer["degraded"], Value::Null, "{key}: {answer}");
                *admitted += usize::from(answer["outcome"] == "admit");
            }
        }
        assert_eq!(admitted, most, "{key}, on one node after the other");
    }
    let keys = |of: &str| block_in_place(|| store.command(&["KEYS", &format!("*{of}=c*")]).array().len());
    assert_eq!((keys("own"), keys("all")), (0, 1), "keys in the store");
}
