//! Commands that exceed the caps: each is answered, and its connection stays open.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;

use tollgate_core::ManualClock;
use tollgate_limiter::{Limiter, LimiterSettings, Undecided};
use tollgate_resp_api::{RespApi, RespSettings};

use crate::common::{NOON, RULES, Server, frame, memory, policy};

fn start(undecided: Undecided, settings: RespSettings) -> Server {
    let clock = ManualClock::at(NOON);
    let limiter_settings = LimiterSettings { undecided, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(RULES), memory(), limiter_settings);
    let api = Arc::new(RespApi::new(Arc::new(limiter), Arc::new(clock.clone()), settings));
    Server::of(api, clock)
}

fn small() -> RespSettings {
    RespSettings {
        max_bulk_bytes: 1_000,
        max_arguments: 20,
        max_command_bytes: 4_000,
        ..RespSettings::default()
    }
}

#[test]
fn a_command_that_is_too_large_is_decided_by_the_setting_and_its_connection_goes_on() {
    let large = "x".repeat(1_001);
    let short = "x".repeat(900);
    let many = [&["TOLLGATE.CHECK", "shop"][..], &["user", "a"].repeat(10)].concat();
    let sum = [&["TOLLGATE.CHECK", "shop"][..], &["user", &short].repeat(5)].concat();
    for (words, denied, admitted) in [
        (
            &["TOLLGATE.CHECK", "shop", "user", &large][..],
            "[1, -1, -1, -1, 0, nil]",
            "[0, -1, -1, -1, 0, nil]",
        ),
        (&["tollgate.check", "shop", &large, "ann"], "[1, -1, -1, -1, 0, nil]", "[0, -1, -1, -1, 0, nil]"),
        (
            &["TOLLGATE.CHECK", "shop", "user", &large, "WITHDEGRADED"],
            "[1, -1, -1, -1, 0, nil, nil]",
            "[0, -1, -1, -1, 0, nil, nil]",
        ),
        (&many, "[1, -1, -1, -1, 0, nil]", "[0, -1, -1, -1, 0, nil]"),
        (&sum, "[1, -1, -1, -1, 0, nil]", "[0, -1, -1, -1, 0, nil]"),
        (&["CL.THROTTLE", &large, "2", "30", "60"], "[1, 0, 0, -1, 0]", "[0, 0, 0, -1, 0]"),
        (&["TOLLGATE.THROTTLE", &large, "2", "30", "60"], "[1, 0, 0, -1, 0]", "[0, 0, 0, -1, 0]"),
        (&["THROTTLE", &large, "2", "30", "60"], "[0, 0, 0, 0, -1]", "[1, 0, 0, 0, 0]"),
        (
            &["TOLLGATE.ACQUIRE", "shop", "export", &large],
            "[1, -1, -1, -1, 0, nil, nil]",
            "[0, -1, -1, -1, 0, nil, nil]",
        ),
        (&["PING", &large], ERROR, ERROR),
        (&[&large], ERROR, ERROR),
    ] {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        for (undecided, want) in
            [(Undecided::Deny, denied), (Undecided::Allow, admitted), (Undecided::Error, ERROR)]
        {
            let server = start(undecided, small());
            let mut client = server.connect();
            // Between others, at once.
            client.send(&[frame(&[b"PING"]), frame(&words), frame(&[b"PING"])].concat());
            assert_eq!([client.reply(), client.reply(), client.reply()], ["+PONG", want, "+PONG"]);
            // The same command in small pieces.
            for piece in frame(&words).chunks(7) {
                client.send(piece);
            }
            assert_eq!((client.reply(), client.ask("PING")), (want.to_owned(), "+PONG".to_owned()));
            let metrics = server.api.limiter().metrics().render();
            assert!(metrics.contains(r#"reason="too_large"} 2"#), "{metrics}");
            assert_eq!((server.api.stats().protocol_errors(), server.api.buffered_bytes()), (0, 0));
        }
    }
}

const ERROR: &str = "-ERR the command is too large; nothing was counted";
