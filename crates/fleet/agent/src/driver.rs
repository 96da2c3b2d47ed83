//! Carries out what [`Agent`] asks for: the stream, the state folder, the limiter, the timer.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tollgate_core::{Clock, Timestamp};
use tollgate_fleet_proto::{Command, FromControl, FromNode, Overrides, Reply};
use tollgate_human_text::with_causes;
use tollgate_rule_files::RuleFile;

use crate::agent::{Action, Agent, AgentSettings, Event, Start};
use crate::apply::Apply;
use crate::connect::Endpoint;
use crate::documents;
use crate::ids::LinkId;
use crate::outbox::Sample;
use crate::state_dir::StateDir;
use crate::validate::Parser;

/// Messages and events that wait, at most; then the stream is not read, or closed.
const MOST_WAITING: usize = 64;
/// Commands that are carried out at the same time, at most; further ones are answered with an error.
const MOST_COMMANDS: usize = 64;

/// Carries out a command, on the runtime of the agent.
pub type CarryOut = dyn Fn(Command) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync;

/// Takes the versions that are judged, each with its domain.
pub type Judge = dyn FnMut(Vec<(String, u64)>) + Send;

/// Dependencies of the agent: clock, parser, limiter and status.
pub struct Seams {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    pub parser: Arc<Parser>,
    /// Puts rules in force.
    pub apply: Arc<dyn Apply>,
    /// Reads the counters; called at every report.
    pub sample: Box<dyn FnMut(Timestamp) -> Sample + Send>,
    /// Takes blocks and allowances instead of the previous ones.
    pub overrides: Box<dyn FnMut(Overrides) + Send>,
    /// Takes versions that are judged by counters of their own, by domain, instead of the previous ones.
    pub judge: Box<Judge>,
    /// Carries out commands.
    pub command: Arc<CarryOut>,
    /// The node's own rule files, whenever they have changed.
    pub local: mpsc::Receiver<Vec<RuleFile>>,
    /// Channel of the node's status.
    pub status: watch::Sender<Status>,
}

impl std::fmt::Debug for Seams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}

/// Status of a node, for readiness and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Saved rules and the node's own are in force, as far as they can be.
    pub started: bool,
    /// The control plane has welcomed this node.
    pub connected: bool,
    /// Time of the last disconnection; `None` while connected.
    pub away_since: Option<Timestamp>,
    /// Number of apps in force.
    pub apps: usize,
    /// Why the last attempt to connect failed; `None` while connected.
    pub error: Option<Arc<str>>,
}

struct AgentDriver {
    endpoint: Arc<Endpoint>,
    seams: Seams,
    state_dir: StateDir,
    events: mpsc::Sender<Event>,
    link: Option<(LinkId, mpsc::Sender<FromNode>, JoinHandle<()>)>,
    /// Events that actions brought about at once.
    at_once: VecDeque<Event>,
    error: watch::Sender<Option<Arc<str>>>,
    /// Places for commands.
    commands: Arc<Semaphore>,
    /// Digest of the blocks and allowances that are in force and saved.
    overrides: Option<[u8; 32]>,
    /// Why rules, and why blocks and allowances, could not be saved; empty if they were.
    not_saved: [String; 2],
}

/// Runs a node's end until the future is dropped. It writes files and waits for them, so give it a runtime of
/// its own (current-thread will do) where no request is decided.
pub async fn run(
    settings: AgentSettings,
    start: Start,
    state_dir: StateDir,
    endpoint: Endpoint,
    seams: Seams,
) {
    let (events, mut arriving) = mpsc::channel(MOST_WAITING);
    let clock = Arc::clone(&seams.clock);
    let (error, _) = watch::channel(None);
    let at_once = VecDeque::new();
    let endpoint = Arc::new(endpoint);
    let commands = Arc::new(Semaphore::new(MOST_COMMANDS));
    let mut running = AgentDriver {
        endpoint,
        seams,
        state_dir,
        events,
        link: None,
        at_once,
        error,
        commands,
        overrides: None,
        not_saved: Default::default(),
    };
    running.enforce_saved();
    let (mut agent, mut actions) = Agent::start(settings, start, clock.now());
    let mut has_local = true;
    loop {
        for action in actions {
            match action {
                // Answered here, since only the agent has the texts of the rules.
                Action::Command(link, command) if command.kind == documents::KIND => {
                    let reply = documents::answer(agent.state(), &command);
                    running.at_once.push_back(Event::Replied(link, reply));
                }
                action => running.carry_out(action),
            }
        }
        // Events that actions have caused come before all others, in their order.
        if let Some(event) = running.at_once.pop_front() {
            actions = agent.on(event, clock.now());
            continue;
        }
        running.show(&agent);
        let wait = agent.wake_at().since(clock.now());
        let event = tokio::select! {
            event = arriving.recv() => event.unwrap_or(Event::Tick),
            files = running.seams.local.recv(), if has_local => match files {
                Some(files) => Event::Local(files),
                None => {
                    has_local = false;
                    Event::Tick
                }
            },
            () = tokio::time::sleep(wait) => Event::Tick,
        };
        actions = agent.on(event, clock.now());
    }
}

impl AgentDriver {
    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect(link) => self.connect(link),
            Action::Disconnect(link) => self.disconnect(link),
            Action::Send(link, says) => self.send(link, says),
            Action::Validate(ticket, job) => {
                let parser = Arc::clone(&self.seams.parser);
                self.blocking(move || Event::Validated(ticket, job.run(&*parser)));
            }
            Action::Mark(marker) => {
                if let Err(error) = self.state_dir.mark(&marker) {
                    tracing::warn!("cannot write the marker to the state folder: {error}");
                }
            }
            Action::Apply(ticket, parsed, revision) => {
                let apply = Arc::clone(&self.seams.apply);
                self.blocking(move || {
                    let apply = AssertUnwindSafe(|| apply.apply(&revision, *parsed));
                    let result =
                        catch_unwind(apply).unwrap_or_else(|_| Err("the limiter panicked".to_owned()));
                    Event::Applied(ticket, result)
                });
            }
            Action::Save(state) => {
                let result = self.state_dir.save(&state);
                self.saved(0, "the rules", result);
            }
            Action::Unmark => {
                if let Err(error) = self.state_dir.unmark() {
                    tracing::warn!("cannot remove the marker from the state folder: {error}");
                }
            }
            Action::Sample => {
                let sample = (self.seams.sample)(self.seams.clock.now());
                self.at_once.push_back(Event::Sampled(sample));
            }
            Action::Override(overrides) => self.enforce(overrides),
            Action::Judge(candidates) => (self.seams.judge)(candidates),
            Action::Command(link, command) => self.command(link, command),
            Action::Rejected(why) => tracing::error!("rules of the control plane rejected: {why}"),
        }
    }

    /// Puts saved blocks and allowances in force: the control plane may be away. It replaces them when it is
    /// back, and those that have ended meanwhile count for nothing.
    fn enforce_saved(&mut self) {
        match self.state_dir.load_overrides() {
            Ok(Some(overrides)) => {
                self.overrides = Some(digest(&overrides));
                (self.seams.overrides)(overrides);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("cannot read the saved blocks and allowances: {error}"),
        }
    }

    /// In force first, and saved then: a slow disk delays no block.
    fn enforce(&mut self, overrides: Overrides) {
        let digest = digest(&overrides);
        if self.overrides == Some(digest) {
            return; // as after each reconnect
        }
        (self.seams.overrides)(overrides.clone());
        let result = self.state_dir.save_overrides(&overrides);
        self.overrides = result.is_ok().then_some(digest);
        self.saved(1, "blocks and allowances", result);
    }

    fn saved(&mut self, which: usize, what: &str, result: io::Result<()>) {
        self.not_saved[which] = match result {
            Ok(()) => String::new(),
            Err(error) => {
                tracing::warn!("cannot save {what} to the state folder: {error}");
                format!("{what}: {error}")
            }
        };
        let error = self.not_saved.iter().find(|it| !it.is_empty());
        self.at_once.push_back(Event::Saved(error.map_or(Ok(()), |error| Err(error.clone()))));
    }

    fn command(&mut self, link: LinkId, command: Command) {
        let Ok(place) = Arc::clone(&self.commands).try_acquire_owned() else {
            let error = format!("the node is carrying out {MOST_COMMANDS} other commands; try again");
            let reply = Reply { command: command.command, error, body: String::new() };
            return self.at_once.push_back(Event::Replied(link, reply));
        };
        let events = self.events.clone();
        let reply = (self.seams.command)(command);
        tokio::spawn(async move {
            let reply = reply.await;
            let _ = events.send(Event::Replied(link, reply)).await;
            drop(place);
        });
    }

    fn blocking(&self, work: impl FnOnce() -> Event + Send + 'static) {
        let events = self.events.clone();
        tokio::spawn(async move {
            // A panic of a command or of the limiter is logged by its thread; the agent continues without it.
            if let Ok(event) = tokio::task::spawn_blocking(work).await {
                let _ = events.send(event).await;
            }
        });
    }

    fn connect(&mut self, link: LinkId) {
        let (sender, outgoing) = mpsc::channel(MOST_WAITING);
        let endpoint = Arc::clone(&self.endpoint);
        let events = self.events.clone();
        let error = self.error.clone();
        let task = tokio::spawn(async move {
            let why = match endpoint.attach(outgoing).await {
                Ok(stream) => {
                    error.send_replace(None);
                    read(link, stream, &events, &error).await
                }
                Err(error) => with_causes(&error).to_string(),
            };
            error.send_replace(Some(why.into()));
            let _ = events.send(Event::Disconnected(link)).await;
        });
        self.link = Some((link, sender, task));
    }

    fn disconnect(&mut self, link: LinkId) {
        if let Some((_, _, task)) = self.link.take_if(|(current, ..)| *current == link) {
            task.abort();
        }
    }

    fn send(&mut self, link: LinkId, says: FromNode) {
        let Some((_, sender, _)) = self.link.as_ref().filter(|(current, ..)| *current == link) else {
            return;
        };
        // The control plane does not read: begin anew.
        if sender.try_send(says).is_err() {
            self.disconnect(link);
            self.at_once.push_back(Event::Disconnected(link));
        }
    }

    fn show(&self, agent: &Agent) {
        let status = Status {
            started: agent.is_started(),
            connected: agent.is_connected(),
            away_since: agent.away_since(),
            apps: agent.state().apps.len(),
            error: self.error.borrow().clone(),
        };
        self.seams.status.send_if_modified(|shown| {
            let is_new = *shown != status;
            if is_new && shown.connected != status.connected {
                match (status.connected, &status.error) {
                    (true, _) => tracing::info!("connected to the control plane"),
                    (false, Some(error)) => tracing::warn!("control plane away, keeping the rules: {error}"),
                    (false, None) => tracing::warn!("control plane away, keeping the rules"),
                }
            }
            *shown = status;
            is_new
        });
    }
}

fn digest(overrides: &Overrides) -> [u8; 32] {
    Sha256::digest(overrides.encode_to_vec()).into()
}

impl Drop for AgentDriver {
    fn drop(&mut self) {
        if let Some((_, _, task)) = self.link.take() {
            task.abort();
        }
    }
}

/// Passes messages on until the stream ends; returns why it did.
async fn read(
    link: LinkId,
    mut stream: tonic::Streaming<tollgate_fleet_proto::ControlSays>,
    events: &mpsc::Sender<Event>,
    error: &watch::Sender<Option<Arc<str>>>,
) -> String {
    if events.send(Event::Connected(link)).await.is_err() {
        return String::new();
    }
    let mut why = "the control plane closed the stream".to_owned();
    loop {
        match stream.message().await {
            Ok(Some(says)) => {
                let Some(says) = says.says else { continue }; // of a later release
                if let FromControl::GoAway(away) = &says
                    && !away.reason.is_empty()
                {
                    why.clone_from(&away.reason);
                    error.send_replace(Some(why.as_str().into()));
                }
                if events.send(Event::Received(link, says)).await.is_err() {
                    return String::new();
                }
            }
            Ok(None) => return why,
            Err(status) => return status.message().to_owned(),
        }
    }
}
