//! Permits that nodes take ahead: the bound of the bucket holds over every interval, whatever fails, and the store is seldom asked.
//!
//! Not here: exact sharing (`fleet`, `outage`); the simulation of leases, which tries far more (`crates/store-redis`).

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::Instant;
use tollgate_testkit::redis::{Options, Redis};

use crate::fleet::{Demand, Fleet, Seen, Traffic, What, assert_within_bucket, of};

const BURST: f64 = 600.0;
const RATE: f64 = 800.0;
const WINDOW: usize = 4000;
const CLIENTS: usize = 2;

const RULES: &str = "domain: fleet
descriptors:
  - key: bucket
    rate_limit:
      {unit: second, requests_per_unit: 800, algorithm: token_bucket, burst: 600, sharing: leased, on_store_failure: deny}
  - key: window
    rate_limit: {unit: year, requests_per_unit: 4000, sharing: leased, on_store_failure: deny}
";

const DEMAND: Demand =
    Demand { keys: &["bucket"], clients: CLIENTS, batch: 10, callers: 8, pause: Duration::from_millis(1) };

/// Admitted by permits of the store, leased or not.
fn admitted<'a>(
    seen: &'a [Seen],
    key: &'static str,
    client: usize,
) -> impl Iterator<Item = &'a Seen> + Clone {
    of(seen, key, client).filter(|it| it.counted())
}

/// How much of what the rate gave in `(from, to)` was admitted, of one client.
fn share(seen: &[Seen], client: usize, from: Instant, to: Instant) -> f64 {
    let inside = admitted(seen, "bucket", client).filter(|it| it.sent >= from && it.heard <= to).count();
    inside as f64 / (RATE * (to - from).as_secs_f64())
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_bound_of_one_bucket_and_of_one_window() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let demand = Demand { keys: &["bucket", "window"], ..DEMAND };
    let traffic = Traffic::start(&fleet, &demand);
    traffic.more(40_000).await;
    let seen = traffic.end().await;
    let (first, last) = (seen[0].heard, seen[seen.len() - 1].heard);
    for client in 0..CLIENTS {
        assert_within_bucket(admitted(&seen, "bucket", client), BURST, RATE);
        let window = admitted(&seen, "window", client).count();
        println!("window {window}, bucket {}", admitted(&seen, "bucket", client).count());
        assert!(window <= WINDOW, "{window} of {WINDOW}");
        println!("share {}", share(&seen, client, first, last));
    }
    let (calls, decisions) = (fleet.metric("tollgate_store_calls_total", "").await, seen.len());
    println!("{decisions} decisions, {calls} calls");
    assert!(seen.iter().all(|it| matches!(it.what, What::Admitted | What::Denied)), "no fault, no mark");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_bound_while_a_node_is_killed_and_the_store_stalls() {
    let Some(store) = Redis::start(&Options::new()) else { return };
    let mut fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(5_000).await;
    block_in_place(|| fleet.nodes[0].kill());
    traffic.more(10_000).await;
    store.stop();
    traffic.more(3_000).await;
    store.resume();
    traffic.more(10_000).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        assert_within_bucket(admitted(&seen, "bucket", client), BURST, RATE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_store_that_forgot_everything_add_at_most_one_burst() {
    let Some(mut store) = Redis::start(&Options::new()) else { return };
    let fleet = Fleet::start(4, RULES, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let traffic = Traffic::start(&fleet, &DEMAND);
    traffic.more(5_000).await;
    block_in_place(|| store.restart_empty());
    fleet.wait_for_store("up").await;
    traffic.more(10_000).await;
    let seen = traffic.end().await;
    for client in 0..CLIENTS {
        assert_within_bucket(admitted(&seen, "bucket", client), 2.0 * BURST, RATE);
    }
}
