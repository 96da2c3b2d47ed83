//! Peers that misbehave on the one port of the control plane. Others are served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tollgate_harness::processes::*;

/// The beginning of HTTP/2, and an empty frame of settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn connect(control: &ControlProcess) -> TcpStream {
    let stream = TcpStream::connect(control.address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Reads until the other side closes.
fn until_closed(mut stream: TcpStream) {
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return;
            }
            Err(error) => panic!("not closed: {error}"),
        }
    }
}

fn must_serve(control: &ControlProcess) {
    let (status, body) = control.get("/api/v1/me");
    assert_eq!(status, 200, "{body}");
}

#[test]
fn connections_that_begin_and_never_end_are_closed_and_keep_nobody_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    let mut slow = Vec::new();
    for first in [
        &b""[..],                                          // says nothing
        b"P",                                              // either protocol
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r",                 // all of the preface but its last byte
        PREFACE,                                           // HTTP/2 without the stream of a node
        b"GET /rules HTTP/1.1\r\nHost: x\r\nA: ",          // a field that does not end
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nn",
    ] {
        for _ in 0..50 {
            let mut stream = connect(&control);
            stream.write_all(first).expect("sent");
            slow.push(stream);
        }
    }
    // Bytes that are not HTTP at all.
    for garbage in [
        [PREFACE, &[0xff; 4_096]].concat(),
        [PREFACE, b"\xff\xff\xff\x01\x05\0\0\0\x01"].concat(), // a frame of 16 MiB
        [PREFACE, &b"\0\0\x01\x06\0\0\0\0\0x".repeat(500)].concat(), // pings of the wrong size
        vec![0; 100_000],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".repeat(9), // TLS to a port without it
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        [&b"GET /"[..], &b"a".repeat(100_000), b" HTTP/1.1\r\n\r\n"].concat(),
        [&b"GET / HTTP/1.1\r\n"[..], &b"A: b\r\n".repeat(5_000), b"\r\n"].concat(),
    ] {
        let mut stream = connect(&control);
        let _ = stream.write_all(&garbage); // it may be closed meanwhile
        until_closed(stream);
    }
    must_serve(&control);
    control.create_rule("shop", "push", 1);
    node.wait_denied("shop", "push");
    slow.into_iter().for_each(until_closed);
    must_serve(&control);
}

#[test]
fn those_who_are_not_logged_in_take_no_memory_and_imports_have_a_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    for (path, bytes) in
        [("/api/v1/import", 1 << 20), ("/api/v1/login", 65_537), ("/api/v1/changes", 1 << 20)]
    {
        let (status, _, said) =
            send(control.address, "POST", path, "", &"x".repeat(bytes)).expect("an answer");
        assert_eq!(status, 413, "{path}: {said}");
    }
    let long = "a".repeat(64 * 1024 - 40);
    let login = json!({"name": "ann", "password": long}).to_string();
    let (status, ..) = send(control.address, "POST", "/api/v1/login", "", &login).expect("an answer");
    assert_eq!(status, 401, "one that fits is read");
    // Imports of megabytes at the same time, and a change meanwhile.
    let rows =
        (0..5_000).map(|n| format!("  - key: \"k{n}\"\n    rate: {}\n    max_permits: 9\n", n % 9 + 1));
    let import = format!("tollgate: 1\napp: \"shop\"\ncar:\n{}", rows.collect::<String>());
    std::thread::scope(|scope| {
        let imports: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| control.try_send("POST", "/api/v1/import?dry_run=true", "", &import)))
            .collect();
        for n in 0..5 {
            control.create_rule("bank", &format!("k{n}"), 1);
        }
        for import in imports {
            let (status, said) = import.join().expect("joined").expect("an answer");
            assert_eq!(status, 200, "{}", said.chars().take(300).collect::<String>());
        }
    });
    let bomb = format!(
        "tollgate: 1\napp: &a shop\n{}",
        (0..30).map(|n| format!("x{n}: [*a, *a, *a]\n")).collect::<String>()
    );
    let deep = format!("tollgate: {}", "[".repeat(100_000));
    for text in [&*bomb, &deep, "tollgate: 1\napp: shop\ncar: &c [*c]\n", "\u{feff}\0"] {
        let (status, said) = control.try_send("POST", "/api/v1/import", "", text).expect("an answer");
        assert!((400..=422).contains(&status), "{status} {said}");
    }
    must_serve(&control);
}

#[test]
fn a_user_has_half_of_the_places_to_wait_for_events_and_more_are_sent_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let (status, events) = control.get("/api/v1/events?topics=changes");
    assert_eq!(status, 200, "{events}");
    let id = events.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    let wait_for_events = || {
        let mut stream = connect(&control);
        let request = format!(
            "GET /api/v1/events?topics=changes HTTP/1.1\r\nHost: {}\r\nCookie: tollgate={}\r\nLast-Event-ID: {id}\r\n\
             Connection: close\r\n\r\n",
            control.address, control.cookie
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let answer = |mut stream: TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.split(' ').nth(1).expect("a status").to_owned()
    };
    let readers = || metric(&control.get("/metrics").1, "tollgate_control_event_readers");
    // There are 500 places. Each request waits for ten seconds, so late ones are sent away before.
    let waiting: Vec<_> = (0..250).map(|_| wait_for_events()).collect();
    wait("all of them wait", || (readers() == Some(250)).then_some(()));
    for _ in 0..50 {
        assert_eq!(answer(wait_for_events()), "429");
    }
    control.create_rule("shop", "push", 1);
    assert!(waiting.into_iter().map(answer).all(|status| status == "200"));
    wait("none waits", || (readers() == Some(0)).then_some(()));
    // Those that leave free their places.
    drop((0..500).map(|_| wait_for_events()).collect::<Vec<_>>());
    wait("none waits", || (readers() == Some(0)).then_some(()));
    must_serve(&control);
}

#[test]
fn a_node_that_reads_nothing_takes_no_memory_is_shown_and_catches_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "push", 1);
    for node in &nodes {
        node.wait_denied("shop", "push");
    }
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", control.process.child.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1_024
    };
    nodes[0].process.signal("STOP");
    let before = memory();
    // Twenty versions of half a megabyte.
    let long = "#".repeat(400_000);
    for n in 1..=20 {
        let text = format!(
            "domain: big\ndescriptors:\n  - {{key: k{n}, rate_limit: {{rate: {n}/minute}}}}\n{long}\n"
        );
        let (method, path, if_match) = match n {
            1 => ("POST", "/api/v1/apps/shop/files".to_owned(), String::new()),
            n => ("PUT", "/api/v1/apps/shop/files/big".to_owned(), format!("If-Match: \"{n}\"\r\n")),
        };
        let fields = format!("Content-Type: application/json\r\n{if_match}");
        let (status, said) =
            control.try_send(method, &path, &fields, &json!({"text": text}).to_string()).expect("an answer");
        assert!(status < 300, "version {}: {status} {said}", n + 1);
    }
    control.create_rule("bank", "last", 1);
    for node in &nodes[1..] {
        node.wait_denied("bank", "last");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 60, "{grown} MiB for a node that reads nothing");
    let state = |name: &str| {
        let (_, listed) = control.get("/api/v1/nodes");
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        let nodes = listed["nodes"].as_array().expect("nodes");
        nodes.iter().find(|it| it["name"] == name).map(|it| it["state"].as_str().expect("text").to_owned())
    };
    wait("it is unresponsive", || (state("a").as_deref() == Some("unresponsive")).then_some(()));
    wait("the problem is a metric", || {
        let metrics = control.get("/metrics").1;
        (metric(&metrics, "tollgate_control_problems{kind=\"unresponsive_node\"}") == Some(1)).then_some(())
    });
    assert_eq!(state("b").as_deref(), Some("live"));
    nodes[0].process.signal("CONT");
    nodes[0].wait_denied("bank", "last");
    wait("it is live again", || (state("a").as_deref() == Some("live")).then_some(()));
}

#[test]
fn whoever_has_the_token_and_not_the_secret_of_a_node_cannot_take_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut control = ControlProcess::start(&folder.path().join("data"));
    let state = folder.path().join("a");
    let node = NodeProcess::start(&control, &state, &["--node-name", "shop-1"]);
    node.wait_ready("connected", |_, body| body["control"]["connected"] == true);
    let secret = std::fs::read(state.join("secret")).expect("a secret");
    // A thief with the fleet's token and the node's id, and a secret of its own.
    let thief = folder.path().join("b");
    std::fs::create_dir(&thief).expect("a folder");
    let id = std::fs::read_to_string(state.join("node")).expect("an id");
    let id = id.split_whitespace().next().expect("an id").to_owned();
    std::fs::write(thief.join("node"), format!("{id} 1000\n")).expect("copied");
    for restarted in [false, true] {
        if restarted {
            control.kill();
            control.start_again();
            node.wait_ready("connected again", |_, body| body["control"]["connected"] == true);
        }
        let other = NodeProcess::start(&control, &thief, &["--node-name", "thief", "--control-wait", "0"]);
        let problem = wait("the claim is a problem", || {
            let (_, found) = control.get("/api/v1/problems");
            let found: serde_json::Value = serde_json::from_str(&found).ok()?;
            let list = found["problems"].as_array()?.clone();
            list.into_iter().find(|it| it["kind"] == "claimed_node")
        });
        assert_eq!((&problem["node"], &problem["node_name"]), (&id.clone().into(), &"shop-1".into()));
        assert_ne!(other.ready().1["control"]["connected"], true);
    }
    assert_eq!(node.ready().1["control"]["connected"], true, "its stream stays");
    let (_, nodes) = control.get("/api/v1/nodes");
    assert!(nodes.contains("shop-1") && !nodes.contains("thief"), "{nodes}");
    let audited = wait("the claim is in the audit", || {
        let (_, audit) = control.get("/api/v1/audit");
        audit.contains("node.rejected").then_some(audit)
    });
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!audited.contains(&*String::from_utf8_lossy(&secret)) && !audited.contains(&digits));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(state.join("secret")).expect("a file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "only its owner reads the secret");
}

#[test]
fn an_import_of_64_mib_is_read_in_bounded_memory_and_a_byte_more_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let of = |size: usize| {
        let mut text = "tollgate: 1\napp: \"shop\"\ncar:\n".to_owned();
        let extras = format!("{{\"note\": \"{}\"}}", "x".repeat(60_000));
        for n in 0.. {
            let row = format!("  - key: \"k{n}\"\n    max_permits: 9\n    extras: '{extras}'\n");
            if text.len() + row.len() + 3 > size {
                break;
            }
            text += &row;
        }
        text + "# " + &"x".repeat(size)
    };
    let cut = |size: usize| {
        let mut text = of(size);
        text.truncate(size);
        text
    };
    // Rejected by its length, before the body is there.
    let mut stream = std::net::TcpStream::connect(control.address).expect("a connection");
    let head = format!(
        "POST /api/v1/import?dry_run=true HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: tollgate={}\r\n\
         Content-Length: {}\r\n\r\n",
        control.address,
        control.cookie,
        (64 << 20) + 1
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("it is sent");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stream, &mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    let most = cut(64 << 20);
    let (status, said) =
        control.try_send("POST", "/api/v1/import?dry_run=true", "", &most).expect("an answer");
    assert_eq!(status, 200, "{}", said.chars().take(300).collect::<String>());
    assert!(said.contains(r#""ok":true"#), "{}", said.chars().take(300).collect::<String>());
    let text = std::fs::read_to_string(format!("/proc/{}/status", control.process.child.id()));
    let text = text.expect("of Linux");
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u64 = peak.expect("a number").trim().parse().expect("a number");
    println!("peak of memory with an import of 64 MiB: {} MiB", peak >> 10);
    assert!(peak < 1 << 20, "{peak} kB: more than a GiB");
    must_serve(&control);
}
