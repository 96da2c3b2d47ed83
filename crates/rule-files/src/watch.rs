//! Rule files that change while a process runs: watched, read until they are complete, supplied as updates.
//!
//! The source looks at the files when the file system reports a change, when [`WatchHandle::reload_now`] is
//! called (SIGHUP), and every few seconds, since notifications can get lost. It compares texts: a swapped
//! link, as Kubernetes uses for ConfigMaps, is a change like any other, and a link that leads to the same
//! text is not one. A file that is still being written is read again until two readings agree. Not here:
//! putting rules in force (`limiter`), signals (the server).

mod notifications;
mod signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_policy::{RuleSource, RuleUpdate};

use crate::error::LoadError;
use crate::folder::{self, RuleFile};
use crate::load::{Options, parse};
use crate::revision::revision;
use notifications::Notifications;
use signals::{Signal, Signals};

/// The most readings of files that keep changing; then the last reading is used as it is.
const MAX_READINGS: u32 = 20;

/// What to watch, and how patiently.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Files and folders, as for [`load`](crate::load).
    pub paths: Vec<PathBuf>,
    /// How to read them.
    pub options: Options,
    /// Revision of the files whose rules are in force already ([`RuleSet::revision`](crate::RuleSet)). They
    /// are supplied only once they change.
    pub loaded: Option<String>,
    /// How often to look without a notification.
    pub poll: Duration,
    /// How long files must stay the same before they are used.
    pub settle: Duration,
}

impl WatchSettings {
    /// Watches `paths`: looks every 2 s, and uses what stays the same for 50 ms.
    #[must_use]
    pub const fn new(paths: Vec<PathBuf>, options: Options) -> Self {
        let (poll, settle) = (Duration::from_secs(2), Duration::from_millis(50));
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
    /// Revision of what was supplied last.
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

/// The texts of all files, or why they cannot be read.
type Reading = Result<Vec<RuleFile>, LoadError>;

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

    fn read(&self) -> Reading {
        folder::read(&self.settings.paths)
    }

    /// Reads until two readings agree; `None` once the source is stopped.
    fn settled(&self, mut reading: Reading) -> Option<Reading> {
        for _ in 0..MAX_READINGS {
            // Notifications must not extend this wait: other files in the folder may change all the time.
            if self.signals.sleep(self.settings.settle).is_stopped {
                return None;
            }
            let again = self.read();
            if revision(&again) == revision(&reading) {
                break;
            }
            reading = again;
        }
        Some(reading)
    }

    fn update(&self, revision: String, reading: Reading) -> RuleUpdate<LoadError> {
        let parsed = reading.and_then(|files| {
            if files.is_empty() {
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
        loop {
            let timeout = if self.has_looked { self.settings.poll } else { Duration::ZERO };
            self.has_looked = true;
            let raised = self.signals.wait(timeout);
            if raised.is_stopped {
                return None;
            }
            let reading = self.read();
            if !raised.is_reload && Some(revision(&reading)) == self.supplied {
                continue;
            }
            let reading = self.settled(reading)?;
            // Notifications and requests so far are covered by the last reading.
            let raised_since = self.signals.wait(Duration::ZERO);
            let revision = revision(&reading);
            if raised_since.is_stopped {
                return None;
            }
            if !(raised.is_reload || raised_since.is_reload) && Some(&revision) == self.supplied.as_ref() {
                continue;
            }
            self.notifications.renew();
            self.supplied = Some(revision.clone());
            return Some(self.update(revision, reading));
        }
    }
}
