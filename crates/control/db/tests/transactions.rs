//! Transactions that fail, panic, wait, or lose their caller.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use tollgate_db::{Db, DbError, Migration, TimeSource, Tx, query_int};

const TABLES: &str = "CREATE TABLE parents (id BIGINT PRIMARY KEY);
    CREATE TABLE grows (id BIGINT PRIMARY KEY, parent BIGINT REFERENCES parents DEFERRABLE INITIALLY DEFERRED)";
const MIGRATIONS: [Migration; 1] = [Migration { number: 1, name: "tables", sql: TABLES }];

fn opened() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().expect("a folder");
    let db = Db::open(&folder.path().join("control.db"), &MIGRATIONS, TimeSource::Database).expect("opened");
    (folder, db)
}

fn insert(tx: &mut dyn Tx, id: i64) -> Result<i64, DbError> {
    tx.execute("INSERT INTO grows VALUES ($1, NULL)", &[id.into()])?;
    Ok(id)
}

/// Rows, and the sum of their ids.
fn rows(db: &Db) -> [i64; 2] {
    let read = |tx: &mut dyn Tx| -> Result<_, DbError> {
        Ok([
            query_int(tx, "SELECT count(*) FROM grows", &[])?,
            query_int(tx, "SELECT coalesce(sum(id), 0) FROM grows", &[])?,
        ])
    };
    db.read_blocking(read).expect("read")
}

/// The ends of work that keeps a thread of the database.
struct Gate {
    begun: Receiver<()>,
    open: Sender<()>,
}

impl Gate {
    /// Work that begins, says so, and ends when the gate opens.
    fn closed() -> (Self, impl Fn(&mut dyn Tx) -> Result<(), DbError> + Send + 'static) {
        let (begins, begun) = channel();
        let (open, opened) = channel();
        let opened = Mutex::new(opened);
        let work = move |_: &mut dyn Tx| {
            let _ = begins.send(());
            let _ = opened.lock().recv();
            Ok(())
        };
        (Self { begun, open }, work)
    }
}

fn panics(tx: &mut dyn Tx) -> Result<(), DbError> {
    let _ = insert(tx, 2);
    std::panic::resume_unwind(Box::new("a mistake")) // without a message on the screen
}

#[test]
fn a_transaction_that_fails_or_panics_leaves_nothing_and_the_next_one_runs() {
    let (_folder, db) = opened();
    let failed = db.write_blocking(|tx| insert(tx, 1).and(Err::<(), _>(DbError::Closed)));
    assert!(matches!(failed, Err(DbError::Closed)), "{failed:?}");
    let panicked = db.write_blocking(panics);
    assert!(matches!(panicked, Err(DbError::Panicked)), "{panicked:?}");
    // The work succeeds, and the database rejects the commit.
    let orphan = |tx: &mut dyn Tx| tx.execute("INSERT INTO grows VALUES (3, 7)", &[]).map(|_| "accepted");
    let rejected = db.write_blocking(orphan);
    assert!(matches!(rejected, Err(DbError::Constraint(_))), "{rejected:?}");
    assert_eq!(db.write_blocking(|tx| insert(tx, 4)).expect("written"), 4);
    assert_eq!(rows(&db), [1, 4]);
}

#[test]
fn every_thread_that_reads_survives_a_panic() {
    let (_folder, db) = opened();
    for _ in 0..20 {
        assert!(matches!(db.read_blocking(panics), Err(DbError::Panicked)));
    }
    // Four reads at once: each begins before one of them ends.
    let (gates, works): (Vec<_>, Vec<_>) = (0..4).map(|_| Gate::closed()).unzip();
    std::thread::scope(|scope| {
        let gates = gates;
        let reads: Vec<_> = works.into_iter().map(|work| scope.spawn(|| db.read_blocking(work))).collect();
        gates.iter().for_each(|gate| gate.begun.recv().expect("a thread takes it"));
        gates.iter().for_each(|gate| gate.open.send(()).expect("it waits"));
        reads.into_iter().for_each(|read| read.join().expect("no panic").expect("read"));
    });
}

#[test]
fn a_transaction_whose_caller_has_left_is_committed_and_followed_up() {
    let (_folder, db) = opened();
    let (gate, work) = Gate::closed();
    let followed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&followed);
    std::thread::scope(|scope| {
        let gate = gate; // a failed step opens it, so that the thread ends
        let first = scope.spawn(|| db.write_blocking(work));
        gate.begun.recv().expect("begun");
        {
            let then = move |id| seen.lock().push(id);
            let write = pin!(db.write_then(|tx| insert(tx, 1), then));
            assert!(write.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        } // and the caller is gone
        assert_eq!(db.waiting(), (1, 0));
        gate.open.send(()).expect("it waits");
        first.join().expect("no panic").expect("written");
    });
    assert_eq!(db.write_blocking(|tx| insert(tx, 2)).expect("written"), 2);
    assert_eq!((rows(&db), &**followed.lock()), ([2, 3], &[1][..]));
    assert_eq!(db.waiting(), (0, 0));
}

#[test]
fn one_transaction_too_many_is_busy_and_all_that_wait_are_run() {
    let (_folder, db) = opened();
    let (gate, work) = Gate::closed();
    std::thread::scope(|scope| {
        let gate = gate; // a failed step opens it, so that the thread ends
        let first = scope.spawn(|| db.write_blocking(work));
        gate.begun.recv().expect("begun");
        let mut cx = Context::from_waker(Waker::noop());
        for id in 0..512 {
            assert!(pin!(db.write(move |tx| insert(tx, id))).poll(&mut cx).is_pending());
        }
        let busy = db.write_blocking(|tx| insert(tx, 512));
        assert!(matches!(busy, Err(DbError::Busy { waiting: 512 })), "{busy:?}");
        assert_eq!(db.waiting(), (512, 0));
        gate.open.send(()).expect("it waits");
        first.join().expect("no panic").expect("written");
    });
    // Until the thread has taken one of them, the next is one too many again.
    let last = loop {
        match db.write_blocking(|tx| insert(tx, 512)) {
            Err(DbError::Busy { .. }) => std::thread::yield_now(),
            done => break done,
        }
    };
    assert_eq!(last.expect("written"), 512);
    assert_eq!(db.waiting(), (0, 0));
    assert_eq!(rows(&db), [513, (0..=512).sum()]);
}
