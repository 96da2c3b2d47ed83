//! Bounds that hold for the whole process, and secrets.

use super::*;

#[test]
fn bodies_that_do_not_arrive_have_one_bound_over_all_workers() {
    const HALF: usize = 30_000;
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--workers", "4", "--max-buffered", "64KiB"]);
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 60000\r\n\r\n";
    // 64 KiB hold two of 30,000 bytes.
    let mut held = Vec::new();
    for number in 1..=2 {
        let mut stream = connect(server.http());
        stream.write_all(format!("{head}{}", " ".repeat(HALF)).as_bytes()).expect("sent");
        while metric(&server, "tollgate_http_buffered_bytes") != (number * HALF) as u64 {}
        held.push(stream);
    }
    for _ in 0..10 {
        let mut stream = connect(server.http());
        stream.write_all(format!("{head}{}", " ".repeat(HALF)).as_bytes()).expect("sent");
        stream.write_all(&[b' '; HALF]).expect("sent");
        let mut said = [0; 4096];
        let read = stream.read(&mut said).expect("a reply");
        let said = String::from_utf8_lossy(&said[..read]);
        assert!(said.contains(r#""outcome":"deny""#) && said.contains(r#""undecided":"overload""#), "{said}");
    }
    assert_eq!(metric(&server, "tollgate_http_buffered_bytes"), 2 * HALF as u64);
    drop(held);
    while metric(&server, "tollgate_http_buffered_bytes") > 0 {}
    for name in [
        "tollgate_grpc_buffered_bytes",
        "tollgate_grpc_unread_bytes",
        "tollgate_http_unread_bytes",
        "tollgate_resp_unread_bytes",
    ] {
        assert_eq!(metric(&server, name), 0, "{name}");
    }
}

#[test]
fn the_process_and_its_build_are_in_the_metrics() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--workers", "3"]);
    let (_, metrics) = server.get("/metrics");
    let build = format!("tollgate_build_info{{version=\"{}\",arch=\"", env!("CARGO_PKG_VERSION"));
    assert!(metrics.contains(&build), "{metrics}");
    assert!(metric(&server, "process_start_time_seconds") > 1_700_000_000);
    if !Path::new("/proc/self/stat").exists() {
        println!("SKIPPED the metrics of the process: there is no /proc on this machine");
        return;
    }
    assert!(metric(&server, "process_threads") >= 4);
    let resident = metric(&server, "process_resident_memory_bytes");
    let addresses = metric(&server, "process_virtual_memory_bytes");
    assert!((1 << 20..1 << 32).contains(&resident) && addresses > resident, "{resident} of {addresses}");
    let open = metric(&server, "process_open_fds");
    let most = metric(&server, "process_max_fds");
    assert!((10..most).contains(&open), "{open} of {most}");
    for line in ["# TYPE process_cpu_seconds_total counter", "# TYPE process_resident_memory_bytes gauge"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[test]
fn short_secrets_are_warned_of_and_guesses_are_logged_and_counted() {
    let folder = rules(RULES);
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]);
    command.args(["--drain-delay", "0", "--rules"]).arg(folder.path());
    command
        .envs([("TOLLGATE_ADMIN_TOKEN", "fifteen-letters"), ("TOLLGATE_RESP_PASSWORD", "sixteen-letters!")]);
    let server = ServerProcess::of(command);
    let guess = "GET /v1/rules HTTP/1.1\r\nhost: t\r\nconnection: close\r\nauthorization: Bearer";
    assert_eq!(ask(server.http(), &format!("{guess} wrong\r\n\r\n")).0, 401);
    assert_eq!(ask(server.http(), &format!("{guess} fifteen-letters\r\n\r\n")).0, 200);
    let mut client = connect(server.says("resp").and_then(|text| text.parse().ok()).expect("an address"));
    client.write_all(b"AUTH wrong\r\nQUIT\r\n").expect("sent");
    let mut said = String::new();
    client.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("-WRONGPASS"), "{said}");
    for (name, want) in [
        ("tollgate_http_wrong_tokens_total", 1),
        ("tollgate_http_slowed_tokens_total", 0),
        ("tollgate_resp_wrong_passwords_total", 1),
        ("tollgate_resp_slowed_passwords_total", 0),
    ] {
        assert_eq!(metric(&server, name), want, "{name}");
    }
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("admin-token: 15 characters can be guessed: expected at least 16"), "{said}");
    assert!(!said.contains("resp-password: "), "{said}");
    let logged: Vec<&str> = said.lines().filter(|line| line.contains("wrong password or token")).collect();
    assert_eq!(logged.len(), 2, "{said}");
    for (line, surface) in logged.iter().zip(["http", "resp"]) {
        assert!(line.contains(&format!("surface=\"{surface}\"")) && line.contains("127.0.0.1"), "{line}");
    }
    assert!(!said.contains("fifteen-letters") && !said.contains("Bearer"), "{said}");
}
