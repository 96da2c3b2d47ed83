//! The database threads: one that writes, and several that read.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::compare::Comparison;
use crate::error::DbError;
use crate::migrate::{Migration, migrate};
use crate::seal::{Seals, Unsealed};
use crate::sqlite::{OnEdits, Sqlite, TimeSource, Watched};
use crate::tx::Tx;
use crate::watch::{OnHead, Watch, Witness};

/// Transactions that may wait for a thread; more are rejected.
const MAX_WAITING: usize = 512;

/// Threads that read.
const READERS: usize = 4;

/// Work for a thread, which leaves its result elsewhere.
type Work = Box<dyn FnOnce(&mut Sqlite) + Send>;

/// Work for a thread, and where it says that the work has ended without a panic.
struct Job {
    work: Work,
    done: oneshot::Sender<()>,
}

/// A database. Clones share it; it closes with the last of them.
#[derive(Clone)]
pub struct Db {
    writer: JobQueue,
    readers: JobQueue,
    files: Arc<Watch>,
    unsealed: Option<Unsealed>,
}

/// Extras around transactions; each is off if `None`.
#[derive(Default)]
pub struct Options {
    /// Statements by which the database is recognized after its files have changed.
    pub witness: Option<Witness>,
    /// Called after each commit, on the thread that writes, with the last row of the witness's table.
    pub on_head: Option<OnHead>,
    /// Called within a transaction that changes rows which another program has edited since they were sealed,
    /// before the transaction seals them again: a chance to record the edits. Its result decides whether the
    /// transaction is kept.
    pub on_edits: Option<OnEdits>,
    /// Tables and columns to leave out of the seals; `None` seals nothing.
    pub unsealed: Option<Unsealed>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("witness", &self.witness).finish_non_exhaustive()
    }
}

/// Jobs for one or several threads.
#[derive(Clone)]
struct JobQueue {
    jobs: SyncSender<Job>,
    waiting: Arc<AtomicUsize>,
}

impl Db {
    /// Opens or creates the file at `path` and brings its schema up to date.
    ///
    /// # Errors
    /// [`DbError`]: the file cannot be opened, or has a schema that is not that of `migrations`.
    pub fn open(path: &Path, migrations: &[Migration], time: TimeSource) -> Result<Self, DbError> {
        Self::open_with(path, migrations, time, Options::default())
    }

    /// Like [`open`](Self::open), with `options`.
    ///
    /// # Errors
    /// As there.
    pub fn open_with(
        path: &Path,
        migrations: &[Migration],
        time: TimeSource,
        options: Options,
    ) -> Result<Self, DbError> {
        let mut writer = Sqlite::open(path, time.clone())?;
        migrate(writer.connection(), migrations)?;
        let unsealed = options.unsealed;
        let seals = unsealed.map(|it| Seals::begin(writer.connection(), it)).transpose()?;
        let readers = (0..READERS).map(|_| Sqlite::open(path, time.clone())?.read_only());
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        let files = Arc::new(Watch::new(path, options.witness)?);
        let on_head = options.on_head.unwrap_or_else(|| Box::new(|_| ()));
        let on_edits = options.on_edits.unwrap_or_else(|| Arc::new(|_, _| Ok(())));
        let watched = Watched { files: Arc::clone(&files), on_head, on_edits, seals, seals_all: false };
        let writer = writer.watched(watched)?;
        Ok(Self {
            writer: JobQueue::start("db-write", vec![writer])?,
            readers: JobQueue::start("db-read", readers)?,
            files,
            unsealed,
        })
    }

    /// Compares every row with its state after the last transaction that changed it. Reads the whole
    /// database, on a thread and a connection of its own, without delaying others.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn compare(&self) -> Result<Comparison, DbError> {
        let Some(unsealed) = self.unsealed else { return Ok(Comparison::default()) };
        let connection = Sqlite::open_existing(self.files.path(), TimeSource::Database)?.read_only()?;
        let (reply, answer) = oneshot::channel();
        let compare = move || drop(reply.send(connection.compare(unsealed))); // the caller may have left
        Builder::new().name("db-compare".to_owned()).spawn(compare).map_err(DbError::Thread)?;
        answer.await.unwrap_or(Err(DbError::Closed))
    }

    /// As [`write`](Self::write), and seals all rows as they are then, also those that another program has
    /// edited.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_sealing_all<T, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.writer.run(|sqlite| sqlite.run_sealing_all(work)).await
    }

    /// Whether the files at the path are those that are open. Each write asks too.
    ///
    /// # Errors
    /// [`DbError::Gone`].
    pub fn check_files(&self) -> Result<(), DbError> {
        self.files.check()
    }

    /// Runs `work` in a transaction that changes nothing.
    ///
    /// # Errors
    /// The error of `work`, or [`DbError`].
    pub async fn read<T, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.readers.run(|sqlite| sqlite.run("BEGIN", work)).await
    }

    /// Runs `work` in a transaction that is kept if it returns `Ok`, as a whole, and otherwise undone. When
    /// it returns, the changes are on the disk. `work` is `Fn`, since a database may ask to run it again.
    ///
    /// # Errors
    /// The error of `work`, or [`DbError`].
    pub async fn write<T, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.writer.run(|sqlite| sqlite.run("BEGIN IMMEDIATE", work)).await
    }

    /// Like [`write`](Self::write), then passes the result to `then` on the writing thread, after the commit
    /// and before the next transaction; also if the caller has left by then.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_then<T, U, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        then: impl FnOnce(T) -> U + Send + 'static,
    ) -> Result<U, E>
    where
        T: Send + 'static,
        U: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.writer.run(|sqlite| sqlite.run("BEGIN IMMEDIATE", work).map(then)).await
    }

    /// [`read`](Self::read) for callers outside a runtime.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_blocking<T, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.readers.run_blocking(|sqlite| sqlite.run("BEGIN", work))
    }

    /// [`write`](Self::write) for callers outside a runtime.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_blocking<T, E>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        self.writer.run_blocking(|sqlite| sqlite.run("BEGIN IMMEDIATE", work))
    }

    /// Transactions that wait for a thread now: to write, and to read.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.writer.waiting.load(Relaxed), self.readers.waiting.load(Relaxed))
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl JobQueue {
    fn start(name: &str, connections: Vec<Sqlite>) -> Result<Self, DbError> {
        let (jobs, taken) = sync_channel::<Job>(MAX_WAITING);
        let taken = Arc::new(Mutex::new(taken));
        let waiting = Arc::new(AtomicUsize::new(0));
        for connection in connections {
            let taken = Arc::clone(&taken);
            let waiting = Arc::clone(&waiting);
            let thread = Builder::new().name(name.to_owned());
            thread.spawn(move || serve(connection, &taken, &waiting)).map_err(DbError::Thread)?;
        }
        Ok(Self { jobs, waiting })
    }

    /// Runs `work` on a thread. Every transaction is compiled from this, so only what depends on the types is
    /// here; the rest is in functions that are compiled once.
    async fn run<T, E>(&self, work: impl FnOnce(&mut Sqlite) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        let (work, result) = kept(work);
        let done = self.send(work)?;
        done.await.map_err(|_| DbError::Panicked)?;
        result.take()
    }

    /// [`run`](Self::run) for callers outside a runtime.
    fn run_blocking<T, E>(
        &self,
        work: impl FnOnce(&mut Sqlite) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        let (work, result) = kept(work);
        let done = self.send(work)?;
        done.blocking_recv().map_err(|_| DbError::Panicked)?;
        result.take()
    }

    /// Queues `work`. The receiver returns once it has ended, with an error if it panicked.
    fn send(&self, work: Work) -> Result<oneshot::Receiver<()>, DbError> {
        let (done, ended) = oneshot::channel();
        self.waiting.fetch_add(1, Relaxed);
        self.jobs.try_send(Job { work, done }).map_err(|error| {
            self.waiting.fetch_sub(1, Relaxed);
            match error {
                TrySendError::Full(_) => DbError::Busy { waiting: MAX_WAITING },
                TrySendError::Disconnected(_) => DbError::Closed,
            }
        })?;
        Ok(ended)
    }
}

/// The result of work that runs elsewhere.
struct Kept<R>(Arc<Mutex<Option<R>>>);

impl<T, E: From<DbError>> Kept<Result<T, E>> {
    fn take(&self) -> Result<T, E> {
        self.0.lock().take().unwrap_or_else(|| Err(E::from(DbError::Panicked)))
    }
}

/// `work` without its types, and where its result will be.
fn kept<R: Send + 'static>(work: impl FnOnce(&mut Sqlite) -> R + Send + 'static) -> (Work, Kept<R>) {
    let result = Arc::new(Mutex::new(None));
    let kept = Kept(Arc::clone(&result));
    let work = move |sqlite: &mut Sqlite| {
        let worked = work(sqlite);
        *result.lock() = Some(worked);
    };
    (Box::new(work), kept)
}

/// Works until the last [`Db`] is gone.
fn serve(mut connection: Sqlite, jobs: &Mutex<Receiver<Job>>, waiting: &AtomicUsize) {
    loop {
        // The lock is held while waiting, and released before the work.
        let next = jobs.lock().recv();
        let Ok(job) = next else { return };
        waiting.fetch_sub(1, Relaxed);
        let Job { work, done } = job;
        match catch_unwind(AssertUnwindSafe(|| work(&mut connection))) {
            Ok(()) => drop(done.send(())), // the caller may have left
            Err(_) => connection.roll_back(),
        }
    }
}
