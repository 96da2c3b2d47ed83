//! Nodes that run their end of the protocol over real sockets, many in one process: no rules to parse, no
//! files to write, no requests to decide.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tollgate_core::Timestamp;
use tollgate_fleet_agent::{
    Action, Agent, AgentSettings, Counts, Endpoint, Event, Identity, RuleTotals, Sample, Start,
};

use super::plane::Plane;
use super::time::now;

/// Nodes that are attached; dropped, they are gone.
pub(crate) struct Fleet {
    runtime: Option<Runtime>,
    applied: mpsc::UnboundedReceiver<Timestamp>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Fleet {
    /// Starts nodes that report this many rules each.
    pub(crate) fn start(plane: &Plane, nodes: usize, rules: usize) -> anyhow::Result<Self> {
        let endpoint =
            Endpoint { uri: plane.url().parse()?, tls: None, token_file: Some(plane.token_file.clone()) };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (sender, applied) = mpsc::unbounded_channel();
        for node in 0..nodes {
            runtime.spawn(simulated(node, rules, endpoint.clone(), sender.clone()));
        }
        Ok(Self { runtime: Some(runtime), applied })
    }

    /// Forgets the versions applied so far.
    pub(crate) fn forget(&mut self) {
        while self.applied.try_recv().is_ok() {}
    }

    /// Waits until this many nodes have applied something. Returns how long after `since` each did, in order.
    pub(crate) fn applied(&mut self, nodes: usize, since: Timestamp) -> anyhow::Result<Vec<Duration>> {
        (0..nodes)
            .map(|_| Ok(self.applied.blocking_recv().context("no node is left")?.since(since)))
            .collect()
    }
}

/// Attaches one simulated node and reports each version that it applies.
async fn simulated(node: usize, rules: usize, endpoint: Endpoint, applied: mpsc::UnboundedSender<Timestamp>) {
    let identity = Identity { node: format!("{node:032x}"), incarnation: 1, secret: vec![7; 32] };
    let settings = AgentSettings::new(identity, format!("node {node}"), Vec::new(), node as u64);
    let (mut agent, mut actions) = Agent::start(settings, Start::default(), now());
    let mut stream = None;
    let mut outgoing = None;
    let mut samples = 0;
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
                        let _ = outgoing.send(says).await; // a broken stream is seen when it is read
                    }
                }
                Action::Validate(ticket, job) => events.push(Event::Validated(ticket, job.accept())),
                Action::Apply(ticket, ..) => {
                    let _ = applied.send(now()); // nobody waits at the end
                    events.push(Event::Applied(ticket, Ok(())));
                }
                Action::Sample => {
                    samples += 1;
                    events.push(Event::Sampled(sample(rules, samples)));
                }
                _ => {}
            }
        }
        actions = Vec::new();
        for event in events {
            actions.extend(agent.on(event, now()));
        }
        if !actions.is_empty() {
            continue;
        }
        let wait = agent.wake_at().since(now());
        let message = async {
            match &mut stream {
                Some((link, stream)) => (*link, stream.message().await),
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            (link, message) = message => match message {
                Ok(Some(said)) => said.says.map(|said| Event::Received(link, said)),
                _ => {
                    stream = None;
                    Some(Event::Disconnected(link))
                }
            },
            () = tokio::time::sleep(wait) => Some(Event::Tick),
        };
        actions = event.map_or_else(Vec::new, |event| agent.on(event, now()));
    }
}

fn sample(rules: usize, samples: u64) -> Sample {
    let counts = Counts { admitted: samples * 1_000, denied: samples * 10, ..Counts::default() };
    let rule = |rule| RuleTotals { domain: super::app_name(0), rule: format!("key=k{rule}"), counts };
    Sample { rules: (0..rules).map(rule).collect(), ..Sample::default() }
}
