//! A fleet that shares a limit: the same arrivals with each way of sharing, in the simulated world of leases.

use std::ops::Range;
use std::time::Duration;

use tollgate_charts::{Axis, Chart, Color, Form, Series, Table};
use tollgate_core::{Algorithm, Refill, nanos};
use tollgate_human_text::show_duration;
use tollgate_lease::Timing;
use tollgate_lease_sim::{Costs, Gaps, Moment, Phase, Plan, Sharing, Trouble, World};
use tollgate_mistakes::Mistakes;

use crate::options::span;
use crate::output::{Output, SimulationResult};
use crate::texts::Texts;

/// Takes of a run, at most.
const MOST_TAKES: f64 = 20e6;
/// Spans of a chart, about.
const SPANS: u64 = 120;
const WAYS: [(Sharing, &str, Color); 3] = [
    (Sharing::Exact, "exact", Color::Admitted),
    (Sharing::Leased, "leased", Color::Second),
    (Sharing::Local, "local", Color::Third),
];

/// Options of `simulate fleet`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FleetOptions {
    /// Nodes that decide.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    nodes: u32,
    /// Permits a second that all nodes share.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: u64,
    /// Most permits at once [default: the rate]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    burst: Option<u64>,
    /// Requests a second, as a multiple of the rate.
    #[arg(long, value_name = "X", default_value_t = 1.5, value_parser = multiple)]
    demand: f64,
    /// Requests to the first node, as a multiple of those to each other node.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = multiple)]
    uneven: f64,
    /// How long to simulate.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = span)]
    duration: Duration,
    /// One way of a message to the store, on average.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    latency: Duration,
    /// How long nodes wait for the store [default: 25ms, or six times the latency if that is longer]
    #[arg(long, value_name = "TIME", value_parser = span)]
    deadline: Option<Duration>,
    /// Messages that are lost, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=90))]
    loss: u64,
    /// When nothing reaches the store, such as 8s..10s; repeatable.
    #[arg(long, value_name = "FROM..UNTIL", value_parser = outage)]
    outage: Vec<Range<u64>>,
    /// Without an answer of the store, nodes decide by their share; else they deny.
    #[arg(long)]
    fail_local: bool,
    /// Demand that a lease covers.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span)]
    horizon: Duration,
    /// How long a lease may be spent; at least twice the horizon.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = span)]
    lease: Duration,
    /// The same seed gives the same run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn multiple(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.01..=1_000.0).contains(&number) => Ok(number),
        _ => Err("write a number from 0.01 to 1000".to_owned()),
    }
}

fn outage(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once("..").and_then(|(from, until)| {
        let from = if from == "0" { Duration::ZERO } else { span(from).ok()? };
        Some(nanos(from)..nanos(span(until).ok()?))
    });
    parts.filter(|range| !range.is_empty()).ok_or_else(|| "write a span such as 8s..10s".to_owned())
}

/// Result of one way of sharing.
struct SharingResult {
    name: &'static str,
    color: Color,
    asked: u64,
    admitted: u64,
    by_share: u64,
    denied: u64,
    calls: u64,
    takes: u64,
    /// Admitted requests as a share of those that one bucket would have admitted of the same arrivals.
    of_one: f64,
    over: f64,
    moments: Vec<Moment>,
}

impl SharingResult {
    /// A figure of each span.
    fn over_time(&self, of: fn(&Moment) -> u64) -> Vec<u64> {
        self.moments.iter().map(of).collect()
    }
}

impl FleetOptions {
    pub(crate) fn run(&self) -> Result<SimulationResult, String> {
        let texts = Texts::of(self.output.lang);
        if self.lease < 2 * self.horizon {
            return Err("--lease must be at least twice --horizon".to_owned());
        }
        let takes = self.demand * self.rate as f64 * self.duration.as_secs_f64();
        if takes > MOST_TAKES {
            return Err(format!("{takes:.0} requests are too many; choose a lower rate, demand or duration"));
        }
        if let Some(late) = self.outage.iter().find(|range| range.start >= nanos(self.duration)) {
            let from = show_duration(Duration::from_nanos(late.start));
            return Err(format!("--outage: at {from} the run has ended"));
        }
        let ways = WAYS.into_iter().map(|(sharing, name, color)| self.way(sharing, name, color));
        let ways: Vec<SharingResult> = ways.collect::<Result<_, _>>()?;
        Ok(self.found(&ways, texts))
    }

    fn way(&self, sharing: Sharing, name: &'static str, color: Color) -> Result<SharingResult, String> {
        let plan = self.plan(sharing);
        let outcome = World::new(&plan, Mistakes::none(), false).run();
        if let Some(law) = outcome.broken {
            return Err(format!("{name}: {law}"));
        }
        let served = &outcome.served;
        let recording = served.recording.as_ref().ok_or("nothing was recorded")?;
        let moments = recording.moments.clone();
        let sum = |of: fn(&Moment) -> u64| moments.iter().map(of).sum::<u64>();
        let asked = sum(|at| at.asked);
        let admitted = sum(|at| at.admitted);
        let by_share = sum(|at| at.by_share);
        let one = served.exact(&plan, plan.limit).max(1);
        Ok(SharingResult {
            name,
            color,
            asked,
            admitted: admitted + by_share,
            by_share,
            denied: sum(|at| at.denied),
            calls: sum(|at| at.calls),
            takes: served.hosts.iter().map(|host| host.takes).sum(),
            of_one: (admitted + by_share) as f64 / one as f64,
            over: recording.over(),
            moments,
        })
    }

    fn plan(&self, sharing: Sharing) -> Plan {
        let end_ns = nanos(self.duration);
        let burst = self.burst.unwrap_or(self.rate);
        let weights = f64::from(self.nodes - 1) + self.uneven;
        let total = self.demand * self.rate as f64;
        // The first node has the weight `uneven`, each of the others 1.
        let phase = |host: u32| {
            let share = if host == 0 { self.uneven } else { 1.0 } / weights;
            Phase {
                host: host as usize,
                from_ns: 0,
                until_ns: end_ns,
                every_ns: ((1e9 / (total * share)) as u64).max(1),
                gaps: Gaps::Poisson,
                together: 1,
                costs: Costs::UpTo(1),
            }
        };
        let outages = self.outage.iter();
        let latency_ns = nanos(self.latency);
        Plan {
            seed: self.seed,
            hosts: self.nodes as usize,
            limit: self.rate,
            limits: Vec::new(),
            period_ns: 1_000_000_000,
            burst,
            algorithm: Algorithm::TokenBucket {
                burst: Some(burst),
                initial: None,
                overdraft: 0,
                refill: Refill::Continuous,
            },
            timing: Timing { tau: self.lease, horizon: self.horizon, ..Timing::default() },
            delay_ns: (latency_ns * 9 / 10, latency_ns * 11 / 10),
            far_ns: 0,
            slow: 0,
            loss: self.loss,
            twice: 0,
            drift_ppm: 0,
            refunds: 0,
            late_refunds: false,
            charges: 0,
            pays: 0,
            local_share: self.fail_local,
            phases: (0..self.nodes).map(phase).collect(),
            troubles: outages
                .map(|range| (range.start, Trouble::Outage { for_ns: range.end - range.start }))
                .collect(),
            calm_from_ns: end_ns,
            measured_ns: (0, end_ns),
            is_fleet: true,
            deadline_ns: nanos(self.deadline.unwrap_or(Duration::from_millis(25).max(6 * self.latency))),
            sharing,
            record_every_ns: (end_ns / SPANS).max(1),
        }
    }

    fn found(&self, ways: &[SharingResult], texts: &Texts) -> SimulationResult {
        let seconds = self.duration.as_secs_f64();
        let (nodes, rate, burst) = (self.nodes, self.rate, self.burst.unwrap_or(self.rate));
        let title = format!("{} ({nodes} × {rate}/s, {burst})", texts.fleet);
        let columns = [
            texts.sharing,
            texts.asked,
            texts.admitted,
            texts.denied,
            texts.of_one,
            texts.over,
            texts.calls_a_second,
            texts.decisions_a_call,
            texts.by_share,
        ];
        let row = |way: &SharingResult| {
            let a_call = if way.calls == 0 {
                "–".to_owned()
            } else {
                format!("{:.1}", way.takes as f64 / way.calls as f64)
            };
            vec![
                way.name.to_owned(),
                way.asked.to_string(),
                way.admitted.to_string(),
                way.denied.to_string(),
                format!("{:.3}", way.of_one),
                format!("{:.0}", way.over),
                format!("{:.0}", way.calls as f64 / seconds),
                a_call,
                way.by_share.to_string(),
            ]
        };
        let json = |way: &SharingResult| {
            serde_json::json!({
                "sharing": way.name,
                "asked": way.asked,
                "admitted": way.admitted,
                "admitted_by_share": way.by_share,
                "denied": way.denied,
                "of_one_bucket": way.of_one,
                "above_bound": way.over,
                "store_calls": way.calls,
                "store_calls_per_second": way.calls as f64 / seconds,
                "over_time": {
                    "admitted": way.over_time(|at| at.admitted + at.by_share),
                    "denied": way.over_time(|at| at.denied),
                    "store_calls": way.over_time(|at| at.calls),
                    "above_bound": way.over_time(|at| at.over),
                },
            })
        };
        SimulationResult {
            title,
            about: texts.fleet_about.to_owned(),
            charts: self.charts(ways, texts),
            table: Table {
                columns: columns.map(str::to_owned).to_vec(),
                rows: ways.iter().map(row).collect(),
            },
            json: serde_json::json!({
                "pattern": "fleet",
                "nodes": nodes,
                "rate": rate,
                "burst": burst,
                "seconds": seconds,
                "span_seconds": seconds / SPANS as f64,
                "ways": ways.iter().map(json).collect::<Vec<_>>(),
            }),
        }
    }

    /// Charts over time. The chart of the excess is left out if no way was above the bound.
    fn charts(&self, ways: &[SharingResult], texts: &Texts) -> Vec<(String, Chart)> {
        let per_s = SPANS as f64 / self.duration.as_secs_f64();
        let limit = vec![(self.rate as f64, texts.limit.to_owned())];
        let admitted = self.series(ways, per_s, |at| at.admitted + at.by_share);
        let denied = self.series(ways, per_s, |at| at.denied);
        let over = self.series(ways, 1.0, |at| at.over);
        let calls = self.series(ways, per_s, |at| at.calls);
        let chart = |title: &str, unit: &'static str, series, marks| Chart {
            title: title.to_owned(),
            x: Axis::seconds(texts.time),
            y: Axis::numbers(unit),
            series,
            marks,
        };
        let mut charts = vec![
            ("fleet-admitted".to_owned(), chart(texts.fleet_admitted, texts.per_second, admitted, limit)),
            ("fleet-denied".to_owned(), chart(texts.fleet_denied, texts.per_second, denied, Vec::new())),
            ("fleet-calls".to_owned(), chart(texts.fleet_calls, texts.per_second, calls, Vec::new())),
        ];
        if ways.iter().any(|way| way.over >= 1.0) {
            charts.push(("fleet-over".to_owned(), chart(texts.fleet_over, texts.permits, over, Vec::new())));
        }
        charts
    }

    /// A figure of each moment, times `factor`.
    fn series(&self, ways: &[SharingResult], factor: f64, of: fn(&Moment) -> u64) -> Vec<Series> {
        let span_s = self.duration.as_secs_f64() / SPANS as f64;
        let points = |way: &SharingResult| {
            let moments = way.moments.iter().take(SPANS as usize).enumerate();
            moments.map(|(nth, moment)| (nth as f64 * span_s, of(moment) as f64 * factor)).collect()
        };
        let series = ways.iter().map(|way| Series {
            name: way.name.to_owned(),
            color: way.color,
            form: Form::Steps,
            points: points(way),
        });
        series.collect()
    }
}
