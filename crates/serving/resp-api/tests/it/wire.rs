//! Bytes: pieces, pipelines, malformed frames, clients that do not read or stop sending. Other clients never
//! notice.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{RespClient, Server, command, frame};
use tollgate_resp_api::RespSettings;

/// A pipeline of every kind of command with counters of its own, and what must come back.
fn mixed(name: usize) -> (Vec<u8>, &'static str) {
    let sent = [
        command(&format!("CL.THROTTLE {name:03} 2 30 60")),
        b"PING\r\n".to_vec(),
        command(&format!("CL.THROTTLE {name:03} 2 30 60")),
        command(&format!("THROTTLE {name:03} 3 30 60")),
        command(&format!("CL.THROTTLE {name:03} 2 30 x")),
        command(&format!("CL.THROTTLE {name:03} 2 30 60")),
        b"\r\n*0\r\n".to_vec(),
        frame(&[b"TOLLGATE.CHECK", b"shop", b"user", format!("{name:03}\r\n+OK\r\n").as_bytes()]),
        frame(&[b"ECHO", b"*1\r\n$4\r\nPING\r\n\0"]),
        format!("tollgate.throttle \"{name:03} b\" 0 1 1000\r\n").into_bytes(),
        command("GET x"),
    ]
    .concat();
    let want = "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n\
                +PONG\r\n\
                *5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n\
                *5\r\n:1\r\n:3\r\n:0\r\n:6\r\n:0\r\n\
                -ERR value is not an integer or out of range\r\n\
                *5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n\
                *6\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n$4\r\nuser\r\n\
                $15\r\n*1\r\n$4\r\nPING\r\n\0\r\n\
                *5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000\r\n\
                -ERR unknown command 'GET', with args beginning with: 'x' \r\n";
    (sent, want)
}

#[test]
fn it_does_not_matter_in_which_pieces_bytes_come() {
    let server = Server::start(RespSettings::default());
    for cut in 1..mixed(0).0.len() {
        let (sent, want) = mixed(cut);
        let mut client = server.connect();
        client.send(&sent[..cut]);
        // The rest comes when the first piece has been looked at: an answer to another shows that.
        assert_eq!(server.connect().ask("PING"), "+PONG");
        client.send(&sent[cut..]);
        assert_eq!(client.rest(), want, "cut at {cut}");
    }
    let (sent, want) = mixed(0);
    let mut client = server.connect();
    for byte in &sent {
        client.send(&[*byte]);
    }
    assert_eq!(client.rest(), want, "byte by byte");
}

#[test]
fn ten_thousand_commands_at_once_get_ten_thousand_replies_in_order() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    let mut sent = Vec::new();
    let mut want = String::new();
    for number in 0..10_000 {
        sent.extend_from_slice(&command(&format!("CL.THROTTLE key:{} 9999 1 60", number % 7)));
        let remaining = 9_999 - number / 7;
        want += &format!("*5\r\n:0\r\n:10000\r\n:{remaining}\r\n:-1\r\n:{}\r\n", (number / 7 + 1) * 60);
        if number % 100 == 0 {
            sent.extend_from_slice(format!("ECHO {number}\r\n").as_bytes());
            want += &format!("${}\r\n{number}\r\n", number.to_string().len());
        }
    }
    let writer = std::thread::spawn({
        let mut stream = client.stream().try_clone().expect("a socket");
        move || stream.write_all(&sent).expect("it takes them")
    });
    let mut got = vec![0; want.len()];
    client.stream().read_exact(&mut got).expect("all replies come");
    writer.join().expect("it has written");
    assert_eq!(String::from_utf8_lossy(&got), want);
    assert_eq!(server.api.stats().commands(), 10_100);
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(server.api.buffered_bytes(), 0);
}

#[test]
fn a_protocol_error_gets_a_reply_and_closes_the_connection() {
    let server = Server::start(RespSettings::default());
    let mut other = server.connect();
    let zeros = [0; 70_000];
    let rows: &[(&[u8], &str)] = &[
        (b"*1000000000\r\n", "invalid multibulk length"),
        (b"*99999999999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*3\r\n$-2147483648\r\n", "invalid bulk length"),
        (b"*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n\0\r\n", "expected '$', got '\\x00'"),
        (b"*1\r\n$4\r\nPINGPING\r\n", "expected a line break behind an argument"),
        (b"*\0\r\n", "invalid multibulk length"),
        (b"PING \"\r\n", "unbalanced quotes in request"),
        (&zeros[..16_384], "too big inline request"),
        (&zeros, "too big inline request"),
        (&[b'*'; 40], "too big mbulk count string"),
    ];
    for (number, (bytes, want)) in rows.iter().enumerate() {
        let mut client = server.connect();
        // Bytes that break the protocol may follow a valid command.
        client.send(b"PING\r\n");
        let _ = client.stream().write_all(bytes);
        assert_eq!(client.rest(), format!("+PONG\r\n-ERR Protocol error: {want}\r\n"), "row {number}");
        assert_eq!(other.ask("PING"), "+PONG");
        assert_eq!(server.api.stats().protocol_errors(), number as u64 + 1);
    }
    drop(other);
    server.await_clients(0);
    assert_eq!(server.api.buffered_bytes(), 0);
}

#[test]
fn an_http_request_is_closed_without_a_reply() {
    let server = Server::start(RespSettings::default());
    for bytes in ["POST / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE k 1 1 1\r\n", "Host: x\r\nPING\r\n"] {
        let mut client = server.connect();
        client.send(bytes.as_bytes());
        assert_eq!(client.rest(), "");
    }
    assert_eq!(server.api.stats().admitted(), 0);
}

#[test]
fn a_large_argument_comes_back_and_one_too_large_does_not() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    for length in [1_023, 1_024, 1_025, 16_383, 16_384, 16_385, 65_535, 65_536] {
        let text = vec![b'x'; length];
        client.send(&frame(&[b"PING", &text]));
        assert_eq!(client.reply().len(), length + 2);
        // And in the middle of others.
        client.send(&[frame(&[b"PING"]), frame(&[b"PING", &text]), frame(&[b"PING"])].concat());
        assert_eq!(
            (client.reply(), client.reply().len(), client.reply()),
            (PONG.into(), length + 2, PONG.into())
        );
    }
    let words: Vec<&[u8]> =
        [&b"TOLLGATE.CHECK"[..], b"shop"].into_iter().chain([&b"word"[..]; 1_022]).collect();
    client.send(&frame(&words));
    assert_eq!(client.reply(), "[0, -1, -1, -1, 0, nil]");
    assert_eq!(server.api.buffered_bytes(), 0);
}

const PONG: &str = "+PONG";

/// Sends `bytes` again and again until the server takes no more for a while, or has closed; how many it took.
fn push(client: &mut RespClient, bytes: &[u8], most: usize) -> usize {
    client.stream().set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut sent = 0;
    while sent < most {
        // A write that takes long may have written a part: the next continues behind it.
        match client.stream().write(&bytes[sent % bytes.len()..]) {
            Ok(more) => sent += more,
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_and_the_others_continue() {
    let settings = RespSettings { write_timeout: Duration::from_secs(3_600), ..RespSettings::default() };
    let server = Server::start(settings);
    let mut other = server.connect();
    let mut client = server.connect();
    let echo = frame(&[b"ECHO", &[b'x'; 4_000]]);
    let most = 256 << 20;
    let sent = push(&mut client, &echo.repeat(100), most);
    assert!(sent < most, "it takes no more at some point");
    // The worker has had a hundred turns in a row, and answered only the other client.
    let mut pings = 0;
    let mut in_a_row = 0;
    while in_a_row < 100 {
        assert!(pings < 100_000, "it answers on and on");
        let held = server.api.stats().commands();
        assert_eq!(other.ask("PING"), PONG);
        pings += 1;
        in_a_row = if server.api.stats().commands() == held + 1 { in_a_row + 1 } else { 0 };
    }
    // It reads after all: every whole command is answered.
    let mut drain = client.stream().try_clone().expect("a socket");
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        let mut read = 0;
        while let Ok(more @ 1..) = drain.read(&mut bytes) {
            read += more;
        }
        read
    });
    client.stream().shutdown(std::net::Shutdown::Write).expect("a socket");
    let echoes = sent / echo.len();
    assert_eq!(reader.join().expect("it reads"), echoes * b"$4000\r\n\r\n".len() + echoes * 4_000);
    assert_eq!(server.api.stats().commands(), pings + echoes as u64);
    assert_eq!(server.api.stats().slow_readers(), 0);
}

#[test]
fn a_client_that_never_reads_is_closed() {
    let settings = RespSettings { write_timeout: Duration::from_millis(50), ..RespSettings::default() };
    let server = Server::start(settings);
    let mut client = server.connect();
    push(&mut client, &b"COMMAND DOCS\r\n".repeat(100), 64 << 20);
    server.await_clients(0);
    assert_eq!(server.api.stats().slow_readers(), 1);
    assert_eq!(server.connect().ask("PING"), PONG);
}

#[test]
fn a_partial_command_is_waited_for_until_its_timeout() {
    let settings = RespSettings { command_timeout: Duration::from_millis(50), ..RespSettings::default() };
    let server = Server::start(settings);
    let mut idle = server.connect();
    assert_eq!(idle.ask("PING"), PONG);
    for (number, half) in ["*", "*2\r\n$4\r\nEC", "PIN", "PING\r\n*1\r\n$60000\r\nabc"].iter().enumerate() {
        let mut client = server.connect();
        client.send(half.as_bytes());
        let _ = half.strip_prefix("PING\r\n").map(|_| assert_eq!(client.reply(), PONG));
        assert_eq!(client.reply(), "(closed)", "{half:?}");
        assert_eq!(server.api.stats().slow_writers(), number as u64 + 1);
    }
    // Drop by drop does not help.
    let mut client = server.connect();
    client.send(b"*1\r\n$60000\r\n");
    while client.stream().write_all(&[b'x'; 10]).is_ok() && server.api.stats().slow_writers() < 5 {
        std::thread::yield_now();
    }
    assert_eq!(idle.ask("PING"), PONG, "a client that has sent nothing has no timeout");
    assert_eq!(server.api.stats().idle(), 0);
    drop(client);
    server.await_clients(1);
    assert_eq!(server.api.buffered_bytes(), 0);
}

#[test]
fn a_client_without_a_command_is_closed_if_a_setting_says_so() {
    let settings = RespSettings { idle_timeout: Duration::from_millis(50), ..RespSettings::default() };
    let server = Server::start(settings);
    let mut client = server.connect();
    assert_eq!(client.ask("PING"), PONG);
    assert_eq!(client.reply(), "(closed)");
    assert_eq!(server.connect().reply(), "(closed)");
    assert_eq!(server.api.stats().idle(), 2);
}

#[test]
fn clients_that_do_not_read_have_one_bound_together() {
    let patient = RespSettings { write_timeout: Duration::from_secs(3_600), ..RespSettings::default() };
    let echo = frame(&[b"ECHO", &[b'x'; 4_000]]).repeat(100);
    let held = {
        let server = Server::start(patient.clone());
        let mut client = server.connect();
        push(&mut client, &echo, 256 << 20);
        server.api.unread_bytes()
    };
    assert!((32 * 1024..256 * 1024).contains(&held), "{held} bytes of one client");
    let server = Server::start(RespSettings { max_unread_bytes: held * 3 / 2, ..patient });
    let mut first = server.connect();
    push(&mut first, &echo, 256 << 20);
    assert_eq!((server.api.stats().over_budget(), server.api.stats().clients()), (0, 1));
    let mut second = server.connect();
    push(&mut second, &echo, 256 << 20);
    server.await_clients(1);
    assert_eq!(server.api.stats().over_budget(), 1);
    assert_eq!(server.connect().ask("PING"), PONG);
    drop(first);
    server.await_clients(0);
    assert_eq!(server.api.unread_bytes(), 0);
}

#[test]
fn partial_commands_of_all_clients_have_one_bound_and_what_exceeds_it_is_denied() {
    let settings = RespSettings { max_buffered_bytes: 110_000, ..RespSettings::default() };
    let server = Server::start(settings);
    let whole = frame(&[b"TOLLGATE.CHECK", b"shop", b"user", &[b'x'; 60_000]]);
    let (half, rest) = whole.split_at(40_000);
    let mut held: Vec<RespClient> = (0..2)
        .map(|number| {
            let mut client = server.connect();
            client.send(half);
            while server.api.buffered_bytes() != (number + 1) * half.len() {
                std::thread::yield_now();
            }
            client
        })
        .collect();
    let mut third = server.connect();
    third.send(half);
    while server.api.stats().over_budget() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.api.buffered_bytes(), 2 * half.len(), "the third is not kept");
    third.send(&[rest, b"PING\r\n"].concat());
    assert_eq!((third.reply(), third.reply()), ("[1, -1, -1, -1, 0, nil]".to_owned(), PONG.to_owned()));
    held[0].send(&[rest, b"PING\r\n"].concat());
    assert_eq!(
        (held[0].reply(), held[0].reply()),
        ("[0, 2, 1, -1, 60, \"user\"]".to_owned(), PONG.to_owned())
    );
    let metrics = server.api.limiter().metrics().render();
    assert!(metrics.contains(r#"{surface="resp",status="denied",reason="overload"} 1"#), "{metrics}");
    assert_eq!(server.api.stats().over_budget(), 1);
    drop((held, third));
    server.await_clients(0);
    assert_eq!(server.api.buffered_bytes(), 0);
}

#[test]
fn a_drain_answers_what_has_come_and_closes() {
    let server = Server::start(RespSettings::default());
    let mut idle = server.connect();
    let mut half = server.connect();
    assert_eq!(idle.ask("PING"), PONG);
    half.send(b"PING\r\n*1\r\n$4\r\nPI");
    assert_eq!(half.reply(), PONG);
    server.drain.send_replace(true);
    assert_eq!(idle.reply(), "(closed)");
    half.send(b"NG\r\n");
    assert_eq!((half.reply(), half.reply()), (PONG.to_owned(), "(closed)".to_owned()));
}
