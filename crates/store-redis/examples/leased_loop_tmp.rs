#![allow(clippy::print_stdout, clippy::expect_used, missing_docs)]
use std::time::Duration;
use tokio::time::Instant;
use tollgate_core::{Cost, Quota, Sharing, Timestamp};
use tollgate_store::{Charge, Key, Store, Take};
use tollgate_store_redis::{RedisConfig, RedisStore};

fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("url");
    let mut number = || args.next().expect("number").parse::<u64>().expect("a number");
    let (threads, keys, decisions, rate) = (number(), number(), number(), number());
    let mut config = RedisConfig::parse_url(&url).expect("a URL");
    config.deadline = Duration::from_millis(100);
    let store = RedisStore::new(config).expect("settings");
    let began = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("rt");
                runtime.block_on(async {
                    let quota =
                        Quota::token_bucket(rate, Duration::from_secs(1)).expect("q").shared(Sharing::Leased);
                    let names: Vec<String> =
                        (0..keys).map(|k| format!("domain|client={k:016}|token_bucket")).collect();
                    let mut verdicts = Vec::new();
                    let (mut admitted, mut failed) = (0_u64, 0_u64);
                    for n in 0..decisions {
                        verdicts.clear();
                        let key = Key(names[((n * 7919 + thread) % keys) as usize].as_bytes());
                        store
                            .take(
                                &[Take { key, quota: &quota, cost: Cost::ONE }],
                                Charge::Each,
                                Timestamp::from_unix_seconds(1_795_000_000),
                                &mut verdicts,
                            )
                            .await;
                        match &verdicts[0] {
                            Ok(d) if d.is_admitted() => admitted += 1,
                            Ok(_) => {}
                            Err(_) => failed += 1,
                        }
                        if n % 64 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    (admitted, failed)
                })
            })
        })
        .collect();
    let (mut admitted, mut failed) = (0, 0);
    for worker in workers {
        let (a, f) = worker.join().expect("w");
        admitted += a;
        failed += f;
    }
    let span = began.elapsed().as_secs_f64();
    let f = store.figures();
    println!(
        "threads {threads} keys {keys}: {:.2} M/s, {admitted} admitted, {failed} failed, {} calls, {} requests, {} central, {} local, lost {} returned {}",
        (threads * decisions) as f64 / span / 1e6,
        f.calls,
        f.lease_requests,
        f.central_takes,
        f.local_decisions,
        f.permits_lost,
        f.permits_returned
    );
}
