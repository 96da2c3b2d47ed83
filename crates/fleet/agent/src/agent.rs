//! The node's end of the protocol: events in, actions out. No I/O, no clock.
//!
//! Actions are carried out in order. `Validate` and `Apply` answer with an event; until then no other change
//! of rules begins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{
    Ack, CandidateVersion, Candidates, Command, FromControl, FromNode, Hello, LANGUAGE, Label, MAX_APPS,
    MAX_LABELS, MAX_TEXT_BYTES, Nack, Overrides, Reply,
};
use tollgate_mistakes::Mistakes;
use tollgate_rule_files::RuleFile;

use crate::backoff::Backoff;
use crate::ids::{LinkId, Ticket};
use crate::incoming::{Bundle, Incoming, ProtocolError};
use crate::mistake::Mistake;
use crate::outbox::{Outbox, Sample};
use crate::rules::RuleState;
use crate::saved::Marker;
use crate::state_dir::Identity;
use crate::validate::{Job, Parsed, Validated};
use crate::work::{Cause, Next, Work};

/// A stream that is not established after this time is given up.
const LONGEST_DIAL: Duration = Duration::from_secs(15);
/// A stream without a message for this time is given up. Every report is answered.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// Bounds of the interval of reports that the control plane may ask for.
const REPORTS: std::ops::RangeInclusive<u64> = 1_000..=300_000;

/// Identity and description of the node.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// From the state folder.
    pub identity: Identity,
    /// Name for people; cut at 256 bytes.
    pub name: String,
    /// Labels for rollouts and filters; at most 64.
    pub labels: Vec<Label>,
    /// Such as `tollgate 0.1.0`.
    pub software: String,
    /// Begins the random numbers of waits.
    pub seed: u64,
    /// The mistake that the simulation must find.
    pub mistakes: Mistakes<Mistake>,
}

impl AgentSettings {
    /// A node of this release.
    #[must_use]
    pub fn new(identity: Identity, name: String, labels: Vec<Label>, seed: u64) -> Self {
        let software = concat!("tollgate ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { identity, name, labels, software, seed, mistakes: Mistakes::none() }
    }
}

/// Rules found in the state folder and on disk when a node starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    pub saved: Option<RuleState>,
    /// A marker: the node crashed while it applied rules.
    pub marker: Option<Marker>,
    /// The node's own rule files.
    pub local: Vec<RuleFile>,
}

/// Input of the agent.
#[derive(Debug)]
pub enum Event {
    /// Nothing but time. Due at [`Agent::wake_at`].
    Tick,
    /// The stream is open.
    Connected(LinkId),
    /// The attempt to connect failed, or the stream is closed.
    Disconnected(LinkId),
    /// A message came.
    Received(LinkId, FromControl),
    /// Rules were checked.
    Validated(Ticket, Validated),
    /// Rules are in force, or cannot be put in force.
    Applied(Ticket, Result<(), String>),
    /// Rules were saved, or why not.
    Saved(Result<(), String>),
    /// Answer to [`Action::Sample`].
    Sampled(Sample),
    /// The node's own rule files have changed.
    Local(Vec<RuleFile>),
    /// A command was carried out.
    Replied(LinkId, Reply),
}

/// Output of the agent, to be carried out in order.
#[derive(Debug)]
pub enum Action {
    /// Open a stream.
    Connect(LinkId),
    Disconnect(LinkId),
    /// Send on it, if it is still open.
    Send(LinkId, FromNode),
    /// Check rules; answered by [`Event::Validated`].
    Validate(Ticket, Box<Job>),
    /// Write the marker, durably. A failure is logged.
    Mark(Marker),
    /// Put rules in force. The revision names the rules in force then.
    Apply(Ticket, Box<Parsed>, String),
    /// Save rules, durably.
    Save(Box<RuleState>),
    /// Remove the marker.
    Unmark,
    /// Read the counters.
    Sample,
    /// Put these blocks and allowances in force instead of the previous ones.
    Override(Overrides),
    /// Judge these versions by counters of their own, by domain, instead of the previous ones.
    Judge(Vec<(String, u64)>),
    /// Carry out a command.
    Command(LinkId, Command),
    /// Why rules were rejected, for the log.
    Rejected(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    /// Saved rules come first.
    Starting,
    Away {
        retry_at: Timestamp,
    },
    Dialing {
        link: LinkId,
        since: Timestamp,
    },
    Open {
        link: LinkId,
        heard_at: Timestamp,
        /// Epoch of the database, from the Welcome; `None` before it.
        epoch: Option<String>,
    },
}

#[derive(Debug)]
enum Task {
    Bundle(LinkId, Bundle, String),
    Local(Arc<[RuleFile]>),
}

/// The node's end of the protocol.
#[derive(Debug)]
pub struct Agent {
    settings: AgentSettings,
    mistakes: Mistakes<Mistake>,
    random: fastrand::Rng,
    link: Link,
    away_since: Option<Timestamp>,
    last_link: u64,
    last_ticket: u64,
    backoff: Backoff,
    incoming: Option<Incoming>,
    /// The control plane's rules in force, and those to remember.
    state: RuleState,
    local: Arc<[RuleFile]>,
    local_domains: Vec<String>,
    /// A crash has shown that an app may be poison.
    is_careful: bool,
    work: Option<Work>,
    waiting: VecDeque<Task>,
    outbox: Outbox,
    /// Versions that are being rolled out, as the control plane says.
    candidates: Candidates,
    /// Those that are in force here, by domain.
    judged: Vec<(String, u64)>,
    report_every: Duration,
    report_at: Timestamp,
    actions: Vec<Action>,
}

impl Agent {
    /// A node that starts: the actions put its saved and its own rules in force.
    #[must_use]
    pub fn start(mut settings: AgentSettings, start: Start, now: Timestamp) -> (Self, Vec<Action>) {
        settings.labels.truncate(MAX_LABELS);
        settings.name.truncate(settings.name.floor_char_boundary(MAX_TEXT_BYTES));
        let mistakes = settings.mistakes;
        let Start { saved, marker, local } = start;
        let local: Arc<[RuleFile]> = local.into();
        let mut work = Work::start(saved.unwrap_or_default(), marker.as_ref(), Arc::clone(&local), mistakes);
        let next = work.next();
        let mut agent = Self {
            random: fastrand::Rng::with_seed(settings.seed),
            mistakes,
            settings,
            link: Link::Starting,
            away_since: Some(now),
            last_link: 0,
            last_ticket: 0,
            backoff: Backoff::default(),
            incoming: None,
            state: work.next_state().clone(),
            local,
            local_domains: Vec::new(),
            is_careful: marker.is_some(),
            work: Some(work),
            waiting: VecDeque::new(),
            outbox: Outbox::new(now, mistakes),
            candidates: Candidates::default(),
            judged: Vec::new(),
            report_every: Duration::from_secs(5),
            report_at: now + Duration::from_secs(5),
            actions: Vec::new(),
        };
        agent.go_on_with(next, now);
        let actions = std::mem::take(&mut agent.actions);
        (agent, actions)
    }

    /// Handles `event` and returns the actions to carry out.
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Tick => self.tick(now),
            Event::Connected(link) => self.connected(link, now),
            Event::Disconnected(link) => self.disconnected(link, now),
            Event::Received(link, says) => self.received(link, says, now),
            Event::Validated(ticket, validated) => self.validated(ticket, validated, now),
            Event::Applied(ticket, result) => self.applied(ticket, result, now),
            Event::Saved(result) => self.outbox.state_error = result.err().unwrap_or_default(),
            Event::Sampled(sample) => self.sampled(sample, now),
            Event::Local(files) => {
                self.waiting.retain(|task| !matches!(task, Task::Local(_)));
                self.waiting.push_back(Task::Local(files.into()));
                self.go_on(now);
            }
            Event::Replied(link, reply) => self.actions.push(Action::Send(link, FromNode::Reply(reply))),
        }
        std::mem::take(&mut self.actions)
    }

    /// When the next [`Event::Tick`] is due.
    #[must_use]
    pub fn wake_at(&self) -> Timestamp {
        let of_link = match &self.link {
            Link::Starting => Timestamp::NEVER,
            Link::Away { retry_at } => *retry_at,
            Link::Dialing { since, .. } => *since + LONGEST_DIAL,
            Link::Open { heard_at, .. } => *heard_at + LONGEST_SILENCE,
        };
        of_link.min(self.report_at)
    }

    /// The rules of the control plane in force.
    #[must_use]
    pub const fn state(&self) -> &RuleState {
        &self.state
    }

    /// The control plane has welcomed this node on a stream that is open.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        matches!(self.link, Link::Open { epoch: Some(_), .. })
    }

    /// Time of the last disconnection; `None` while connected.
    #[must_use]
    pub const fn away_since(&self) -> Option<Timestamp> {
        self.away_since
    }

    /// Saved rules and the node's own are in force, as far as they can be.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.link != Link::Starting
    }

    fn tick(&mut self, now: Timestamp) {
        match self.link {
            Link::Away { retry_at } if now >= retry_at => self.dial(now),
            Link::Dialing { link, since } if now >= since + LONGEST_DIAL => self.hang_up(link, now),
            Link::Open { link, heard_at, .. } if now >= heard_at + LONGEST_SILENCE => self.hang_up(link, now),
            _ => {}
        }
        if now >= self.report_at {
            self.report_at = now + self.report_every;
            self.actions.push(Action::Sample);
        }
    }

    fn dial(&mut self, now: Timestamp) {
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.link = Link::Dialing { link, since: now };
        self.actions.push(Action::Connect(link));
    }

    fn hang_up(&mut self, link: LinkId, now: Timestamp) {
        self.actions.push(Action::Disconnect(link));
        self.disconnected(link, now);
    }

    fn disconnected(&mut self, link: LinkId, now: Timestamp) {
        match self.link {
            Link::Dialing { link: current, .. } | Link::Open { link: current, .. } if current == link => {}
            _ => return,
        }
        let wait = self.backoff.wait(&mut self.random);
        self.away(now + wait, now);
    }

    fn away(&mut self, retry_at: Timestamp, now: Timestamp) {
        self.link = Link::Away { retry_at };
        self.away_since.get_or_insert(now);
        self.incoming = None;
    }

    fn connected(&mut self, link: LinkId, now: Timestamp) {
        if !matches!(self.link, Link::Dialing { link: dialed, .. } if dialed == link) {
            self.actions.push(Action::Disconnect(link));
            return;
        }
        self.link = Link::Open { link, heard_at: now, epoch: None };
        let AgentSettings { identity, name, labels, software, .. } = &self.settings;
        let hello = Hello {
            node: identity.node.clone(),
            incarnation: identity.incarnation,
            name: name.clone(),
            labels: labels.clone(),
            software: software.clone(),
            language: LANGUAGE,
            epoch: self.state.epoch.clone(),
            held: self.state.held(),
            local_domains: self.local_domains.clone(),
            crashed: self.state.crashed.values().cloned().collect(),
            secret: identity.secret.clone(),
        };
        self.actions.push(Action::Send(link, FromNode::Hello(hello)));
    }

    fn received(&mut self, link: LinkId, says: FromControl, now: Timestamp) {
        let Link::Open { link: current, heard_at, epoch } = &mut self.link else { return };
        if *current != link {
            return;
        }
        *heard_at = now;
        let is_welcomed = epoch.is_some();
        let result = match says {
            FromControl::Welcome(welcome) => {
                *epoch = Some(welcome.epoch);
                let every = u64::from(welcome.report_interval_ms).clamp(*REPORTS.start(), *REPORTS.end());
                self.report_every = Duration::from_millis(every);
                self.report_at = self.report_at.min(now + self.report_every);
                self.backoff.succeeded();
                self.judge(Candidates::default());
                self.away_since = None;
                // The last stream may have broken before these reports were confirmed.
                for report in self.outbox.again(now) {
                    self.actions.push(Action::Send(link, FromNode::Report(report)));
                }
                Ok(())
            }
            FromControl::GoAway(away) => {
                let after = Backoff::away(Duration::from_millis(away.after_ms), &mut self.random);
                self.actions.push(Action::Disconnect(link));
                self.away(now + after, now);
                Ok(())
            }
            // All other messages may come only after the Welcome.
            _ if !is_welcomed => Err(ProtocolError::End),
            FromControl::Begin(begin) => Incoming::begin(begin).map(|begun| self.incoming = Some(begun)),
            FromControl::Document(document) => match &mut self.incoming {
                Some(incoming) => incoming.document(document),
                None => Err(ProtocolError::Document(document.app)),
            },
            FromControl::End(end) => self.end(link, end.bundle, now),
            FromControl::Seen(seen) => {
                self.outbox.seen(seen.sequence);
                Ok(())
            }
            FromControl::Overrides(overrides) => {
                self.actions.push(Action::Override(overrides));
                Ok(())
            }
            FromControl::Candidates(candidates) => {
                self.judge(candidates);
                Ok(())
            }
            FromControl::Command(command) => {
                self.actions.push(Action::Command(link, command));
                Ok(())
            }
        };
        if let Err(error) = result {
            self.actions.push(Action::Rejected(format!("the control plane broke the protocol: {error}")));
            self.hang_up(link, now);
        }
    }

    fn end(&mut self, link: LinkId, bundle: u64, now: Timestamp) -> Result<(), ProtocolError> {
        let bundle = self.incoming.take().ok_or(ProtocolError::End)?.end(bundle)?;
        let Link::Open { epoch: Some(epoch), .. } = &self.link else { return Ok(()) };
        let task = Task::Bundle(link, bundle, epoch.clone());
        self.waiting.retain(|task| !matches!(task, Task::Bundle(..)));
        self.waiting.push_back(task);
        self.go_on(now);
        Ok(())
    }

    /// These versions are being rolled out.
    fn judge(&mut self, mut candidates: Candidates) {
        candidates.apps.truncate(MAX_APPS);
        self.candidates = candidates;
        self.judge_held();
    }

    /// Has those versions judged that are being rolled out and in force here.
    fn judge_held(&mut self) {
        let domains = |it: &CandidateVersion| {
            let held = self.state.apps.get(&it.app).filter(|held| held.version == it.version);
            let documents = held.map_or(&[][..], |held| &held.documents);
            documents.iter().map(|document| (document.domain.clone(), it.version)).collect::<Vec<_>>()
        };
        let judged: Vec<_> = self.candidates.apps.iter().flat_map(domains).collect();
        if judged != self.judged {
            self.judged.clone_from(&judged);
            self.actions.push(Action::Judge(judged));
        }
    }

    /// Begins the next change of rules, if none is in progress.
    fn go_on(&mut self, now: Timestamp) {
        if self.work.is_some() {
            return;
        }
        let local = Arc::clone(&self.local);
        let mut work = match self.waiting.pop_front() {
            None => return,
            Some(Task::Local(files)) => Work::local(&self.state, files, self.mistakes),
            Some(Task::Bundle(link, bundle, epoch)) => {
                Work::bundle(link, bundle, &epoch, &self.state, local, self.is_careful, self.mistakes)
            }
        };
        let next = work.next();
        self.work = Some(work);
        self.go_on_with(next, now);
    }

    fn apply(&mut self, marker: Marker, parsed: Parsed) {
        let ticket = self.ticket();
        if !marker.apps.is_empty() && !self.mistakes.has(Mistake::NoMarker) {
            self.actions.push(Action::Mark(marker));
        }
        if let Some(work) = &self.work {
            self.local_domains = work.local_domains(&parsed.policy);
        }
        let revision = format!("control {}", ticket.0);
        self.actions.push(Action::Apply(ticket, Box::new(parsed), revision));
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    fn validated(&mut self, ticket: Ticket, validated: Validated, now: Timestamp) {
        if ticket.0 != self.last_ticket {
            return;
        }
        let Some(work) = &mut self.work else { return };
        let next = work.validated(validated);
        self.go_on_with(next, now);
    }

    fn applied(&mut self, ticket: Ticket, result: Result<(), String>, now: Timestamp) {
        if ticket.0 != self.last_ticket {
            return;
        }
        let Some(work) = &mut self.work else { return };
        let mut has_changed = false;
        match result {
            Ok(()) => {
                let early = self.mistakes.has(Mistake::AcknowledgedBeforeSaved);
                self.state = work.applied().clone();
                has_changed = true;
                if let (true, Cause::Bundle(link, bundle)) = (early, work.cause) {
                    let ack = Ack { bundle, held: self.state.held() };
                    self.actions.push(Action::Send(link, FromNode::Ack(ack)));
                }
                self.actions.push(Action::Save(Box::new(self.state.clone())));
                if work.cause == Cause::Local {
                    self.local = work.local_files();
                }
            }
            Err(why) => work.failed(&why),
        }
        self.actions.push(Action::Unmark);
        let next = work.next();
        if has_changed {
            self.judge_held();
        }
        self.go_on_with(next, now);
    }

    fn go_on_with(&mut self, next: Next, now: Timestamp) {
        match next {
            Next::Finished => {
                if let Some(work) = self.work.take() {
                    self.finish(work, now);
                }
                self.go_on(now);
            }
            Next::Validate(job) => {
                let ticket = self.ticket();
                self.actions.push(Action::Validate(ticket, Box::new(job)));
            }
            Next::Apply(marker, parsed) => self.apply(marker, parsed),
        }
    }

    fn finish(&mut self, work: Work, now: Timestamp) {
        for fault in work.faults.iter().take(10) {
            let app = &fault.app;
            let version = fault.version;
            let message = &fault.message;
            let domain = &fault.domain;
            let line = fault.line;
            let column = fault.column;
            let path = &fault.path;
            let text = format!("app {app}, version {version}: {domain}:{line}:{column}: {path}: {message}");
            self.actions.push(Action::Rejected(text));
        }
        match work.cause {
            Cause::Start => {
                // A crash is remembered also if no rules are in force.
                self.state.crashed.clone_from(&work.next_state().crashed);
                if self.is_careful {
                    self.actions.push(Action::Save(Box::new(self.state.clone())));
                    self.actions.push(Action::Unmark);
                }
                self.link = Link::Away { retry_at: now };
                self.dial(now);
            }
            Cause::Local => {
                // The control plane learns of the node's own domains by a new Hello, and tries again what
                // clashed with them.
                if let Link::Open { link, .. } = self.link {
                    self.actions.push(Action::Disconnect(link));
                    self.away(now, now);
                }
            }
            Cause::Bundle(link, bundle) => {
                self.is_careful = false;
                // The bundle came on a stream that has ended. The node's Hello on the next stream is
                // outdated, and messages sent there may be based on it.
                if let Link::Open { link: current, .. } = self.link
                    && current != link
                {
                    self.waiting.retain(|task| !matches!(task, Task::Bundle(..)));
                    self.actions.push(Action::Disconnect(current));
                    return self.away(now, now);
                }
                let held = self.state.held();
                let says = match work.faults {
                    faults if faults.is_empty() => FromNode::Ack(Ack { bundle, held }),
                    faults => FromNode::Nack(Nack { bundle, faults, held }),
                };
                self.actions.push(Action::Send(link, says));
            }
        }
    }

    fn sampled(&mut self, sample: Sample, now: Timestamp) {
        self.outbox.sampled(sample, now);
        if let Link::Open { link, epoch: Some(_), .. } = self.link {
            for report in self.outbox.next(now) {
                self.actions.push(Action::Send(link, FromNode::Report(report)));
            }
        }
    }
}
