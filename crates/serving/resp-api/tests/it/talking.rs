//! Commands that every Redis client sends: versions, passwords, names, questions about commands. Rows of
//! words and reply.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use crate::common::{Server, command, story};
use tollgate_resp_api::{Password, RespSettings};

const HELLO: &str = r#""server", "tollgate", "version", "7.4.0", "proto", "#;

#[test]
fn small_talk() {
    let server = Server::start(RespSettings::default());
    let hello2 = format!(r#"[{HELLO}2, "id", 1, "mode", "standalone", "role", "master", "modules", []]"#);
    let hello3 = format!("{{{}}}", &hello2[1..hello2.len() - 1].replace("\"proto\", 2", "\"proto\", 3"));
    story(
        &server,
        &[
            ("PING", "+PONG"),
            ("ping hello", r#""hello""#),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO hello", r#""hello""#),
            ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("CLIENT ID", "1"),
            ("CLIENT GETNAME", "nil"),
            ("CLIENT SETNAME worker-7", "+OK"),
            ("CLIENT GETNAME", r#""worker-7""#),
            ("CLIENT INFO", r#""id=1 name=worker-7 resp=2\n""#),
            (
                "CLIENT SETNAME a\nb",
                "-ERR Client names cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
            ("CLIENT SETINFO lib-ver 7", "+OK"),
            ("CLIENT SETINFO x y", "-ERR Unrecognized option 'x'"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-TOUCH maybe", "-ERR syntax error"),
            ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
            ("CLIENT KILL x", "-ERR unknown subcommand 'KILL'. Try CLIENT HELP."),
            ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
            ("CONFIG GET save", r#"["save", ""]"#),
            ("CONFIG GET maxmemory", "[]"),
            ("CONFIG SET save x", "-ERR unknown subcommand 'SET'. Try CONFIG HELP."),
            ("COMMAND COUNT", "17"),
            ("COMMAND INFO nothing", "[nil]"),
            (
                "COMMAND INFO cl.throttle",
                r#"[["cl.throttle", -5, [+write, +fast], 1, 1, 1, [], [], [], []]]"#,
            ),
            ("COMMAND GETKEYS x", "-ERR unknown subcommand 'GETKEYS'. Try COMMAND HELP."),
            ("HELLO", &hello2),
            ("HELLO 3", &hello3),
            ("CLIENT GETNAME", r#""worker-7""#),
            ("CONFIG GET save APPENDONLY dir", r#"{"save", "", "appendonly", "no"}"#),
            ("COMMAND INFO nothing", "[null]"),
            ("COMMAND INFO ping", r#"[["ping", -1, ~[+fast], 0, 0, 0, [], [], [], []]]"#),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 WHAT", "-ERR Syntax error in HELLO option 'WHAT'"),
            ("HELLO 2 SETNAME b", &hello2),
            ("CLIENT GETNAME", r#""b""#),
            ("AUTH x", NO_PASSWORD),
            ("AUTH default x", "+OK"),
            ("AUTH root x", WRONG),
            ("RESET", "+RESET"),
            ("CLIENT GETNAME", "nil"),
            ("GET x", "-ERR unknown command 'GET', with args beginning with: 'x' "),
            ("NO\r\n+OK a\rb", "-ERR unknown command 'NO  +OK', with args beginning with: 'a b' "),
            ("QUIT", "+OK"),
            ("PING", "(closed)"),
        ],
    );
    assert_eq!(server.api.guesses().wrong(), 1);
}

const NO_PASSWORD: &str = "-ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const NO_AUTH: &str = "-NOAUTH Authentication required.";

fn guarded() -> RespSettings {
    RespSettings { password: Some(Password::new("s3cret")), ..RespSettings::default() }
}

#[test]
fn a_stranger_can_do_nothing_but_say_the_password() {
    let server = Server::start(guarded());
    let stranger = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                    <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                    the same time";
    let hello3 = format!(r#"{{{HELLO}3, "id", 2, "mode", "standalone", "role", "master", "modules", []}}"#);
    story(
        &server,
        &[
            ("PING", NO_AUTH),
            ("CL.THROTTLE k 1 1 1", NO_AUTH),
            ("THROTTLE k", NO_AUTH),
            ("TOLLGATE.THROTTLE k 1 1 1", NO_AUTH),
            ("TOLLGATE.CHECK shop user ann", NO_AUTH),
            ("INFO", NO_AUTH),
            ("GET x", NO_AUTH),
            ("HELLO 3", stranger),
            ("AUTH", "-ERR wrong number of arguments for 'auth' command"),
            ("AUTH a b c", "-ERR syntax error"),
            ("AUTH wrong", WRONG),
            ("AUTH root s3cret", WRONG),
            ("HELLO 3 AUTH default wrong", WRONG),
            ("PING", NO_AUTH),
            ("AUTH s3cret", "+OK"),
            ("PING", "+PONG"),
            ("CL.THROTTLE k 1 1 1", "[0, 2, 1, -1, 1]"),
            ("AUTH wrong", WRONG), // and is still known
            ("PING", "+PONG"),
            ("RESET", "+RESET"),
            ("PING", NO_AUTH),
            ("AUTH default s3cret", "+OK"),
            ("CL.THROTTLE k 1 1 1", "[0, 2, 0, -1, 2]"),
        ],
    );
    assert_eq!((server.api.guesses().wrong(), server.api.stats().admitted()), (4, 2));
    story(&server, &[("HELLO 3 AUTH default s3cret SETNAME me", &hello3), ("CLIENT GETNAME", r#""me""#)]);
}

#[test]
fn guesses_at_the_password_are_slowed_by_address() {
    let server = Server::start(guarded());
    story(&server, &[("AUTH bob s3cret", WRONG), ("AUTH bob s3cret", WRONG), ("AUTH default s3cret", "+OK")]);
    let server = Server::start(guarded());
    let slowed =
        "-ERR too many wrong passwords from this address; the password was not compared: try again in 1 s";
    for number in 0..5 {
        let [auth, hello] = ["AUTH a", "HELLO 3 AUTH default b"].map(|ask| format!("{ask}{number}"));
        story(&server, &[(&auth, WRONG), (&hello, WRONG)]);
        assert_eq!(server.api.guesses().wrong(), 2 * (number + 1));
    }
    let mut known = server.connect();
    story(&server, &[("AUTH s3cret", slowed), ("HELLO 2 AUTH default s3cret", slowed), ("PING", NO_AUTH)]);
    assert_eq!((known.ask("AUTH wrong"), server.api.guesses().slowed()), (slowed.to_owned(), 3));
    // A second later there is one guess, and right ones take none.
    server.advance_ms(999);
    story(&server, &[("AUTH s3cret", slowed), ("... 1", ""), ("AUTH s3cret", "+OK"), ("AUTH s3cret", "+OK")]);
    assert_eq!(known.ask("AUTH s3cret"), "+OK");
    assert_eq!((server.api.guesses().wrong(), server.api.guesses().slowed()), (10, 4));
}

#[test]
fn a_strangers_frames_are_small_ones() {
    let server = Server::start(guarded());
    for (bytes, want) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        // The password may come in the same bytes.
        ("AUTH s3cret\r\n*11\r\n", "+OK\r\n"),
    ] {
        let mut client = server.connect();
        client.send(bytes.as_bytes());
        assert_eq!(client.rest(), want, "{bytes:?}");
    }
    let mut client = server.connect();
    let long = "x".repeat(20_000);
    client.send(&[command("AUTH s3cret"), command(&format!("ECHO {long}"))].concat());
    assert_eq!((client.reply(), client.reply()), ("+OK".to_owned(), format!("{long:?}")));
}

#[test]
fn info_reports_what_runs_and_what_was_decided() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    client.ask("CL.THROTTLE k 0 1 1");
    client.ask("CL.THROTTLE k 0 1 1");
    server.advance_ms(5_500);
    let info = client.ask("INFO").replace("\\r\\n", "\n");
    let version = server.api.limiter().rules().policy().version().to_owned();
    for line in [
        "# Server\n",
        "redis_version:7.4.0\n",
        &format!("tollgate_version:{}\n", env!("CARGO_PKG_VERSION")),
        "uptime_in_seconds:5\n",
        "store:memory\n",
        "connected_clients:1\n",
        "total_commands_processed:2\n",
        "decisions:2\nadmitted:1\ndenied:1\n",
        &format!("rules_version:{version}\ndomains:1\n"),
    ] {
        assert!(info.contains(line), "{line:?} in {info}");
    }
    let clients = client.ask("INFO clients").replace("\\r\\n", "\n");
    assert_eq!(clients, "\"# Clients\nconnected_clients:1\nhalf_command_bytes:0\n\"");
    assert_eq!(client.ask("INFO nothing"), "\"\"");
}

#[test]
fn every_command_of_the_table_is_answered_and_documented() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    let docs = client.ask("COMMAND DOCS");
    let page = include_str!("../../../../../docs/resp.md");
    for name in client.ask("COMMAND LIST").trim_matches(['[', ']']).split(", ") {
        let name = name.trim_matches('"');
        assert!(docs.contains(&format!("\"{name}\", [\"summary\"")), "{name} in {docs}");
        assert!(page.contains(&format!("`{}", name.to_uppercase())), "{name} in docs/resp.md");
        let reply = server.connect().ask(name);
        assert!(!reply.contains("unknown command"), "{name}: {reply}");
    }
}
