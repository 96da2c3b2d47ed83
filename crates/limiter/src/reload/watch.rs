//! Asks the file system to tell of changes. It is a help, not the ground to stand on: what it misses, the next look finds.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::Message;

/// Watches on paths and on the folders that they stand in, where links are swapped.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    paths: Vec<PathBuf>,
}

impl Watch {
    /// Tells `sender` of changes at or below `paths`. Without watches (a full table of the system, say) it is silent.
    pub(super) fn new(paths: Vec<PathBuf>, sender: Sender<Message>) -> Self {
        let ours = paths.clone();
        let handler = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| is_change(&event) && is_ours(&event, &ours)) {
                let _ = sender.send(Message::Changed);
            }
        };
        let watcher = notify::recommended_watcher(handler)
            .inspect_err(
                |error| tracing::warn!(%error, "no watch on the rule files; they are looked at now and then"),
            )
            .ok();
        let mut watch = Self { watcher, paths };
        watch.renew();
        watch
    }

    /// Watches again what may stand elsewhere by now: a watch stays with the old folder when a link is swapped.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for path in &self.paths {
            let parent = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            let _ = watcher.unwatch(path);
            for (path, mode) in
                [(parent, RecursiveMode::NonRecursive), (path.as_path(), RecursiveMode::Recursive)]
            {
                if let Err(error) = watcher.watch(path, mode) {
                    tracing::debug!(path = %path.display(), %error, "no watch");
                }
            }
        }
    }
}

/// Reading is no change; closing after writing is.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// The folder that a path stands in may be a busy one; what else happens there is passed over.
fn is_ours(event: &Event, ours: &[PathBuf]) -> bool {
    let is_one = |path: &PathBuf, one: &PathBuf| {
        path.starts_with(one) || one.file_name().is_none_or(|name| path.file_name() == Some(name))
    };
    event.paths.is_empty() || event.paths.iter().any(|path| ours.iter().any(|one| is_one(path, one)))
}
