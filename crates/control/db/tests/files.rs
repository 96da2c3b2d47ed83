//! Files of a database that are deleted, renamed, replaced, cut or overwritten while it is open.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_db::{Db, DbError, Head, Migration, Options, TimeSource, Witness};

const TABLE: &str = "CREATE TABLE grows (seq BIGINT PRIMARY KEY, hash TEXT NOT NULL, body TEXT NOT NULL)";
const MIGRATIONS: [Migration; 1] = [Migration { number: 1, name: "grows", sql: TABLE }];
const WITNESS: Witness = Witness {
    last: "SELECT seq, hash FROM grows ORDER BY seq DESC LIMIT 1",
    has: "SELECT 1 FROM grows WHERE seq = ?1 AND hash = ?2",
};

struct Opened {
    db: Db,
    path: PathBuf,
    heads: Arc<Mutex<Vec<Head>>>,
    _folder: tempfile::TempDir,
}

fn opened() -> Opened {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control.db");
    let heads = Arc::<Mutex<Vec<Head>>>::default();
    let told = Arc::clone(&heads);
    let on_head: Box<dyn Fn(&Head) + Send> = Box::new(move |head| told.lock().push(head.clone()));
    let options = Options { witness: Some(WITNESS), on_head: Some(on_head), ..Options::default() };
    let db = Db::open_with(&path, &MIGRATIONS, TimeSource::Database, options).expect("opened");
    Opened { db, path, heads, _folder: folder }
}

impl Opened {
    fn write(&self, seq: i64) -> Result<(), DbError> {
        let values = [seq.into(), format!("digest {seq}").into(), "x".repeat(2_000).into()];
        self.db
            .write_blocking(move |tx| tx.execute("INSERT INTO grows VALUES ($1, $2, $3)", &values).map(drop))
    }

    fn of(&self, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", self.path.display()))
    }
}

fn copy_all(from: &Path, to: &Path) {
    let connection = rusqlite::Connection::open(from).expect("opened");
    connection.execute("VACUUM INTO ?1", [to.display().to_string()]).expect("a copy");
}

#[test]
fn nothing_is_written_once_a_file_is_not_the_one_that_is_open_and_everything_once_it_is_back() {
    for suffix in ["", "-wal", "-shm"] {
        let opened = opened();
        (1..=20).for_each(|seq| opened.write(seq).expect("written"));
        let file = opened.of(suffix);
        let aside = opened.of("-aside");
        fs::rename(&file, &aside).expect("renamed");
        let gone = opened.write(21).expect_err("renamed away");
        assert!(matches!(&gone, DbError::Gone { what: "was deleted or renamed", .. }), "{suffix}: {gone}");
        assert!(opened.db.check_files().is_err());
        fs::copy(&aside, &file).expect("another file at its path");
        let gone = opened.write(21).expect_err("replaced");
        assert!(matches!(&gone, DbError::Gone { what: "was replaced", .. }), "{suffix}: {gone}");
        fs::rename(&aside, &file).expect("put back");
        opened.write(21).expect("written again");
        assert!(opened.db.check_files().is_ok());
        fs::remove_file(&file).expect("deleted");
        assert!(opened.write(22).is_err(), "{suffix}: deleted");
        let heads: Vec<i64> = opened.heads.lock().iter().map(|head| head.0).collect();
        assert_eq!(heads, (1..=21).collect::<Vec<_>>(), "the heads of what was acknowledged");
    }
}

#[test]
fn a_file_that_is_cut_or_overwritten_in_place_takes_no_more_changes() {
    for (what, harm) in [
        ("the database is empty", (|it: &Opened| cut(&it.path, 0)) as fn(&Opened)),
        ("the database is cut", |it| cut(&it.path, 8_192)),
        ("the log is empty", |it| cut(&it.of("-wal"), 0)),
        ("the log is cut", |it| cut(&it.of("-wal"), 30_000)),
        ("an old copy", |it| fs::write(&it.path, fs::read(it.of("-copy")).expect("read")).expect("written")),
        ("zeros", |it| fs::write(&it.path, vec![0; 400_000]).expect("written")),
    ] {
        let opened = opened();
        (1..=10).for_each(|seq| opened.write(seq).expect("written"));
        copy_all(&opened.path, &opened.of("-copy"));
        (11..=60).for_each(|seq| opened.write(seq).expect("written"));
        // Half of it is in the file, and half of it in the log.
        checkpoint(&opened.path, "PASSIVE");
        (61..=120).for_each(|seq| opened.write(seq).expect("written"));
        if what == "an old copy" {
            checkpoint(&opened.path, "PASSIVE"); // nothing in the log makes up for it
        }
        harm(&opened);
        let refused = opened.write(121).expect_err(what);
        assert!(matches!(refused, DbError::Gone { .. }), "{what}: {refused}");
    }
}

#[test]
fn what_other_processes_may_do_is_no_harm() {
    let opened = opened();
    for seq in 1..=100 {
        opened.write(seq).expect("written");
        match seq % 4 {
            0 => checkpoint(&opened.path, "PASSIVE"),
            1 => checkpoint(&opened.path, "TRUNCATE"),
            2 => drop(rusqlite::Connection::open(&opened.path).expect("opened")),
            _ => {
                let other = rusqlite::Connection::open(&opened.path).expect("opened");
                let row = (seq * 1_000, "of another process", "");
                other.execute("INSERT INTO grows VALUES (?1, ?2, ?3)", row).expect("written");
                other.execute("DELETE FROM grows WHERE seq = ?1", [seq * 1_000]).expect("removed");
            }
        }
    }
    let other = rusqlite::Connection::open(&opened.path).expect("opened");
    other.execute("DELETE FROM grows WHERE seq < 90", ()).expect("removed");
    other.execute("VACUUM", ()).expect("made smaller");
    checkpoint(&opened.path, "TRUNCATE");
    opened.write(101).expect("written");
}

fn cut(path: &Path, bytes: u64) {
    File::options().write(true).open(path).expect("opened").set_len(bytes).expect("cut");
}

fn checkpoint(path: &Path, mode: &str) {
    let connection = rusqlite::Connection::open(path).expect("opened");
    let run = format!("PRAGMA wal_checkpoint({mode})");
    connection.query_row(&run, [], |_| Ok(())).expect("a checkpoint");
}
