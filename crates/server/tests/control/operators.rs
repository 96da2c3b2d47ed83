//! Operations on keys, on real nodes: block, allow, look up and reset.

use serde_json::{Value, json};
use tollgate_harness::processes::*;
use tollgate_testkit::redis::{Options, Redis};

fn wait_admitted(node: &NodeProcess, domain: &str, key: &str) {
    wait(&format!("{domain}/{key} is admitted"), || (node.check(domain, key) != "deny").then_some(()));
}

#[test]
fn a_block_reaches_every_node_and_ends_also_on_nodes_that_were_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "push", 1_000_000);
    let blocked = control.make_override("block", "shop", &["key=push"]);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    // A node that comes later gets it too.
    let late = NodeProcess::start(&control, &folder.path().join("late"), &[]);
    late.wait_denied("shop", "push");
    control.end_override(&blocked);
    for node in nodes.iter().chain([&late]) {
        wait_admitted(node, "shop", "push");
    }
    // An allowance goes before the rule.
    control.create_rule("shop", "pull", 1);
    nodes[0].wait_denied("shop", "pull");
    let allowed = control.make_override("allow", "shop", &["key=pull"]);
    wait_admitted(&nodes[0], "shop", "pull");
    control.end_override(&allowed);
    nodes[0].wait_denied("shop", "pull");

    // It is ended while a node is away, and the control plane restarts before the node is back.
    let blocked = control.make_override("block", "shop", &["key=push"]);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    nodes[2].process.signal("STOP");
    control.end_override(&blocked);
    control.kill();
    control.start_again();
    nodes[2].process.signal("CONT");
    for node in &nodes {
        wait_admitted(node, "shop", "push");
    }
}

#[test]
fn a_key_is_looked_up_and_reset_on_every_node_that_counts_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "push", 5);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    let path = "/api/v1/keys?domain=shop&entry=key%3Dpush";
    let (status, known) = control.json("GET", path, &Value::Null);
    assert_eq!((status, &known["local"], &known["live_nodes"]), (200, &json!(true), &json!(3)), "{known}");
    let answers = known["nodes"].as_array().expect("nodes");
    assert!(answers.len() == 3 && answers.iter().all(|it| it["limits"][0]["max"] == 5), "{known}");
    let (status, reset) = control.json("DELETE", path, &Value::Null);
    assert_eq!(status, 200, "{reset}");
    for node in &nodes {
        assert_eq!(node.check("shop", "push"), "limited", "full again");
    }
    let (_, live) = control.json("GET", "/api/v1/apps/shop/live?key=push", &Value::Null);
    let tokens = live["keys"][0]["tokens"].as_i64().expect("a number");
    assert!((4..=5).contains(&tokens), "{live}");
    // A node that does not answer is named, and the others answer.
    nodes[0].process.signal("STOP");
    let (_, known) = control.json("GET", path, &Value::Null);
    let answers = known["nodes"].as_array().expect("nodes");
    let silent = |it: &&Value| it["error"].as_str().is_some_and(|error| error.contains("no reply"));
    assert_eq!(answers.iter().filter(silent).count(), 1, "{known}");
    assert_eq!(answers.len(), 3, "{known}");
    nodes[0].process.signal("CONT");
}

#[test]
fn a_key_in_a_shared_store_is_reset_once_for_all_nodes() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let url = redis.url();
    let flags = ["--store", &*url, "--store-deadline", "1s"];
    let nodes = ["a", "b"].map(|name| NodeProcess::start(&control, &folder.path().join(name), &flags));
    control.create_rule("shop", "push", 3);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    let path = "/api/v1/keys?domain=shop&entry=key%3Dpush";
    let (status, known) = control.json("GET", path, &Value::Null);
    assert_eq!((status, &known["local"]), (200, &json!(false)), "{known}");
    assert_eq!(known["nodes"].as_array().map(Vec::len), Some(1), "one answers for all: {known}");
    let (status, said) = control.json("DELETE", path, &Value::Null);
    assert_eq!(status, 200, "{said}");
    assert_eq!(nodes[0].check("shop", "push"), "limited");
    assert_eq!(nodes[1].check("shop", "push"), "limited");
}

#[test]
fn keys_are_listed_by_a_node_with_redis_and_a_node_with_memory_says_why_not() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let path = "/api/v1/keys/scan?domain=shop";
    let (status, found) = control.json("GET", path, &Value::Null);
    assert_eq!((status, &found["live_nodes"], &found["keys"]), (200, &json!(0), &json!([])), "{found}");
    let url = redis.url();
    let flags = ["--store", &*url, "--store-deadline", "1s"];
    let node = NodeProcess::start(&control, &folder.path().join("a"), &flags);
    control.create_rule("shop", "push", 3);
    control.create_rule("shop", "pull", 3);
    control.create_rule("shop2", "push", 3);
    for (domain, key) in [("shop", "push"), ("shop", "pull"), ("shop2", "push")] {
        node.wait_denied(domain, key);
    }
    let (status, found) = control.json("GET", path, &Value::Null);
    assert_eq!((status, &found["next"], &found["none"]), (200, &Value::Null, &Value::Null), "{found}");
    let mut entries: Vec<_> =
        found["keys"].as_array().expect("keys").iter().map(|it| &it["entries"]).collect();
    entries.sort_by_key(ToString::to_string);
    assert_eq!(entries, [&json!(["key=pull"]), &json!(["key=push"])], "{found}");
    let (_, found) = control.json("GET", &format!("{path}&entry=key%3Dpull"), &Value::Null);
    assert_eq!(found["keys"].as_array().map(Vec::len), Some(1), "{found}");
    let (status, said) = control.json("GET", &format!("{path}&cursor=1%40elsewhere%3A1"), &Value::Null);
    assert_eq!((status, &said["errors"][0]["pointer"]), (422, &json!("/cursor")), "{said}");
    let (status, said) = control.json("GET", "/api/v1/keys/scan", &Value::Null);
    assert_eq!((status, &said["errors"][0]["pointer"]), (422, &json!("/domain")), "{said}");
    // The page links each key to its look-up.
    let (status, page) = control.get("/keys/scan?domain=shop");
    assert_eq!(status, 200);
    let link = "/keys?domain=shop&#38;entries=key%3Dpull";
    assert!(page.contains(link), "{page}");
    // With the store away there is no list, and the reply says why.
    redis.stop();
    let (status, said) = control.json("GET", path, &Value::Null);
    assert_eq!((status, &said["type"]), (502, &json!("/problems/unanswered")), "{said}");
    redis.resume();
    drop(node);

    let control = ControlProcess::start(&folder.path().join("data2"));
    let node = NodeProcess::start(&control, &folder.path().join("b"), &[]);
    control.create_rule("shop", "push", 3);
    node.wait_denied("shop", "push");
    let (status, found) = control.json("GET", path, &Value::Null);
    let none = found["none"].as_str().unwrap_or_default();
    assert!(status == 200 && none.contains("only a Redis store can"), "{found}");
}
