//! A shared store behind the built binary: down at the start, unfit, slow, and of the kind that cannot count
//! everything.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_testkit::redis::{Memcached, NetworkFault, Options, Proxy, Redis};

use super::*;

const MIXED: &str = "domain: shop
descriptors:
  - {key: open, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shut, rate_limit: {unit: hour, requests_per_unit: 5, on_store_failure: deny}}
  - {key: own, rate_limit: {unit: hour, requests_per_unit: 5, on_store_failure: local}}
";

/// An unusable store ends the start only if it answers within the deadline of a call, which is 10 ms by
/// default.
const PATIENT: [&str; 2] = ["--store-deadline", "5s"];

/// One descriptor, as /v1/check wants it.
fn of(key: &str) -> String {
    format!(r#"{{"domain":"shop","descriptors":[[{{"key":"{key}","value":"1"}}]]}}"#)
}

fn decision(server: &ServerProcess, key: &str) -> serde_json::Value {
    serde_json::from_str(&server.post("/v1/check", &of(key)).1).expect("JSON")
}

#[test]
fn ports_open_while_the_store_is_down_and_everything_says_so_until_it_is_back() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    proxy.set(NetworkFault::Refuse);
    let (folder, url) = (rules(MIXED), format!("redis://{}", proxy.address()));
    let lenient = ServerProcess::start(folder.path(), &["--store", &url, "--store-deadline", "2s"]);
    let strict = ["--store", &url, "--store-deadline", "2s", "--ready-needs-store"];
    let strict = ServerProcess::start(folder.path(), &strict);
    let down = lenient.wait_ready(|_, body| body["store"]["state"] == "down");
    assert_eq!(down["ready"], true, "{down}");
    assert!(down["store"]["why"].as_str().is_some_and(|why| why.contains("refused")), "{down}");
    strict.wait_ready(|status, body| status == 503 && body["store"]["state"] == "down");
    for (key, outcome, way) in
        [("open", "admit", "allow"), ("shut", "deny", "deny"), ("own", "admit", "local")]
    {
        let said = decision(&lenient, key);
        assert_eq!(
            (said["outcome"].as_str(), said["degraded"].as_str()),
            (Some(outcome), Some(way)),
            "{said}"
        );
    }
    let (status, keys) = lenient.get("/v1/keys?domain=shop&entry=own=1");
    assert_eq!(status, 200, "{keys}");
    assert!(keys.contains(r#""remaining":4,"#) && keys.contains(r#""degraded":"local""#), "{keys}");
    assert_eq!(lenient.get("/v1/keys?domain=shop&entry=open=1").0, 503, "nobody here knows");
    let length = of("open").len();
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}");
    let mut stream = connect(lenient.http());
    stream.write_all(format!("{request}\r\n\r\n{}", of("open")).as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("x-ratelimit-degraded: allow\r\n"), "{text}");
    let metrics = lenient.get("/metrics").1;
    for line in [
        "\ntollgate_store_up 0\n",
        r#"tollgate_degraded_decisions_total{domain="shop",rule="open"} 2"#,
        r#"tollgate_degraded_decisions_total{domain="shop",rule="own"} 1"#,
    ] {
        assert!(metrics.contains(line), "no `{line}` in\n{metrics}");
    }
    let page = include_str!("../../../../docs/operating.md");
    let accept = "GET /metrics HTTP/1.1\r\nhost: t\r\naccept: application/openmetrics-text\r\nconnection: close\r\n\r\n";
    let metrics = ask(lenient.http(), accept).1;
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let untold: Vec<_> = names
        .filter(|(name, _)| name.starts_with("tollgate_"))
        .filter(|(name, _)| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(untold.is_empty(), "not on the page: {untold:?}");
    proxy.set(NetworkFault::None);
    lenient.wait_ready(|_, body| body["store"]["state"] == "up");
    strict.wait_ready(|status, _| status == 200);
    // Counts of the outage are separate.
    let said = decision(&lenient, "own");
    assert_eq!(
        (said["remaining"].as_u64(), &said["degraded"]),
        (Some(4), &serde_json::Value::Null),
        "{said}"
    );
    assert_eq!(decision(&strict, "own")["remaining"], 3, "both nodes count in one place");
    lenient.signal("TERM");
    let (code, said) = lenient.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("the store is down").count(), 1, "one line a change:\n{said}");
    let severity = |of: &str| {
        let line = said.lines().find(|line| line.contains(of)).expect("a line");
        ["ERROR", "WARN", "INFO"].into_iter().find(|level| line.contains(level))
    };
    let severities = (severity("the store is down"), severity("the store is up"));
    assert_eq!(severities, (Some("ERROR"), Some("INFO")), "{said}");
    assert_eq!(said.matches("the store is up").count(), 1, "one line a change:\n{said}");
}

#[test]
fn a_node_that_waits_for_its_store_is_ready_from_the_first_reply_on_also_in_an_outage() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    proxy.set(NetworkFault::Refuse);
    let (folder, url) = (rules(MIXED), format!("redis://{}", proxy.address()));
    let flags = ["--store", &url, "--store-deadline", "2s", "--ready-waits-for-store"];
    let server = ServerProcess::start(folder.path(), &flags);
    server.wait_ready(|status, body| status == 503 && body["store"]["state"] == "down");
    assert_eq!(decision(&server, "shut")["outcome"], "deny", "it decides for those that ask it all the same");
    proxy.set(NetworkFault::None);
    server.wait_ready(|status, body| status == 200 && body["store"]["state"] == "up");
    redis.kill();
    server.wait_ready(|status, body| status == 200 && body["store"]["state"] == "down");
    // Counters in memory need no reply from a store.
    let alone = ServerProcess::start(folder.path(), &["--ready-waits-for-store"]);
    assert_eq!(alone.get("/readyz").0, 200);
}

#[test]
fn a_node_that_ends_while_its_store_is_down_does_not_say_that_it_is_up() {
    let folder = rules(MIXED);
    // A port that was free a moment ago.
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
    let server = ServerProcess::start(folder.path(), &["--store", &format!("redis://{nobody}")]);
    server.wait_ready(|_, body| body["store"]["state"] == "down");
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the store is down") && !said.contains("the store is up"), "{said}");
}

#[test]
fn a_store_that_evicts_is_rejected_unless_the_operator_insists() {
    let Some(redis) = Redis::start(&Options::new().memory("64mb", "allkeys-lru")) else { return };
    let folder = rules(MIXED);
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0"]);
    command.args(["--store", &redis.url()]).args(PATIENT);
    let output = command.arg("--rules").arg(folder.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("allkeys-lru") && said.contains("--store-allow-eviction"), "{said}");
    let insists = ServerProcess::start(folder.path(), &["--store", &redis.url(), "--store-allow-eviction"]);
    insists.wait_ready(|_, body| body["store"]["state"] == "up");
}

#[test]
fn a_sentinel_url_at_the_port_of_a_server_ends_the_start() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = rules(MIXED);
    let url = |sentinels: &str| format!("redis+sentinel://{sentinels}/mymaster");
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0"]);
    command
        .args(["--store", &url(&redis.address().to_string()), "--store-connect-timeout", "20s"])
        .args(PATIENT);
    let output = command.arg("--rules").arg(folder.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("it is not a sentinel: give the sentinels' ports"), "{said}");
    // A sentinel that is down may know the master when it is back.
    let with_one_down = url(&format!("{},127.0.0.1:1", redis.address()));
    let server = ServerProcess::start(folder.path(), &["--store", &with_one_down]);
    server.wait_ready(|_, body| body["store"]["state"] == "down");
}

#[test]
fn a_wrong_password_is_said_and_never_shown() {
    let Some(redis) = Redis::start(&Options::new().password("right-1")) else { return };
    let folder = rules(MIXED);
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0"]);
    command.args(["--store", &redis.url_as(":wrong-1")]).args(PATIENT).arg("--rules").arg(folder.path());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the password is on the command line"), "{said}");
    assert!(said.contains("wrong user or password (WRONGPASS"), "{said}");
    assert!(!said.contains("wrong-1") && !said.contains("right-1"), "{said}");
}

#[test]
fn decisions_that_come_together_share_round_trips_on_every_surface() {
    const LATE: Duration = Duration::from_millis(40);
    const MANY: u32 = 100;
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    let (folder, url) = (rules(MIXED), format!("redis://{}", proxy.address()));
    let flags = ["--store", &url, "--store-deadline", "20s", "--workers", "1", "--log-level", "warn"];
    let server = ServerProcess::start(folder.path(), &flags);
    server.wait_ready(|_, body| body["store"]["state"] == "up");
    let is_quick = |began: Instant| assert!(began.elapsed() < LATE * MANY / 2, "{:?}", began.elapsed());
    proxy.set(NetworkFault::Latency(LATE));
    let one =
        |at: u32| format!(r#"{{"domain":"shop","descriptors":[[{{"key":"shut","value":"{}"}}]]}}"#, at % 50);
    let began = Instant::now();
    let batch = (0..MANY).map(one).collect::<Vec<_>>().join(",");
    let (status, body) = server.post("/v1/check", &format!(r#"{{"requests":[{batch}]}}"#));
    assert_eq!(status, 200, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let left: Vec<_> =
        body["decisions"].as_array().expect("a list").iter().map(|it| it["remaining"].as_u64()).collect();
    assert_eq!(left, [[Some(4); 50], [Some(3); 50]].concat(), "in order, and each key by itself");
    is_quick(began);
    // RESP: one write of many commands; the answers come in order.
    let began = Instant::now();
    let mut stream = connect(server.says("resp").and_then(|text| text.parse().ok()).expect("an address"));
    let commands: String = (0..MANY).map(|at| format!("TOLLGATE.CHECK shop shut r{}\r\n", at % 50)).collect();
    stream.write_all(format!("{commands}PING\r\n").as_bytes()).expect("sent");
    let mut reader = BufReader::new(stream);
    let mut left = Vec::new();
    let mut line = String::new();
    while !line.starts_with("+PONG") {
        if line.starts_with("*6") {
            let numbers: Vec<String> = (0..3).map(|_| read_line(&mut reader)).collect();
            left.push(numbers[2].trim().to_owned());
        }
        line = read_line(&mut reader);
    }
    assert_eq!(left, [[":4"; 50], [":3"; 50]].concat());
    is_quick(began);
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert_ne!(reader.read_line(&mut line).expect("text"), 0, "the end came too early");
    line
}

#[test]
fn memcached_counts_windows_and_what_it_cannot_count_is_rejected_with_its_place() {
    let folder = rules(&format!(
        "{MIXED}  - {{key: flow, rate_limit: {{unit: hour, requests_per_unit: 5, algorithm: token_bucket}}}}\n"
    ));
    let Some(memcached) = Memcached::start() else { return };
    let mut command = tollgate();
    command.args([
        "serve",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--http",
        "127.0.0.1:0",
        "--store",
        &memcached.url(),
    ]);
    let output = command.arg("--rules").arg(folder.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("shop.yaml:6:75: descriptors[3].rate_limit.algorithm: token_bucket: memcached"),
        "{said}"
    );
    let folder = rules(MIXED);
    let flags = ["--store", &memcached.url(), "--store-deadline", "2s"];
    let nodes = [ServerProcess::start(folder.path(), &flags), ServerProcess::start(folder.path(), &flags)];
    for (at, left) in [4, 3, 2, 1, 0].into_iter().enumerate() {
        let said = decision(&nodes[at % 2], "open");
        assert_eq!(
            (said["remaining"].as_u64(), &said["degraded"]),
            (Some(left), &serde_json::Value::Null),
            "{said}"
        );
    }
    assert_eq!(decision(&nodes[0], "open")["outcome"], "deny");
    // Limits that memcached cannot count are logged once, at the start; they are not an outage.
    let [node, _] = nodes;
    let mut stream = connect(node.says("resp").and_then(|text| text.parse().ok()).expect("an address"));
    stream.write_all(b"CL.THROTTLE k 0 1 60 WITHDEGRADED\r\nCL.THROTTLE k 0 1 60\r\nQUIT\r\n").expect("sent");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("answers");
    assert_eq!(
        told,
        "*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n$-1\r\n*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n+OK\r\n"
    );
    let metrics = node.get("/metrics").1;
    assert!(metrics.contains("tollgate_store_errors_total 0\n"), "{metrics}");
    node.signal("TERM");
    let (_, said) = node.ended();
    assert_eq!(said.matches("memcached cannot count CL.THROTTLE").count(), 1, "{said}");
    assert_eq!(
        said.matches("the store is up").count(),
        1,
        "one line a change, however many workers there are:\n{said}"
    );
}

#[test]
fn after_the_clock_of_the_store_ran_ahead_a_reset_or_another_prefix_ends_the_wait() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = rules(
        "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {rate: 2/minute, algorithm: token_bucket}}\n",
    );
    // A node whose clock counts, an hour ahead.
    let mut config = tollgate_store_redis::RedisConfig::parse_url(&redis.url()).expect("a URL");
    config.link.deadline = Duration::from_secs(10);
    config.time = tollgate_store_redis::StoreTime::Node;
    let ruleset = tollgate_rule_files::load(&[folder.path().to_owned()], &Default::default()).expect("rules");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let now = std::process::Command::new("date").arg("+%s").output().expect("date").stdout;
    let now: i64 = String::from_utf8_lossy(&now).trim().parse().expect("seconds");
    let ahead = tollgate_core::Timestamp::from_unix_seconds(u64::try_from(now).expect("after 1970") + 3_600);
    runtime.block_on(async {
        let store = tollgate_store_redis::RedisStore::new(config).expect("settings that can work");
        let limiter: tollgate_limiter::Limiter<_> =
            tollgate_limiter::Limiter::new(ruleset.policy, store, Default::default());
        for user in ["ann", "bob"] {
            let entries = [tollgate_limiter::Entry::new("user", user)];
            let descriptors = [tollgate_limiter::Descriptor::new(&entries)];
            let request = tollgate_limiter::Request { domain: "shop", descriptors: &descriptors, hits: 2 };
            let mut scratch = tollgate_limiter::Scratch::new();
            let answer = limiter.decide(&request, ahead, &mut scratch).await.expect("a valid request");
            assert!(answer.is_admitted() && answer.degraded().is_none());
        }
    });

    let store = ["--store", &redis.url(), "--store-deadline", "10s"];
    let server = ServerProcess::start(folder.path(), &store);
    let ask = |server: &ServerProcess, user: &str| -> serde_json::Value {
        let (_, said) = server.get(&format!("/v1/check?domain=shop&entry=user={user}"));
        serde_json::from_str(&said).expect("JSON")
    };
    for user in ["ann", "bob"] {
        let said = ask(&server, user);
        assert_eq!(
            (&said["outcome"], &said["degraded"]),
            (&"deny".into(), &serde_json::Value::Null),
            "{said}"
        );
        assert!(said["retry_after_ms"].as_u64().is_some_and(|wait| wait > 3_500_000), "{said}");
    }
    let delete =
        "DELETE /v1/keys?domain=shop&entry=user=ann HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(super::ask(server.http(), delete).0, 200);
    assert_eq!(ask(&server, "ann")["outcome"], "admit");
    assert_eq!(ask(&server, "bob")["outcome"], "deny");
    let other =
        ServerProcess::start(folder.path(), &[&store[..], &["--store-prefix", "tollgate-2:"]].concat());
    assert_eq!(ask(&other, "bob")["outcome"], "admit");
}
