//! The database of the control plane is restored from an old copy while nodes hold newer rules.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::processes::*;

/// The database and its log, which belong together while no process has them open.
const FILES: [&str; 2] = ["control.db", "control.db-wal"];

/// Stops the control plane and puts back what was copied.
fn restore(control: &mut Control, data: &Path, copy: &Path) {
    control.kill();
    let _ = std::fs::remove_file(data.join("control.db-shm"));
    for name in FILES {
        std::fs::copy(copy.join(name), data.join(name)).expect("restored");
    }
    control.start_again();
}

/// The apps that are frozen.
fn frozen(control: &Control) -> BTreeSet<String> {
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
    let mut control = Control::start(&data);
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
