//! `tollgate bench` against the server, on every surface: it counts as admitted exactly the requests that the
//! rules admit.

use serde_json::Value;

use crate::tollgate::{Tollgate, run};

/// Each surface has a value of its own, so a counter of its own. A day's tokens come one in 14 minutes: none
/// in this test.
const RULES: &str = "
domain: bench
descriptors:
  - key: few
    rate_limit: {unit: day, requests_per_unit: 100, algorithm: token_bucket, burst: 100}
  - key: many
    rate_limit: {unit: day, requests_per_unit: 1000000}
";

fn server() -> (tempfile::TempDir, Tollgate) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("bench.yaml"), RULES).expect("written");
    let server = Tollgate::start(folder.path());
    (folder, server)
}

fn targets(server: &Tollgate) -> [String; 3] {
    [format!("grpc://{}", server.grpc), format!("http://{}", server.http), format!("resp://{}", server.resp)]
}

/// Runs it to its end and reads its output.
pub(crate) fn bench(target: &str, flags: &[&str]) -> Value {
    let flags = [&["bench", "--json", "--target", target], flags].concat();
    let (status, out, talk) = run(&flags);
    assert_eq!(status.code(), Some(0), "{flags:?}\n{out}{talk}");
    serde_json::from_str(&out).expect("JSON")
}

fn counts(report: &Value) -> [u64; 4] {
    ["requests", "admitted", "denied", "errors"].map(|name| report[name].as_u64().expect(name))
}

#[test]
fn a_limit_of_a_hundred_admits_a_hundred_on_every_surface() {
    let (_folder, server) = server();
    for target in targets(&server) {
        let entry = format!("few={target}");
        for (flags, want) in [
            (&["--requests", "2000", "--connections", "8", "--in-flight", "4"][..], [2_000, 100, 1_900, 0]),
            // The counter is used up, also for those who come on time.
            (&["--requests", "500", "--rate", "20000", "--threads", "2"], [500, 0, 500, 0]),
        ] {
            let report = bench(&target, &[flags, &["--entry", &entry]].concat());
            assert_eq!(counts(&report), want, "{target}: {report}");
        }
    }
}

#[test]
fn under_many_keys_every_request_is_admitted_on_every_surface() {
    let (_folder, server) = server();
    for target in targets(&server) {
        let flags = ["--duration", "200ms", "--warm-up", "50ms", "--entry", "many={key}"];
        let report =
            bench(&target, &[&flags[..], &["--distribution", "zipf:0.99", "--keys", "5000"]].concat());
        let [requests, admitted, denied, errors] = counts(&report);
        assert!(requests > 0 && admitted == requests, "{report}");
        assert_eq!((denied, errors), (0, 0), "{report}");
        let latency = |name: &str| report["latency_us"][name].as_f64().expect("a number");
        assert!(0.0 < latency("p50") && latency("p50") <= latency("p999"), "{report}");
    }
}

#[test]
fn a_throttle_command_of_burst_49_admits_50() {
    let (_folder, server) = server();
    let flags = ["--throttle", "49 1 86400", "--keys", "1", "--requests", "300", "--in-flight", "10"];
    let report = bench(&format!("resp://{}", server.resp), &flags);
    assert_eq!(counts(&report), [300, 50, 250, 0], "{report}");
}

#[test]
fn where_no_server_listens_it_says_what_to_start() {
    let (status, out, talk) = run(&["bench", "--target", "resp://127.0.0.1:1", "--requests", "1"]);
    assert_eq!((status.code(), out.as_str()), (Some(2), ""));
    assert!(talk.contains("cannot be reached") && talk.contains("tollgate serve"), "{talk}");
}
