//! `sharing: exact`: every decision asks Redis.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::runtime::Runtime;
use tollgate_core::Quota;

use super::drive::{CallOutcome, DrivenNode, Run, closed, paced, runtime};
use super::heard::Heard;
use super::raw::Raw;
use super::{ASKING, Redis};
use crate::process::pinned;
use crate::report::{Spread as Spans, Table, figure};
use crate::requests::{Requests, Spread};
use crate::settings::Settings;

/// Connections of redis-benchmark and calls in flight on each; ours has the same number of tasks in all, on
/// one connection.
const SHAPES: [(usize, usize); 3] = [(1, 1), (1, 64), (50, 1)];
/// The key that is asked for while its command is listened to.
const SAMPLE: &str = "user:000000000000000";
/// Tasks of the rows that share keys.
const MANY: usize = 512;

/// Results of one contender in each run.
#[derive(Default)]
struct ContenderRow {
    name: String,
    rate: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    calls: Vec<f64>,
    cpu_us: Vec<f64>,
    own_us: Vec<f64>,
    /// Index of the row it is compared with.
    beside: Option<usize>,
}

/// Measures both in turns.
pub(super) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    if !settings.has("redis-benchmark") {
        return Ok(Vec::new());
    }
    let redis = Redis::start()?;
    let runtime = runtime()?;
    // Never denied here; a key that was asked lasts longer than the run, so that Redis has none to forget
    // meanwhile.
    let quota = Quota::token_bucket(5_000_000, Duration::from_mins(5_000_000))?;
    let node = DrivenNode::of(&redis, &quota, Some(Duration::from_secs(30)))?;
    let population = settings.size(1_000_000, 100_000, 1_000);
    let heard = Heard::while_done(&redis, SAMPLE, || Ok(runtime.block_on(node.take(SAMPLE)).map(drop)?))?;
    let command = same_script(&redis, &heard)?;
    let raw = Raw::of(&heard.words, SAMPLE)?;
    // Every key is there when the clock starts.
    runtime.block_on(closed(std::slice::from_ref(&node), 64, &every(population)));
    let contest = Contest { settings, redis, runtime, node, population, command, raw };
    let mut rows: Vec<ContenderRow> = Vec::new();
    for (connections, depth) in SHAPES {
        contest.of_shape(connections, depth, &mut rows)?;
    }
    let full = rows
        .iter()
        .rev()
        .find(|row| row.beside.is_some())
        .map_or(f64::NAN, |row| Spans::of(row.rate.clone()).median);
    let round_trip = Spans::of(rows[2].p50_us.clone()).median;
    rows.extend(contest.paced(full / 2.0)?);
    rows.extend(contest.of_shared_keys()?);
    let failed = rows.iter().any(|row| row.rate.iter().any(|rate| !rate.is_finite()));
    ensure!(!failed, "a run had no calls");
    Ok(vec![table(&rows, round_trip, population, settings)])
}

/// One Redis, and all that ask it.
struct Contest<'s> {
    settings: &'s Settings,
    redis: Redis,
    runtime: Runtime,
    node: DrivenNode,
    population: u64,
    /// The command of redis-benchmark.
    command: Vec<String>,
    raw: Raw,
}

impl Contest<'_> {
    fn decisions(&self, full: usize) -> usize {
        self.settings.size(full, full / 10, full / 1_000)
    }

    fn uniform(&self, count: usize) -> Arc<[String]> {
        keys(count, self.population, Spread::Uniform)
    }

    /// As many tasks of ours as redis-benchmark has calls in flight.
    fn of_shape(&self, connections: usize, depth: usize, rows: &mut Vec<ContenderRow>) -> anyhow::Result<()> {
        let Self { settings, redis, runtime, node, population, command, raw } = self;
        let tasks = connections * depth;
        let mut theirs = ContenderRow {
            name: format!("redis-benchmark -c {connections} -P {depth}"),
            ..ContenderRow::default()
        };
        let name = format!("**tollgate**, {tasks} {}", if tasks == 1 { "task" } else { "tasks" });
        let mut ours = ContenderRow { name, beside: Some(rows.len()), ..ContenderRow::default() };
        let name = format!("our bytes, sent blindly, {depth} at a time");
        let mut bare = ContenderRow { name, beside: Some(rows.len()), ..ContenderRow::default() };
        let count = self.decisions(if tasks == 1 { 50_000 } else { 400_000 });
        let keys = self.uniform(count);
        for repeat in 0..=settings.repeats {
            settings.say(&format!(
                "shared: exact, {connections} × {depth}, run {repeat} of {}",
                settings.repeats
            ));
            let before = redis.process.cpu_seconds()?;
            let (rate, p50, p99) = benchmark(redis, connections, depth, count, *population, command)?;
            let cpu = redis.process.cpu_seconds()? - before;
            let before = redis.process.cpu_seconds()?;
            let sent = if connections == 1 { Some(raw.run(redis, depth, count, *population)?) } else { None };
            let bare_cpu = redis.process.cpu_seconds()? - before;
            let run = measured(redis, node, |nodes| runtime.block_on(closed(nodes, tasks, &keys)))?;
            if repeat > 0 {
                theirs.add(rate, p50, p99, 1.0, cpu * 1e6 / count as f64);
                ours.add_run(&run);
                if let Some((rate, p50, p99)) = sent {
                    bare.add(rate, p50, p99, 1.0, bare_cpu * 1e6 / count as f64);
                }
            }
        }
        rows.push(theirs);
        if connections == 1 {
            rows.push(bare);
        }
        rows.push(ours);
        Ok(())
    }

    /// At `half` of the full rate.
    fn paced(&self, half: f64) -> anyhow::Result<[ContenderRow; 2]> {
        let Self { settings, redis, runtime, node, population, raw, .. } = self;
        // Long enough that one pause of the machine is not a hundredth of it.
        let paced_keys = self.uniform((half * settings.size(15.0, 4.0, 0.2)) as usize);
        let name = format!("our bytes, sent blindly, paced at {}/s (half)", figure(half));
        let mut bare = ContenderRow { name, ..ContenderRow::default() };
        let name = format!("**tollgate**, uniform, paced at {}/s (half)", figure(half));
        let mut ours = ContenderRow { name, ..ContenderRow::default() };
        for repeat in 0..=settings.repeats {
            settings.say(&format!("shared: exact, paced, run {repeat} of {}", settings.repeats));
            let (p50, p99) = raw.paced(redis, half, paced_keys.len(), *population)?;
            let run = measured(redis, node, |nodes| runtime.block_on(paced(nodes, half, &paced_keys)))?;
            if repeat > 0 {
                bare.add(half, p50, p99, 1.0, f64::NAN);
                ours.add_run(&run);
            }
        }
        Ok([bare, ours])
    }

    /// Keys that many ask for at once.
    fn of_shared_keys(&self) -> anyhow::Result<Vec<ContenderRow>> {
        let Self { settings, redis, runtime, node, population, .. } = self;
        let mut rows = Vec::new();
        let mut shared = |name: String, work: &dyn Fn(&[DrivenNode]) -> Run| -> anyhow::Result<()> {
            let mut row = ContenderRow { name, ..ContenderRow::default() };
            for repeat in 0..=settings.repeats {
                settings.say(&format!("shared: exact, {}, run {repeat} of {}", row.name, settings.repeats));
                let run = measured(redis, node, work)?;
                if repeat > 0 {
                    row.add_run(&run);
                }
            }
            rows.push(row);
            Ok(())
        };
        let ample = node.with(&Quota::token_bucket(1_000_000, Duration::from_secs(1))?);
        let hot: Arc<[String]> = vec!["user:everybody asks".to_owned(); self.decisions(4_000_000)].into();
        shared(format!("**tollgate**, one hot key, {MANY} tasks"), &|_| {
            runtime.block_on(closed(std::slice::from_ref(&ample), MANY, &hot))
        })?;
        let zipf = keys(self.decisions(2_000_000), *population, Spread::Zipf);
        for tasks in [MANY, 16 * MANY] {
            let name = format!("**tollgate**, zipf 0.99, {tasks} tasks");
            shared(name, &|nodes| runtime.block_on(closed(nodes, tasks, &zipf)))?;
        }
        Ok(rows)
    }
}

/// One run of ours, with what Redis did meanwhile.
struct Measured {
    run: Run,
    calls: f64,
    cpu_us: f64,
}

fn measured(
    redis: &Redis,
    node: &DrivenNode,
    work: impl Fn(&[DrivenNode]) -> Run,
) -> anyhow::Result<Measured> {
    let stats = node.store.stats();
    let cpu = redis.process.cpu_seconds()?;
    let run = work(std::slice::from_ref(node));
    let calls = (node.store.stats().conn.calls - stats.conn.calls) as f64;
    let cpu_us = (redis.process.cpu_seconds()? - cpu) * 1e6 / run.calls.len() as f64;
    ensure!(run.count(CallOutcome::Failed) == 0, "{} calls failed", run.count(CallOutcome::Failed));
    ensure!(run.count(CallOutcome::Denied) == 0, "{} were denied", run.count(CallOutcome::Denied));
    Ok(Measured { calls: calls / run.calls.len() as f64, cpu_us, run })
}

impl ContenderRow {
    fn add(&mut self, rate: f64, p50_us: f64, p99_us: f64, calls: f64, cpu_us: f64) {
        self.rate.push(rate);
        self.p50_us.push(p50_us);
        self.p99_us.push(p99_us);
        self.calls.push(calls);
        self.cpu_us.push(cpu_us);
    }

    fn add_run(&mut self, of: &Measured) {
        let p50 = of.run.percentile(50.0);
        let p99 = of.run.percentile(99.0);
        self.add(of.run.rate(), p50, p99, of.calls, of.cpu_us);
        self.own_us.push(of.run.cpu_us());
    }
}

fn keys(count: usize, population: u64, spread: Spread) -> Arc<[String]> {
    Requests::new(count, population, spread, 7).keys().into()
}

fn every(population: u64) -> Arc<[String]> {
    (0..population).map(|id| format!("user:{id:015}")).collect()
}

/// The command for redis-benchmark that runs the script our store was just recorded to send, on random keys.
///
/// redis-benchmark can send no zero bytes, and the argument of the script has some: the script is loaded once
/// more with that argument written into it.
fn same_script(redis: &Redis, heard: &Heard) -> anyhow::Result<Vec<String>> {
    let literal = |word: &Vec<u8>| {
        let bytes: String = word.iter().map(|byte| format!("\\{byte:03}")).collect();
        format!("\"{bytes}\"")
    };
    let arguments: Vec<String> = heard.arguments().iter().map(literal).collect();
    let source = format!("local ARGV = {{{}}} {}", arguments.join(","), heard.source);
    let sha = redis.load(&source)?;
    let key = String::from_utf8_lossy(heard.key()).replace(SAMPLE, "user:000__rand_int__");
    Ok(["EVALSHA", &sha, "1", &key].map(str::to_owned).to_vec())
}

/// Requests a second, and latencies in µs, of redis-benchmark sending `command` with random keys.
fn benchmark(
    redis: &Redis,
    connections: usize,
    depth: usize,
    count: usize,
    population: u64,
    command: &[String],
) -> anyhow::Result<(f64, f64, f64)> {
    let mut program = pinned(ASKING, Path::new("redis-benchmark"));
    program.args(["--csv", "-p", &redis.process.port.to_string(), "-r", &population.to_string()]);
    program.args(["-n", &count.to_string(), "-c", &connections.to_string(), "-P", &depth.to_string()]);
    program.args(command);
    let output = program.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "redis-benchmark: {text}{}", String::from_utf8_lossy(&output.stderr));
    // "test","rps","avg","min","p50","p95","p99","max", in ms; the test's name is the command.
    let last = text.lines().last().context("redis-benchmark says nothing")?;
    let numbers: Vec<f64> =
        last.rsplit(',').take(7).map_while(|word| word.trim_matches('"').parse().ok()).collect();
    let [_max, p99, _p95, p50, _min, _avg, rate] = numbers[..] else {
        anyhow::bail!("redis-benchmark: {text}")
    };
    Ok((rate, p50 * 1e3, p99 * 1e3))
}

fn table(rows: &[ContenderRow], round_trip: f64, population: u64, settings: &Settings) -> Table {
    let ratio = |row: &ContenderRow| {
        let Some(beside) = row.beside else { return String::new() };
        let each: Vec<f64> =
            row.rate.iter().zip(&rows[beside].rate).map(|(ours, theirs)| ours / theirs).collect();
        Spans::of(each).cell()
    };
    let row = |row: &ContenderRow| {
        vec![
            row.name.clone(),
            Spans::of(row.rate.clone()).cell(),
            ratio(row),
            figure(Spans::of(row.calls.clone()).median),
            Spans::of(row.cpu_us.clone()).cell(),
            figure(Spans::of(row.own_us.clone()).median),
            Spans::of(row.p50_us.clone()).cell(),
            Spans::of(row.p99_us.clone()).cell(),
        ]
    };
    let columns = [
        "caller",
        "decisions/s",
        "× redis-benchmark, same run",
        "script calls per decision",
        "Redis CPU µs per decision",
        "our CPU µs per decision",
        "p50 µs",
        "p99 µs",
    ];
    let mut notes = vec![format!(
        "Redis runs on one core, the caller on the other. redis-benchmark, which cannot send zero bytes, runs the \
         script of our store with its argument written into it, over {} random keys, which all exist. *Our \
         bytes* are the store's own commands from a client that only counts replies. Each task of Tollgate \
         sends one request after another, all over one connection. One round trip takes {} µs (p50 of one \
         task). Latencies of paced rows count from the intended time. Median (least–most).",
        figure(population as f64),
        figure(round_trip)
    )];
    notes.extend(settings.notes());
    Table {
        name: "store-exact",
        title: "Counters in Redis, `sharing: exact`".to_owned(),
        command: settings.command("shared"),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
        notes,
    }
}
