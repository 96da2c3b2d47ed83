//! `sharing: leased`: a node takes permits ahead of time and decides by itself.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Quota;
use tollgate_store::Sharing;

use super::Redis;
use super::drive::{CallOutcome, DrivenNode, Run, closed, paced, runtime};
use crate::report::{Spread, Table, figure};
use crate::settings::Settings;

/// One kind of run.
struct Case {
    name: &'static str,
    /// Permits a second, and at once.
    limit: u64,
    nodes: usize,
    /// Calls a second in all; `None` for as fast as they are answered.
    rate: Option<f64>,
}

const CASES: [Case; 4] = [
    Case { name: "10,000/s requested of 20,000/s, one node", limit: 20_000, nodes: 1, rate: Some(10_000.0) },
    Case { name: "as fast as one node can, 50,000,000/s", limit: 50_000_000, nodes: 1, rate: None },
    Case { name: "30,000/s requested of 10,000/s, one node", limit: 10_000, nodes: 1, rate: Some(30_000.0) },
    Case {
        name: "30,000/s requested of 10,000/s, four nodes",
        limit: 10_000,
        nodes: 4,
        rate: Some(30_000.0),
    },
];

/// Measures each case with the same rule leased and exact.
pub(super) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let mut rows = Vec::new();
    for case in &CASES {
        for (how, sharing) in [("exact", Sharing::Exact), ("**leased**", Sharing::Leased)] {
            let mut rate = vec![];
            let mut cpu = vec![];
            let mut calls = vec![];
            let mut over = vec![];
            let mut ideal = vec![];
            let mut failed = 0;
            for repeat in 0..settings.repeats {
                settings.say(&format!("shared: {how}, {}, run {repeat} of {}", case.name, settings.repeats));
                let (run, sent) = once(case, sharing, settings)?;
                rate.push(run.rate());
                // A paced run keeps the thread busy with waiting.
                cpu.push(if case.rate.is_none() { run.cpu_us() } else { f64::NAN });
                calls.push(run.calls.len() as f64 / sent.max(1) as f64);
                over.push(most_over(&run, case.limit as f64));
                ideal.push(share_of_ideal(&run, case.limit as f64));
                failed += run.count(CallOutcome::Failed);
            }
            rows.push(vec![
                case.name.to_owned(),
                how.to_owned(),
                Spread::of(rate).cell(),
                figure(Spread::of(cpu).median),
                Spread::of(calls).cell(),
                Spread::of(over).cell(),
                Spread::of(ideal).cell(),
                failed.to_string(),
            ]);
        }
    }
    let columns = [
        "one key, demand",
        "sharing",
        "decisions/s",
        "our CPU µs per decision",
        "decisions per script call",
        "admitted above burst + rate · t, % of the burst",
        "admitted, share of the ideal",
        "failed",
    ];
    let mut notes = vec![
        "The burst is one second of refill. The excess is the most by which the admissions of any interval are \
         above burst + rate · t (negative: they stay below), by the time at which each call began. The ideal is \
         a single bucket that gets all calls. Nodes are separate stores on one thread, with a deadline of one \
         second per call. Median (least–most)."
            .to_owned(),
    ];
    notes.extend(settings.notes());
    Ok(vec![Table {
        name: "store-leased",
        title: "Counters in Redis, `sharing: leased`".to_owned(),
        command: settings.command("shared"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    }])
}

/// One run on a Redis of its own, and how many script calls it took.
fn once(case: &Case, sharing: Sharing, settings: &Settings) -> anyhow::Result<(Run, u64)> {
    let redis = Redis::start()?;
    let runtime = runtime()?;
    let quota = Quota::token_bucket(case.limit, Duration::from_secs(1))?;
    let nodes: Vec<DrivenNode> = (0..case.nodes)
        .map(|_| Ok(DrivenNode::of(&redis, &quota, Some(Duration::from_secs(1)))?.shared(sharing)))
        .collect::<anyhow::Result<_>>()?;
    let sent = || nodes.iter().map(|node| node.store.stats().conn.calls).sum::<u64>();
    // Connections and scripts are there when the clock starts.
    for node in &nodes {
        runtime.block_on(node.clone().shared(Sharing::Exact).first())?;
    }
    let before = sent();
    let seconds = settings.size(5.0, 1.5, 0.3);
    let run = match case.rate {
        Some(rate) => runtime.block_on(paced(&nodes, rate, &hot((rate * seconds) as usize))),
        None => {
            let count = settings.size(4_000_000, 500_000, 5_000);
            runtime.block_on(closed(&nodes, 256, &hot(count)))
        }
    };
    Ok((run, sent() - before))
}

fn hot(count: usize) -> Arc<[String]> {
    vec!["user:000000000000001".to_owned(); count].into()
}

/// When each admitted call began, in order.
fn admitted(run: &Run) -> Vec<f64> {
    let admitted = run.calls.iter().filter(|call| call.said == CallOutcome::Admitted);
    let mut at: Vec<f64> = admitted.map(|call| call.at.as_secs_f64()).collect();
    at.sort_by(f64::total_cmp);
    at
}

/// The most that any interval admitted above a burst of `limit` and as much a second, in hundredths of the
/// burst.
fn most_over(run: &Run, limit: f64) -> f64 {
    let mut least = f64::INFINITY;
    let mut most = f64::NEG_INFINITY;
    for (before, at) in admitted(run).into_iter().enumerate() {
        least = least.min(before as f64 - limit * at);
        most = most.max((before + 1) as f64 - limit * at - least);
    }
    (most - limit) / limit * 100.0
}

/// Admitted calls, as a share of those that one bucket would admit.
fn share_of_ideal(run: &Run, limit: f64) -> f64 {
    let mut asked: Vec<f64> = run.calls.iter().map(|call| call.at.as_secs_f64()).collect();
    asked.sort_by(f64::total_cmp);
    let mut level = limit;
    let mut last = 0.0;
    let mut ideal = 0_u64;
    for at in asked {
        level = (level + (at - last) * limit).min(limit);
        last = at;
        if level >= 1.0 {
            level -= 1.0;
            ideal += 1;
        }
    }
    run.count(CallOutcome::Admitted) as f64 / ideal as f64
}

#[cfg(test)]
mod tests {
    use super::super::drive::StoreCall;
    use super::*;

    fn run(admitted_at: &[f64]) -> Run {
        let call = |at: &f64| StoreCall {
            at: Duration::from_secs_f64(*at),
            took: Duration::ZERO,
            said: CallOutcome::Admitted,
        };
        Run { calls: admitted_at.iter().map(call).collect(), seconds: 1.0, cpu_seconds: 0.0 }
    }

    #[test]
    fn what_a_bucket_admits_is_not_above_it() {
        assert_eq!(most_over(&run(&[0.0, 0.0]), 2.0), 0.0);
        assert_eq!(most_over(&run(&[0.0, 0.0, 0.5, 1.0]), 2.0), 0.0);
        assert_eq!(most_over(&run(&[0.0, 0.0, 0.0]), 2.0), 50.0);
        assert_eq!(most_over(&run(&[0.0, 5.0, 5.0, 5.0, 5.0]), 2.0), 100.0);
        assert_eq!(share_of_ideal(&run(&[0.0, 0.0, 0.5, 1.0]), 2.0), 1.0);
    }
}
