//! The built binary as a process: start, ask, reload, drain. Every wait is for the thing itself, with a bound
//! that only a hang reaches.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

#[path = "process/bounds.rs"]
mod bounds;
#[path = "process/bursts.rs"]
mod bursts;
#[path = "process/container.rs"]
mod container;
#[path = "process/ending.rs"]
mod ending;
#[path = "process/footprint.rs"]
mod footprint;
#[path = "process/grpc_ending.rs"]
mod grpc_ending;
#[path = "process/log.rs"]
mod log;
#[path = "process/machine.rs"]
mod machine;
#[path = "process/monitoring.rs"]
mod monitoring;
#[path = "process/reload.rs"]
mod reload;
#[path = "process/remote.rs"]
mod remote;
#[path = "process/store.rs"]
mod store;
#[path = "process/throttle.rs"]
mod throttle;
#[path = "process/unix_sockets.rs"]
mod unix_sockets;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(300);

const RULES: &str = "domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: year, requests_per_unit: 2}
";

/// A folder with one rule file.
fn rules(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.yaml"), text).expect("written");
    folder
}

fn tollgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// A server on ports of its own, killed when dropped.
struct ServerProcess {
    child: Child,
    out: BufReader<ChildStdout>,
    screen: String,
}

impl ServerProcess {
    fn start(rules: &Path, flags: &[&str]) -> Self {
        let mut command = tollgate();
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.args(["--resp", "127.0.0.1:0", "--drain-delay", "0"]);
        command.arg("--rules").arg(rules).args(flags);
        Self::of(command)
    }

    /// Started, and waited for until it says that it is ready.
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut screen = String::new();
        while !screen.ends_with("  ready\n") {
            if out.read_line(&mut screen).expect("text") == 0 {
                let mut said = String::new();
                child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
                panic!("it ended: {screen}{said}");
            }
        }
        Self { child, out, screen }
    }

    /// The value after `word` on the start screen.
    fn says(&self, word: &str) -> Option<&str> {
        self.screen
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(word)?.strip_prefix(' '))
            .map(str::trim)
    }

    fn http(&self) -> SocketAddr {
        self.says("http").and_then(|text| text.parse().ok()).expect("an address")
    }

    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().expect("sh").success());
    }

    /// Its exit code, and everything that it said on stderr.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        self.out.read_to_string(&mut self.screen).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }

    fn get(&self, path: &str) -> (u16, String) {
        ask(self.http(), &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    }

    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}");
        ask(self.http(), &format!("{head}\r\n\r\n{body}"))
    }

    /// Asks /readyz until `done` accepts status and body.
    fn wait_ready(&self, done: impl Fn(u16, &serde_json::Value) -> bool) -> serde_json::Value {
        for _ in 0..100_000 {
            let (status, body) = self.get("/readyz");
            let body = serde_json::from_str(&body).expect("JSON");
            if done(status, &body) {
                return body;
            }
        }
        panic!("/readyz never said so: {:?}", self.get("/readyz"));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The value of a metric, by its name with its labels.
fn metric(server: &ServerProcess, name: &str) -> u64 {
    let (_, metrics) = server.get("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Status and body of the answer to a whole request that ends its connection.
fn ask(to: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = connect(to);
    stream.write_all(request.as_bytes()).expect("sent");
    answer(stream)
}

fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or_else(|| panic!("no status in {text:?}")), body.to_owned())
}

const ALICE: &str = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"api_key","value":"alice"}]}]}"#;

#[test]
fn it_says_what_it_loaded_where_it_listens_and_a_command_that_works_as_printed() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--workers", "2"]);
    assert_eq!(
        server.says("rules"),
        Some(format!("1 domain, 1 rule from {}", folder.path().display()).as_str())
    );
    assert_eq!(server.says("store"), Some("memory, at most 1GiB"));
    let grpc = server.says("grpc").and_then(|text| text.split(' ').next()?.parse::<SocketAddr>().ok());
    assert_ne!(grpc.expect("an address").port(), 0);
    let try_this = server.says("try").expect("a command");
    assert!(try_this.starts_with("curl "), "{try_this}");
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED the printed command: there is no curl on this machine");
        return;
    }
    for want in ["admit", "admit", "deny"] {
        let ran = Command::new("sh").args(["-c", try_this]).output().expect("sh");
        let said: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        assert_eq!(said["outcome"], want, "{said}");
    }
}

#[test]
fn the_http_port_answers_each_path_by_its_method() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &[]);
    for (path, status, part) in [
        ("/healthz", 200, "ok"),
        ("/healthcheck", 200, "OK"),
        ("/readyz", 200, "\"ready\":true"),
        ("/metrics", 200, "tollgate_connections{surface=\"http\"} "),
        ("/metrics", 200, "# TYPE tollgate_decisions_total counter"),
        ("/metrics", 200, "tollgate_build_info{version=\""),
        (
            "/debug/rlconfig",
            200,
            "shop.api_key: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false",
        ),
        ("/", 200, "/openapi.json"),
        ("/nothing", 404, "unknown path /nothing"),
        ("/json", 405, "POST"),
    ] {
        let (got, body) = server.get(path);
        assert_eq!(got, status, "{path}: {body}");
        assert!(body.contains(part), "{path}: {body}");
    }
    for (body, status, part) in [
        (ALICE, 200, "\"overallCode\":\"OK\""),
        (ALICE, 200, "\"overallCode\":\"OK\""),
        (ALICE, 429, "\"overallCode\":\"OVER_LIMIT\""),
        ("{", 400, ""),
        (r#"{"domain":"shop","no_such_field":1}"#, 400, ""),
        (r#"{"domain":"","descriptors":[]}"#, 400, ""),
        (" ".repeat(5 << 20).as_str(), 429, r#"{"overallCode":"OVER_LIMIT"}"#),
    ] {
        let (got, said) = server.post("/json", body);
        assert_eq!(got, status, "{body}: {said}");
        let compact: String = said.split_whitespace().collect();
        assert!(compact.contains(part), "{body}: {said}");
    }
    assert_eq!(server.post("/metrics", "").0, 405);
    let (_, metrics) = server.get("/metrics");
    let decided: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("tollgate_decision_latency_seconds_count")).collect();
    assert_eq!(
        decided,
        [
            "tollgate_decision_latency_seconds_count{surface=\"grpc\"} 0",
            "tollgate_decision_latency_seconds_count{surface=\"http\"} 3",
            "tollgate_decision_latency_seconds_count{surface=\"resp\"} 0",
        ],
        "each decision has a latency, no invalid request has one"
    );
}

#[test]
fn the_sixth_request_of_the_readmes_is_denied_by_the_example_rules_as_their_picture_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let picture = std::fs::read_to_string(root.join("docs/pictures/first-denial.svg")).expect("readable");
    for name in ["README.md", "README.zh-CN.md"] {
        let readme = std::fs::read_to_string(root.join(name)).expect("readable");
        let asked = readme.lines().find_map(|line| line.strip_prefix("alice='http://127.0.0.1:8080"));
        let asked = asked.and_then(|line| line.strip_suffix('\'')).expect("a request");
        assert!(readme.contains("for i in 1 2 3 4 5 6;"), "{name}");
        let reason = "The limit api_key (5 per minute) is used up; try again in ";
        assert!(picture.contains(reason), "{reason}");
        let is_sixth_denied = || {
            let server = ServerProcess::start(&root.join("examples/rules"), &[]);
            let (loaded, _) = server.says("rules").and_then(|it| it.split_once(" from ")).expect("a number");
            assert!(picture.contains(loaded), "the picture does not show {loaded}");
            let replies = [(); 6].map(|()| server.get(asked));
            let statuses = replies.iter().map(|(status, _)| *status);
            statuses.eq([200, 200, 200, 200, 200, 429]) && replies[5].1.contains(reason)
        };
        // Once in a while a minute ends between two requests, but not twice in a row.
        assert!(is_sixth_denied() || is_sixth_denied(), "{name}");
    }
}

#[test]
fn every_surface_denies_what_no_rule_matches_where_rules_or_the_setting_say_so() {
    let rule = "descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]";
    let response = "response: {status: 403, body: \"{{domain}}: {{retry_after}}\"}";
    let folder = rules(&format!("{{domain: open, unmatched: admit, {rule}}}"));
    for (name, text) in [
        ("strict.yaml", format!("{{domain: strict, unmatched: deny, {response}, {rule}}}")),
        ("silent.yaml", format!("{{domain: silent, {rule}}}")),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    for (flags, denied) in
        [(&[][..], &["strict"][..]), (&["--unmatched", "deny"], &["strict", "silent", "unknown"])]
    {
        let server = ServerProcess::start(folder.path(), flags);
        let resp: SocketAddr = server.says("resp").and_then(|text| text.parse().ok()).expect("an address");
        for domain in ["open", "strict", "silent", "unknown"] {
            let is_denied = denied.contains(&domain);
            let (_, body) = server.get(&format!("/v1/check?domain={domain}&entry=nobody=x"));
            let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let outcome = if is_denied { "deny" } else { "admit" };
            assert_eq!(body["outcome"], outcome, "{domain}: {body}");
            assert_eq!(body["retry_after_ms"].is_null(), is_denied, "no wait helps: {body}");
            let (status, body) = server.get(&format!("/v1/check?domain={domain}&entry=nobody=x&status=rule"));
            let want = match (domain, is_denied) {
                ("strict", _) => 403,
                (_, true) => 429,
                (_, false) => 200,
            };
            assert_eq!(status, want, "{domain}: {body}");
            assert_eq!(body == "strict: never", domain == "strict", "{domain}: {body}");
            let entry = r#"[{"entries":[{"key":"nobody","value":"x"}]}]"#;
            let body = format!(r#"{{"domain":"{domain}","descriptors":{entry}}}"#);
            let (status, body) = server.post("/json", &body);
            assert_eq!(status, if is_denied { 429 } else { 200 }, "{domain}: {body}");
            let mut client = connect(resp);
            client.write_all(format!("TOLLGATE.CHECK {domain} nobody x\r\n").as_bytes()).expect("sent");
            let mut head = [0; 8];
            client.read_exact(&mut head).expect("an answer");
            let want = if is_denied { b"*6\r\n:1\r\n" } else { b"*6\r\n:0\r\n" };
            assert_eq!(&head, want, "{domain}");
        }
    }
}

#[test]
fn a_connection_above_the_most_is_closed_and_counted() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--max-connections", "1", "--workers", "1"]);
    let mut first = connect(server.http());
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").expect("sent");
    first.read_exact(&mut [0; 15]).expect("an answer");
    let mut second = connect(server.http());
    assert!(matches!(second.read(&mut [0; 1]), Ok(0) | Err(_)), "closed without a word");
    first.write_all(b"GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").expect("sent");
    let mut said = String::new();
    first.read_to_string(&mut said).expect("the first is served");
    assert!(said.contains("tollgate_connections_refused_total{surface=\"http\"} 1"), "{said}");
}

#[test]
fn a_reader_of_the_log_that_stalls_stops_no_decision() {
    let folder = rules(RULES);
    // Stderr is not read until the end: the pipe is full after 64 KiB, the queue after 1 MiB.
    let mut server = ServerProcess::start(folder.path(), &["--denial-log-rate", "1000000", "--workers", "1"]);
    let request = r#"{"domain":"shop","descriptors":[[{"key":"api_key","value":"alice"}]]}"#;
    let batch = format!("{{\"requests\":[{}]}}", vec![request; 1_000].join(","));
    for _ in 0..10 {
        let (status, body) = server.post("/v1/check", &batch);
        assert_eq!(status, 200, "{body}");
    }
    let (_, metrics) = server.get("/metrics");
    let dropped = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tollgate_log_lines_dropped_total{reason=\"slow_reader\"} "));
    let dropped: u64 = dropped.and_then(|text| text.parse().ok()).expect("the metric");
    assert!((1..10_000).contains(&dropped), "{dropped} of 10,000 lines dropped");
    let mut log =
        BufReader::new(server.child.stderr.take().expect("piped")).lines().map(|it| it.expect("text"));
    let notice =
        log.find(|line| line.contains("log lines were dropped")).expect("it says so when it is read");
    assert!(notice.contains(&format!("lines={dropped}")), "{notice}");
    server.signal("TERM");
    assert!(log.any(|line| line.contains("stopped")), "the last line is written");
}

#[test]
fn the_environment_of_the_peers_container_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("current/ratelimit/config");
    std::fs::create_dir_all(&config).expect("made");
    std::fs::write(config.join("shop.yaml"), RULES).expect("written");
    let mut command = tollgate();
    command.args(["serve", "--drain-delay", "0"]).envs([
        ("RUNTIME_ROOT", folder.path().join("current").display().to_string().as_str()),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("GRPC_HOST", "127.0.0.1"),
        ("GRPC_PORT", "0"),
        ("HOST", "127.0.0.1"),
        ("PORT", "0"),
        ("DEBUG_HOST", "127.0.0.1"),
        ("DEBUG_PORT", "0"),
        ("TOLLGATE_RESP", "off"),
        ("USE_STATSD", "false"),
        ("LOG_LEVEL", "warn"),
        ("LOG_FORMAT", "json"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "127.0.0.1:1"), // nobody there: every rule lets pass
        ("SHADOW_MODE", "true"),
    ]);
    let server = ServerProcess::of(command);
    for _ in 0..5 {
        assert_eq!(server.post("/json", ALICE).0, 200, "shadow mode lets all pass");
    }
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    let (first, rest) = messages.split_first().expect("a line");
    assert_eq!(*first, "shadow mode: every request is admitted");
    assert!(
        rest.iter().all(|line| line.starts_with("the store is down")) && rest.len() <= 1,
        "only what the operator should know: {messages:?}"
    );
}

#[test]
fn variables_that_are_meant_for_others_change_nothing() {
    let folder = rules(RULES);
    let mut command = tollgate();
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--resp", "off"]);
    command.args(["--drain-delay", "0", "--rules"]).arg(folder.path()).envs([
        ("TOLLGATE_SERVICE_HOST", "10.0.0.11"),
        ("TOLLGATE_PORT", "tcp://10.0.0.11:8080"),
        ("TOLLGATE_IMAGE_DIGEST", "sha256:0"),
        ("REDIS_URL", "127.0.0.1:1"),
    ]);
    let server = ServerProcess::of(command);
    assert_eq!(server.says("store"), Some("memory, at most 1GiB"));
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    for part in ["REDIS_URL: ignored, ", "TOLLGATE_IMAGE_DIGEST: no effect: unknown setting; the nearest is "]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("TOLLGATE_PORT") && !said.contains("TOLLGATE_SERVICE"), "{said}");
}

#[test]
fn faulty_rules_end_the_start_with_every_fault() {
    let folder = rules(
        "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: {unit: dya, requests_per_unit: 1}\n  - {}\n",
    );
    let ran = tollgate().args(["serve", "--rules"]).arg(folder.path()).output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(ran.stdout.is_empty());
    for part in ["shop.yaml:4:", "shop.yaml:5:", "2 errors in the rules; nothing was started"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn a_folder_without_rules_is_no_start() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("notes.txt"), "domain: no").expect("written");
    let ran = tollgate().args(["serve", "--rules"]).arg(folder.path()).output().expect("it ends");
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("no rule file found"));
}

#[test]
fn started_anyway_it_becomes_ready_with_the_first_good_file() {
    let folder = rules("domain: [\n");
    let server = ServerProcess::start(folder.path(), &["--start-anyway"]);
    let said = server.wait_ready(|status, _| status == 503);
    assert_eq!(said["rules"]["loaded"], false, "{said}");
    assert_ne!(server.post("/json", ALICE).0, 200, "a client must not be admitted");
    // An operator sees the reason, and nothing that reads as if rules were loaded or a client admitted.
    let none = server.says("rules").expect("a line").to_owned();
    assert!(none.starts_with("none from ") && none.contains("not ready, and requests fail"), "{none}");
    assert_eq!(server.says("version"), None);
    let metrics = server.get("/metrics").1;
    for want in [
        "tollgate_rule_loads_total{result=\"ok\"} 0",
        "tollgate_last_rule_load_ok 0",
        "tollgate_requests_without_rules_total 1",
        "tollgate_unmatched_requests_total{domain=\"(unknown)\",outcome=\"admit\"} 0",
        "tollgate_unknown_domains_total 0",
    ] {
        assert!(metrics.lines().any(|line| line == want), "{want} in {metrics}");
    }
    assert!(!metrics.contains("tollgate_rules_info{"), "{metrics}");
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    server.wait_ready(|status, _| status == 200);
    assert_eq!(server.post("/json", ALICE).0, 200);
    let metrics = server.get("/metrics").1;
    assert!(metrics.contains("tollgate_rules_info{version=") && metrics.contains("result=\"ok\"} 1\n"));
    server.signal("KILL");
    let (_, said) = server.ended();
    assert!(
        said.contains("starting without rules: not ready, and requests fail, until the files are valid:")
    );
    assert!(said.contains("shop.yaml:1:") && said.contains("started without rules: not ready"), "{said}");
    assert!(!said.contains("keeping the previous rules"), "{said}");
}

#[test]
fn an_empty_folder_is_not_said_to_have_lost_its_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ServerProcess::start(folder.path(), &["--start-anyway"]);
    let said = server.wait_ready(|_, body| body["rules"]["last_error"].is_string());
    let error = said["rules"]["last_error"].as_str().expect("text");
    assert!(error.starts_with("no rule file found; only *.yaml, *.yml and *.json are read"), "{error}");
    server.signal("KILL");
    let (_, said) = server.ended();
    assert!(said.contains("no rules loaded; requests fail until the files are valid:"), "{said}");
    assert!(!said.contains("previous rules"), "{said}");
}

#[test]
fn a_surface_that_is_off_is_not_there() {
    let folder = rules(RULES);
    let mut server = ServerProcess::start(folder.path(), &["--http", "off", "--resp", "off"]);
    assert_eq!(server.says("http"), Some("off"));
    let try_this = server.says("try").expect("a command").to_owned();
    let ran = Command::new("sh").args(["-c", &try_this]).output().expect("sh");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("2 per year"), "{try_this}: {said}");
    server.signal("INT");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn every_port_in_use_is_reported_at_once_with_a_way_out() {
    let folder = rules(RULES);
    let first = ServerProcess::start(folder.path(), &[]);
    let http = first.http().to_string();
    let resp = first.says("resp").expect("an address");
    let mut second = tollgate();
    second.args(["serve", "--grpc", "127.0.0.1:0", "--http", &http, "--resp", resp, "--rules"]);
    let ran = second.arg(folder.path()).output().expect("it ends");
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ran.stderr);
    for part in [
        format!("http cannot listen on {http}: "),
        format!("resp cannot listen on {resp}: "),
        "--http 127.0.0.1:0 picks a free port".to_owned(),
    ] {
        assert_eq!(said.matches(&part).count(), 1, "{part} in {said}");
    }
    assert!(!said.contains("grpc cannot listen"), "{said}");
}

#[test]
fn listening_beyond_this_machine_is_warned_of_once() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--http", "0.0.0.0:0"]);
    let port = server.http().port();
    let (status, body) =
        ask((std::net::Ipv4Addr::LOCALHOST, port).into(), "GET /debug/rlconfig HTTP/1.0\r\n\r\n");
    assert_eq!(status, 403, "{body}");
    server.signal("TERM");
    let (_, said) = server.ended();
    assert_eq!(said.matches("listening on a non-loopback address").count(), 1, "{said}");
}
