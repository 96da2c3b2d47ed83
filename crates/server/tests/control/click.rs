//! From a click to in force, measured: a rule is saved by the API, and three nodes are asked over and over
//! until each is limited by it. It prints the figures.

#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_harness::processes::*;

/// Rules that are made.
const CHANGES: usize = 100;
/// Between two questions to a node: the resolution of the figures.
const PAUSE: Duration = Duration::from_micros(500);

/// One connection that asks whether a key is limited.
struct Asking(BufReader<TcpStream>);

impl Asking {
    fn of(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_nodelay(true).expect("set");
        Self(BufReader::new(stream))
    }

    fn is_limited(&mut self, key: usize) -> bool {
        let request =
            format!("GET /v1/check?domain=shop&entry=key=k{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("sent");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        !String::from_utf8_lossy(&body).contains("\"rule\":null")
    }
}

#[test]
#[ignore = "measures; run it in release mode on a quiet machine"]
fn from_a_click_to_in_force_on_three_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    control.create_rule("shop", "first", 1);
    for node in &nodes {
        node.wait_denied("shop", "first");
    }
    let asked = Arc::new(AtomicUsize::new(usize::MAX));
    let (sender, seen) = mpsc::channel();
    for node in &nodes {
        let asked = Arc::clone(&asked);
        let sender = sender.clone();
        let address = node.http();
        std::thread::spawn(move || {
            let mut asking = Asking::of(address);
            let mut last = usize::MAX;
            loop {
                let key = asked.load(Relaxed);
                if key == CHANGES {
                    return;
                }
                if key != last && key != usize::MAX && asking.is_limited(key) {
                    last = key;
                    sender.send(Instant::now()).expect("the test waits");
                }
                std::thread::sleep(PAUSE);
            }
        });
    }
    let mut in_force: Vec<Duration> = Vec::new();
    let mut saved: Vec<Duration> = Vec::new();
    for key in 0..CHANGES {
        asked.store(key, Relaxed);
        let clicked = Instant::now();
        control.create_rule("shop", &format!("k{key}"), 1);
        saved.push(clicked.elapsed());
        let last = nodes.iter().map(|_| seen.recv_timeout(PATIENCE).expect("in force")).max();
        in_force.push(last.expect("three nodes").duration_since(clicked));
    }
    asked.store(CHANGES, Relaxed);
    for (what, mut times) in [("saved", saved), ("in force on three nodes", in_force)] {
        times.sort();
        let p50 = times[CHANGES / 2];
        let p99 = times[CHANGES * 99 / 100];
        println!("{what}: p50 {p50:?}, p99 {p99:?}, longest {:?}", times[CHANGES - 1]);
    }
}

/// Row 154. That every change takes so long is shown in simulated time, where no machine is busy; that
/// nothing here takes a second of its own is shown by the quickest quarter, which any machine lets run.
#[test]
fn the_quickest_quarter_of_twenty_rules_and_blocks_is_in_force_on_three_nodes_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    let form = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
    control.create_rule("shop", "first", 1);
    nodes.iter().for_each(|node| node.wait_denied("shop", "first"));
    let in_force = |kind: &str, change: &dyn Fn(usize)| {
        let mut times: Vec<Duration> = (0..20)
            .map(|key| {
                let clicked = Instant::now();
                change(key);
                nodes.iter().for_each(|node| node.wait_denied("shop", &format!("{kind}{key}")));
                clicked.elapsed()
            })
            .collect();
        times.sort();
        times
    };
    let by_form = in_force("k", &|key| {
        let rule = format!("app=shop&key=k{key}&max_permits=1&rate=1&terms=yes&action=save");
        let (status, said) = control.try_send("POST", "/rules/new", form, &rule).expect("an answer");
        assert_eq!(status, 303, "{said}");
    });
    // No rule denies these: their permits are many.
    for key in 0..20 {
        control.create_rule("shop", &format!("b{key}"), 1_000_000);
    }
    for (node, key) in nodes.iter().flat_map(|node| (0..20).map(move |key| (node, key))) {
        wait("its rule is there", || (node.check("shop", &format!("b{key}")) == "limited").then_some(()));
    }
    let by_block = in_force("b", &|key| {
        let entries = [format!("key=b{key}")];
        let body =
            json!({"domain": "shop", "entries": entries, "action": "block", "minutes": 60, "reason": "test"});
        let path = "/api/v1/overrides";
        let json = "Content-Type: application/json\r\n";
        let (status, said) = control.try_send("POST", path, json, &body.to_string()).expect("an answer");
        assert_eq!(status, 201, "{said}");
    });
    for (what, times) in [("rules by the form", by_form), ("blocks", by_block)] {
        println!("{what}: quickest {:?}, half {:?}, slowest {:?}", times[0], times[10], times[19]);
        assert!(times[4] <= Duration::from_secs(1), "{what}: {times:?}");
    }
}
