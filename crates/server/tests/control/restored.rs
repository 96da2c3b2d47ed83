//! The database of the control plane is restored from an old copy while nodes hold newer rules.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_harness::processes::*;

/// The database and its log, which belong together while no process has them open.
const FILES: [&str; 2] = ["control.db", "control.db-wal"];

/// Stops the control plane and puts the copy back.
fn restore(control: &mut ControlProcess, data: &Path, copy: &Path) {
    control.kill();
    let _ = std::fs::remove_file(data.join("control.db-shm"));
    for name in FILES {
        std::fs::copy(copy.join(name), data.join(name)).expect("restored");
    }
    control.start_again();
}

/// The apps that are frozen.
fn frozen(control: &ControlProcess) -> BTreeSet<String> {
    let (status, body) = control.get("/api/v1/problems");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let problems = body["problems"].as_array().expect("a list");
    let frozen = problems.iter().filter(|it| it["kind"] == "frozen_app");
    frozen.filter_map(|it| it["app"].as_str().map(str::to_owned)).collect()
}

#[test]
fn after_an_old_copy_is_restored_nodes_keep_their_rules_until_an_admin_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut control = ControlProcess::start(&data);
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "old", 1);
    for node in &nodes {
        node.wait_denied("shop", "old");
    }
    control.kill();
    let copy = tempfile::tempdir().expect("a folder");
    for name in FILES {
        std::fs::copy(data.join(name), copy.path().join(name)).expect("a copy");
    }
    control.start_again();
    control.create_rule("shop", "new", 1);
    control.create_rule("later", "made", 1);
    for node in &nodes {
        node.wait_denied("shop", "new");
        node.wait_denied("later", "made");
    }

    for decision in ["take-over", "force"] {
        restore(&mut control, &data, copy.path());
        wait("both apps are frozen", || {
            let frozen = frozen(&control);
            (frozen.contains("shop") && frozen.contains("later")).then_some(())
        });
        for node in &nodes {
            node.wait_denied("shop", "new");
            node.wait_denied("later", "made");
        }
        let (status, said) = control.try_create_rule("shop", "more", 1).expect("an answer");
        assert_eq!(status, 409, "{said}");
        assert!(said.contains("/problems/frozen"), "{said}");
        control.create_rule(&format!("other-{decision}"), "free", 1);
        nodes[0].wait_denied(&format!("other-{decision}"), "free");

        let listed = wait("all nodes are back", || {
            let (_, listed) = control.get("/api/v1/nodes");
            let listed: Value = serde_json::from_str(&listed).expect("JSON");
            (listed["nodes"].as_array().map(Vec::len) == Some(3)).then_some(listed)
        });
        let decide = |app: &str| {
            let node = &listed["nodes"][0]["id"];
            let body = match decision {
                "force" => json!({"reason": "the copy counts"}),
                _ => json!({"node": node, "reason": "the nodes count"}),
            };
            let path = format!("/api/v1/apps/{app}/{decision}");
            let json = "Content-Type: application/json\r\n";
            let (status, said) = control.try_send("POST", &path, json, &body.to_string()).expect("an answer");
            assert_eq!(status, 200, "{said}");
        };
        decide("shop");
        decide("later");
        control.create_rule("shop", "after", 1);
        for node in &nodes {
            node.wait_denied("shop", "after");
            node.wait_denied("shop", "old");
            let kept =
                || [("shop", "new"), ("later", "made")].map(|(app, key)| node.check(app, key) != "admit");
            match decision {
                "force" => wait("what the copy lacks is gone", || (kept() == [false; 2]).then_some(())),
                _ => assert_eq!(kept(), [true; 2]),
            }
        }
        wait("neither is frozen", || {
            let frozen = frozen(&control);
            (!frozen.contains("shop") && !frozen.contains("later")).then_some(())
        });
    }
}

/// Rules whose change was rejected, and those that were made.
fn try_two(control: &ControlProcess, app: &str) -> Vec<u16> {
    let made = |key| control.try_create_rule(app, key, 1).expect("an answer").0;
    vec![made("first"), made("second")]
}

#[test]
fn changes_at_once_after_a_restore_wait_for_the_nodes_and_replace_none_of_their_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut control = ControlProcess::start(&data);
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "old", 1);
    for node in &nodes {
        node.wait_denied("shop", "old");
    }
    // The copy knows the nodes by their reports.
    wait("the nodes have reported", || (reported(&data) == 3).then_some(()));
    control.kill();
    let copy = tempfile::tempdir().expect("a folder");
    for name in FILES {
        std::fs::copy(data.join(name), copy.path().join(name)).expect("a copy");
    }
    control.start_again();
    control.create_rule("shop", "important", 1);
    for node in &nodes {
        node.wait_denied("shop", "important");
    }
    restore(&mut control, &data, copy.path());
    assert_eq!(try_two(&control, "shop"), [409, 409]);
    for node in &nodes {
        node.wait_denied("shop", "important");
    }
    let problems = control.get("/api/v1/problems").1;
    assert!(problems.contains("audit_cut"), "{problems}");
    // An ordinary restart holds nothing up.
    control.kill();
    control.start_again();
    assert_eq!(try_two(&control, "bank"), [201, 201]);
}

fn reported(data: &Path) -> i64 {
    let file = rusqlite::Connection::open(data.join("control.db")).expect("opened");
    file.query_row("SELECT COUNT(DISTINCT node) FROM reported", [], |row| row.get(0)).expect("counted")
}

#[test]
fn a_new_database_takes_no_app_off_the_nodes_and_an_empty_or_missing_one_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut control = ControlProcess::start(&data);
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    control.create_rule("shop", "kept", 1);
    node.wait_denied("shop", "kept");
    control.kill();
    for name in ["control.db", "control.db-wal", "control.db-shm"] {
        let _ = std::fs::remove_file(data.join(name));
    }
    std::fs::write(data.join("control.db"), "").expect("written");
    let ended = Process::try_start(ControlProcess::command(&data, control.address)).expect_err("damage");
    assert!(ended.contains("control.db is empty") && !ended.contains("setup"), "{ended}");
    std::fs::remove_file(data.join("control.db")).expect("removed");
    let ended = Process::try_start(ControlProcess::command(&data, control.address)).expect_err("damage");
    assert!(ended.contains("control.db is missing") && !ended.contains("setup"), "{ended}");
    // An administrator says that a new one is to be made.
    std::fs::remove_file(data.join("audit-head")).expect("removed");
    let address = control.address;
    let control = ControlProcess::started(ControlProcess::command(&data, address), &data, address);
    control.create_rule("fresh", "new", 1);
    node.wait_denied("fresh", "new");
    node.wait_denied("shop", "kept");
    wait("the app of the lost database is frozen", || frozen(&control).contains("shop").then_some(()));
    assert_eq!(try_two(&control, "shop"), [409, 409]);
    let json = "Content-Type: application/json\r\n";
    let body = json!({"reason": "the new database counts"}).to_string();
    let (status, said) = control.try_send("POST", "/api/v1/apps/shop/force", json, &body).expect("an answer");
    assert_eq!(status, 200, "{said}");
    wait("the rules of before are gone", || (node.check("shop", "kept") == "admit").then_some(()));
    control.create_rule("shop", "after", 1);
    node.wait_denied("shop", "after");
}
