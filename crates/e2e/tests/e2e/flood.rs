//! A flood of keys that come once: memory stays within its cap, and who was there before keeps its count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::rls::{self, Client};
use crate::start::rules;
use crate::tollgate::Start;

const RULES: &str = "domain: d
descriptors:
  - {key: flood, rate_limit: {unit: second, requests_per_unit: 1000000}}
  - {key: honest, rate_limit: {unit: year, requests_per_unit: 1000000}}
";
const KEYS: usize = 1_000_000;
const BATCH: usize = 500;
const CONNECTIONS: usize = 4;
/// What the table may take, and what the process may take beside it for messages of that size.
const CAP: u64 = 8 << 20;
const BESIDE: u64 = 96 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_million_new_keys_stay_within_the_cap_and_others_are_served_with_their_counts() {
    let rules = rules(RULES);
    let server = Start::new(rules.path()).args(["--memory-max", "8MiB"]).go();
    let before = server.resident();
    let flooding = Arc::new(AtomicBool::new(true));

    let mut honest = Client::connect(server.grpc).await.expect("it listens");
    let watch = flooding.clone();
    let honest = tokio::spawn(async move {
        let (mut asked, mut forgotten) = (0_u32, 0_u32);
        while watch.load(Ordering::Relaxed) {
            asked += 1;
            let answer = honest.ask(rls::hit("d", "honest", "someone")).await.expect("served");
            assert_eq!(answer.overall_code, rls::OK);
            if answer.statuses[0].limit_remaining != 1_000_000 - asked {
                forgotten += 1;
                asked = 1_000_000 - answer.statuses[0].limit_remaining;
            }
        }
        (asked, forgotten)
    });

    let mut flood = tokio::task::JoinSet::new();
    for connection in 0..CONNECTIONS {
        let mut client = Client::connect(server.grpc).await.expect("it listens");
        flood.spawn(async move {
            let share = KEYS / CONNECTIONS;
            for first in (connection * share..(connection + 1) * share).step_by(BATCH) {
                let keys = (first..first + BATCH).map(|n| format!("{n:x}-{}", "z".repeat(40)));
                let answer = client.ask(rls::hits("d", "flood", keys)).await.expect("a bounded answer");
                assert_eq!(answer.statuses.len(), BATCH);
            }
        });
    }
    flood.join_all().await;
    flooding.store(false, Ordering::Relaxed);
    let (asked, forgotten) = honest.await.expect("the honest client was served");
    let grown = server.resident().saturating_sub(before);
    println!("grown by {} MiB; {asked} honest requests, forgotten {forgotten} times", grown >> 20);
    assert!(grown < CAP + BESIDE, "grown by {} MiB", grown >> 20);
    assert!(asked > 0, "somebody asked meanwhile");
    // A count over a year lies far from a full quota of a second: it is the last to go.
    assert_eq!(forgotten, 0, "the honest client's count was dropped before the flood's");
    let tracked = server.metric("tollgate_table_bytes", "").await;
    assert!(tracked.is_none_or(|bytes| bytes <= CAP as f64), "{tracked:?}");
}
