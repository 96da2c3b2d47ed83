//! Rule files that change while a process runs: watched, read until they are complete, supplied as updates.
//!
//! The source looks at the files when the file system reports a change, when [`WatchHandle::reload_now`] is
//! called (SIGHUP), and every few seconds, since notifications can get lost. It compares texts: a swapped
//! link, as Kubernetes uses for ConfigMaps, is a change like any other, and a link that leads to the same
//! text is not one. Files that are still being written are not read: their sizes and times of change must
//! have been the same for a while. Not here: putting rules in force (`limiter`), signals (the server).

mod notifications;
mod settling;
mod signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_policy::{RuleSource, RuleUpdate};

use crate::error::LoadError;
use crate::folder::{self, Reading};
use crate::load::{Options, parse};
use crate::revision::revision;
use crate::rule_file::RuleFile;
use notifications::Notifications;
use settling::Settling;
use signals::{Raised, Signal, Signals};

/// Number of looks at changed files within the time for which they must stay the same.
const LOOKS: u32 = 6;
/// Time for which files may keep changing before the log says that they are not loaded.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The files to watch, and the times between looks.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Files and folders, as for [`load`](crate::load).
    pub paths: Vec<PathBuf>,
    /// Options for reading the files.
    pub options: Options,
    /// Revision of the files whose rules are in force already ([`RuleSet::revision`](crate::RuleSet)). They
    /// are supplied only once they change.
    pub loaded: Option<String>,
    /// Time between looks without a notification.
    pub poll: Duration,
    /// Time for which the sizes and times of change of files must stay the same before the files are read.
    pub settle: Duration,
}

impl WatchSettings {
    /// Watches `paths`: looks every 2 s, and reads files that stay the same for 300 ms.
    #[must_use]
    pub const fn new(paths: Vec<PathBuf>, options: Options) -> Self {
        let poll = Duration::from_secs(2);
        let settle = Duration::from_millis(300);
        Self { paths, options, loaded: None, poll, settle }
    }
}

/// Rule files as a [`RuleSource`].
///
/// # Example
/// ```no_run
/// # use tollgate_policy::RuleSource;
/// # use tollgate_rule_files::*;
/// let (mut files, handle) = FileSource::watch(WatchSettings::new(vec!["rules".into()], Options::default()));
/// while let Some(update) = files.next() {
///     println!("{:?}", update.policy.map(|policy| policy.version().to_owned()));
/// }
/// # drop(handle);
/// ```
#[derive(Debug)]
pub struct FileSource {
    settings: WatchSettings,
    signals: Arc<Signals>,
    notifications: Notifications,
    /// Revision of the last update.
    supplied: Option<String>,
    has_looked: bool,
}

/// Wakes a [`FileSource`], and ends it when dropped.
#[derive(Debug)]
pub struct WatchHandle {
    signals: Arc<Signals>,
}

impl WatchHandle {
    /// Has the files read and supplied again, even if they have not changed. Returns at once.
    pub fn reload_now(&self) {
        self.signals.raise(Signal::Reload);
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.signals.raise(Signal::Stop);
    }
}

impl FileSource {
    /// Starts to watch. The first [`next`](RuleSource::next) looks at the files at once.
    #[must_use]
    pub fn watch(settings: WatchSettings) -> (Self, WatchHandle) {
        let signals = Arc::new(Signals::default());
        let notifications = Notifications::new(settings.paths.clone(), Arc::clone(&signals));
        let handle = WatchHandle { signals: Arc::clone(&signals) };
        let supplied = settings.loaded.clone();
        (Self { settings, signals, notifications, supplied, has_looked: false }, handle)
    }

    /// Waits until the files are still, and reads them; `None` once the source is stopped. The signals are
    /// those raised before the last look, which the reading covers.
    fn settled(&self) -> Option<(Reading, Raised)> {
        let WatchSettings { paths, settle, options, .. } = &self.settings;
        let mut settling = Settling::begin(paths, options.dot_files, *settle);
        let pause = *settle / LOOKS;
        let mut waited = Duration::ZERO;
        let mut raised = Raised::default();
        loop {
            // Notifications must not shorten this wait: it measures how long the files are still.
            self.signals.sleep(pause);
            raised = raised.and(self.signals.wait(Duration::ZERO));
            if raised.is_stopped {
                return None;
            }
            if let Some(reading) = settling.look(pause) {
                return Some((reading, raised));
            }
            let is_long = waited < LONG_WAIT && waited + pause >= LONG_WAIT;
            waited += pause;
            if is_long {
                let file = settling.changing().map(|name| name.display().to_string());
                tracing::warn!(file, "the rule files keep changing, so they are not loaded");
            }
        }
    }

    fn update(&self, revision: String, reading: Reading) -> RuleUpdate<LoadError> {
        let parsed = reading.and_then(|files| {
            if files.iter().all(RuleFile::is_list) {
                return Err(LoadError::NoFiles);
            }
            Ok(parse(&files, &self.settings.options)?)
        });
        match parsed {
            Ok(rules) => {
                let warnings = rules.warnings.iter().map(ToString::to_string).collect();
                RuleUpdate::new(revision, Ok(rules.policy)).warnings(warnings)
            }
            Err(error) => RuleUpdate::new(revision, Err(error)),
        }
    }
}

impl RuleSource for FileSource {
    type Error = LoadError;

    fn next(&mut self) -> Option<RuleUpdate<LoadError>> {
        let (revision, reading) = self.next_reading()?;
        Some(self.update(revision, reading))
    }
}

impl FileSource {
    /// As [`next`](RuleSource::next), with the texts as they were read.
    pub fn next_files(&mut self) -> Option<Result<Vec<RuleFile>, LoadError>> {
        self.next_reading().map(|(_, reading)| reading)
    }

    fn next_reading(&mut self) -> Option<(String, Reading)> {
        loop {
            let timeout = if self.has_looked { self.settings.poll } else { Duration::ZERO };
            self.has_looked = true;
            let raised = self.signals.wait(timeout);
            if raised.is_stopped {
                return None;
            }
            let WatchSettings { paths, options, .. } = &self.settings;
            let is_supplied = || Some(revision(&folder::read(paths, options.dot_files))) == self.supplied;
            if !raised.is_reload && is_supplied() {
                continue;
            }
            let (reading, raised_since) = self.settled()?;
            let revision = revision(&reading);
            if !(raised.is_reload || raised_since.is_reload) && Some(&revision) == self.supplied.as_ref() {
                continue;
            }
            self.notifications.renew();
            self.supplied = Some(revision.clone());
            return Some((revision, reading));
        }
    }
}
