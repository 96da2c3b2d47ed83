//! The cost of a call while Redis is frozen or dead, and the time until full recovery.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};
use tollgate_core::Quota;

use super::Redis;
use super::drive::{CallOutcome, DrivenNode, StoreCall, runtime};
use crate::report::{Spread, Table};
use crate::settings::Settings;

const TASKS: usize = 16;
/// A call that took less did not wait for Redis.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Measured cost of one outage.
struct Outage {
    slowest_ms: f64,
    /// Calls that failed after waiting, before the first that failed at once.
    waited: f64,
    refused_p50_us: f64,
    refused_p99_us: f64,
    back_ms: f64,
    failed_after: f64,
}

/// Measures an outage of each kind.
pub(super) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    // Duration of the outage.
    let away = Duration::from_millis(settings.size(1_500, 1_500, 300));
    let mut rows = Vec::new();
    for (name, kills) in [("hangs (SIGSTOP)", false), ("is killed and restarted", true)] {
        let mut runs = Vec::new();
        for repeat in 0..settings.repeats {
            settings.say(&format!("shared: Redis {name}, run {repeat} of {}", settings.repeats));
            runs.push(once(kills, away)?);
        }
        let of = |what: fn(&Outage) -> f64| Spread::of(runs.iter().map(what).collect()).cell();
        rows.push(vec![
            name.to_owned(),
            of(|it| it.slowest_ms),
            of(|it| it.waited),
            of(|it| it.refused_p50_us),
            of(|it| it.refused_p99_us),
            of(|it| it.back_ms),
            of(|it| it.failed_after),
        ]);
    }
    let columns = [
        "Redis",
        "slowest call, ms",
        "calls that timed out",
        "breaker open: p50 µs",
        "p99 µs",
        "from Redis's return to the first reply, ms",
        "failed after that",
    ];
    let mut notes = vec![format!(
        "{TASKS} tasks that send one request after another, each with its own key, and a deadline of 10 ms. \
         Redis is unavailable for {} ms. \
         Median (least–most).",
        away.as_millis()
    )];
    notes.extend(settings.notes());
    Ok(vec![Table {
        name: "store-outage",
        title: "Redis outage and recovery".to_owned(),
        command: settings.command("shared"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    }])
}

fn once(kills: bool, away_for: Duration) -> anyhow::Result<Outage> {
    let mut redis = Redis::start()?;
    let port = redis.process.port;
    let quota = Quota::token_bucket(1_000_000, Duration::from_secs(1))?;
    let node = DrivenNode::of(&redis, &quota, None)?;
    runtime()?.block_on(async {
        node.first().await?;
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let stopped = Arc::new(stopped);
        for task in 0..TASKS {
            let node = node.clone();
            let stopped = stopped.clone();
            tasks.spawn(async move {
                let key = format!("user:{task:015}");
                let mut calls = Vec::new();
                while !*stopped.borrow() {
                    let at = begun.elapsed();
                    let said = match node.take(&key).await {
                        Ok(_) => CallOutcome::Admitted,
                        Err(_) => CallOutcome::Failed,
                    };
                    let call = StoreCall { at, took: begun.elapsed() - at, said };
                    calls.push(call);
                    if call.said == CallOutcome::Failed && call.took < AT_ONCE {
                        sleep(Duration::from_millis(1)).await; // as if requests came in now and then
                    } else {
                        yield_now().await;
                    }
                }
                calls
            });
        }
        sleep(Duration::from_millis(300)).await;
        let away = begun.elapsed();
        redis.process.signal(if kills { Signal::KILL } else { Signal::STOP })?;
        sleep(away_for).await;
        let back = if kills {
            redis = Redis::start_on(port)?;
            begun.elapsed()
        } else {
            let back = begun.elapsed();
            redis.process.signal(Signal::CONT)?;
            back
        };
        sleep(Duration::from_millis(1_500)).await;
        stop.send_replace(true);
        let mut calls = tasks.join_all().await.concat();
        calls.sort_by_key(|call| call.at);
        sum_up(&calls, away, back)
    })
}

fn sum_up(calls: &[StoreCall], away: Duration, back: Duration) -> anyhow::Result<Outage> {
    let ends = |call: &StoreCall| call.at + call.took;
    let during = calls.iter().filter(|call| ends(call) > away && call.at < back);
    let refused = |call: &&StoreCall| call.said == CallOutcome::Failed && call.took < AT_ONCE;
    let slowest =
        calls.iter().filter(|call| ends(call) > away).map(|call| call.took).max().unwrap_or_default();
    let first_refused = during.clone().find(refused).map_or(back, |call| call.at);
    let waited = during.clone().filter(|call| call.said == CallOutcome::Failed && call.at <= first_refused);
    let mut open: Vec<Duration> = during.filter(refused).map(|call| call.took).collect();
    open.sort_unstable();
    let at = |share: f64| {
        let index = (open.len() as f64 * share) as usize;
        open.get(index.min(open.len().saturating_sub(1))).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
    };
    let first_answer = calls
        .iter()
        .filter(|call| call.said == CallOutcome::Admitted && ends(call) > back)
        .map(ends)
        .min()
        .context("no answer after Redis' return")?;
    let failed_after =
        calls.iter().filter(|call| call.said == CallOutcome::Failed && call.at > first_answer).count();
    Ok(Outage {
        slowest_ms: slowest.as_secs_f64() * 1e3,
        waited: waited.filter(|call| call.took >= AT_ONCE).count() as f64,
        refused_p50_us: at(0.5),
        refused_p99_us: at(0.99),
        back_ms: first_answer.saturating_sub(back).as_secs_f64() * 1e3,
        failed_after: failed_after as f64,
    })
}
