//! Signals that end the process: requests in flight finish, and no request is lost.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::*;

#[test]
fn sigterm_lets_a_call_finish_and_ends_with_exit_0() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--drain-delay", "60s"]);
    let mut stream = connect(server.http());
    let (first, rest) = ALICE.split_at(10);
    let head = "POST /json HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length";
    write!(stream, "{head}: {}\r\n\r\n", ALICE.len()).expect("sent");
    let mut proceed = [0; 25];
    stream.read_exact(&mut proceed).expect("the call is in flight");
    stream.write_all(first.as_bytes()).expect("sent");
    server.signal("TERM");
    let said = server.wait_ready(|status, _| status == 503);
    assert_eq!(said["draining"], true, "{said}");
    assert_eq!(server.get("/healthz").0, 200, "it lives while it drains");
    assert_eq!(server.get("/healthcheck").0, 500);
    let (status, body) = server.post("/json", ALICE);
    assert_eq!(status, 200, "calls are taken during the delay: {body}");
    server.signal("TERM"); // enough of the delay
    let address = server.http();
    while TcpStream::connect(address).is_ok() {}
    stream.write_all(rest.as_bytes()).expect("sent");
    let (status, body) = answer(stream);
    assert!(status == 200 && body.contains("OK"), "the in-flight call finished: {status} {body}");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopped"), "{said}");
}

/// One keep-alive client: asks until its connection is closed. `Err` if a request that was sent on a
/// connection that the server had not announced to close got no reply.
fn ask_until_closed(to: SocketAddr, asked: &AtomicU64) -> Result<(), String> {
    while let Ok(stream) = TcpStream::connect(to) {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut lines = BufReader::new(stream);
        for number in 0.. {
            let request =
                format!("POST /json HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{ALICE}", ALICE.len());
            if let Err(error) = lines.get_mut().write_all(request.as_bytes()) {
                return Err(format!("request {number} was not sent: {error}"));
            }
            let mut length = 0;
            let mut is_last = false;
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                match lines.read_line(&mut line) {
                    Ok(0) => return Err(format!("request {number} had no reply")),
                    Ok(_) => {}
                    Err(error) => return Err(format!("request {number} had no reply: {error}")),
                }
                let field = line.to_ascii_lowercase();
                is_last |= field.trim_end() == "connection: close";
                if let Some(text) = field.strip_prefix("content-length: ") {
                    length = text.trim_end().parse().expect("a length");
                }
            }
            lines.read_exact(&mut vec![0; length]).expect("the body");
            asked.fetch_add(1, Relaxed);
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn no_request_on_a_kept_connection_is_lost_when_the_server_ends() {
    let folder = rules(RULES);
    for delay in ["0", "300ms"] {
        let server = ServerProcess::start(folder.path(), &["--drain-delay", delay, "--workers", "2"]);
        let to = server.http();
        let asked = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let clients: Vec<_> = (0..8).map(|_| threads.spawn(|| ask_until_closed(to, &asked))).collect();
            while asked.load(Relaxed) < 200 {
                std::thread::yield_now();
            }
            server.signal("TERM");
            for client in clients {
                assert_eq!(client.join().expect("no panic"), Ok(()), "with a delay of {delay}");
            }
        });
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("stopped") && !said.contains("cut off"), "{said}");
    }
}

/// A client of the Redis protocol that keeps some pipelines in flight until `is_ending` is set, and reads
/// until its connection is closed: how many commands it had sent, and how many replies it got.
fn pipeline_until_closed(
    mut stream: TcpStream,
    replied: &AtomicU64,
    is_ending: &AtomicBool,
    ended: &AtomicUsize,
) -> (u64, u64) {
    const PIPELINE: u64 = 16;
    // All requests in flight fit into the buffers that the system keeps for the server.
    const IN_FLIGHT: u64 = 20 * PIPELINE;
    const REPLY: usize = "+PONG\r\n".len();
    let pings = b"*1\r\n$4\r\nPING\r\n".repeat(PIPELINE as usize);
    let sent = AtomicU64::new(0);
    let got = AtomicU64::new(0);
    let mut commands = stream.try_clone().expect("a socket");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_ending.load(Relaxed) {
                if sent.load(Relaxed) + PIPELINE > got.load(Relaxed) + IN_FLIGHT {
                    std::thread::yield_now();
                    continue;
                }
                commands.write_all(&pings).expect("sent");
                sent.fetch_add(PIPELINE, Relaxed);
            }
            ended.fetch_add(1, Relaxed);
        });
        let mut bytes = [0; 4_096];
        let mut length = 0;
        loop {
            let read = match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no proper end: {error}"),
            };
            length += read;
            replied.fetch_add(read as u64, Relaxed);
            got.store((length / REPLY) as u64, Relaxed);
        }
        assert_eq!(length % REPLY, 0, "whole replies");
    });
    (sent.into_inner(), got.into_inner())
}

/// Number of connections to `to` on which the system has confirmed the arrival of every byte. A write that
/// has returned may wait in the client's system: for a confirmation, or for a thread to run.
fn confirmed(to: SocketAddr) -> usize {
    let port = format!(":{:04X}", to.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let is_confirmed = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        let peer = fields.next().unwrap_or_default();
        let queues = fields.nth(1).unwrap_or_default();
        peer.ends_with(&port) && queues.starts_with("00000000:")
    };
    table.lines().filter(is_confirmed).count()
}

/// The server is stopped wherever it is; what clients sent until then and afterwards arrives; then it learns
/// of its end, and runs again.
#[test]
fn pipelined_redis_commands_that_have_arrived_when_the_server_ends_are_answered() {
    const CLIENTS: usize = 4;
    if !Path::new("/proc/net/tcp").exists() {
        println!("SKIPPED commands that have arrived: this system does not say what has");
        return;
    }
    let folder = rules(RULES);
    for delay in ["0", "0", "0", "0", "300ms"] {
        let server = ServerProcess::start(folder.path(), &["--drain-delay", delay, "--workers", "2"]);
        let to: SocketAddr = server.says("resp").and_then(|text| text.parse().ok()).expect("an address");
        let replied = AtomicU64::new(0);
        let is_ending = AtomicBool::new(false);
        let ended = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            let client = || {
                let stream = connect(to);
                threads.spawn(|| pipeline_until_closed(stream, &replied, &is_ending, &ended))
            };
            let clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
            while replied.load(Relaxed) < 1 << 18 {
                std::thread::yield_now();
            }
            server.signal("STOP");
            is_ending.store(true, Relaxed);
            while ended.load(Relaxed) < CLIENTS || confirmed(to) < CLIENTS {
                std::thread::yield_now();
            }
            server.signal("TERM");
            server.signal("CONT");
            for client in clients {
                let (sent, answered) = client.join().expect("no panic");
                assert_eq!(answered, sent, "had arrived and were answered; delay {delay}");
            }
        });
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("stopped") && !said.contains("cut off"), "{said}");
    }
}

#[test]
fn ctrl_c_at_a_terminal_skips_the_delay() {
    let folder = rules(RULES);
    let serve = format!(
        "exec {} serve --grpc off --resp off --http 127.0.0.1:0 --drain-delay 60s --rules {}",
        env!("CARGO_BIN_EXE_tollgate"),
        folder.path().display()
    );
    let mut command = Command::new("script");
    command.args(["-qefc", &serve, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("SKIPPED Ctrl-C: there is no `script` on this machine");
        return;
    };
    let mut keys = child.stdin.take().expect("piped");
    let out = child.stdout.take().expect("piped");
    let mut out = BufReader::new(out);
    let mut said = String::new();
    while !said.ends_with("  ready\r\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended: {said}");
    }
    keys.write_all(b"\x03").expect("typed");
    out.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(said.contains("stopped") && !said.contains("still accepting requests"), "{said}");
}

#[test]
fn a_call_that_never_ends_holds_the_end_for_the_timeout_or_the_next_signal_only() {
    let folder = rules(RULES);
    for (timeout, signals) in [("100ms", 1), ("1h", 2)] {
        let server = ServerProcess::start(folder.path(), &["--drain-timeout", timeout]);
        let mut stuck = connect(server.http());
        let head = "POST /json HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n";
        stuck.write_all(head.as_bytes()).expect("sent");
        stuck.read_exact(&mut [0; 25]).expect("the call is in flight");
        server.signal("TERM");
        if signals == 2 {
            while TcpStream::connect(server.http()).is_ok() {}
            server.signal("TERM");
        }
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("in-flight requests were cut off"), "{said}");
    }
}

#[test]
fn a_connection_that_is_idle_does_not_hold_the_end() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &[]);
    let mut idle = connect(server.http());
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").expect("sent");
    idle.read_exact(&mut [0; 15]).expect("an answer"); // HTTP/1.1 200 OK
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopped") && !said.contains("cut off"), "{said}");
}
