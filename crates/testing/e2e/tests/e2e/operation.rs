//! Promises to operators: secrets stay secret, warnings, the log of denials, capacity, and the pages about
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::calendar;
use crate::fleet::until;
use crate::rls::{self, PATIENCE};
use crate::start::rules;
use crate::tollgate::{self, Start, Tollgate};
use crate::{http, resp};

const RULES: &str =
    "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
const SECRET: &str = "a-secret-of-this-test-0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn admin_routes_want_the_token_the_redis_protocol_its_password_and_nothing_shows_either() {
    let folder = rules(RULES);
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{SECRET}-resp\n")).expect("written");
    let mut server = Start::new(&folder.path().join("rules.yaml"))
        .env("TOLLGATE_ADMIN_TOKEN", SECRET)
        .args([
            "--resp-password-file",
            &file.display().to_string(),
            "--log-level",
            "trace",
            "--drain-delay",
            "0",
        ])
        .go();
    let right = format!("Bearer {SECRET}");
    let wrong = "Bearer guess".to_owned();
    for path in ["/v1/rules", "/v1/keys?domain=shop&entry=user=alice", "/debug/rlconfig"] {
        for (said, want) in [(None, 401), (Some(&wrong), 401), (Some(&right), 200)] {
            let fields: Vec<(&str, &str)> =
                said.map(|text| ("authorization", text.as_str())).into_iter().collect();
            let answer = http::get(server.http, path, &fields).await.expect("an answer");
            assert_eq!(answer.status, want, "{path} {said:?}: {}", answer.body);
            assert!(!answer.body.contains(SECRET));
        }
    }
    assert_eq!(http::get(server.http, "/healthz", &[]).await.expect("an answer").status, 200);
    let mut client = resp::Client::connect(server.resp).await.expect("it listens");
    for (words, want) in [
        (&["CL.THROTTLE", "k", "1", "1", "60"][..], "NOAUTH"),
        (&["AUTH", "guess"], "WRONGPASS"),
        (&["AUTH", &format!("{SECRET}-resp")], "OK"),
        (&["PING"], "PONG"),
    ] {
        let answer = format!("{:?}", client.ask(words).await);
        assert!(answer.contains(want), "{words:?}: {answer}");
    }
    drop(client);
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(!server.printed().contains(SECRET), "{}", server.printed());
}

#[test]
fn a_secret_on_the_command_line_is_rejected_with_what_to_use_instead() {
    let folder = rules(RULES);
    let flags = ["--admin-token", SECRET];
    let ended = Start::new(folder.path()).args(flags).try_go().err().expect("no start");
    let want = "command line: --admin-token: would be visible in `ps`; set TOLLGATE_ADMIN_TOKEN, or give --admin-token-file\n";
    assert!(ended.printed.contains(want) && !ended.printed.contains(SECRET), "{}", ended.printed);
    let (_, help, _) = tollgate::run(&["serve", "--help"]);
    assert!(help.contains("--admin-token-file <FILE>") && !help.contains("--admin-token <"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_surface_beyond_this_machine_is_warned_of_in_one_line_with_the_way_out() {
    let folder = rules(RULES);
    let every = ["--grpc", "0.0.0.0:0", "--http", "0.0.0.0:0", "--resp", "0.0.0.0:0"];
    let mut command = std::process::Command::new(tollgate::binary());
    let command =
        command.env_clear().args(["serve", "--drain-delay", "0", "--rules"]).arg(folder.path()).args(every);
    let mut child =
        tokio::process::Command::from(std::mem::replace(command, std::process::Command::new("true")))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
    let mut screen = Vec::new();
    let mut out = child.stdout.take().expect("piped");
    while !screen.ends_with(b"  ready\n") {
        assert_ne!(out.read_buf(&mut screen).await.expect("text"), 0, "it ended");
    }
    let pid = child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let said = child.wait_with_output().await.expect("it ends");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    for (surface, parts) in [
        ("grpc", &["without TLS (set tls_cert and tls_key)"][..]),
        ("http", &["without TLS", "TOLLGATE_ADMIN_TOKEN"]),
        ("resp", &["without TLS", "TOLLGATE_RESP_PASSWORD"]),
    ] {
        let warnings: Vec<&str> = said
            .lines()
            .filter(|line| {
                line.contains("listening on a non-loopback address")
                    && line.contains(&format!("\"{surface}\""))
            })
            .collect();
        assert_eq!(warnings.len(), 1, "{surface}: {said}");
        assert!(parts.iter().all(|part| warnings[0].contains(part)), "{}", warnings[0]);
    }
}

/// Denies a client `times` times; returns how long that took.
async fn deny(server: &Tollgate, times: usize) -> Duration {
    let mut client = rls::Client::connect(server.grpc).await.expect("it listens");
    client.admits(rls::hit("shop", "user", "alice")).await;
    let began = calendar::now();
    for _ in 0..times {
        assert!(!client.admits(rls::hit("shop", "user", "alice")).await);
    }
    calendar::now().saturating_sub(began)
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_are_logged_at_the_level_that_is_set_and_no_more_often_than_is_set() {
    let folder = rules(RULES);
    for (flags, level, most) in [
        (&["--denial-log-rate", "3"][..], "INFO", 3),
        (&["--denial-log-level", "warn"], "WARN", 10),
        (&["--denial-log-level", "debug"], "none", 0), // below --log-level
        (&["--denial-log-level", "off"], "none", 0),
    ] {
        let mut server = Start::new(folder.path())
            .args(["--drain-delay", "0", "--log-format", "json"])
            .args(flags.iter().copied())
            .go();
        let took = deny(&server, 200).await;
        server.signal("TERM");
        assert!(server.wait().success());
        let said = server.printed();
        let lines: Vec<serde_json::Value> = said
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &serde_json::Value| line["message"] == "denied")
            .collect();
        // `most` at once, and `most` for each second that the denials took, whole or begun.
        let bound = most * (2 + took.as_secs() as usize);
        assert!((most..=bound).contains(&lines.len()), "{flags:?}: {} lines in {took:?}", lines.len());
        for line in lines {
            assert_eq!(
                (&line["level"], &line["domain"], &line["rule"], &line["descriptor"]),
                (&level.into(), &"shop".into(), &"user".into(), &"user=alice".into()),
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_above_the_most_is_closed_on_every_surface_and_counted() {
    let folder = rules(RULES);
    let server =
        Start::new(folder.path()).args(["--workers", "1", "--max-connections", "2", "--backlog", "16"]).go();
    for (surface, to) in [("grpc", server.grpc), ("resp", server.resp), ("http", server.http)] {
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(TcpStream::connect(to).await.expect("it listens"));
        }
        let mut third = TcpStream::connect(to).await.expect("the system takes it");
        let ended = timeout(PATIENCE, third.read(&mut [0; 1])).await.expect("in time");
        assert!(matches!(ended, Ok(0) | Err(_)), "{surface}: closed without a word");
        // The metrics are read over HTTP as well, so one of its places must be free again.
        held.truncate(if surface == "http" { 1 } else { 2 });
        let places = held.len() as f64;
        let counts = async || {
            let is_one_rejected = server.metric("tollgate_connections_refused_total", surface).await? >= 1.0;
            let open = server.metric("tollgate_connections{", surface).await?;
            let asking = if surface == "http" { 1.0 } else { 0.0 };
            (is_one_rejected && open == places + asking).then_some(())
        };
        until(&format!("{surface}: one connection rejected, the others open"), counts).await;
    }
}

/// A thread names itself once it runs, which may be after the server is ready.
async fn workers_are(server: &Tollgate, count: usize) {
    let named = async {
        while server.threads("worker-") < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, named).await.expect("they name themselves");
    assert_eq!(server.threads("worker-"), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_and_the_backlog_are_as_many_as_the_settings_say() {
    let folder = rules(RULES);
    let server = Start::new(folder.path()).args(["--workers", "3"]).go();
    workers_are(&server, 3).await;
    let server = Start::new(folder.path()).args(["--workers", "1", "--backlog", "16"]).go();
    workers_are(&server, 1).await;
    server.signal("STOP");
    until("all threads to stop", async || server.is_stopped().then_some(())).await;
    let mut waiting = Vec::new();
    // The system does not answer a connection above the backlog within this second.
    while let Ok(Ok(stream)) = timeout(Duration::from_secs(1), TcpStream::connect(server.resp)).await {
        waiting.push(stream);
        assert!(waiting.len() <= 64, "the backlog has no bound");
    }
    server.signal("CONT");
    // Linux lets one more in.
    assert!((16..=17).contains(&waiting.len()), "{} connections waited", waiting.len());
    for stream in &mut waiting {
        stream.write_all(b"PING\r\n").await.expect("sent");
        let mut answer = [0; 7];
        timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("in time").expect("an answer");
        assert_eq!(&answer, b"+PONG\r\n", "each that waited is served");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shut_down_lets_a_pipeline_of_commands_finish() {
    let folder = rules(RULES);
    let mut server = Start::new(folder.path()).args(["--drain-delay", "0"]).go();
    let mut stream = TcpStream::connect(server.resp).await.expect("it listens");
    stream.write_all("PING\r\n".repeat(1_000).as_bytes()).await.expect("sent");
    let mut answer = vec![0; 7_000];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("in time").expect("all of them");
    server.signal("TERM");
    assert!(server.wait().success(), "an idle connection does not hold the end");
    assert!(server.printed().contains("stopped"), "{}", server.printed());
}

fn project(path: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_operating_names_every_metric_and_no_other() {
    let folder = rules(RULES);
    let server = Start::new(folder.path()).args(["--otlp", "http://127.0.0.1:9"]).go();
    let accept = ("accept", "application/openmetrics-text");
    let metrics = http::get(server.http, "/metrics", &[accept]).await.expect("an answer").body;
    let rendered: BTreeSet<(String, String)> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .filter(|(name, _)| !name.starts_with("ratelimit_service_") && !name.starts_with("process_"))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    let page = project("docs/operating.md");
    let told: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `tollgate_")?.split_once("` | "))
        .filter_map(|(name, rest)| Some((format!("tollgate_{name}"), rest.split(' ').next()?.to_owned())))
        .collect();
    let missing: Vec<_> = rendered.difference(&told).collect();
    let gone: Vec<_> = told.difference(&rendered).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not on the page: {missing:?}; not rendered: {gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_settings_file_starts_a_server_from_any_folder() {
    let root =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("a folder");
    let config = root.join("examples/tollgate.yaml").display().to_string();
    let elsewhere = tempfile::tempdir().expect("a folder");
    for (folder, config) in [
        (root.as_path(), "examples/tollgate.yaml"),
        (root.as_path(), config.as_str()),
        (&root.join("examples"), "tollgate.yaml"),
        (std::path::Path::new("/"), &config),
        (elsewhere.path(), &config),
    ] {
        let server = Start::command(["serve", "--config", config]).within(folder).go();
        assert_eq!(http::get(server.http, "/readyz", &[]).await.expect("an answer").status, 200);
    }
}
