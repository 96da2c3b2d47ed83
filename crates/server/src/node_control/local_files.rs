//! The node's own rule files, beside a control plane: the agent gets their texts whenever they are valid by
//! themselves.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tollgate_human_text::with_causes;
use tollgate_rule_files::{FileSource, LoadError, Options, RuleFile, WatchHandle, WatchSettings, parse};

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct LocalFiles {
    handle: WatchHandle,
    error: Arc<Mutex<Option<Arc<str>>>>,
}

impl LocalFiles {
    /// Sends the texts of `paths` to `agent` when they change, and at once unless `loaded` is their revision.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn watch(
        paths: &[PathBuf],
        options: &Options,
        loaded: Option<String>,
        agent: mpsc::Sender<Vec<RuleFile>>,
    ) -> io::Result<Self> {
        let settings = WatchSettings { loaded, ..WatchSettings::new(paths.to_vec(), *options) };
        let options = *options;
        let (mut source, handle) = FileSource::watch(settings);
        let error = Arc::new(Mutex::new(None));
        let shown = Arc::clone(&error);
        std::thread::Builder::new().name("rules".into()).spawn(move || {
            while let Some(reading) = source.next_files() {
                match checked(reading, &options) {
                    Ok(files) => {
                        *shown.lock() = None;
                        if agent.blocking_send(files).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::error!("rule reload failed; keeping the previous rules:\n{error}");
                        *shown.lock() = Some(error.into());
                    }
                }
            }
        })?;
        Ok(Self { handle, error })
    }

    /// Has the files read again.
    pub(crate) fn reload(&self) {
        self.handle.reload_now();
    }

    /// Why the files are not in force.
    pub(crate) fn error(&self) -> Option<Arc<str>> {
        self.error.lock().clone()
    }
}

fn checked(reading: Result<Vec<RuleFile>, LoadError>, options: &Options) -> Result<Vec<RuleFile>, String> {
    let files = reading.map_err(|error| with_causes(&error).to_string())?;
    parse(&files, options).map_err(|faults| faults.to_string())?;
    Ok(files)
}
