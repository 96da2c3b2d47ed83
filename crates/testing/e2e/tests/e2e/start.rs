//! First steps of a user: the two commands of the README, a start that fails, the other commands.

use std::path::Path;
use std::process::Command;

use crate::http;
use crate::rls::{self, Client};
use crate::skip;
use crate::tollgate::{self, Start, Tollgate};

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rules")
}

/// A folder with one rule file.
pub(crate) fn rules(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("rules.yaml"), text).expect("it can be written");
    folder
}

/// The health of a service name over gRPC: 1 is serving, 2 is not.
pub(crate) async fn health(client: &mut Client, service: &str) -> Result<i32, tonic::Status> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Check {
        #[prost(string, tag = "1")]
        service: String,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Health {
        #[prost(int32, tag = "1")]
        status: i32,
    }
    let check = Check { service: service.to_owned() };
    client.call::<_, Health>("/grpc.health.v1.Health/Check", check).await.map(|h| h.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_rules_are_served_and_the_printed_command_works_as_printed() {
    let server = Tollgate::start(&examples());
    let printed = server.printed();
    assert!(printed.lines().count() <= 24, "one screen, not:\n{printed}");
    if Command::new("curl").arg("--version").output().is_err() {
        return skip::skip("the printed command", "there is no curl on this machine");
    }
    let line = printed.lines().find_map(|l| l.find("curl ").map(|at| &l[at..])).expect("a curl to try");
    let ended = Command::new("sh").args(["-c", line]).output().expect("sh");
    let answer = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(
        ended.status.success() && answer.contains("\"outcome\":\"admit\""),
        "{line}\nanswered {answer} {ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn json_health_readiness_and_metrics_answer_over_http() {
    let folder =
        rules("domain: web\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 1}}\n");
    let server = Tollgate::start(folder.path());
    let ask = r#"{"domain":"web","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
    for (path, body, status, part) in [
        ("/json", ask, 200, r#""overallCode":"OK""#),
        ("/json", ask, 429, r#""overallCode":"OVER_LIMIT""#),
        ("/json", "{", 400, ""),
        ("/json", r#"{"domain":"web","no_such_field":1}"#, 400, ""),
        ("/json", r#"{"domain":"","descriptors":[]}"#, 400, ""),
    ] {
        let answer = http::post(server.http, path, body).await.expect("an answer");
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        let compact: String = answer.body.split_whitespace().collect();
        assert!(compact.contains(part), "{path} {body}: {answer:?}");
    }
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/nothing", 404)] {
        let answer = http::get(server.http, path, &[]).await.expect("an answer");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let metrics = http::get(server.http, "/metrics", &[]).await.expect("an answer").body;
    assert!(metrics.contains("domain=\"web\""), "decisions by domain are counted:\n{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_health_knows_the_server_and_the_service() {
    let folder = rules("domain: d\n");
    let server = Tollgate::start(folder.path());
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    assert_eq!(health(&mut client, "").await.expect("an answer"), 1);
    assert_eq!(health(&mut client, "ratelimit").await.expect("an answer"), 1);
    assert_eq!(health(&mut client, "nobody").await.expect_err("unknown").code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_rules_end_the_first_start_with_every_fault_and_its_place() {
    let folder = rules(
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, request_per_unit: 5}\n  - value: b\n",
    );
    let ended = Start::new(folder.path()).try_go().map(|_| ()).expect_err("refused");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for part in ["rules.yaml:4:", "requests_per_unit", "rules.yaml:5:"] {
        assert!(ended.printed.contains(part), "{part} in {}", ended.printed);
    }
    let (status, out, err) = tollgate::run(&["check", &folder.path().display().to_string()]);
    assert_eq!(status.code(), Some(1), "{out}{err}");
    assert!(
        out.contains("rules.yaml:4:") && out.contains("rules.yaml:5:"),
        "answers go to stdout: {out}{err}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn started_anyway_it_is_not_ready_until_a_good_file_comes() {
    let folder = rules("domain: [\n");
    let server = Start::new(folder.path()).args(["--start-anyway"]).go();
    let ready = http::get(server.http, "/readyz", &[]).await.expect("an answer");
    assert_eq!(ready.status, 503, "{ready:?}");
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    client.ask(rls::hit("d", "k", "v")).await.expect_err("no rules");
    let good = "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    std::fs::write(folder.path().join("rules.yaml"), good).expect("it can be written");
    while http::get(server.http, "/readyz", &[]).await.expect("an answer").status != 200 {}
    assert!(client.admits(rls::hit("d", "k", "v")).await);
}

#[test]
fn explain_names_the_rule_that_matches() {
    let folder =
        rules("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 7}}\n");
    let rules = folder.path().display().to_string();
    let (status, out, err) = tollgate::run(&["explain", "--rules", &rules, "--domain", "d", "k=v"]);
    assert!(status.success(), "{out}{err}");
    let line =
        |name: &str| out.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    assert_eq!(line("rule "), format!("k ({rules}/rules.yaml:3:5)"), "{out}");
    assert_eq!(line("limit "), "7 per day, fixed_window", "{out}");
    assert!(line("counter ").starts_with("d|k=v|"), "{out}");
    let (status, out, err) = tollgate::run(&["check", &rules]);
    assert!(status.success(), "{out}{err}");
}

#[test]
fn a_wrong_command_line_is_answered_with_a_way_out() {
    for (args, wrong, way_out) in [
        (&["serve", "--grcp", "127.0.0.1:0"][..], "--grcp", "--grpc"),
        (&["serve", "--rules", "/nowhere"], "/nowhere", "--start-anyway"),
        (&["sevre"], "sevre", "serve"),
        (&["serve", "--grpc", "8081"], "8081", "host:port"),
    ] {
        let (status, out, err) = tollgate::run(args);
        let is_command_line = wrong != "/nowhere"; // that one is right, and its rules are faulty
        assert_eq!(
            (status.code(), out.as_str()),
            (Some(1 + i32::from(is_command_line)), ""),
            "{args:?}: {err}"
        );
        assert!(err.contains(wrong) && err.replace(wrong, "").contains(way_out), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }
}
