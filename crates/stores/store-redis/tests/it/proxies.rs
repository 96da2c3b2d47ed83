//! Proxies in front of Redis are distinguished from servers that are too old: by the findings of `check`, and
//! by which of them end the start.

use std::io::{Error, Result, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_store_redis::{Finding, Secret, Severity};

use crate::common::{patient, run, store, until_down, until_up};
use crate::fake::{fake, usual};

/// The reply of a server to a command; `None` closes the connection.
type Says = fn(&str) -> Option<&'static str>;

fn speaking(says: Says) -> String {
    fake(move |command, client: &mut TcpStream| match says(command) {
        Some(said) => client.write_all(said.as_bytes()),
        None => Err(Error::other("closed")),
    })
}

fn bulk_info(version: &str) -> String {
    let info = format!("# Server\r\nredis_version:{version}\r\n");
    format!("${}\r\n{info}\r\n", info.len())
}

#[test]
fn a_proxy_in_front_of_redis_must_not_be_used_and_is_not_taken_for_an_old_redis_or_for_tls() {
    let proxy = &["is a proxy in front of Redis", "address of Redis behind the proxy"][..];
    let old = &["Redis 5.0.7 is too old", "HELLO", "Redis 7.0 or later"][..];
    let cases: [(&str, Says, Option<&str>, &[&str]); 8] = [
        (
            "nutcracker",
            |command| match command {
                "PING" => Some("+PONG\r\n"),
                _ => None,
            },
            None,
            proxy,
        ),
        (
            "nutcracker with a password",
            |command| match command {
                "PING" => Some("-NOAUTH Authentication required\r\n"),
                _ => None,
            },
            Some("s3cret"),
            proxy,
        ),
        (
            "Envoy",
            |command| match command {
                "HELLO" => Some("-NOPROTO unsupported protocol version\r\n"),
                "INFO" => Some("$22\r\nredis_version:7.0.15\r\n\r\n"),
                _ => Some("+OK\r\n"),
            },
            None,
            proxy,
        ),
        (
            "Envoy with a password",
            |command| match command {
                "HELLO" => Some("-NOPROTO unsupported protocol version\r\n"),
                "AUTH" => Some("+OK\r\n"),
                _ => Some("-NOAUTH Authentication required.\r\n"),
            },
            Some("s3cret"),
            proxy,
        ),
        (
            "an older Envoy",
            |command| match command {
                "HELLO" => Some("-ERR unknown command 'HELLO', with args beginning with: 3\r\n"),
                "INFO" => Some("$22\r\nredis_version:7.0.15\r\n\r\n"),
                _ => Some("+OK\r\n"),
            },
            None,
            proxy,
        ),
        (
            "a proxy that says nothing of Redis",
            |command| match command {
                "PING" => Some("+PONG\r\n"),
                _ => Some("-ERR unsupported command\r\n"),
            },
            None,
            proxy,
        ),
        (
            "a proxy that closes the connection after its error",
            |command| match command {
                "HELLO" => Some("-ERR handle request, command 'HELLO' is not allowed\r\n"),
                _ => None,
            },
            None,
            proxy,
        ),
        (
            "an old Redis",
            |command| match command {
                "HELLO" => Some("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"),
                "AUTH" => Some("+OK\r\n"),
                "INFO" => Some("$21\r\nredis_version:5.0.7\r\n\r\n"),
                _ => Some("+PONG\r\n"),
            },
            Some("s3cret"),
            old,
        ),
    ];
    for (what, says, password, words) in cases {
        let mut config = patient(&speaking(says));
        config.link.login.password = password.map(Secret::new);
        run(async {
            let store = store(config);
            // The check and the watcher must both find the fault, and neither may show the password.
            let findings = store.check().await;
            let [found] = &findings[..] else { panic!("{what}: {findings:?}") };
            assert_eq!(found.severity, Severity::Reject, "{what}: {found}");
            store.start();
            let why = until_down(&store).await;
            for word in words {
                assert!(found.message.contains(word), "{what}: {word:?} in {found}");
                assert!(why.contains(word), "{what}: {word:?} in {why}");
            }
            assert!(!found.message.contains("TLS") && !found.message.contains("s3cret"), "{what}: {found}");
        });
    }
}

#[test]
fn a_server_that_closes_one_connection_while_it_restarts_is_not_a_proxy() {
    let hellos = AtomicUsize::new(0);
    let url = fake(move |command, client: &mut TcpStream| -> Result<()> {
        if command == "HELLO" && hellos.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Error::other("closed"));
        }
        usual(command, client)
    });
    run(async {
        let store = store(patient(&url));
        let findings = store.check().await;
        let worst: Option<&Finding> = findings.iter().max_by_key(|finding| finding.severity);
        assert_eq!(worst.map(|it| it.severity), Some(Severity::Unknown), "{findings:?}");
        store.start();
        until_up(&store).await;
    });
}

#[test]
fn a_version_with_other_bytes_is_shown_without_them() {
    let url = fake(|command, client: &mut TcpStream| match command {
        "HELLO" => client.write_all(b"-ERR unknown command 'HELLO'\r\n"),
        _ => client.write_all(bulk_info("4.0\u{1b}[31m\u{202e}").as_bytes()),
    });
    run(async {
        let findings = store(patient(&url)).check().await;
        assert!(findings[0].message.contains("Redis 4.0[31m is too old"), "{findings:?}");
    });
}
