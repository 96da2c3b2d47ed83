//! A control plane's database, a node's state folder, and what both said to each other.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_fleet_proto::{FromControl, FromNode};
use tollgate_harness::processes::{ControlProcess, NodeProcess, Process, free_port, send, tollgate, wait};

use crate::kept::{of_this_build, read, releases};
use crate::peers;
use crate::recorder::{From, Recorder, Said, from_text, to_text};

/// Name of the database, in a folder of data and here.
const DATABASE: &str = "control.db";
const KEPT_DATABASE: &str = "control.db.gz";
const JSON: &str = "Content-Type: application/json\r\n";

/// Requests of programs to a control plane whose replies are compared: a later release may say more in each.
const ASKED: [&str; 9] = [
    "/api/v1/apps",
    "/api/v1/rules?size=100",
    "/api/v1/apps/shop/versions",
    "/api/v1/apps/shop/versions/2",
    "/api/v1/apps/shop/files",
    "/api/v1/changes?limit=100",
    "/api/v1/users",
    "/api/v1/settings",
    "/api/v1/rollouts",
];

/// Members that depend on the time at which they are asked for.
const PASSING: [&str; 3] = ["last_login_at", "is_valid", "link_until"];

/// Asks the control plane at `address` with the cookie of a login.
fn ask(address: SocketAddr, cookie: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let fields = format!("Cookie: tollgate={cookie}\r\nSec-Fetch-Site: same-origin\r\n{JSON}");
    let (status, _, said) = send(address, method, path, &fields, &text).expect("an answer");
    (status, serde_json::from_str(&said).unwrap_or(Value::String(said)))
}

/// Logs the administrator in.
fn log_in(address: SocketAddr) -> String {
    let body = json!({"name": "ann", "password": "correct horse battery"}).to_string();
    let (status, head, said) = send(address, "POST", "/api/v1/login", JSON, &body).expect("an answer");
    assert_eq!(status, 200, "{said}");
    let cookie = head.lines().find_map(|line| line.split_once("tollgate=")?.1.split(';').next());
    cookie.expect("a cookie").to_owned()
}

/// Whether `found` has what `want` has: in objects there may be more.
fn has(found: &Value, want: &Value, place: &str, faults: &mut Vec<String>) {
    match (found, want) {
        (Value::Object(found), Value::Object(want)) => {
            for (name, want) in want.iter().filter(|(name, _)| !PASSING.contains(&name.as_str())) {
                has(found.get(name).unwrap_or(&Value::Null), want, &format!("{place}.{name}"), faults);
            }
        }
        (Value::Array(found), Value::Array(want)) if found.len() == want.len() => {
            for (index, (found, want)) in found.iter().zip(want).enumerate() {
                has(found, want, &format!("{place}[{index}]"), faults);
            }
        }
        _ if found == want => {}
        _ => faults.push(format!("{place}: {found} instead of {want}")),
    }
}

/// Makes everything that a control plane keeps.
fn fill(address: SocketAddr, cookie: &str) {
    let ask = |method: &str, path: &str, body: Value, want: u16| {
        let (status, said) = ask(address, cookie, method, path, &body);
        assert_eq!(status, want, "{method} {path}: {said}");
        said
    };
    let rules = "/api/v1/apps/shop/rules";
    ask("POST", rules, json!({"key": "push", "max_permits": 5, "rate": 1, "per": "user"}), 201);
    ask(
        "POST",
        rules,
        json!({"key": "tried", "max_permits": 50, "rate": 5, "trial_rate": 8, "trial_max_permits": 80}),
        201,
    );
    ask(
        "POST",
        rules,
        json!({"key": "a", "max_permits": 100, "rate": 10, "bucket": "backend", "sharing": "leased"}),
        201,
    );
    ask(
        "POST",
        rules,
        json!({"key": "b", "max_permits": 100, "rate": 10, "bucket": "backend", "sharing": "leased", "need_permits": 5}),
        201,
    );
    let all = json!({
        "key": "all", "max_permits": 20, "rate": 2, "need_permits": 2, "pre_permits": 3, "g": 0.5, "u": 1.25,
        "extras": {"owner": "ann"}, "description": "每秒两个", "on_store_failure": "deny", "state": "shadow",
    });
    ask("POST", rules, all, 201);
    let text = "domain: web\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n";
    ask("POST", "/api/v1/apps/shop/files", json!({"domain": "web", "text": text}), 201);
    // Changes of an object need its etag.
    let change = |method: &str, object: &str, path: &str, body: Value| {
        let fields = format!("Cookie: tollgate={cookie}\r\nSec-Fetch-Site: same-origin\r\n{JSON}");
        let (_, head, _) = send(address, "GET", object, &fields, "").expect("an answer");
        let etag =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("etag: ").map(str::to_owned));
        let fields = format!("{fields}If-Match: {}\r\n", etag.expect("an etag"));
        let (status, _, said) = send(address, method, path, &fields, &body.to_string()).expect("an answer");
        assert_eq!(status, 200, "{method} {path}: {said}");
    };
    let versions = "/api/v1/apps/shop/versions";
    change("POST", versions, "/api/v1/apps/shop/versions/5/rollback", json!({"reason": "a trial"}));
    // A rollout that an operator has paused.
    ask("POST", "/api/v1/apps/slow/rules", json!({"key": "a", "max_permits": 1}), 201);
    let plan = json!({"rollout": {"steps": ["1 node", "all"], "soak_s": 3600, "auto_rollback": false}});
    change("PUT", "/api/v1/apps/slow", "/api/v1/apps/slow", plan);
    ask("POST", "/api/v1/apps/slow/rules", json!({"key": "b", "max_permits": 1}), 201);
    let rollout = "/api/v1/apps/slow/rollout";
    change("POST", rollout, "/api/v1/apps/slow/rollout/pause", json!({}));
    ask("POST", "/api/v1/apps/shop/files", json!({"domain": "web", "text": text}), 201);
    // Two people, one of whom has only been invited; a token; a draft.
    ask("POST", "/api/v1/users", json!({"name": "bob", "app": "shop", "role": "editor"}), 201);
    ask(
        "POST",
        "/api/v1/tokens",
        json!({"name": "ci", "days": 30, "rights": [{"app": "shop", "role": "viewer"}]}),
        201,
    );
    let put = json!({"op": "put", "key": "later", "base": null, "rule": {"key": "later", "max_permits": 1}});
    ask("POST", "/api/v1/changes", json!({"app": "shop", "title": "later", "ops": [put]}), 201);
    let block = json!({"domain": "shop", "entries": ["key=blocked"], "action": "block", "minutes": 43200, "reason": "r"});
    ask("POST", "/api/v1/overrides", block, 201);
}

/// A node that speaks to `at` in place of the control plane.
fn node(at: SocketAddr, token: &Path, state: &Path, flags: &[&str]) -> NodeProcess {
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--drain-delay", "0", "--control-wait", "60s", "--control", &format!("http://{at}")]);
    command.arg("--control-token-file").arg(token).arg("--state-dir").arg(state).args(flags);
    NodeProcess { process: Process::start(command), state: state.to_owned() }
}

fn is_said(said: &[Said], what: impl Fn(&FromNode) -> bool) -> bool {
    let by_node = said.iter().filter(|said| said.from == From::Node);
    by_node.filter_map(|said| said.by_node().says).any(|says| what(&says))
}

/// Number of confirmations that a report with counts of rules is in the database.
fn seen(said: &[Said]) -> usize {
    let has_counts =
        |said: &Said| matches!(said.by_node().says, Some(FromNode::Report(it)) if !it.rules.is_empty());
    let Some(at) = said.iter().position(|said| said.from == From::Node && has_counts(said)) else {
        return 0;
    };
    let later = said[at..].iter().filter(|said| said.from == From::Control);
    later.filter(|said| matches!(said.by_control().says, Some(FromControl::Seen(_)))).count()
}

/// Fills a folder with what this build keeps and says.
fn write(folder: &Path) {
    let data = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(data.path());
    fill(control.address, &control.cookie);
    let token = folder.join("token");
    std::fs::copy(control.token_file(), &token).expect("copied");

    // A node whose own file has a domain that an app gets later.
    std::fs::write(
        folder.join("own.yaml"),
        "domain: own\ndescriptors: [{key: a, rate_limit: {rate: 1/s}}]\n",
    )
    .expect("written");
    let recorder = Recorder::start(control.address);
    let own = folder.join("own.yaml").display().to_string();
    let flags = ["--node-name", "first", "--node-label", "zone=a", "--rules", &own];
    let first = node(recorder.address, &token, &folder.join("state"), &flags);
    first.wait_denied("shop", "blocked");
    while first.check("web", "x") == "undecided" || seen(&recorder.said()) == 0 {
        for (domain, entry) in [("shop", "key=push&entry=user=ann"), ("web", "user=ann"), ("unknown", "a=b")]
        {
            first.get(&format!("/v1/check?domain={domain}&entry={entry}"));
        }
    }
    // A change while it is connected, one that it rejects, and a question.
    control.create_rule("shop", "late", 1);
    first.wait_denied("shop", "late");
    control.create_rule("own", "a", 1);
    wait("the rejection", || {
        is_said(&recorder.said(), |says| matches!(says, FromNode::Nack(_))).then_some(())
    });
    let path = "/api/v1/keys?domain=web&entry=user=ann";
    let (status, said) = ask(control.address, &control.cookie, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{said}");
    first.process.signal("TERM");
    let (code, ended) = first.process.ended();
    assert_eq!(code, Some(0), "{ended}");
    std::fs::write(folder.join("first"), to_text(&recorder.end())).expect("written");
    std::fs::remove_file(folder.join("state/lock")).expect("it is not held any more");

    // A node that comes when all is published.
    let recorder = Recorder::start(control.address);
    let empty = tempfile::tempdir().expect("a folder");
    let second = node(recorder.address, &token, empty.path(), &["--node-name", "second"]);
    while seen(&recorder.said()) == 0 {
        second.get("/v1/check?domain=web&entry=user=ann");
    }
    second.process.signal("TERM");
    let (code, ended) = second.process.ended();
    assert_eq!(code, Some(0), "{ended}");
    std::fs::write(folder.join("second"), to_text(&recorder.end())).expect("written");

    let answers: Vec<Value> = ASKED
        .iter()
        .map(|path| {
            let (status, said) = ask(control.address, &control.cookie, "GET", path, &Value::Null);
            assert_eq!(status, 200, "{path}: {said}");
            json!({"path": path, "says": said})
        })
        .collect();
    let lines: String = answers.iter().map(|it| format!("{it}\n")).collect();
    std::fs::write(folder.join("answers"), lines).expect("written");
    let (status, export) = control.get("/api/v1/export?app=shop");
    assert_eq!(status, 200);
    std::fs::write(folder.join("export.yaml"), export).expect("written");
    control.process.signal("TERM");
    control.process.child.wait().expect("it ends");
    keep_database(&data.path().join(DATABASE), &folder.join(KEPT_DATABASE));
}

/// The database in one small file: most of its pages are nearly empty.
fn keep_database(from: &Path, to: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join(DATABASE);
    let connection = rusqlite::Connection::open(from).expect("a database");
    connection.execute("VACUUM INTO ?1", [whole.to_str().expect("text")]).expect("a copy");
    let bytes = std::fs::read(whole).expect("a copy");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&bytes).expect("memory");
    std::fs::write(to, encoder.finish().expect("memory")).expect("written");
}

/// A folder of data with a kept database.
fn data(release: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = std::fs::read(release.join(KEPT_DATABASE)).expect("a database");
    let mut database = Vec::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut database).expect("gzip");
    std::fs::write(folder.path().join(DATABASE), database).expect("written");
    std::fs::copy(release.join("token"), folder.path().join("node-token")).expect("copied");
    folder
}

/// A kept state folder, where it may be written.
fn state(release: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(release.join("state")).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    folder
}

/// A control plane on this data, and the cookie of its administrator.
fn restarted(data: &Path) -> (Process, SocketAddr, String) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let process = Process::start(ControlProcess::command(data, address));
    let cookie = log_in(address);
    (process, address, cookie)
}

/// The database in this folder has all that it had: rules, versions, people, audit.
fn database_is_opened(release: &Path) {
    let data = data(release);
    let (process, address, cookie) = restarted(data.path());
    let mut faults = Vec::new();
    for line in read(release, "answers").lines() {
        let asked: Value = serde_json::from_str(line).expect("JSON");
        let path = asked["path"].as_str().expect("a path");
        let (status, says) = ask(address, &cookie, "GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {says}");
        has(&says, &asked["says"], path, &mut faults);
    }
    assert_eq!(faults, Vec::<String>::new(), "{}", release.display());
    let fields = format!("Cookie: tollgate={cookie}\r\n");
    let (_, _, export) = send(address, "GET", "/api/v1/export?app=shop", &fields, "").expect("an answer");
    assert_eq!(export, read(release, "export.yaml"), "{}", release.display());
    drop(process);
    let mut verify = tollgate();
    let verified = verify.args(["control", "--data-dir"]).arg(data.path()).args(["audit", "verify"]).output();
    let verified = verified.expect("it runs");
    assert!(verified.status.success(), "{verified:?}");
}

/// A node starts with the saved rules in this folder while the control plane is away.
fn saved_rules_are_used(release: &Path) {
    let state = state(release);
    let token = release.join("token");
    let own = release.join("own.yaml").display().to_string();
    let away = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let node = node(away, &token, state.path(), &["--rules", &own]);
    assert_eq!(node.ready().0, 200, "{}", release.display());
    for (domain, entry) in
        [("web", "user=ann"), ("own", "a=x"), ("shop", "key=late"), ("shop", "key=push&entry=user=ann")]
    {
        let (_, said) = node.get(&format!("/v1/check?domain={domain}&entry={entry}"));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        assert!(said["rule"].is_string() && said["outcome"] == "admit", "{domain} {entry}: {said}");
    }
    let id = |folder: &Path| std::fs::read_to_string(folder.join("node")).expect("an id")[..32].to_owned();
    assert_eq!(id(state.path()), id(&release.join("state")), "it is still the same node");
}

/// A node is served by the control plane that is recorded in this folder.
fn node_is_served(release: &Path) {
    let script = from_text(&read(release, "first"));
    let (address, heard) = peers::control(script.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let own = release.join("own.yaml").display().to_string();
    let node = node(address, &release.join("token"), folder.path(), &["--rules", &own]);
    // It answers each bundle as the recorded node did, and answers the question.
    let steps = |said: &[Said]| -> Vec<String> {
        let by_node = said.iter().filter(|said| said.from == From::Node);
        by_node.filter_map(|said| step(&said.by_node().says?)).collect()
    };
    let want = steps(&script);
    assert!(want.iter().any(|it| it.starts_with("Nack")) && want.iter().any(|it| it.starts_with("Reply")));
    wait("all that the other node has said", || {
        let found = steps(&heard.lock());
        (found.len() >= want.len()).then_some(())
    });
    assert_eq!(steps(&heard.lock()), want, "{}", release.display());
    node.wait_denied("shop", "late");
    assert_eq!(node.check("web", "x"), "admit");
    assert_eq!(node.ready().0, 200);
}

/// A node's answer to a bundle or a command; `None` for other messages.
fn step(says: &FromNode) -> Option<String> {
    let held = |held: &[tollgate_fleet_proto::Held]| -> Vec<String> {
        let mut held: Vec<_> =
            held.iter().map(|it| format!("{} {} {:02x?}", it.app, it.version, it.sha256)).collect();
        held.sort();
        held
    };
    match says {
        FromNode::Ack(ack) => Some(format!("Ack {} {:?}", ack.bundle, held(&ack.held))),
        FromNode::Nack(nack) => {
            let faults: Vec<_> =
                nack.faults.iter().map(|it| format!("{} {} {}", it.app, it.version, it.domain)).collect();
            Some(format!("Nack {} {faults:?} {:?}", nack.bundle, held(&nack.held)))
        }
        FromNode::Reply(reply) => Some(format!("Reply {} {:?}", reply.command, reply.error)),
        _ => None,
    }
}

/// A control plane serves the node that is recorded in this folder.
fn node_is_accepted(release: &Path) {
    let data = data(release);
    let (_process, address, cookie) = restarted(data.path());
    let script = from_text(&read(release, "second"));
    let Some(FromNode::Hello(hello)) = script[0].by_node().says else { panic!("it begins with Hello") };
    let reported =
        script.iter().filter(|it| it.from == From::Node).filter_map(|it| match it.by_node().says? {
            FromNode::Report(report) => Some(report.sequence),
            _ => None,
        });
    let last = reported.max().expect("a report");
    let is_seen = |said: &Said| matches!(said.by_control().says, Some(FromControl::Seen(seen)) if seen.sequence >= last);
    let token = read(release, "token");
    // While it is attached: it has every app, and its reports are in the database.
    let checked = std::cell::Cell::new(false);
    peers::node(address, token.trim(), &script, |heard| {
        if !heard.iter().any(is_seen) {
            return false;
        }
        let (status, said) =
            ask(address, &cookie, "GET", &format!("/api/v1/nodes/{}", hello.node), &Value::Null);
        assert_eq!(status, 200, "{said}");
        assert_eq!((&said["name"], &said["state"]), (&json!("second"), &json!("live")), "{said}");
        let apps = said["apps"].as_array().expect("apps");
        assert!(apps.iter().any(|app| app["app"] == "shop"), "{said}");
        for app in apps {
            assert_eq!(app["wanted"], app["acked"], "{said}");
            assert_eq!(app["fault"], Value::Null, "{said}");
        }
        checked.set(true);
        true
    });
    assert!(checked.get());
}

#[test]
fn this_build_reads_what_it_has_written_itself() {
    let folder = of_this_build("fleet", write);
    for holds in [database_is_opened, saved_rules_are_used, node_is_served, node_is_accepted] {
        holds(folder.path());
    }
}

/// Holds for each release that is kept.
fn for_each(holds: fn(&Path)) {
    let releases = releases("fleet");
    assert!(!releases.is_empty());
    releases.iter().for_each(|folder| holds(folder));
}

#[test]
fn the_database_of_every_kept_release_is_opened_with_its_rules_versions_people_and_audit() {
    for_each(database_is_opened);
}

#[test]
fn a_node_starts_with_the_saved_rules_of_every_kept_release_while_the_control_plane_is_away() {
    for_each(saved_rules_are_used);
}

#[test]
fn a_node_is_served_by_the_control_plane_of_every_kept_release() {
    for_each(node_is_served);
}

#[test]
fn a_control_plane_serves_the_nodes_of_every_kept_release() {
    for_each(node_is_accepted);
}
