//! Counts while their store, or a node, fails: real processes, killed and stopped while clients send
//! requests.
//!
//! Each row asserts the bound that `docs/guarantees.md` states for its fault, and no other. Exact sharing;
//! leases are in `fleet_leased`.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::Instant;
use tollgate_testkit::redis::{Cluster, Options, Redis, Sentinel};

use crate::fleet::{DEADLINE, Demand, Fleet, Seen, Traffic, What, of, until};
use crate::resp::{self, Reply};
use crate::{http, rls};

const LIMIT: usize = 60;
const CLIENTS: usize = 3;
const CALLERS: usize = 8;
/// Failures in a row after which a node does not wait any more.
const BREAKER: usize = 3;
/// Permits that four nodes which know each other admit by their shares, each rounded down.
const SHARES: usize = 4 * (LIMIT / 4);
/// `docs/guarantees.md` says one second after the store's return; two cores that run all of this may be late.
const BACK: Duration = Duration::from_secs(2);
/// Far above the deadline of a call; only a hang takes longer.
const HANG: Duration = Duration::from_secs(60);

const RULES: &str = "domain: fleet
descriptors:
  - {key: strict, rate_limit: {unit: year, requests_per_unit: 60, on_store_failure: deny}}
  - {key: open, rate_limit: {unit: year, requests_per_unit: 60, on_store_failure: allow}}
  - {key: share, rate_limit: {unit: year, requests_per_unit: 60, on_store_failure: local}}
";

const DEMAND: Demand = Demand {
    keys: &["strict", "open", "share"],
    clients: CLIENTS,
    batch: 1,
    callers: CALLERS,
    pause: Duration::from_millis(2),
};

/// Half of each limit is used before the fault, the rest and more after it.
const BEFORE: usize = 300;
const AFTER: usize = 1000;

/// Requests before, during and after a fault.
struct Story {
    seen: Vec<Seen>,
    /// When the store was there again.
    cured: Instant,
}

impl Story {
    /// A fault between two stretches of demand. `fault` ends when it is there, `cure` when the store can
    /// answer again.
    async fn of(fleet: &Fleet, fault: impl FnOnce(), cure: impl FnOnce()) -> Self {
        let traffic = Traffic::start(fleet, &DEMAND);
        traffic.more(BEFORE).await;
        block_in_place(fault);
        fleet.wait_for_store("down").await;
        traffic.more(BEFORE).await;
        block_in_place(cure);
        let cured = Instant::now();
        fleet.wait_for_store("up").await;
        traffic.more(AFTER).await;
        Self { seen: traffic.end().await, cured }
    }

    /// For each client of each rule: how many were admitted by the store's word.
    fn counted(&self) -> impl Iterator<Item = (&'static str, usize, usize)> {
        let pairs = DEMAND.keys.iter().flat_map(|key| (0..CLIENTS).map(|client| (*key, client)));
        pairs
            .map(|(key, client)| (key, client, of(&self.seen, key, client).filter(|it| it.counted()).count()))
    }

    /// At most `most` were admitted by the store's word of each client; all that is `lost` counts together.
    fn assert_counted(&self, most: usize, lost: usize) {
        self.assert_counted_of_each(|_, _| most, lost);
    }

    /// The same where each client of each key has a bound of its own.
    fn assert_counted_of_each(&self, most: impl Fn(&'static str, usize) -> usize, lost: usize) {
        let mut short = 0;
        for (key, client, counted) in self.counted() {
            let most = most(key, client);
            assert!(counted <= most, "{key} of client {client}: {counted} admitted, at most {most}");
            let last = of(&self.seen, key, client).last().expect("it was asked");
            assert_eq!(
                last.what,
                What::Denied,
                "{key} of client {client}: {counted} admitted, and its limit is used up"
            );
            short += LIMIT.saturating_sub(counted);
        }
        assert!(short <= lost, "{short} permits were lost, at most {lost}");
    }

    /// Asserts that each rule decided without the store as it declares, that each such decision says so, that
    /// nothing hung, and that soon all was well again. `local_most` is the most that the shares of all nodes
    /// together admit in the outage.
    async fn assert_outage(&self, fleet: &Fleet, local_most: usize) {
        let mut degraded = 0;
        let mut waited = 0;
        let mut late = Duration::ZERO;
        for seen in &self.seen {
            assert!(seen.heard - seen.sent < HANG, "{seen:?} took {:?}", seen.heard - seen.sent);
            let What::Degraded { how, admitted } = &seen.what else { continue };
            degraded += 1;
            waited += usize::from(seen.heard - seen.sent >= DEADLINE / 2);
            late = late.max(seen.sent.saturating_duration_since(self.cured));
            match seen.key {
                "strict" => assert_eq!((how.as_str(), *admitted), ("deny", false)),
                "open" => assert_eq!((how.as_str(), *admitted), ("allow", true)),
                _ => assert_eq!(how, "local"),
            }
        }
        assert!(degraded > 0, "nobody noticed");
        let most = CALLERS * fleet.nodes.len() * BREAKER;
        assert!(
            waited <= most,
            "{waited} waited for a store that was gone, at most {most} until breakers open"
        );
        assert!(late <= BACK, "decided without the store {late:?} after its return");
        let counted = fleet.metric("tollgate_degraded_decisions_total", "").await;
        assert_eq!(counted, f64::from(degraded), "the metric counts each");
        for client in 0..CLIENTS {
            let local = of(&self.seen, "share", client).filter(|it| it.sent < self.cured);
            let admitted =
                local.filter(|it| matches!(it.what, What::Degraded { admitted: true, .. })).count();
            assert!(
                admitted <= local_most,
                "client {client}: {admitted} admitted by shares, at most {local_most}"
            );
        }
        println!(
            "{degraded} decisions without the store, {waited} waited, the last {late:?} after its return"
        );
    }
}

/// Four nodes that have reached the store and know of each other.
async fn fleet(url: &str) -> Fleet {
    let fleet = Fleet::start(4, RULES, url, &[]);
    fleet.wait_for_store("up").await;
    until("the nodes to know of each other", async || {
        (fleet.metric("tollgate_store_live_nodes", "").await >= 16.0).then_some(())
    })
    .await;
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_store_that_kept_its_file_continues_its_counts() {
    let Some(mut store) = Redis::start(&Options::new().append_only()) else { return };
    let fleet = fleet(&store.url()).await;
    let cell = std::cell::RefCell::new(&mut store);
    let story = Story::of(&fleet, || cell.borrow_mut().kill(), || cell.borrow_mut().start_again()).await;
    story.assert_outage(&fleet, SHARES).await;
    story.assert_counted(LIMIT, CALLERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stalls_delays_no_call_and_loses_at_most_what_was_in_flight() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = fleet(&store.url()).await;
    let story = Story::of(&fleet, || store.stop(), || store.resume()).await;
    story.assert_outage(&fleet, SHARES).await;
    // Each node finds out by itself: a caller that waited in vain at one node may be in flight at the next.
    story.assert_counted(LIMIT, CALLERS * fleet.nodes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_empty_admits_at_most_once_more_the_limit() {
    let Some(mut store) = Redis::start(&Options::new()) else { return };
    let fleet = fleet(&store.url()).await;
    let cell = std::cell::RefCell::new(&mut store);
    let story = Story::of(&fleet, || cell.borrow_mut().kill(), || cell.borrow_mut().restart_empty()).await;
    story.assert_outage(&fleet, SHARES).await;
    story.assert_counted(2 * LIMIT, CALLERS);
}

/// Waits until a replica has received all that its master had done by now.
fn catch_up(master: &Redis, replica: &Redis) {
    let offset = |redis: &Redis, field: &str| redis.info(field).and_then(|it| it.parse::<u64>().ok());
    let by_now = offset(master, "master_repl_offset").expect("an offset");
    while offset(replica, "slave_repl_offset").is_none_or(|heard| heard < by_now) {
        std::thread::yield_now(); // it is a matter of milliseconds, and the test has an end of its own
    }
}

/// A master that dies, and its replica.
trait Master {
    /// Waits until the replica has received all that was done by now.
    fn settle(&self);
    fn kill(&mut self);
    /// Waits until the replica is the master.
    fn wait(&self);
}

impl Master for Sentinel {
    fn settle(&self) {
        catch_up(&self.servers[0], &self.servers[1]);
    }

    fn kill(&mut self) {
        self.servers[0].kill();
    }

    fn wait(&self) {
        while self.master() != Some(1) || self.servers[1].info("role").as_deref() != Some("master") {
            std::thread::yield_now();
        }
    }
}

/// The node of a Cluster that has the most counters.
struct Fullest {
    cluster: Cluster,
    node: usize,
}

impl Master for Fullest {
    fn settle(&self) {
        catch_up(&self.cluster.nodes[self.node], &self.cluster.replicas[self.node]);
    }

    fn kill(&mut self) {
        self.cluster.nodes[self.node].kill();
    }

    fn wait(&self) {
        self.cluster.fail_over(self.node);
        self.cluster.wait();
    }
}

/// A master, chosen once it counts, dies under demand, and its replica takes over.
async fn fail_over<M: Master>(fleet: &Fleet, choose: impl FnOnce() -> M) {
    let traffic = Traffic::start(fleet, &DEMAND);
    traffic.more(BEFORE).await;
    let mut master = block_in_place(choose);
    let settled = Instant::now();
    block_in_place(|| {
        master.settle();
        master.kill();
    });
    let killed = Instant::now();
    block_in_place(|| master.wait());
    let cured = Instant::now();
    fleet.wait_for_store("up").await;
    traffic.more(AFTER).await;
    let story = Story { seen: traffic.end().await, cured };
    story.assert_outage(fleet, SHARES).await;
    // The replica has every count whose answer arrived before it began to catch up: only later ones can be
    // admitted again.
    let heard = |it: &&Seen| it.counted() && it.heard < settled;
    let unheard = |it: &&Seen| it.counted() && it.heard >= settled && it.sent <= killed;
    let known: usize =
        story.counted().map(|(key, client, _)| of(&story.seen, key, client).filter(heard).count()).sum();
    assert!(known >= BEFORE / 2, "{known} were admitted before, which a replica without them admits again");
    story.assert_counted_of_each(
        |key, client| LIMIT + of(&story.seen, key, client).filter(unheard).count(),
        CALLERS,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_admits_again_at_most_what_the_replica_had_not_received() {
    let Some(sentinel) = Sentinel::start(&Options::new(), 1) else { return };
    let fleet = fleet(&sentinel.url()).await;
    fail_over(&fleet, || sentinel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_in_a_cluster_admits_again_at_most_what_the_replica_had_not_received() {
    let Some(cluster) = Cluster::start_with_replicas() else { return };
    let fleet = fleet(&cluster.url()).await;
    fail_over(&fleet, || {
        let counters = |node: &Redis| node.command(&["DBSIZE"]).int();
        let node = (0..3).max_by_key(|node| counters(&cluster.nodes[*node])).expect("three");
        println!("{} counters on the node that is killed", counters(&cluster.nodes[node]));
        Fullest { cluster, node }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_while_clients_ask_lose_no_count() {
    let Some(cluster) = Cluster::start() else { return };
    let fleet = fleet(&cluster.url()).await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(BEFORE).await;
    // Every slot that has a counter goes to another node.
    let slots: std::collections::BTreeSet<u16> = block_in_place(|| {
        let keys = cluster.nodes.iter().flat_map(|node| node.command(&["KEYS", "*"]).array().to_vec());
        keys.map(|key| cluster.slot(&key.text())).collect()
    });
    assert!(slots.len() >= DEMAND.keys.len() * CLIENTS, "{slots:?}");
    block_in_place(|| slots.iter().for_each(|slot| cluster.move_slot(*slot, (cluster.owner(*slot) + 1) % 3)));
    let cured = Instant::now();
    traffic.more(AFTER).await;
    let story = Story { seen: traffic.end().await, cured };
    story.assert_counted(LIMIT, 0);
    let degraded = story.seen.iter().filter(|it| matches!(it.what, What::Degraded { .. })).count();
    assert_eq!(degraded, 0, "a slot that moves is followed, which no caller hears of");
    assert!(fleet.metric("tollgate_store_redirects_total", "").await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_loses_at_most_the_answers_it_owed() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let mut fleet = fleet(&store.url()).await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(BEFORE).await;
    block_in_place(|| fleet.nodes[0].kill());
    traffic.more(AFTER).await;
    let story = Story { seen: traffic.end().await, cured: Instant::now() };
    let unknown = story.seen.iter().filter(|it| it.what == What::Unknown).count();
    // A caller loses the answer that it was owed; its next connection may still be accepted by the system,
    // and then be reset.
    assert!(unknown <= 2 * CALLERS, "{unknown} answers lost");
    story.assert_counted(LIMIT, unknown.min(CALLERS));
    let degraded = story.seen.iter().any(|it| matches!(it.what, What::Degraded { .. }));
    assert!(!degraded, "the others never missed the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_open_while_the_store_is_down_and_all_is_well_soon_after_it_comes() {
    let Some(mut store) = Redis::start(&Options::new()) else { return };
    block_in_place(|| store.kill());
    let fleet = Fleet::start(2, RULES, &store.url(), &[]);
    let strict = Fleet::start(1, RULES, &store.url(), &["--ready-needs-store"]);
    fleet.wait_for_store("down").await;
    strict.wait_for_store("down").await;
    let ready =
        async |fleet: &Fleet| http::get(fleet.nodes[0].http, "/readyz", &[]).await.expect("an answer").status;
    assert_eq!(
        (ready(&fleet).await, ready(&strict).await),
        (200, 503),
        "only the node with the flag needs its store"
    );

    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(BEFORE).await;
    block_in_place(|| store.start_again());
    let cured = Instant::now();
    fleet.wait_for_store("up").await;
    strict.wait_for_store("up").await;
    traffic.more(AFTER).await;
    let story = Story { seen: traffic.end().await, cured };
    story.assert_outage(&fleet, 2 * LIMIT).await; // neither knows of the other
    story.assert_counted(LIMIT, 0);
    until("a node that needs its store to be ready", async || (ready(&strict).await == 200).then_some(()))
        .await;
    for node in &fleet.nodes {
        let printed = node.printed();
        let said = |what: &str| printed.lines().filter(|line| line.contains(what)).count();
        let changes = (said("the store is down"), said("the store is up"));
        assert_eq!(changes, (1, 1), "one line a change of state:\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_surface_marks_a_decision_made_without_the_store() {
    let Some(mut store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(1, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let node = &fleet.nodes[0];
    let mut grpc = rls::Client::connect(node.grpc).await.expect("it listens");
    let mut resp = resp::Client::connect(node.resp).await.expect("it listens");
    for (stored, rows) in [
        (true, [("strict", None), ("open", None), ("share", None)]),
        (false, [("strict", Some("deny")), ("open", Some("allow")), ("share", Some("local"))]),
    ] {
        if !stored {
            block_in_place(|| store.kill());
            fleet.wait_for_store("down").await;
        }
        for (key, how) in rows {
            let admitted = how != Some("deny");
            let body = format!(r#"{{"domain":"fleet","descriptors":[[{{"key":"{key}","value":"c"}}]]}}"#);
            let http = http::post(node.http, "/v1/check", &body).await.expect("an answer");
            assert_eq!(http.header("x-ratelimit-degraded"), how, "{key}: {http:?}");
            let answer = grpc.ask(rls::hit("fleet", key, "c")).await.expect("an answer");
            assert_eq!(answer.overall_code == rls::OK, admitted, "{key}: {answer:?}");
            let field = answer
                .response_headers_to_add
                .iter()
                .find(|it| it.key.eq_ignore_ascii_case("x-ratelimit-degraded"));
            assert_eq!(field.map(|it| it.value.as_str()), how, "{key}: {answer:?}");
            let metadata = answer.dynamic_metadata.iter().flat_map(|it| it.fields.keys());
            assert_eq!(
                metadata.filter(|it| it.contains("degraded")).count(),
                usize::from(how.is_some()),
                "{key}: {answer:?}"
            );
            let words = ["TOLLGATE.CHECK", "fleet", key, "c", "WITHDEGRADED"];
            let reply = resp.ask(&words).await;
            let Reply::Array(elements) = &reply else { panic!("{key}: {reply:?}") };
            assert_eq!(elements.get(6), Some(&Reply::Bulk(how.map(str::to_owned))), "{key}: {reply:?}");
        }
    }
}
