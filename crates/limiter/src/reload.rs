//! Rules that change while requests are decided: watched, read until they stand still, checked, put into force.
//!
//! One thread waits for the file system to tell of a change, for [`Reloader::reload_now`] (SIGHUP), or for the next look that it
//! takes every few seconds anyway, since watches get lost. Each time it reads the files and compares what they say: so a link
//! that is swapped, as Kubernetes does with ConfigMaps, is a change like any other, and one that changes nothing
//! is none. A file that is still being written is read again until two readings agree. Faulty files change nothing:
//! the rules before stay, and [`ReloadState`], the log and the metrics say so.
//! Not here: the grammar (`policy`), signals (the server).

mod watch;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_core::{Clock, Timestamp};
use tollgate_policy::{Options, Policy, Source, read_files};
use tollgate_store::Store;

use crate::limiter::Limiter;
use watch::Watch;

/// Most readings of files that do not come to rest; then what was read last is taken as it is.
const MOST_READINGS: u32 = 20;

/// What to watch, and how patiently.
#[derive(Clone, Debug)]
pub struct ReloadSettings {
    /// Files and folders, as [`Policy::load`] takes them.
    pub paths: Vec<PathBuf>,
    /// How to read them.
    pub options: Options,
    /// How often to look without being told of a change.
    pub poll: Duration,
    /// How long files must stay the same before they are believed.
    pub settle: Duration,
}

impl ReloadSettings {
    /// Watches `paths`: looks every 2 s, believes what stays for 50 ms.
    #[must_use]
    pub const fn new(paths: Vec<PathBuf>, options: Options) -> Self {
        Self { paths, options, poll: Duration::from_secs(2), settle: Duration::from_millis(50) }
    }
}

/// What came of the reloads so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadState {
    /// Counts the attempts that are over: one for every change of the files, and for every [`Reloader::reload_now`].
    pub generation: u64,
    /// Version of the rules in force.
    pub version: String,
    /// When the last attempt was over; `None` before the first.
    pub at: Option<Timestamp>,
    /// Why the files as they are now are not in force; `None` when they are. Faults stand one a line.
    pub fault: Option<Arc<str>>,
}

/// Keeps a limiter's rules as the files are. Ends its thread when dropped.
#[derive(Debug)]
pub struct Reloader {
    shared: Arc<Shared>,
    to_thread: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ReloadState>,
    changed: Condvar,
}

/// Why the thread wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Changed,
    Now,
    Stop,
}

impl Reloader {
    /// Begins to watch. The rules in force stay until the files say something else; that is looked at first.
    ///
    /// # Errors
    /// No thread could be started; nothing is watched.
    pub fn start<S: Store>(
        limiter: Arc<Limiter<S>>,
        clock: Arc<dyn Clock>,
        settings: ReloadSettings,
    ) -> std::io::Result<Self> {
        limiter.metrics.note_begin(clock.now());
        let version = limiter.rules().policy().version().to_owned();
        let state = ReloadState { version, ..ReloadState::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (to_thread, messages) = mpsc::channel();
        let watch = Watch::new(settings.paths.clone(), to_thread.clone());
        let worker =
            Worker { limiter, clock, settings, shared: Arc::clone(&shared), messages, watch, seen: None };
        let thread = std::thread::Builder::new().name("reload".into()).spawn(move || worker.run())?;
        Ok(Self { shared, to_thread, thread: Some(thread) })
    }

    /// Reads the files again, also when nothing seems to have changed. Returns at once; the generation tells when it is done.
    pub fn reload_now(&self) {
        let _ = self.to_thread.send(Message::Now);
    }

    /// What came of the reloads so far.
    #[must_use]
    pub fn state(&self) -> ReloadState {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the state is as `is_there` wants it, at most for `patience`.
    ///
    /// # Errors
    /// The state as it was when patience ended.
    pub fn wait(
        &self,
        is_there: impl Fn(&ReloadState) -> bool,
        patience: Duration,
    ) -> Result<ReloadState, ReloadState> {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, timeout) = self
            .shared
            .changed
            .wait_timeout_while(state, patience, |state| !is_there(state))
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() { Err(state.clone()) } else { Ok(state.clone()) }
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        let _ = self.to_thread.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the files said: texts, or why there are none.
type Content = Result<Vec<Source>, String>;

/// The thread's own.
struct Worker<S: Store> {
    limiter: Arc<Limiter<S>>,
    clock: Arc<dyn Clock>,
    settings: ReloadSettings,
    shared: Arc<Shared>,
    messages: Receiver<Message>,
    watch: Watch,
    /// Fingerprint of what was tried last.
    seen: Option<u64>,
}

impl<S: Store> Worker<S> {
    fn run(mut self) {
        let mut is_forced = false;
        loop {
            let content = self.read();
            if is_forced || Some(fingerprint(&content)) != self.seen {
                let Some(content) = self.settled(content, &mut is_forced) else { return };
                self.watch.renew();
                self.try_out(content, is_forced);
            }
            is_forced = match self.messages.recv_timeout(self.settings.poll) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Now) => true,
                Ok(Message::Changed) | Err(RecvTimeoutError::Timeout) => false,
            };
            // One reading answers all that was told before it.
            for message in self.messages.try_iter() {
                match message {
                    Message::Stop => return,
                    Message::Now => is_forced = true,
                    Message::Changed => {}
                }
            }
        }
    }

    fn read(&self) -> Content {
        read_files(&self.settings.paths).map_err(|error| error.to_string())
    }

    /// Reads until two readings agree; `None` when it is time to stop.
    fn settled(&self, mut content: Content, is_forced: &mut bool) -> Option<Content> {
        for _ in 0..MOST_READINGS {
            // What is told meanwhile is about to be read anyway, and puts nothing off: a neighbour of the rules may change always.
            let (_open, silence) = mpsc::channel::<Message>();
            let _ = silence.recv_timeout(self.settings.settle);
            for message in self.messages.try_iter() {
                match message {
                    Message::Stop => return None,
                    Message::Now => *is_forced = true,
                    Message::Changed => {}
                }
            }
            let again = self.read();
            if fingerprint(&again) == fingerprint(&content) {
                break;
            }
            content = again;
        }
        Some(content)
    }

    fn try_out(&mut self, content: Content, is_forced: bool) {
        self.seen = Some(fingerprint(&content));
        let parsed = content.and_then(|sources| {
            if sources.is_empty() {
                return Err("no rule file is left; a folder that is emptied lifts no limit".to_owned());
            }
            Policy::parse(&sources, &self.settings.options).map_err(|faults| faults.to_string())
        });
        let now = self.clock.now();
        let fault = match parsed {
            Ok(policy) => {
                let is_news = policy.version() != self.limiter.rules().policy().version();
                let had_fault = self.lock().fault.is_some();
                if !is_news && !had_fault && !is_forced {
                    return; // the files that the rules in force were made of
                }
                tracing::info!(version = policy.version(), "rules are in force");
                for warning in policy.warnings() {
                    tracing::warn!("{warning}");
                }
                self.limiter.replace(policy, now);
                None
            }
            Err(fault) => {
                tracing::error!("the rules before stay in force, since these are faulty:\n{fault}");
                let fault: Arc<str> = fault.into();
                self.limiter.refuse_because(Arc::clone(&fault), now);
                Some(fault)
            }
        };
        let mut state = self.lock();
        state.generation += 1;
        state.version = self.limiter.rules().policy().version().to_owned();
        state.at = Some(now);
        state.fault = fault;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ReloadState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells contents apart: a hash of all names and texts, or of what kept them from being read.
fn fingerprint(content: &Content) -> u64 {
    let mut hasher = DefaultHasher::new();
    match content {
        Ok(sources) => sources.iter().for_each(|source| {
            source.name.hash(&mut hasher);
            source.text.hash(&mut hasher);
        }),
        Err(error) => ("unreadable", error).hash(&mut hasher),
    }
    hasher.finish()
}
