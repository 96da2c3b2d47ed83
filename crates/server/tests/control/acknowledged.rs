//! Acknowledged changes are there after a kill, and their loss is noticed when the log is damaged.

use parking_lot::Mutex;
use serde_json::Value;
use tollgate_harness::processes::*;

/// The keys of the rules of `shop`.
fn keys(control: &ControlProcess) -> Vec<String> {
    let (status, body) = control.get("/api/v1/apps/shop/rules?size=500");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let rules = body["rules"].as_array().expect("rules");
    rules.iter().filter_map(|rule| rule["key"].as_str().map(str::to_owned)).collect()
}

#[test]
fn every_acknowledged_change_is_there_after_kills_in_a_stream_of_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut control = ControlProcess::start(&data);
    let acknowledged = Mutex::new(Vec::new());
    for round in 1..=3 {
        std::thread::scope(|scope| {
            for client in 0..3 {
                let control = &control;
                let acknowledged = &acknowledged;
                scope.spawn(move || {
                    for nth in 0.. {
                        let key = format!("round-{round}-client-{client}-{nth}");
                        match control.try_create_rule("shop", &key, 1) {
                            Ok((201, _)) => acknowledged.lock().push(key),
                            Ok(other) => panic!("{other:?}"),
                            Err(_) => return, // it is killed
                        }
                    }
                });
            }
            let enough = || (acknowledged.lock().len() >= 12 * round).then_some(());
            wait("some changes are acknowledged", enough);
            control.process.signal("KILL");
        });
        control.process.child.wait().expect("ended");
        control.start_again();
        let there = keys(&control);
        let acknowledged = acknowledged.lock();
        let missing: Vec<_> = acknowledged.iter().filter(|key| !there.contains(key)).collect();
        assert!(missing.is_empty(), "round {round}: {missing:?} of {}", acknowledged.len());
        // Those that were being made when it was killed: one of each client.
        assert!(there.len() <= acknowledged.len() + 3 * round, "{} rules", there.len());
        for what in ["verify", "compare"] {
            let (code, out, said) = audit(&data, what);
            assert_eq!(code, Some(0), "{what}: {out} {said}");
        }
    }
}

#[test]
fn a_damaged_log_is_found_at_the_start_and_by_verify_and_a_database_that_lost_all_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let [file, log, index] = ["control.db", "control.db-wal", "control.db-shm"].map(|name| data.join(name));
    let mut control = ControlProcess::start(&data);
    control.create_rule("shop", "kept", 1);
    control.kill();
    // All so far is in the file itself.
    let raw = rusqlite::Connection::open(&file).expect("opened");
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved");
    drop(raw);
    control.start_again();
    control.create_rule("shop", "lost", 1);
    control.kill();
    let bytes = std::fs::metadata(&log).expect("a log").len();
    assert!(bytes > 0);
    std::fs::write(&log, vec![0; usize::try_from(bytes).expect("small")]).expect("damaged");
    let _ = std::fs::remove_file(&index);
    for _ in 0..2 {
        let (code, out, said) = audit(&data, "verify");
        assert!(code == Some(1) && out.starts_with("cut: "), "{code:?} {out} {said}");
    }
    control.start_again();
    assert!(control.get("/api/v1/problems").1.contains("audit_cut"));
    assert_eq!(keys(&control), ["kept"]);
    let (code, out, said) = audit(&data, "accept");
    assert_eq!(code, Some(0), "{out} {said}");
    assert!(out.starts_with("accepted: "), "{out}");
    assert_eq!(audit(&data, "verify").0, Some(0));
    assert!(!control.get("/api/v1/problems").1.contains("audit_cut"));

    control.kill();
    for path in [&file, &log, &index] {
        let _ = std::fs::remove_file(path);
    }
    // As a log leaves it that is gone before its first changes are in the file.
    let raw = rusqlite::Connection::open(&file).expect("opened");
    raw.execute_batch("CREATE TABLE t (a); DROP TABLE t").expect("written");
    drop(raw);
    let ended = Process::try_start(ControlProcess::command(&data, control.address)).expect_err("damage");
    assert!(ended.contains("holds no entry of the audit") && !ended.contains("setup"), "{ended}");
}

fn audit(data: &std::path::Path, what: &str) -> (Option<i32>, String, String) {
    let mut command = tollgate();
    let ran =
        command.args(["control", "--data-dir"]).arg(data).args(["audit", what]).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}
