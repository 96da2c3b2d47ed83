//! A flood of keys that come once: memory stays within its cap, and a key that was there before keeps its
//! count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::rls::{self, Client, RateLimitRequest};
use crate::start::rules;
use crate::tollgate::Start;

const RULES: &str = "domain: d
descriptors:
  - {key: client, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: brief, rate_limit: {unit: second, requests_per_unit: 1000000}}
";
const LIMIT: u32 = 1_000_000;
const KEYS: usize = 1_000_000;
const BATCH: usize = 500;
const CONNECTIONS: usize = 4;
const WARM_UP: usize = 20;
/// Cap on the memory of the table.
const CAP: u64 = 8 << 20;
/// Most growth of the process beside the table, once it has served messages of that size: a million keys
/// without a cap would take 35 MiB.
const BESIDE: u64 = 12 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_million_new_keys_of_one_rule_stay_within_the_cap_and_its_other_counts_are_kept() {
    flood("client").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_new_keys_that_are_soon_over_stay_within_the_cap_and_other_counts_are_kept() {
    flood("brief").await;
}

fn value(number: usize) -> String {
    format!("{number:x}-{}", "z".repeat(40))
}

/// A million values of `key`, each once, while one client that has taken a tenth of its year is watched.
async fn flood(key: &'static str) {
    let rules = rules(RULES);
    let server = Start::new(rules.path()).args(["--memory-max", "8MiB"]).go();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(server.grpc).await.expect("it listens"));
    }
    // The buffers for such messages are there before the flood.
    for _ in 0..WARM_UP {
        for client in &mut clients {
            let answer = client.ask(rls::hits("d", key, (0..BATCH).map(value))).await;
            assert_eq!(answer.expect("a bounded answer").statuses.len(), BATCH);
        }
    }
    let before = server.resident();
    let flooding = Arc::new(AtomicBool::new(true));

    let mut honest = Client::connect(server.grpc).await.expect("it listens");
    let tenth = RateLimitRequest { hits_addend: LIMIT / 10, ..rls::hit("d", "client", "honest") };
    assert!(honest.admits(tenth).await);
    let watch = flooding.clone();
    let honest = tokio::spawn(async move {
        let mut asked = LIMIT / 10;
        let mut forgotten = 0_u32;
        while watch.load(Ordering::Relaxed) {
            asked += 1;
            let answer = honest.ask(rls::hit("d", "client", "honest")).await.expect("served");
            assert_eq!(answer.overall_code, rls::OK);
            if answer.statuses[0].limit_remaining != LIMIT - asked {
                forgotten += 1;
                asked = LIMIT - answer.statuses[0].limit_remaining;
            }
        }
        (asked, forgotten)
    });

    let mut flood = tokio::task::JoinSet::new();
    for (connection, mut client) in clients.into_iter().enumerate() {
        flood.spawn(async move {
            let share = KEYS / CONNECTIONS;
            for first in (connection * share..(connection + 1) * share).step_by(BATCH) {
                let keys = (first..first + BATCH).map(|n| value(BATCH + n));
                let answer = client.ask(rls::hits("d", key, keys)).await.expect("a bounded answer");
                assert_eq!(answer.statuses.len(), BATCH);
            }
        });
    }
    flood.join_all().await;
    flooding.store(false, Ordering::Relaxed);
    let (asked, forgotten) = honest.await.expect("the honest client was served");
    let grown = server.resident().saturating_sub(before);
    println!("{key}: grown by {} MiB; {asked} honest hits, forgotten {forgotten} times", grown >> 20);
    assert!(grown < CAP + BESIDE, "grown by {} MiB", grown >> 20);
    assert!(asked > LIMIT / 10, "it asked meanwhile");
    // The nearest to a full quota go first, and those are the flood's.
    assert_eq!(forgotten, 0, "the honest client's count was dropped before the flood's");
    let table = server.metric("tollgate_table_bytes", "").await.expect("the metric of the table's size");
    assert!(table > 0.0 && table <= CAP as f64, "{table} bytes");
}
