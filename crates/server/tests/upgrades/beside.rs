//! The binary of the previous release beside this one: on one Redis, and as control plane and nodes. The way
//! back needs the older one to read the newer one's data.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tollgate_harness::processes::{ControlProcess, NodeProcess, Process, free_port, send, tollgate, wait};
use tollgate_testkit::redis::{Memcached, Options, Redis};

use crate::counters::TAKEN;

/// The binary of the release before.
const PREDECESSOR: &str = "TOLLGATE_PREDECESSOR_BIN";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Before,
    This,
}

/// The binary of the release before, if this machine has one.
fn predecessor(what: &str) -> Option<PathBuf> {
    let binary = std::env::var_os(PREDECESSOR).filter(|binary| !binary.is_empty());
    if binary.is_none() {
        println!("SKIPPED {what}: {PREDECESSOR} names no binary of the release before");
    }
    binary.map(PathBuf::from)
}

/// `command` by the binary of the other release.
fn by(release: Release, command: Command) -> Command {
    let Release::Before = release else { return command };
    let binary = std::env::var_os(PREDECESSOR).expect("it was there a moment ago");
    let mut other = Command::new(binary);
    other.env_clear().stdin(Stdio::null()).args(command.get_args());
    other
}

/// A node that counts in `store`.
fn node(release: Release, store: &str, rules: &Path) -> NodeProcess {
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--drain-delay", "0", "--store", store, "--store-deadline", "10s"]);
    command.arg("--rules").arg(rules);
    NodeProcess { process: Process::start(by(release, command)), state: PathBuf::new() }
}

fn get(node: &NodeProcess, path: &str) -> Value {
    let (_, body) = node.get(path);
    serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"))
}

/// A descriptor as a query.
fn query(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let entry = |(key, value): &(&str, &str)| format!("&entry={key}={}", encoded(value));
    format!("domain=kept{}", pairs.iter().map(entry).collect::<String>())
}

/// Remaining permits of each limit of a descriptor.
fn left(node: &NodeProcess, pairs: &[(&str, &str)]) -> Vec<u64> {
    let said = get(node, &format!("/v1/keys?{}", query(pairs)));
    let counters = said["counters"].as_array().unwrap_or_else(|| panic!("{pairs:?}: {said}"));
    counters
        .iter()
        .map(|counter| {
            assert_eq!(
                (&counter["is_tracked"], &counter["degraded"]),
                (&true.into(), &Value::Null),
                "{said}"
            );
            counter["remaining"].as_u64().expect("a number")
        })
        .collect()
}

#[test]
fn nodes_of_both_releases_count_on_the_same_counters_in_redis() {
    if predecessor("nodes of two releases on one Redis").is_none() {
        return;
    }
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let rules = include_str!("rules/kept.yaml");
    // So slow that nothing is refilled meanwhile.
    let slow = ["minute", "second", "hour", "day"].iter().fold(rules.to_owned(), |text, unit| {
        text.replace(&format!("unit: {unit},"), "unit: year,")
            .replace(&format!("unit: {unit}\n"), "unit: year\n")
    });
    let slow = slow.replace("60/minute", "60/year");
    let file = folder.path().join("kept.yaml");
    std::fs::write(&file, slow).expect("written");
    let nodes =
        [Release::Before, Release::This, Release::Before].map(|release| node(release, &redis.url(), &file));
    for (pairs, hits) in TAKEN.iter().filter(|(pairs, _)| !pairs[0].0.starts_with("leased")) {
        let mut taken = Vec::new();
        // Each node takes in turn, and both read the same.
        for (turn, hits) in hits.iter().enumerate() {
            let said = get(&nodes[turn % 2], &format!("/v1/check?{}&hits={hits}", query(pairs)));
            assert_eq!(
                (&said["outcome"], &said["degraded"]),
                (&"admit".into(), &Value::Null),
                "{pairs:?}: {said}"
            );
            let left = [&nodes[0], &nodes[1]].map(|node| left(node, pairs));
            assert_eq!(left[0], left[1], "{pairs:?} after {hits}");
            taken.push(left[0].clone());
        }
        assert!(!taken.is_empty());
    }
    // Leases of both: together they never admit more than the limit, and no node is left without.
    for pairs in [[("leased", "ann")], [("leased_window", "ann")]] {
        let mut admitted = [0; 2];
        let mut denied = 0;
        while denied < 20 {
            for (node, admitted) in nodes.iter().zip(&mut admitted) {
                let said = get(node, &format!("/v1/check?{}&hits=50", query(&pairs)));
                assert_eq!(said["degraded"], Value::Null, "{said}");
                match said["outcome"] == "admit" {
                    true => *admitted += 50,
                    false => denied += 1,
                }
            }
        }
        assert!(admitted.iter().sum::<u32>() <= 6_000, "{pairs:?}: {admitted:?}");
        assert!(admitted.iter().all(|admitted| *admitted > 1_000), "{pairs:?}: {admitted:?}");
    }
    // A node that restarts as the other release continues with the counts: forth and back.
    let before = left(&nodes[0], &[("bucket", "ann")]);
    drop(nodes);
    for release in [Release::This, Release::Before] {
        assert_eq!(left(&node(release, &redis.url(), &file), &[("bucket", "ann")]), before, "{release:?}");
    }
}

#[test]
fn nodes_of_both_releases_count_on_the_same_counters_in_memcached() {
    if predecessor("nodes of two releases on one memcached").is_none() {
        return;
    }
    let Some(memcached) = Memcached::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kept.yaml");
    let rules = "domain: kept\ndescriptors:\n  - {key: fixed, rate_limit: {rate: 100/year}}\n  \
                 - {key: two, rate_limit: {rate: 100/year, algorithm: sliding_window_counter}}\n";
    std::fs::write(&file, rules).expect("written");
    let store = format!("memcache://{}", memcached.address());
    let nodes = [Release::Before, Release::This].map(|release| node(release, &store, &file));
    for key in ["fixed", "two"] {
        for turn in 1..=6 {
            let said = get(&nodes[turn % 2], &format!("/v1/check?{}&hits=15", query(&[(key, "ann")])));
            assert_eq!(
                (&said["outcome"], &said["degraded"]),
                (&"admit".into(), &Value::Null),
                "{key}: {said}"
            );
            for node in &nodes {
                assert_eq!(left(node, &[(key, "ann")]), [100 - 15 * turn as u64], "{key}");
            }
        }
    }
}

/// A node of a control plane.
fn attached(release: Release, control: &ControlProcess, state: &Path) -> NodeProcess {
    let command = NodeProcess::command(control, state, &["--control-wait", "60s"]);
    NodeProcess { process: Process::start(by(release, command)), state: state.to_owned() }
}

#[test]
fn control_planes_serve_nodes_of_the_other_release_and_nodes_go_forth_and_back() {
    if predecessor("a control plane and nodes of two releases").is_none() {
        return;
    }
    for of_control in [Release::Before, Release::This] {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let command = by(of_control, ControlProcess::command(&data, address));
        let control = ControlProcess::started(command, &data, address);
        control.create_rule("shop", "a", 1);
        let states = ["one", "two"].map(|name| folder.path().join(name));
        let [one, two] = [(Release::Before, &states[0]), (Release::This, &states[1])]
            .map(|(release, state)| attached(release, &control, state));
        for node in [&one, &two] {
            node.wait_denied("shop", "a");
        }
        control.create_rule("shop", "b", 1);
        for node in [&one, &two] {
            node.wait_denied("shop", "b");
        }
        let ids = || {
            let (status, said) = control.get("/api/v1/nodes");
            assert_eq!(status, 200, "{said}");
            let said: Value = serde_json::from_str(&said).expect("JSON");
            let mut ids: Vec<_> =
                said["nodes"].as_array().expect("nodes").iter().map(|it| it["id"].to_string()).collect();
            ids.sort();
            ids
        };
        let before = ids();
        assert_eq!(before.len(), 2);
        // Each restarts as the other release, with its state folder, and goes back.
        drop([one, two]);
        for releases in [[Release::This, Release::Before], [Release::Before, Release::This]] {
            let nodes = [0, 1].map(|at| attached(releases[at], &control, &states[at]));
            for node in &nodes {
                node.wait_denied("shop", "b");
            }
            assert_eq!(ids(), before, "they are the same nodes");
        }
    }
}

#[test]
fn a_control_plane_is_upgraded_in_place_and_the_older_one_opens_the_newer_database_or_says_why_not() {
    if predecessor("a control plane of two releases").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let command = |release| by(release, ControlProcess::command(folder.path(), address));
    let control = ControlProcess::started(command(Release::Before), folder.path(), address);
    control.create_rule("shop", "a", 1);
    let cookie = control.cookie.clone();
    drop(control);
    let rules = |said: &str| {
        let (status, _, body) =
            send(address, "GET", "/api/v1/rules", &format!("Cookie: tollgate={cookie}\r\n"), "").expect(said);
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        body["rules"][0]["key"].clone()
    };
    let newer = wait("the port is free again", || Process::try_start(command(Release::This)).ok());
    assert_eq!(rules("the newer one"), "a");
    drop(newer);
    let older = wait("the port is free again", || match Process::try_start(command(Release::Before)) {
        Err(said) if said.contains("in use") => None,
        other => Some(other),
    });
    match older {
        Ok(_older) => assert_eq!(rules("the older one"), "a"),
        Err(said) => assert!(said.contains("newer"), "{said}"),
    }
}
