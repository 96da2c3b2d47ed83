//! Rollouts with three real nodes: the nodes with the candidate, the reasons of withdrawal, and a control
//! plane that is killed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};
use tollgate_harness::processes::*;
use tollgate_testkit::redis::{Options, Redis};

/// The body of the answer, which must have this status.
fn call(
    control: &ControlProcess,
    method: &str,
    path: &str,
    etag: Option<&str>,
    body: &Value,
    want: u16,
) -> Value {
    let mut fields = "Content-Type: application/json\r\n".to_owned();
    if let Some(etag) = etag {
        fields = format!("{fields}If-Match: {etag}\r\n");
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, said) = control.try_send(method, path, &fields, &body).expect("an answer");
    assert_eq!(status, want, "{method} {path}: {said}");
    serde_json::from_str(&said).unwrap_or(Value::Null)
}

/// The etag of the object at a path.
fn etag(control: &ControlProcess, path: &str) -> String {
    let fields = format!("Cookie: tollgate={}\r\n", control.cookie);
    let (_, head, _) = send(control.address, "GET", path, &fields, "").expect("an answer");
    let etag =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("etag: ").map(str::to_owned));
    etag.unwrap_or_else(|| panic!("an etag in {head}"))
}

fn plan(control: &ControlProcess, steps: &[&str], soak_s: u32) {
    let path = "/api/v1/apps/shop";
    let body = json!({"rollout": {"steps": steps, "soak_s": soak_s}});
    call(control, "PUT", path, Some(&etag(control, path)), &body, 200);
}

const ROLLOUT: &str = "/api/v1/apps/shop/rollout";

fn rollout(control: &ControlProcess) -> Value {
    serde_json::from_str(&control.get(ROLLOUT).1).expect("JSON")
}

fn ask(control: &ControlProcess, what: &str, body: &Value) -> Value {
    // The program itself may have moved the rollout on since the etag was read.
    wait("the etag is the current one", || {
        let fields = format!("Content-Type: application/json\r\nIf-Match: {}\r\n", etag(control, ROLLOUT));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let sent = control.try_send("POST", &format!("{ROLLOUT}/{what}"), &fields, &body);
        let (status, said) = sent.expect("an answer");
        assert!([200, 412].contains(&status), "{what}: {said}");
        (status == 200).then(|| serde_json::from_str(&said).expect("JSON"))
    })
}

fn wait_state(control: &ControlProcess, state: &str) -> Value {
    wait(&format!("the rollout is {state}"), || {
        let now = rollout(control);
        (now["state"] == state).then_some(now)
    })
}

/// The nodes on which a rule of this key is in force.
fn with<'n>(nodes: &'n [NodeProcess], key: &str) -> Vec<&'n Path> {
    nodes.iter().filter(|node| node.check("shop", key) == "limited").map(|node| &*node.state).collect()
}

/// Three nodes on which version 1 of the app is in force: 1,000,000 requests of the key `first`.
fn with_first(control: &ControlProcess, folder: &Path) -> Vec<NodeProcess> {
    control.create_rule("shop", "first", 1_000_000);
    let nodes = three(control, folder);
    wait("version 1 is in force", || (with(&nodes, "first").len() == 3).then_some(()));
    nodes
}

#[test]
fn a_version_reaches_one_node_first_also_over_a_restart_and_all_of_them_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let nodes = with_first(&control, folder.path());
    plan(&control, &["1 node", "all"], 3_600);
    control.create_rule("shop", "second", 1_000_000);
    wait("one node has the candidate", || {
        let acked = rollout(&control)["nodes"].as_array()?.iter().filter(|it| it["acked"] == 2).count();
        (acked == 1).then_some(())
    });
    let first = with(&nodes, "second");
    assert_eq!((first.len(), with(&nodes, "first").len()), (1, 3), "the others keep the version before");
    let (status, said) = control.try_create_rule("shop", "third", 1).expect("an answer");
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("/problems/rollout-open"), "{said}");
    control.create_rule("other", "key", 1_000_000);
    for node in &nodes {
        wait("another app does not wait", || (node.check("other", "key") == "limited").then_some(()));
    }

    control.kill();
    control.start_again();
    wait("all nodes are back", || {
        let live =
            rollout(&control)["nodes"].as_array()?.iter().filter(|it| it["stage"] != "left_out").count();
        (live == 3).then_some(())
    });
    assert_eq!(with(&nodes, "second"), first, "the same node");
    assert_eq!(ask(&control, "pause", &Value::Null)["state"], "paused");
    assert_eq!(ask(&control, "resume", &Value::Null)["state"], "running");
    assert_eq!(ask(&control, "advance", &Value::Null)["step"], 2);
    wait("all nodes have the candidate", || (with(&nodes, "second").len() == 3).then_some(()));
    assert_eq!(ask(&control, "advance", &Value::Null)["state"], "done");
    wait("no node is behind", || {
        let behind = metric(&control.get("/metrics").1, "tollgate_control_nodes_behind");
        (behind == Some(0)).then_some(())
    });
}

#[test]
fn a_candidate_that_denies_too_much_is_withdrawn_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = with_first(&control, folder.path());
    plan(&control, &["1 node", "all"], 20);
    let path = "/api/v1/apps/shop/rules/first";
    let rule = json!({"max_permits": 1, "rate": 1});
    call(&control, "PUT", path, Some(&etag(&control, path)), &rule, 200);
    // Nodes report every 5 s; a step compares what they decide during it.
    let done = AtomicBool::new(false);
    let withdrawn = thread::scope(|scope| {
        let done = &done;
        for node in &nodes {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    node.check("shop", "first");
                }
            });
        }
        let withdrawn = wait_state(&control, "withdrawn");
        done.store(true, Relaxed);
        withdrawn
    });
    assert_eq!(withdrawn["why"]["gate"], "denies_more", "{withdrawn}");
    assert_eq!((&withdrawn["version"], &withdrawn["withdrawn_version"]), (&2.into(), &3.into()));
    let chosen = &withdrawn["why"]["figures"]["chosen"];
    assert!(chosen["denied"].as_u64() > Some(400), "{withdrawn}");
    assert_eq!(withdrawn["why"]["figures"]["others"]["denied"], 0, "{withdrawn}");
    wait("all nodes have the outcome", || {
        let now = rollout(&control);
        now["nodes"].as_array()?.iter().all(|it| it["acked"] == 3).then_some(())
    });
    for node in &nodes {
        assert_eq!(node.check("shop", "first"), "limited", "the content of before");
    }
    let problems: Value = serde_json::from_str(&control.get("/api/v1/problems").1).expect("JSON");
    assert!(problems.to_string().contains("withdrawn_rollout"), "{problems}");
}

#[test]
fn a_candidate_that_a_node_rejects_is_withdrawn_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    control.create_rule("shop", "first", 1_000_000);
    // The domain of a file of its own, which no app can have on this node.
    let local = folder.path().join("rules");
    std::fs::create_dir(&local).expect("a folder");
    let rule = "domain: own\ndescriptors: [{key: key, rate_limit: {unit: day, requests_per_unit: 9}}]\n";
    std::fs::write(local.join("own.yaml"), rule).expect("written");
    let nodes: Vec<NodeProcess> = ["a", "b", "c"]
        .map(|name| {
            let label = format!("zone={name}");
            let mut flags = vec!["--node-name", name, "--node-label", &label];
            if name == "c" {
                flags.extend(["--rules", local.to_str().expect("text")]);
            }
            NodeProcess::start(&control, &folder.path().join(name), &flags)
        })
        .into();
    wait("version 1 is in force", || (with(&nodes, "first").len() == 3).then_some(()));
    plan(&control, &["zone = c", "all"], 3_600);
    call(&control, "POST", "/api/v1/apps/shop/files", None, &json!({"text": rule}), 201);
    let withdrawn = wait_state(&control, "withdrawn");
    assert_eq!((&withdrawn["why"]["gate"], &withdrawn["why"]["nodes"]), (&json!("rejected"), &json!(["c"])));
    wait("all nodes have the outcome", || {
        let now = rollout(&control);
        now["nodes"].as_array()?.iter().all(|it| it["acked"] == 3).then_some(())
    });
    assert_eq!(with(&nodes, "first").len(), 3);
}

/// The rules of a domain of two limits, with this rate.
fn several(rate: u32) -> String {
    format!(
        "domain: two\ndescriptors:\n  - key: key\n    value: k\n    limits:\n      \
         - {{name: day, unit: day, requests_per_unit: 9000000}}\n      \
         - {{name: second, algorithm: token_bucket, unit: second, requests_per_unit: {rate}, burst: {rate}}}\n"
    )
}

/// Ends the load, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A request of each app, for one call.
fn batch(all: &[Staged]) -> String {
    let one = |it: &Staged| json!({"domain": it.domain, "descriptors": [[{"key": "key", "value": "k"}]]});
    json!({"requests": all.iter().map(one).collect::<Vec<_>>()}).to_string()
}

const STEPS: &[&str] = &["1 node", "2 nodes", "all"];

/// An app, its rule before and after, and the state of its rollout once the first step has ended.
struct Staged {
    app: &'static str,
    domain: &'static str,
    steps: &'static [&'static str],
    before: Value,
    after: Value,
    ends: &'static str,
}

impl Staged {
    /// Makes the app with its first version.
    fn create(&self, control: &ControlProcess) {
        if self.before.is_number() {
            let text = several(self.before.as_u64().and_then(|rate| rate.try_into().ok()).expect("a rate"));
            call(control, "POST", "/api/v1/apps", None, &json!({"app": self.app}), 201);
            call(control, "POST", &self.path("/files"), None, &json!({"text": text}), 201);
        } else {
            call(control, "POST", &self.path("/rules"), None, &self.before, 201);
        }
        let plan = json!({"rollout": {"steps": self.steps, "soak_s": 2}});
        call(control, "PUT", &self.path(""), Some(&etag(control, &self.path(""))), &plan, 200);
    }

    fn path(&self, what: &str) -> String {
        format!("/api/v1/apps/{}{what}", self.app)
    }

    /// Publishes the candidate.
    fn change(&self, control: &ControlProcess) {
        if self.before.is_number() {
            let path = self.path("/files/two");
            let text = several(self.after.as_u64().and_then(|rate| rate.try_into().ok()).expect("a rate"));
            call(control, "PUT", &path, Some(&etag(control, &path)), &json!({"text": text}), 200);
        } else {
            let path = self.path("/rules/k");
            call(control, "PUT", &path, Some(&etag(control, &path)), &self.after, 200);
        }
    }

    /// Waits for the end of the first step, which is the one that it must have.
    fn must_end(&self, control: &ControlProcess) {
        let ended = wait(&format!("the first step of {} ends", self.app), || {
            let now: Value = serde_json::from_str(&control.get(&self.path("/rollout")).1).expect("JSON");
            (now["state"] != "running" || now["step"] != 1).then_some(now)
        });
        assert_eq!(ended["state"], self.ends, "{}: {ended}", self.app);
        let gate = if self.ends == "withdrawn" { json!("denies_more") } else { Value::Null };
        let step = if self.ends == "running" { 2 } else { 1 };
        assert_eq!((&ended["why"]["gate"], &ended["step"]), (&gate, &json!(step)), "{}: {ended}", self.app);
    }
}

/// Nodes with the previous version take from the shared counter what the previous version allows, so it does
/// not show what the candidate would deny by itself.
#[test]
fn nodes_that_share_counters_judge_a_candidate_by_counters_of_its_own() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let url = redis.url();
    staged(&["--store", &url, "--store-deadline", "1s"]);
}

#[test]
fn nodes_with_counters_of_their_own_judge_a_candidate_alike() {
    staged(&[]);
}

/// One app for each way in which a candidate is judged.
fn apps() -> [Staged; 7] {
    let row = |rate: u32, burst: u32| json!({"key": "k", "rate": rate, "max_permits": burst});
    let with = |row: Value, field: &str, value: Value| {
        let mut row = row;
        row[field] = value;
        row
    };
    let in_bucket = |rate, burst| with(row(rate, burst), "bucket", json!("all"));
    let leased = |rate, burst| with(row(rate, burst), "sharing", json!("leased"));
    [
        Staged {
            app: "exact",
            domain: "exact",
            steps: STEPS,
            before: row(1_000, 1_000),
            after: row(1, 2),
            ends: "withdrawn",
        },
        Staged {
            app: "harmless",
            domain: "harmless",
            steps: STEPS,
            before: row(1_000, 1_000),
            after: row(900, 1_100),
            ends: "running",
        },
        Staged {
            app: "leased",
            domain: "leased",
            steps: STEPS,
            before: leased(1_000, 1_000),
            after: leased(1, 2),
            ends: "withdrawn",
        },
        Staged {
            app: "bucket",
            domain: "bucket",
            steps: STEPS,
            before: in_bucket(1_000, 1_000),
            after: in_bucket(3, 3),
            ends: "withdrawn",
        },
        Staged {
            app: "several",
            domain: "two",
            steps: STEPS,
            before: json!(1_000),
            after: json!(4),
            ends: "withdrawn",
        },
        Staged {
            app: "at-once",
            domain: "at-once",
            steps: &["all"],
            before: row(1_000, 1_000),
            after: row(2, 1),
            ends: "withdrawn",
        },
        Staged {
            app: "at-once-harmless",
            domain: "at-once-harmless",
            steps: &["all"],
            before: leased(1_000, 1_000),
            after: leased(1_100, 900),
            ends: "done",
        },
    ]
}

#[expect(clippy::disallowed_methods, reason = "it paces the load")]
fn staged(store: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes: Vec<NodeProcess> = ["a", "b", "c"]
        .map(|name| {
            let flags: Vec<&str> = ["--node-name", name].iter().chain(store).copied().collect();
            NodeProcess::start(&control, &folder.path().join(name), &flags)
        })
        .into();
    let all = apps();
    all.iter().for_each(|it| it.create(&control));
    for node in &nodes {
        for it in &all {
            wait("version 1 is in force", || (node.check(it.domain, "k") == "limited").then_some(()));
        }
    }
    wait("the nodes have shown that they report", || {
        let shown: Value = serde_json::from_str(&control.get("/api/v1/nodes").1).expect("JSON");
        shown["nodes"].as_array()?.iter().all(|it| it["new"] == false).then_some(())
    });
    let (in_steps, at_once): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.steps.len() > 1);
    for it in &in_steps {
        it.change(&control);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = &done;
        let _ends = Ends(done);
        for node in &nodes {
            // Each node decides at most 200 requests of an app per second: more than the candidates allow,
            // and all nodes together fewer than the other rules do. They come one by one: between two of them
            // the nodes with the version before refill what all share.
            let body = batch(&all);
            scope.spawn(move || {
                let json = "Content-Type: application/json\r\n";
                while !done.load(Relaxed) {
                    let sent = send(node.http(), "POST", "/v1/check", json, &body).expect("an answer");
                    assert_eq!(sent.0, 200, "{}", sent.2);
                    thread::sleep(std::time::Duration::from_millis(5));
                }
            });
        }
        for it in &in_steps {
            it.must_end(&control);
        }
        // By now the denials of the other apps' previous versions are known, to which a last step is
        // compared.
        for it in &at_once {
            wait("the time before is known", || {
                let before: Value =
                    serde_json::from_str(&control.get(&format!("/api/v1/history?app={}", it.app)).1).ok()?;
                (before["sum"]["admitted"].as_u64() >= Some(500)).then_some(())
            });
            it.change(&control);
        }
        for it in &at_once {
            it.must_end(&control);
        }
    });
}
