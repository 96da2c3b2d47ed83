//! Rules on a trace that was recorded: which traces there are, and one replay at a time, bounded in requests,
//! memory and time.
//!
//! Traces are the files in one folder of the control plane. Nobody names a path: a name is that of a file in
//! this folder, and links are not followed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate_control::Document;
use tollgate_policy::Policy;
use tollgate_replay::{Preview, Previewed, preview};
use tollgate_rule_files::{Options, RuleFile, parse};

use crate::console::Console;

/// Traces that are listed.
const MAX_TRACES: usize = 200;
const MAX_REQUESTS: u64 = 20_000_000;
/// For the counters of each set of rules, and as much for exact logs.
const MAX_BYTES: usize = 64 << 20;
/// Longer than the replay of ten million requests takes.
const MAX_TIME: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A replay: the documents before, and after a change, if there is one.
pub(crate) struct ReplayJob {
    pub(crate) trace: String,
    pub(crate) map: Vec<String>,
    pub(crate) before: Vec<Document>,
    pub(crate) after: Option<Vec<Document>>,
}

/// Why a trace was not replayed.
pub(crate) enum NotReplayed {
    /// There is no such trace.
    Unknown,
    /// Another one is being replayed.
    Busy,
    /// The trace, the mapping or the rules do not fit together.
    Why(String),
}

impl Console {
    /// The traces, by name.
    pub(crate) async fn traces(&self) -> Vec<Trace> {
        let Some(folder) = self.settings.traces.clone() else { return Vec::new() };
        tokio::task::spawn_blocking(move || listed(&folder)).await.unwrap_or_default()
    }

    /// Replays a trace.
    pub(crate) async fn replay(&self, asked: ReplayJob) -> Result<Previewed, NotReplayed> {
        let traces = self.traces().await;
        let folder = self.settings.traces.as_ref().filter(|_| traces.iter().any(|it| it.name == asked.trace));
        let path = folder.ok_or(NotReplayed::Unknown)?.join(&asked.trace);
        // It is released when the replay ends, also when its reader has left.
        let permit = Arc::clone(&self.replays).try_acquire_owned().map_err(|_| NotReplayed::Busy)?;
        let sets: Vec<Policy> = [Some(&asked.before), asked.after.as_ref()]
            .into_iter()
            .flatten()
            .filter(|documents| !documents.is_empty())
            .map(|documents| policy(documents))
            .collect();
        if sets.is_empty() {
            return Err(NotReplayed::Why("there are no rules to replay".to_owned()));
        }
        let ended = Ended(Arc::<AtomicBool>::default());
        let stop = Arc::clone(&ended.0);
        let mut work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let map = &asked.map;
            let max_requests = MAX_REQUESTS;
            let max_bytes = MAX_BYTES;
            preview(Preview { trace: &path, sets, map, max_requests, max_bytes }, &stop)
        });
        let done = match tokio::time::timeout(MAX_TIME, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                ended.0.store(true, Relaxed);
                work.await
            }
        };
        done.unwrap_or_else(|_| Err("the replay failed".to_owned())).map_err(NotReplayed::Why)
    }
}

/// Ends the replay when its asker is gone.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn listed(folder: &Path) -> Vec<Trace> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let trace = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
        let about = entry.metadata().ok().filter(std::fs::Metadata::is_file)?; // of a link itself
        Some(Trace { name, bytes: about.len() })
    };
    let mut traces: Vec<Trace> = entries.flatten().filter_map(trace).collect();
    traces.sort();
    traces.truncate(MAX_TRACES);
    traces
}

fn policy(documents: &[Document]) -> Policy {
    let files: Vec<RuleFile> = documents
        .iter()
        .map(|it| RuleFile { name: it.domain().into(), text: it.yaml().to_owned() })
        .collect();
    parse(&files, &Options::default()).map(|rules| rules.policy).unwrap_or_default()
}

/// The folder of traces in the folder of a control plane.
#[must_use]
pub fn traces_in(folder: &Path) -> PathBuf {
    folder.join("traces")
}
