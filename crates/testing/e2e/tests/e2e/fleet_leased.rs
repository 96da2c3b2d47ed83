//! Permits that nodes take ahead: the bound of the bucket holds over every interval, whatever fails, and the
//! store is seldom asked.
//!
//! Not here: exact sharing (`fleet`, `outage`); the simulation of leases, which tries far more
//! (`crates/stores/store-redis`).

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::Instant;
use tollgate_testkit::redis::{Cluster, Options, Redis};

use crate::fleet::{Demand, Fleet, Seen, Traffic, What, assert_within_bucket, of};

const BURST: f64 = 600.0;
const RATE: f64 = 400.0;
const WINDOW: usize = 1500;
const CLIENTS: usize = 2;
/// Life of a lease.
const TAU: Duration = Duration::from_millis(500);
/// After this all is as it was, whatever was lost: two taus.
const SETTLE: Duration = Duration::from_secs(1);
/// Span over which a rate is measured.
const STRETCH: Duration = Duration::from_millis(1500);
/// Longest time ahead of their refill for which permits are promised.
const HORIZON: Duration = Duration::from_millis(100);

/// P of guarantees.md: a turn for each node, the refill of half of tau and two permits a node in all, and one
/// more turn.
fn most_promised(nodes: usize) -> f64 {
    let queue = RATE * TAU.as_secs_f64() / 2.0;
    queue + 2.0 * nodes as f64 + queue / nodes as f64 + 1.0
}

const RULES: &str = "domain: fleet
descriptors:
  - key: bucket
    rate_limit:
      {unit: second, requests_per_unit: 400, algorithm: token_bucket, burst: 600, sharing: leased, on_store_failure: deny}
  - key: window
    rate_limit: {unit: year, requests_per_unit: 1500, sharing: leased, on_store_failure: deny}
";

const DEMAND: Demand =
    Demand { keys: &["bucket"], clients: CLIENTS, batch: 20, callers: 8, pause: Duration::from_millis(1) };

/// Admitted by permits of the store, leased or not.
fn admitted<'a>(
    seen: &'a [Seen],
    key: &'static str,
    client: usize,
) -> impl Iterator<Item = &'a Seen> + Clone {
    of(seen, key, client).filter(|it| it.counted())
}

/// In these seconds the nodes admitted as much as one bucket would have, asked at the same moments and empty
/// in the beginning, except 5 % of the rate's permits and the permits of one horizon.
fn assert_rate(seen: &[Seen], client: usize, from: Instant) {
    let inside: Vec<_> =
        of(seen, "bucket", client).filter(|it| it.sent >= from && it.sent <= from + STRETCH).collect();
    let mut sent: Vec<_> = inside.iter().map(|it| (it.sent - from).as_secs_f64()).collect();
    sent.sort_by(f64::total_cmp);
    let mut level = 0.0_f64;
    let mut last = 0.0;
    let mut ideal = 0.0;
    for at in sent {
        level = BURST.min(level + (at - last) * RATE);
        last = at;
        if level >= 1.0 {
            (level, ideal) = (level - 1.0, ideal + 1.0);
        }
    }
    let admitted = inside.iter().filter(|it| it.counted()).count() as f64;
    println!("{admitted} admitted of {}, one bucket would have admitted {ideal}", inside.len());
    let all = RATE * STRETCH.as_secs_f64();
    assert!(
        ideal >= 0.95 * all,
        "{} requests ask for less than the rate, so they show nothing",
        inside.len()
    );
    let least = ideal - 0.05 * all - RATE * HORIZON.as_secs_f64();
    assert!(admitted >= least, "{admitted} of {ideal} admitted, at least {least}");
}

/// Lets demand continue for a measured span.
async fn go_on(span: Duration) -> Instant {
    let from = Instant::now();
    tokio::time::sleep(span).await; // a rate is permits in a time
    from
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_bound_of_one_bucket_and_seldom_ask_the_store() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    go_on(SETTLE).await;
    let settled = go_on(STRETCH).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        let burst = assert_within_bucket(admitted(&seen, "bucket", client), BURST, RATE);
        println!("a burst of {burst:.1} of {BURST}");
        assert_rate(&seen, client, settled);
    }
    assert!(seen.iter().all(|it| matches!(it.what, What::Admitted | What::Denied)), "no fault, no mark");
    let calls = fleet.metric("tollgate_store_calls_total", "").await;
    let decisions = seen.len() as f64;
    println!("{decisions} decisions, {calls} calls");
    // A node takes at most its share of the refill of one horizon, so this is several times the permits of
    // one call.
    let batch = RATE * HORIZON.as_secs_f64();
    assert!(calls * batch < decisions, "{calls} calls for {decisions} decisions");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_window_admit_its_limit_and_no_more() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let demand = Demand { keys: &["window"], ..DEMAND };
    let seen = Traffic::run(&fleet, &demand, 5 * CLIENTS * WINDOW / 2).await;
    for client in 0..CLIENTS {
        let window = admitted(&seen, "window", client).count();
        let last = of(&seen, "window", client).last().expect("it was asked");
        assert_eq!((window, &last.what), (WINDOW, &What::Denied), "all of it, and no more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_bound_while_a_node_is_killed_and_the_store_stalls() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let mut fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    go_on(SETTLE).await;
    block_in_place(|| fleet.nodes.remove(0).kill());
    go_on(SETTLE).await; // what it held is written off within two taus
    let without_it = go_on(STRETCH).await;
    store.stop();
    fleet.wait_for_store("down").await;
    store.resume();
    fleet.wait_for_store("up").await;
    go_on(SETTLE).await;
    let with_the_store = go_on(STRETCH).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        let burst = assert_within_bucket(admitted(&seen, "bucket", client), BURST, RATE);
        println!("a burst of {burst:.1} of {BURST}");
        [without_it, with_the_store].iter().for_each(|from| assert_rate(&seen, client, *from));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_store_that_forgot_everything_add_at_most_a_burst_and_what_was_promised() {
    let Some(mut store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(2_000).await;
    block_in_place(|| store.restart_empty());
    fleet.wait_for_store("up").await;
    traffic.more(4_000).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        let most = 2.0 * BURST + most_promised(4);
        let burst = assert_within_bucket(admitted(&seen, "bucket", client), most, RATE);
        println!("a burst of {burst:.1} of {most}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_bound_while_slots_move_and_add_what_a_failover_lost() {
    let Some(mut cluster) = Cluster::start_with_replicas() else { return };
    let fleet = Fleet::start(4, RULES, &cluster.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(4_000).await;
    let moved_to = block_in_place(|| {
        let keys = cluster.nodes.iter().flat_map(|node| node.command(&["KEYS", "*bucket*"]).array().to_vec());
        let slots: BTreeSet<u16> = keys.map(|key| cluster.slot(&key.text())).collect();
        assert_eq!(slots.len(), CLIENTS, "a key for each client");
        let from = cluster.owner(*slots.first().expect("some"));
        slots.iter().for_each(|slot| cluster.move_slot(*slot, (from + 1) % 3));
        (from + 1) % 3
    });
    traffic.more(4_000).await;
    let killed = Instant::now();
    block_in_place(|| {
        cluster.nodes[moved_to].kill();
        cluster.fail_over(moved_to);
        cluster.wait();
    });
    fleet.wait_for_store("up").await;
    traffic.more(8_000).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        let before = admitted(&seen, "bucket", client).filter(|it| it.heard < killed);
        println!("a burst of {:.1} of {BURST} before", assert_within_bucket(before, BURST, RATE));
        let most = 2.0 * BURST + most_promised(4);
        let all = assert_within_bucket(admitted(&seen, "bucket", client), most, RATE);
        println!("a burst of {all:.1} of {most} with the failover");
        let last = of(&seen, "bucket", client).filter(|it| it.sent > killed).any(Seen::counted);
        assert!(last, "admitted again after the failover");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_leases_are_used_up_first_when_the_store_falls_silent() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    // Less than the rate, so that nodes have permits left; enough that a lease is worth it.
    let demand = Demand { batch: 1, callers: 4, pause: Duration::from_millis(6), ..DEMAND };
    let traffic = Traffic::start(&fleet, &demand);
    traffic.more(1_000).await;
    store.stop();
    let stopped = Instant::now();
    traffic.more(600).await;
    store.resume();
    fleet.wait_for_store("up").await;
    traffic.more(200).await;
    let seen = traffic.end().await;
    let alone =
        seen.iter().filter(|it| it.counted() && it.sent > stopped && it.heard < stopped + TAU).count();
    assert!(alone > 0, "nobody was admitted by a lease while the store was silent");
    println!("{alone} admitted by leases while the store was silent");
    // Permits that are unused by then are spent no more.
    Traffic::run(&fleet, &demand, 200).await;
    store.stop();
    go_on(TAU).await;
    let late = Traffic::run(&fleet, &demand, 40).await;
    assert!(late.iter().all(|it| matches!(it.what, What::Degraded { admitted: false, .. })), "{late:?}");
    store.resume();
    let marked = seen.iter().filter(|it| matches!(it.what, What::Degraded { .. })).count();
    assert!(marked > 0, "leases end");
    for client in 0..CLIENTS {
        let burst = assert_within_bucket(admitted(&seen, "bucket", client), BURST, RATE);
        println!("a burst of {burst:.1} of {BURST}");
    }
}
