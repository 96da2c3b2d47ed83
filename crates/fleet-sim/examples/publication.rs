//! How long a publication takes to be in force on a fleet of simulated nodes, and what the control plane costs.
//!
//! ```sh
//! ulimit -n 4096
//! cargo run --release -p tollgate-fleet-sim --example publication -- 1000
//! ```
//! The control plane is a process of its own with 10,000 rules in 100 apps; this process is the nodes. They
//! run the node's end of the protocol over real sockets, check digests, and neither parse rules nor write
//! files, which 1,000 machines do at the same time. A publication changes one app of 100 rules. Then each
//! node reports 100 active rules every 5 s.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "prints figures; a failed step must say which")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock as _, Timestamp};
use tollgate_fleet_agent::{
    Action, Agent, AgentSettings, Counts, Endpoint, Event, Identity, RuleTotals, Sample, Start,
};
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};
use tollgate_fleet_sim::real::{Control, ReportsInMemory};

const APPS: usize = 100;
const RULES: usize = 100;
const CLICKS: usize = 50;
const REPORTING: Duration = Duration::from_secs(30);

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1000".to_owned());
    if argument == "control" { control() } else { nodes(argument.parse()?) }
}

/// Publishes at every line on stdin.
fn control() -> Result<(), Error> {
    let address = ([127, 0, 0, 1], 0).into();
    let control =
        Control::reporting_every(address, &Arc::new(ReportsInMemory::default()), Duration::from_secs(5));
    let mut apps: Vec<AppDocuments> = (0..APPS).map(|app| version(app, 1)).collect();
    println!("{}", control.address);
    for (click, line) in std::io::stdin().lines().enumerate() {
        let nodes: usize = line?.parse()?;
        if click > 0 {
            let app = click % APPS;
            apps[app] = version(app, apps[app].version + 1);
        }
        control.published.send_replace(Arc::new(Published { apps: apps.clone() }));
        control.wait_in_force(nodes);
        println!("acknowledged");
    }
    Ok(())
}

fn version(app: usize, version: u64) -> AppDocuments {
    let domain = format!("app-{app}");
    let mut yaml = format!("domain: {domain}\ndescriptors:\n");
    for rule in 0..RULES {
        let rate = 100 + version;
        yaml += &format!(
            "  - key: endpoint\n    value: /v1/resource/{rule}\n    rate_limit: {{rate: {rate}/s}}\n"
        );
    }
    AppDocuments::new(domain.clone(), version, vec![Document::new(domain, yaml)])
}

fn nodes(count: usize) -> Result<(), Error> {
    let mut control = Command::new(std::env::current_exe()?)
        .arg("control")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(control.stdout.take().ok_or("a pipe")?).lines();
    let mut clicks = control.stdin.take().ok_or("a pipe")?;
    let address = lines.next().ok_or("an address")??;
    let endpoint = Endpoint { uri: format!("http://{address}").parse()?, tls: None, token_file: None };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (applied, mut in_force) = mpsc::unbounded_channel();
    let clock = MonotonicClock::new();
    let began = clock.now();
    writeln!(clicks, "{count}")?;
    for node in 0..count {
        runtime.spawn(simulated(node, endpoint.clone(), applied.clone()));
    }
    lines.next().ok_or("an answer")??;
    println!(
        "{count} nodes start at once, and all hold {} rules after {:?}",
        APPS * RULES,
        clock.now().since(began)
    );
    while in_force.try_recv().is_ok() {}

    let (mut to_node, mut to_all) = (Vec::new(), Vec::new());
    for _ in 0..CLICKS {
        let clicked = clock.now();
        writeln!(clicks, "{count}")?;
        lines.next().ok_or("an answer")??;
        to_all.push(clock.now().since(clicked));
        for _ in 0..count {
            let at: Timestamp = in_force.blocking_recv().ok_or("a node")?;
            to_node.push(at.since(clicked));
        }
    }
    to_node.sort();
    to_all.sort();
    let at = |sorted: &[Duration], share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    println!("click to in force on a node: median {:?}, p99 {:?}", at(&to_node, 0.5), at(&to_node, 0.99));
    println!("click to acknowledged by all: median {:?}, p99 {:?}", at(&to_all, 0.5), at(&to_all, 0.99));

    let before = cpu_ticks(control.id())?;
    runtime.block_on(async { tokio::time::sleep(REPORTING).await });
    let ticks = cpu_ticks(control.id())? - before;
    let status = std::fs::read_to_string(format!("/proc/{}/status", control.id()))?;
    let memory = status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"));
    println!(
        "{count} nodes report {RULES} rules every 5 s: {:.1} % of a core",
        ticks as f64 / REPORTING.as_secs_f64()
    );
    memory.for_each(|line| println!("{line}"));
    runtime.shutdown_background();
    drop(clicks);
    control.wait()?;
    Ok(())
}

/// Hundredths of a second that the process has used.
fn cpu_ticks(process: u32) -> Result<u64, Error> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// One node: the protocol over a real stream, without rules to read and files to write.
async fn simulated(node: usize, endpoint: Endpoint, applied: mpsc::UnboundedSender<Timestamp>) {
    let clock = MonotonicClock::new();
    let settings = AgentSettings {
        identity: Identity { node: format!("{node:032x}"), incarnation: 1, secret: vec![7; 32] },
        name: format!("node {node}"),
        labels: Vec::new(),
        software: "simulated".into(),
        seed: node as u64,
        bug: None,
    };
    let (mut agent, mut actions) = Agent::start(settings, Start::default(), clock.now());
    let (mut stream, mut outgoing) = (None, None);
    let mut counted = 0;
    loop {
        let mut events = Vec::new();
        for action in actions {
            match action {
                Action::Connect(link) => {
                    let (sender, receiver) = mpsc::channel(64);
                    outgoing = Some(sender);
                    match endpoint.attach(receiver).await {
                        Ok(opened) => {
                            stream = Some((link, opened));
                            events.push(Event::Connected(link));
                        }
                        Err(_) => events.push(Event::Disconnected(link)),
                    }
                }
                Action::Disconnect(_) => (stream, outgoing) = (None, None),
                Action::Send(_, says) => {
                    if let Some(outgoing) = &outgoing {
                        let _ = outgoing.send(says).await;
                    }
                }
                Action::Validate(ticket, job) => events.push(Event::Validated(ticket, job.accept())),
                Action::Apply(ticket, ..) => {
                    let _ = applied.send(clock.now());
                    events.push(Event::Applied(ticket, Ok(())));
                }
                Action::Sample => {
                    counted += 1;
                    events.push(Event::Sampled(sample(counted)));
                }
                _ => {}
            }
        }
        actions = Vec::new();
        for event in events {
            actions.extend(agent.on(event, clock.now()));
        }
        if !actions.is_empty() {
            continue;
        }
        let wait = agent.wake_at().since(clock.now());
        let event = tokio::select! {
            message = async { stream.as_mut().expect("guarded").1.message().await }, if stream.is_some() => {
                let link = stream.as_ref().expect("guarded").0;
                match message {
                    Ok(Some(says)) => says.says.map(|says| Event::Received(link, says)),
                    _ => {
                        stream = None;
                        Some(Event::Disconnected(link))
                    }
                }
            }
            () = tokio::time::sleep(wait) => Some(Event::Tick),
        };
        actions = event.map_or_else(Vec::new, |event| agent.on(event, clock.now()));
    }
}

fn sample(counted: u64) -> Sample {
    let counts = Counts { admitted: counted * 1_000, denied: counted * 10, ..Counts::default() };
    let rule =
        |rule| RuleTotals { domain: "app-0".into(), rule: format!("endpoint=/v1/resource/{rule}"), counts };
    Sample { rules: (0..RULES).map(rule).collect(), ..Sample::default() }
}
