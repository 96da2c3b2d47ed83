//! A control plane in a temporary folder.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_control::{Control, KnownNodes, Nodes};
use tollgate_db::TimeSource;

/// The time of a control plane at its start: a moment in 2023.
pub const NOW_MS: i64 = 1_700_000_000_000;

/// A control plane in real time on the database of a folder, without nodes.
pub async fn open(folder: &Path) -> Control {
    open_with(folder, TimeSource::Database, Arc::<KnownNodes>::default()).await
}

/// A control plane on the database of a folder, with a clock and with nodes of the test's own.
pub async fn open_with(folder: &Path, time: TimeSource, nodes: Arc<dyn Nodes>) -> Control {
    Control::open(folder, time, nodes).await.expect("the database opens")
}

/// A control plane on a database of its own. It is used as the [`Control`] that it derefs to.
pub struct ControlPlane {
    pub control: Arc<Control>,
    /// Those that have connected, as [`ControlPlane::connect`] and others make them.
    pub nodes: Arc<KnownNodes>,
    /// The number of the last report that [`ControlPlane::report`] made.
    pub(crate) last_report: AtomicU64,
    time: TimeSource,
    /// The time that `time` tells; `None` in real time.
    clock: Option<Arc<AtomicI64>>,
    folder: Arc<TempDir>,
}

impl Deref for ControlPlane {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl ControlPlane {
    /// On a clock that stands at [`NOW_MS`] until the test moves it.
    pub async fn start() -> Self {
        Self::start_at(NOW_MS).await
    }

    /// On a clock that stands at `now_ms`.
    pub async fn start_at(now_ms: i64) -> Self {
        Self::start_in(&std::env::temp_dir(), now_ms).await
    }

    /// As [`ControlPlane::start_at`], with its folder within `place`.
    pub async fn start_in(place: &Path, now_ms: i64) -> Self {
        let clock = Arc::new(AtomicI64::new(now_ms));
        Self::in_new_folder(place, TimeSource::Manual(Arc::clone(&clock)), Some(clock)).await
    }

    /// On the clock of the machine.
    pub async fn in_real_time() -> Self {
        Self::in_new_folder(&std::env::temp_dir(), TimeSource::Database, None).await
    }

    /// As [`ControlPlane::start_at`]; `before` runs before each transaction.
    pub async fn interrupted(now_ms: i64, before: impl Fn() + Send + Sync + 'static) -> Self {
        let clock = Arc::new(AtomicI64::new(now_ms));
        let now = Arc::clone(&clock);
        let asked = move || {
            before();
            now.load(Relaxed)
        };
        Self::in_new_folder(&std::env::temp_dir(), TimeSource::Asked(Arc::new(asked)), Some(clock)).await
    }

    async fn in_new_folder(place: &Path, time: TimeSource, clock: Option<Arc<AtomicI64>>) -> Self {
        let folder = Arc::new(tempfile::tempdir_in(place).expect("a folder"));
        Self::on(folder, time, clock).await
    }

    async fn on(folder: Arc<TempDir>, time: TimeSource, clock: Option<Arc<AtomicI64>>) -> Self {
        let nodes = Arc::<KnownNodes>::default();
        let control = open_with(folder.path(), time.clone(), Arc::clone(&nodes) as _).await;
        for known in control.known_nodes().await.expect("known nodes") {
            assert!(nodes.report(known), "there is room for a known node");
        }
        Self { control: Arc::new(control), nodes, last_report: AtomicU64::new(0), time, clock, folder }
    }

    /// Another process on the same database and clock, which knows the nodes that the database knows.
    pub async fn beside(&self) -> Self {
        Self::on(Arc::clone(&self.folder), self.time.clone(), self.clock.clone()).await
    }

    /// The process ends, and another one starts on what it has left.
    pub async fn restart(self) -> Self {
        let Self { control, last_report, time, clock, folder, .. } = self;
        drop(control);
        Self { last_report, ..Self::on(folder, time, clock).await }
    }

    /// Another process on the same database, with a clock of its own and without nodes.
    pub async fn beside_at(&self, time: TimeSource) -> Control {
        open_with(self.folder(), time, Arc::<KnownNodes>::default()).await
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The database as another program opens it.
    #[must_use]
    pub fn file(&self) -> Connection {
        Connection::open(self.folder().join("control.db")).expect("the database")
    }

    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.clock().load(Relaxed)
    }

    pub fn set_time(&self, now_ms: i64) {
        self.clock().store(now_ms, Relaxed);
    }

    /// Time passes.
    pub fn pass(&self, ms: i64) {
        self.clock().fetch_add(ms, Relaxed);
    }

    fn clock(&self) -> &AtomicI64 {
        self.clock.as_deref().expect("a control plane in real time has no clock that a test moves")
    }
}
