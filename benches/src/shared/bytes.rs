//! Memory of a counter in Redis, above its key's name.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use tollgate_core::{Algorithm, Align, LeakyForm, Period, Quota, Refill};

use super::Redis;
use super::drive::{CallOutcome, DrivenNode, closed, runtime};
use crate::report::{Table, figure};
use crate::settings::Settings;

/// Fills a Redis with counters of each algorithm.
pub(super) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let keys: u64 = settings.size(1_000_000, 100_000, 500);
    let mut rows = Vec::new();
    for (name, algorithm) in algorithms() {
        settings.say(&format!("shared: bytes of {name}"));
        let quota = Quota::new(100, Period::Span(Duration::from_secs(3_600)), algorithm)?;
        rows.push(one(name, &quota, keys)?);
    }
    let columns = ["algorithm", "bytes per counter", "its key's name", "above the name", "encoding"];
    let mut notes = vec![format!(
        "Growth of `used_memory` over {} counters with one hit of 100 per hour. Hash tables of keys and expiries \
         and the allocator's rounding are included. Right after they grow, the tables have room for twice as \
         many keys.",
        figure(keys as f64)
    )];
    notes.extend(settings.notes());
    Ok(vec![Table {
        name: "store-bytes",
        title: "Memory of a counter in Redis".to_owned(),
        command: settings.command("shared"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    }])
}

fn algorithms() -> [(&'static str, Algorithm); 10] {
    let bucket = |initial, refill| Algorithm::TokenBucket { burst: None, initial, overdraft: 0, refill };
    [
        ("token_bucket", bucket(None, Refill::Continuous)),
        ("leaky_bucket, meter", Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Meter }),
        (
            "leaky_bucket, queue",
            Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Queue { delay_after: 1 } },
        ),
        ("fixed_window", Algorithm::FixedWindow { align: Align::Calendar }),
        ("total", Algorithm::Total),
        ("token_bucket, initial 10", bucket(Some(10), Refill::Continuous)),
        ("token_bucket, refill: interval", bucket(None, Refill::Interval)),
        ("sliding_window_counter", Algorithm::SlidingWindowCounter),
        ("sliding_window, 10 cells", Algorithm::sliding_window(10)),
        ("sliding_window_log", Algorithm::SlidingWindowLog { log_denied: false }),
    ]
}

fn one(name: &str, quota: &Quota, keys: u64) -> anyhow::Result<Vec<String>> {
    let redis = Redis::start()?;
    let runtime = runtime()?;
    let node = DrivenNode::of(&redis, quota, Some(Duration::from_secs(30)))?;
    // The connection and the script are there before it is weighed.
    runtime.block_on(node.first())?;
    let before = redis.info("used_memory")?;
    let all: Arc<[String]> = (0..keys).map(|id| format!("user:{id:015}")).collect();
    let run = runtime.block_on(closed(std::slice::from_ref(&node), 256, &all));
    ensure!(run.count(CallOutcome::Failed) == 0, "{name}: {} calls failed", run.count(CallOutcome::Failed));
    // Buffers of the connection are let go of when it has been quiet for a while.
    drop(node);
    let grown = redis.info("used_memory")? - before;
    let key = loop {
        let key = redis.ask("RANDOMKEY")?;
        if key.contains("user:") {
            break key;
        }
    };
    let encoding = redis.ask(&format!("OBJECT ENCODING {key}"))?;
    let bytes = grown / keys as f64;
    let length = key.len() as f64;
    Ok(vec![name.to_owned(), figure(bytes), figure(length), figure(bytes - length), encoding])
}
