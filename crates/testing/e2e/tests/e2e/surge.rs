//! Twenty times the usual load on one key (row 3): what its limit admits is admitted, every other request is
//! answered with a denial, and clients of other keys notice nothing. In memory, over an exact store and with
//! leases.
//!
//! The ideal of one bucket is computed from the arrivals, so a slow machine changes nothing.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_testkit::redis::{Options, Redis};

use crate::fleet::{Demand, Fleet, Seen, Traffic, What, assert_within_bucket, of, until};

const RATE: f64 = 100.0;
const BURST: f64 = 100.0;
/// Load as a multiple of the limit.
const SURGE: f64 = 20.0;
/// Duration of the surge: five bursts' worth of refill.
const SPAN: Duration = Duration::from_secs(5);

const RULES: &str = "domain: fleet
descriptors:
  - key: crowd
    rate_limit: {unit: second, requests_per_unit: 100, algorithm: token_bucket, burst: 100, sharing: SHARING}
  - key: calm
    rate_limit: {unit: minute, requests_per_unit: 1000000, algorithm: token_bucket, sharing: SHARING}
";

const CROWD: Demand =
    Demand { keys: &["crowd"], clients: 1, batch: 20, callers: 4, pause: Duration::from_millis(1) };
const CALM: Demand =
    Demand { keys: &["calm"], clients: 4, batch: 1, callers: 2, pause: Duration::from_millis(10) };

/// The surge on these nodes; returns how many requests were answered in all.
async fn surge(fleet: &Fleet) -> usize {
    let calm = Traffic::start(fleet, &CALM);
    calm.more(20).await;
    let crowd = Traffic::start(fleet, &CROWD);
    let from = Instant::now();
    tokio::time::sleep(SPAN).await; // a rate is permits in a time
    // On a slow machine, wait until the load has the size that the row names.
    until("the surge", async || {
        (crowd.answered() as f64 >= SURGE * RATE * from.elapsed().as_secs_f64()).then_some(())
    })
    .await;
    let crowd = crowd.end().await;
    let calm = calm.end().await;
    assert!(crowd.iter().all(|it| matches!(it.what, What::Admitted | What::Denied)), "all are answered");
    let ideal = one_bucket(&crowd);
    let admitted = crowd.iter().filter(|it| it.counted()).count() as f64;
    assert_within_bucket(of(&crowd, "crowd", 0).filter(|it| it.counted()), BURST, RATE);
    let given = BURST + RATE * from.elapsed().as_secs_f64();
    println!("{} asked, {admitted} admitted, one bucket {ideal}, the limit gave {given:.0}", crowd.len());
    assert!((0.95 * ideal..=given).contains(&admitted), "{admitted} of {ideal}");
    assert!(crowd.len() as f64 >= SURGE * (ideal - BURST), "{} asked", crowd.len());
    assert!(calm.len() > 20 && calm.iter().all(Seen::counted), "neighbours are served");
    crowd.len() + calm.len()
}

/// Permits that one bucket, full at first, admits of these arrivals.
fn one_bucket(seen: &[Seen]) -> f64 {
    let mut sent: Vec<Instant> = seen.iter().map(|it| it.sent).collect();
    sent.sort();
    let mut level = BURST;
    let mut last = sent.first().copied();
    let mut admitted = 0.0;
    for at in sent {
        let since = last.map_or(0.0, |last| (at - last).as_secs_f64());
        (level, last) = (BURST.min(level + since * RATE), Some(at));
        if level >= 1.0 {
            (level, admitted) = (level - 1.0, admitted + 1.0);
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn at_twenty_times_the_load_a_node_admits_its_limit_and_answers_all_others() {
    surge(&Fleet::start(1, &RULES.replace("SHARING", "local"), "memory", &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_twenty_times_the_load_nodes_that_share_a_store_admit_their_limit_and_answer_all_others() {
    for (sharing, least_a_call) in [("exact", 1.0), ("leased", 3.0)] {
        let Some(store) = Redis::start(&Options::new()) else { return };
        let fleet = Fleet::start(2, &RULES.replace("SHARING", sharing), &store.url(), &[]);
        fleet.wait_for_store("up").await;
        let decisions = surge(&fleet).await as f64;
        let calls = fleet.metric("tollgate_store_calls_total", "").await;
        println!("{sharing}: {decisions} decisions, {calls} calls to the store");
        assert!(calls > 0.0 && calls * least_a_call <= decisions, "{sharing}: {calls} for {decisions}");
    }
}
