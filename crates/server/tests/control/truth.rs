//! Displays of nodes are true: of idle ones, of those that are down, over restarts, and in printed commands.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use tollgate_harness::processes::*;
use tollgate_testkit::redis::{Options, Redis};

fn nodes(control: &ControlProcess) -> Vec<Value> {
    let shown: Value = serde_json::from_str(&control.get("/api/v1/nodes").1).expect("JSON");
    shown["nodes"].as_array().expect("nodes").clone()
}

fn state_of(control: &ControlProcess, name: &str) -> Option<String> {
    let node = nodes(control).into_iter().find(|it| it["name"] == name)?;
    node["state"].as_str().map(str::to_owned)
}

fn has_problem(control: &ControlProcess, kind: &str) -> bool {
    control.get("/api/v1/problems").1.contains(&format!("\"{kind}\""))
}

#[test]
fn idle_nodes_report_that_their_store_is_down_and_that_it_is_back() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let url = redis.url();
    let flags = ["--node-name", "idle", "--store", &*url, "--store-deadline", "1s"];
    let _node = NodeProcess::start(&control, &folder.path().join("a"), &flags);
    wait("the node reports", || (state_of(&control, "idle")? == "live").then_some(()));
    assert!(!has_problem(&control, "store_down"));
    redis.stop();
    wait("the store is down, though nobody asks", || has_problem(&control, "store_down").then_some(()));
    redis.resume();
    wait("the store is back, though nobody asks", || (!has_problem(&control, "store_down")).then_some(()));
}

#[test]
fn a_node_that_is_down_stays_known_over_a_restart_until_it_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let mut nodes = three(&control, folder.path());
    control.create_rule("shop", "push", 3);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    let rules = |control: &ControlProcess| control.get("/rules").1;
    wait("all have it", || rules(&control).contains("live on 3 of 3 nodes").then_some(()));
    // A node that never reported leaves nothing behind.
    wait("all have reported", || self::nodes(&control).iter().all(|it| it["new"] == false).then_some(()));
    drop(nodes.remove(1)); // killed
    let offline = "live on 2 of 3 nodes, 1 offline";
    wait("the list says so", || rules(&control).contains(offline).then_some(()));
    assert!(control.get("/rules?saved=shop&version=1").1.contains(offline));
    control.kill();
    control.start_again();
    wait("the others are back", || rules(&control).contains(offline).then_some(()));
    let down = state_of(&control, "b").expect("it is known");
    assert!(["unresponsive", "lost"].contains(&&*down), "{down}");
    let known = self::nodes(&control);
    let id = |name: &str| {
        let node = known.iter().find(|it| it["name"] == name).expect("a node");
        node["id"].as_str().expect("text").to_owned()
    };
    let remove = |name: &str| control.try_send("DELETE", &format!("/api/v1/nodes/{}", id(name)), "", "");
    assert_eq!(remove("a").expect("an answer").0, 409, "it is live");
    assert_eq!(remove("b").expect("an answer").0, 200);
    wait("it is gone", || rules(&control).contains("live on 2 of 2 nodes").then_some(()));
    assert!(control.get("/api/v1/audit").1.contains("node.remove"));
    control.kill();
    control.start_again();
    wait("it stays gone", || rules(&control).contains("live on 2 of 2 nodes").then_some(()));
}

/// The texts of a page between its tags, without those of scripts.
fn texts(page: &str) -> impl Iterator<Item = String> {
    let texts = page.split('>').filter_map(|part| part.split_once('<').map(|it| it.0.trim()));
    let unescaped = |text: &str| text.replace("&#39;", "'").replace("&#x27;", "'").replace("&amp;", "&");
    texts.filter(|text| !text.is_empty()).map(unescaped)
}

/// The pages of the same site that a page leads to, without those that differ in the query only.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let links = page.split("href=\"").skip(1).filter_map(|part| part.split(['"', '?', '#']).next());
    links.filter(|it| it.starts_with('/') && !it.starts_with("/assets/") && !it.starts_with("/api/"))
}

/// The program's name and a word after it, which is not the number of a version.
fn is_command(text: &str) -> bool {
    let rest = text.split("tollgate ").skip(1);
    rest.into_iter().any(|rest| rest.starts_with(|it: char| it.is_ascii_lowercase()))
}

/// Everything that pages print as a command, by what leads to what, in both languages.
fn commands(control: &ControlProcess) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for lang in ["en", "zh-CN"] {
        let mut seen = BTreeSet::new();
        // Includes a missing page, and a rejected form.
        let mut open: Vec<String> = ["/", "/no-such-page", "/rules/new"].map(str::to_owned).into();
        while let Some(path) = open.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            assert!(seen.len() < 500, "pages without end: {seen:?}");
            let language = format!("Accept-Language: {lang}\r\n");
            let (_, page) = control.try_send("GET", &path, &language, "").expect("a page");
            open.extend(links(&page).map(str::to_owned));
            for text in texts(&page).filter(|it| is_command(it)) {
                found.entry(text).or_default().insert(path.clone());
            }
        }
        assert!(seen.len() > 25, "the pages lead to each other: {seen:?}");
    }
    found
}

#[test]
fn every_command_that_any_page_prints_joins_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    // A folder with a blank and a quote, as people have them.
    let control = ControlProcess::start(&folder.path().join("ann's data"));
    control.create_rule("shop", "push", 3);
    let found = commands(&control);
    for path in ["/", "/nodes"] {
        assert!(found.values().any(|pages| pages.contains(path)), "{path} prints one: {found:?}");
    }
    for (at, (line, pages)) in found.into_iter().enumerate() {
        let name = format!("node-{at}");
        let state = folder.path().join(&name);
        let rest = "--grpc off --resp off --http 127.0.0.1:0 --workers 1 --drain-delay 0";
        let program =
            line.strip_prefix("tollgate").unwrap_or_else(|| panic!("a whole line: {line} {pages:?}"));
        let line = format!(
            "exec {}{program} {rest} --node-name {name} --state-dir '{}'",
            env!("CARGO_BIN_EXE_tollgate"),
            state.display()
        );
        let mut shell = Command::new("sh");
        // Elsewhere than the control plane.
        shell.current_dir("/").env_clear().args(["-c", &line]);
        let _node = Process::start(shell);
        wait("it has joined", || (state_of(&control, &name)? == "live").then_some(()));
    }
}
