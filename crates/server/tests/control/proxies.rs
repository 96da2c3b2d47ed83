//! A control plane behind proxies: the client address for attempts at passwords, for the audit, and for
//! access to metrics.

use serde_json::Value;
use tollgate_harness::processes::*;

/// A password that is tried by the client that the last of these addresses names.
fn log_in(control: &ControlProcess, forwarded: &str, password: &str) -> u16 {
    let fields = format!("Content-Type: application/json\r\nX-Forwarded-For: {forwarded}\r\n");
    let body = format!(r#"{{"name": "ann", "password": "{password}"}}"#);
    send(control.address, "POST", "/api/v1/login", &fields, &body).expect("an answer").0
}

#[test]
fn behind_a_proxy_each_client_has_attempts_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let address = ([127, 0, 0, 1], free_port()).into();
    let mut command = ControlProcess::command(&data, address);
    command.args(["--proxy-hops", "1"]);
    let control = ControlProcess::started(command, &data, address);
    for n in 0..5 {
        // Addresses that the client writes itself come first, and count for nothing.
        assert_eq!(log_in(&control, &format!("198.51.100.{n}, 203.0.113.7"), "wrong"), 401, "attempt {n}");
    }
    assert_eq!(log_in(&control, "198.51.100.9, 203.0.113.7", "correct horse battery"), 429);
    assert_eq!(log_in(&control, "203.0.113.8", "correct horse battery"), 200, "another client");
    // Where the proxy names no client, the peer counts.
    assert_eq!(log_in(&control, "unknown", "wrong"), 401);

    let (status, audit) = control.get("/api/v1/audit?size=50");
    let audit: Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!(status, 200, "{audit}");
    let entries = audit["entries"].as_array().expect("entries").iter();
    let failed = entries.filter(|it| it["action"] == "login.failed");
    let mut from: Vec<_> = failed.filter_map(|it| it["ip"].as_str()).collect();
    from.dedup();
    assert_eq!(from, ["127.0.0.1", "203.0.113.7"], "newest first");
    // A peer on this machine is the proxy, and so any client behind it.
    let metrics = send(control.address, "GET", "/metrics", "", "").expect("an answer");
    assert_eq!(metrics.0, 401, "{}", metrics.2);
}

#[test]
fn without_a_proxy_a_client_cannot_name_another_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    for n in 0..5 {
        assert_eq!(log_in(&control, &format!("203.0.113.{n}"), "wrong"), 401, "attempt {n}");
    }
    assert_eq!(log_in(&control, "203.0.113.9", "wrong"), 429);
}

#[test]
fn every_reply_has_the_fields_that_guard_browsers() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    for (method, path, want) in [
        ("GET", "/metrics", 200),
        ("GET", "/login", 303),
        ("GET", "/nothing-here", 404),
        ("POST", "/nothing-here", 404),
        ("DELETE", "/login", 405),
        ("OPTIONS", "/login", 204),
        ("OPTIONS", "*", 204),
        ("GET", "/api/v1/nothing", 404),
        ("PATCH", "/api/v1/rules", 405),
    ] {
        let fields = format!("Cookie: tollgate={}\r\n", control.cookie);
        let (status, head, _) = send(control.address, method, path, &fields, "").expect("an answer");
        assert_eq!(status, want, "{method} {path}: {head}");
        for field in ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff"] {
            assert!(head.contains(field), "{method} {path}: {head}");
        }
        assert_eq!(head.matches("content-security-policy").count(), 1, "{method} {path}: {head}");
    }
}

#[test]
fn a_wrong_value_is_named_by_the_flag_that_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command =
        ControlProcess::command(&folder.path().join("data"), ([127, 0, 0, 1], free_port()).into());
    let said = command.args(["--proxy-hops", "99"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("--proxy-hops: invalid number \"99\""), "{said}");
    assert!(!said.contains("--control-"), "{said}");
}
