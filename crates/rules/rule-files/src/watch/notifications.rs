//! Notifications of the file system. They only save time: the next look finds the changes that they miss.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::signals::{Signal, Signals};

/// Watches on paths and on the folders that contain them, where links are swapped.
#[derive(Debug)]
pub(super) struct Notifications {
    watcher: Option<RecommendedWatcher>,
    paths: Vec<PathBuf>,
}

impl Notifications {
    /// Raises [`Signal::Change`] for changes at or below `paths`; never, if the system has no watch left.
    pub(super) fn new(paths: Vec<PathBuf>, signals: Arc<Signals>) -> Self {
        let ours = paths.clone();
        let handler = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| is_change(&event) && is_ours(&event, &ours)) {
                signals.raise(Signal::Change);
            }
        };
        let watcher = notify::recommended_watcher(handler)
            .inspect_err(
                |error| tracing::warn!(%error, "cannot watch the rule files; reading them every few seconds instead"),
            )
            .ok();
        let mut watch = Self { watcher, paths };
        watch.renew();
        watch
    }

    /// Watches the paths anew: after a link is swapped, a watch stays with the old folder.
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
                    tracing::debug!(path = %path.display(), %error, "cannot watch the path");
                }
            }
        }
    }
}

/// Reading is not a change; closing after writing is.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// The folder that contains a path may be a busy one; other files in it are ignored.
fn is_ours(event: &Event, ours: &[PathBuf]) -> bool {
    let is_one = |path: &PathBuf, one: &PathBuf| {
        path.starts_with(one) || one.file_name().is_none_or(|name| path.file_name() == Some(name))
    };
    event.paths.is_empty() || event.paths.iter().any(|path| ours.iter().any(|one| is_one(path, one)))
}
