//! The control plane goes away and comes back; nodes keep their rules.

use std::fs;

use serde_json::{Value, json};
use tollgate_fleet_agent::{Marker, StateDir};
use tollgate_fleet_proto::Held;
use tollgate_harness::processes::*;

#[test]
fn nodes_keep_going_restart_with_saved_rules_and_reconnect() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let mut nodes = three(&control, folder.path());
    control.create_rule("shop", "push", 1);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    control.kill();
    for node in &nodes {
        let ready = node.wait_ready("away", |_, body| body["control"]["connected"] == false);
        assert_eq!(ready["ready"], true, "{ready}");
        assert!(ready["control"]["away_since"].is_string(), "{ready}");
        node.wait_denied("shop", "push");
    }
    // A node that restarts meanwhile has its saved rules at once, and is ready.
    let state = nodes[0].state.clone();
    drop(nodes.remove(0));
    let node = NodeProcess::start(&control, &state, &[]);
    assert_eq!(node.ready().0, 200);
    node.wait_denied("shop", "push");
    nodes.push(node);
    // A new one has nothing.
    let fresh = NodeProcess::start(&control, &folder.path().join("d"), &["--control-wait", "0"]);
    assert_eq!(fresh.ready().0, 503);
    nodes.push(fresh);

    control.start_again();
    control.create_rule("shop", "pull", 1);
    for node in &nodes {
        node.wait_ready("connected", |status, body| status == 200 && body["control"]["connected"] == true);
        node.wait_denied("shop", "pull");
    }
}

#[test]
fn torn_saved_rules_are_replaced_by_those_before_or_by_none_and_never_stop_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let state = folder.path().join("a");
    let node = NodeProcess::start(&control, &state, &[]);
    control.create_rule("shop", "push", 1);
    node.wait_denied("shop", "push");
    control.create_rule("shop", "pull", 1);
    node.wait_denied("shop", "pull");
    drop(node);
    control.kill();
    let whole = fs::read(state.join("rules")).expect("saved");
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(state.join("rules"), &whole[..cut]).expect("cut");
        let node = NodeProcess::start(&control, &state, &["--control-wait", "0"]);
        node.wait_denied("shop", "push");
        assert_eq!(node.check("shop", "pull"), "admit", "cut at {cut}: the version before");
    }
    for copy in ["rules", "rules.previous"] {
        fs::write(state.join(copy), b"x").expect("torn");
    }
    let node = NodeProcess::start(&control, &state, &["--control-wait", "0"]);
    assert_eq!(node.ready().0, 503);
    control.start_again();
    node.wait_denied("shop", "pull");
}

#[test]
fn after_a_kill_in_a_publication_clients_see_the_state_before_or_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    control.create_rule("shop", "first", 1);
    node.wait_denied("shop", "first");
    for round in 0..6_u64 {
        let key = format!("k{round}");
        // The process is killed at another moment of the publication each time.
        let pid = control.process.child.id();
        let killer = std::thread::spawn(move || {
            std::thread::park_timeout(std::time::Duration::from_micros(round * 700));
            let kill = format!("kill -KILL {pid}");
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status().expect("sh").success());
        });
        let answer = control.try_create_rule("shop", &key, 1);
        killer.join().expect("killed");
        control.process.child.wait().expect("ended");
        control.start_again();
        let (status, body) = control.get("/api/v1/apps/shop/rules?size=500");
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let rules = body["rules"].as_array().expect("rules");
        let is_there = rules.iter().any(|rule| rule["key"] == *key);
        if let Ok((201, _)) = answer {
            assert!(is_there, "round {round}: what was answered is kept");
        }
        // The client asks again: it is there, or it can be made. The nodes then have it in either case.
        let (status, said) = control.try_create_rule("shop", &key, 1).expect("an answer");
        assert_eq!(status == 201, !is_there, "round {round}: {status} {said}");
        node.wait_denied("shop", &key);
    }
    let mut verify = tollgate();
    verify.args(["control", "--data-dir"]).arg(folder.path().join("data")).args(["audit", "verify"]);
    let verified = verify.output().expect("it runs");
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_version_that_crashed_a_node_is_left_out_there_and_holds_up_no_other_app() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let state = folder.path().join("a");
    let node = NodeProcess::start(&control, &state, &[]);
    control.create_rule("books", "first", 1);
    node.wait_denied("books", "first");
    drop(node);
    control.create_rule("shop", "push", 1);
    // State of a node that crashes while it applies version 1 of the app.
    let crashing = Held { app: "shop".to_owned(), version: 1, sha256: vec![0; 32] };
    let marker = Marker { apps: vec![crashing], ..Marker::default() };
    StateDir::open(&state).and_then(|state| state.mark(&marker)).expect("written");
    let node = NodeProcess::start(&control, &state, &[]);
    node.wait_denied("books", "first");
    control.create_rule("books", "second", 1);
    node.wait_denied("books", "second");
    assert_eq!(node.check("shop", "push"), "admit", "version 1 is left out");
    wait("the console shows why", || {
        control.get("/nodes").1.contains("crashed while applying").then_some(())
    });
    control.create_rule("shop", "pull", 1);
    node.wait_denied("shop", "push");
}

#[test]
fn a_node_that_restarts_while_the_control_plane_is_away_still_enforces_blocks_that_have_not_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let state = folder.path().join("a");
    let node = NodeProcess::start(&control, &state, &[]);
    control.create_rule("shop", "push", 1_000_000);
    let block = |key: &str| {
        let body = json!({
            "domain": "shop", "entries": [format!("key={key}")], "action": "block", "minutes": 60,
            "reason": "test",
        });
        let fields = "Content-Type: application/json\r\n";
        let said = control.try_send("POST", "/api/v1/overrides", fields, &body.to_string());
        let (status, said) = said.expect("an answer");
        assert_eq!(status, 201, "{said}");
        serde_json::from_str::<Value>(&said).expect("JSON")["id"].as_str().expect("an id").to_owned()
    };
    let blocked = block("push");
    let ended = block("pull");
    node.wait_denied("shop", "push");
    node.wait_denied("shop", "pull");
    // Blocks are in force before they are saved, so a node that is killed in between starts without a file,
    // and without blocks.
    let file = state.join("overrides");
    let wait_saved = |what, [push, pull]: [bool; 2]| {
        wait(what, || {
            let saved = fs::read(&file).ok()?;
            let has = |key: &[u8]| saved.windows(key.len()).any(|part| part == key);
            (has(b"push") == push && has(b"pull") == pull).then_some(())
        });
    };
    wait_saved("both blocks are saved", [true, true]);
    let (status, said) =
        control.try_send("DELETE", &format!("/api/v1/overrides/{ended}"), "", "").expect("an answer");
    assert_eq!(status, 200, "{said}");
    wait("the block that was ended is gone", || (node.check("shop", "pull") != "deny").then_some(()));
    wait_saved("the end of the block is saved", [true, false]);
    control.kill();
    drop(node);
    let node = NodeProcess::start(&control, &state, &[]);
    assert_eq!(node.ready().1["control"]["connected"], false);
    assert_eq!((node.check("shop", "push"), node.check("shop", "pull")), ("deny", "admit"));
    drop(node);

    // Torn, it is the list before, which has both; with neither copy, none.
    let whole = fs::read(&file).expect("saved");
    fs::write(&file, &whole[..whole.len() - 1]).expect("torn");
    let node = NodeProcess::start(&control, &state, &[]);
    assert_eq!((node.check("shop", "push"), node.check("shop", "pull")), ("deny", "deny"));
    drop(node);
    fs::write(state.join("overrides.previous"), b"torn").expect("torn");
    let node = NodeProcess::start(&control, &state, &[]);
    assert_eq!(node.check("shop", "push"), "limited");

    // Back again, the control plane resends its blocks; this one ends when it is deleted.
    control.start_again();
    node.wait_denied("shop", "push");
    let (status, said) =
        control.try_send("DELETE", &format!("/api/v1/overrides/{blocked}"), "", "").expect("an answer");
    assert_eq!(status, 200, "{said}");
    wait("the block is ended", || (node.check("shop", "push") != "deny").then_some(()));
}
