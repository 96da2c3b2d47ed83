//! The commands that decide, as rows of words and replies. `... ms` lets time pass.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod degraded;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use crate::common::{NOON, RULES, Server, memory, policy, story};
use tollgate_core::ManualClock;
use tollgate_limiter::{Intervened, Intervention, Limiter, LimiterSettings};
use tollgate_resp_api::{RespApi, RespSettings};
use tollgate_store_memory::MemoryStore;

#[test]
fn cl_throttle_answers_as_redis_cell_does() {
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            // limited, limit, remaining, retry after, reset after
            ("CL.THROTTLE ann 2 30 60", "[0, 3, 2, -1, 2]"),
            ("cl.throttle ann 2 30 60", "[0, 3, 1, -1, 4]"),
            ("CL.THROTTLE ann 2 30 60 1", "[0, 3, 0, -1, 6]"),
            ("CL.THROTTLE ann 2 30 60", "[1, 3, 0, 2, 6]"),
            ("CL.THROTTLE ann 2 30 60 2", "[1, 3, 0, 4, 6]"),
            ("... 1", ""),
            ("CL.THROTTLE ann 2 30 60", "[1, 3, 0, 2, 6]"), // 1.999 s, rounded up to 2
            ("... 1998", ""),
            ("CL.THROTTLE ann 2 30 60", "[1, 3, 0, 1, 5]"), // a millisecond, rounded up to a second: never 0
            ("... 1", ""),
            ("CL.THROTTLE ann 2 30 60", "[0, 3, 0, -1, 6]"),
            ("... 6000", ""),
            ("CL.THROTTLE ann 2 30 60 0", "[0, 3, 3, -1, 0]"), // looks only
            ("CL.THROTTLE ann 2 30 60 4", "[1, 3, 3, -1, 0]"), // never fits
            ("CL.THROTTLE ann 2 30 60 3", "[0, 3, 0, -1, 6]"),
            ("CL.THROTTLE ann 2 30 60 0", "[0, 3, 0, -1, 6]"),
            ("CL.THROTTLE bob 2 30 60", "[0, 3, 2, -1, 2]"), // another key, another counter
            ("CL.THROTTLE ann 2 60 60", "[1, 3, 0, 4, 6]"),  // another rate, the same counter
            ("CL.THROTTLE zero 0 1 1", "[0, 1, 0, -1, 1]"),
            ("CL.THROTTLE zero 0 1 1", "[1, 1, 0, 1, 1]"),
        ],
    );
    assert_eq!((server.api.stats().admitted(), server.api.stats().denied()), (9, 7));
}

#[test]
fn a_reply_keeps_its_shape_above_a_soft_limit() {
    let rules = "{domain: shop, descriptors: [{key: user, rate_limit: {rate: 2/minute, excess: 50 %}}]}";
    let limiter = Limiter::new(policy(rules), memory(), LimiterSettings::default());
    story(
        &of(limiter),
        &[
            ("TOLLGATE.CHECK shop user ann COST 2", r#"[0, 2, 0, -1, 60, "user"]"#),
            ("TOLLGATE.CHECK shop user ann WITHDEGRADED", r#"[0, 2, 0, -1, 60, "user", nil]"#), // in excess
            ("TOLLGATE.CHECK shop user ann", r#"[1, 2, 0, 60, 60, "user"]"#),
        ],
    );
}

#[test]
fn consumed_permits_are_counted_in_full_and_no_limit_denies_them() {
    let rules = "{domain: llm, descriptors: [
        {key: team, rate_limit: {unit: hour, requests_per_unit: 1000, post_paid: true}},
        {key: user, rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: token_bucket}}]}";
    story(
        &of(Limiter::new(policy(rules), memory(), LimiterSettings::default())),
        &[
            ("TOLLGATE.CHECK llm team a COST 0", r#"[0, 1000, 1000, -1, 0, "team"]"#),
            ("TOLLGATE.CHECK llm team a COST 900", r#"[0, 1000, 100, -1, 3600, "team"]"#),
            ("TOLLGATE.CHECK llm team a consumed 900", r#"[0, 1000, 0, -1, 3600, "team"]"#),
            ("TOLLGATE.CHECK llm team a COST 0", r#"[1, 1000, 0, 3600, 3600, "team"]"#),
            ("TOLLGATE.CHECK llm team a CONSUMED 5", r#"[0, 1000, 0, -1, 3600, "team"]"#),
            ("TOLLGATE.CHECK llm user a CONSUMED 1500", r#"[0, 1000, 0, -1, 5400, "user"]"#),
            ("TOLLGATE.CHECK llm user a", r#"[1, 1000, 0, 1804, 5400, "user"]"#),
            ("TOLLGATE.CHECK llm user a CONSUMED 0 WITHDEGRADED", r#"[0, 1000, 0, -1, 5400, "user", nil]"#),
            ("TOLLGATE.CHECK llm consumed 7", "[0, -1, -1, -1, 0, nil]"), // an entry
            (
                "TOLLGATE.CHECK llm user a CONSUMED -1",
                "-ERR the number of permits is negative; the smallest is 0, which only looks",
            ),
            ("TOLLGATE.CHECK llm user a CONSUMED 1 COST 1", "-ERR COST and CONSUMED cannot be combined"),
            ("TOLLGATE.CHECK llm user a COST 1 CONSUMED 1", "-ERR COST and CONSUMED cannot be combined"),
        ],
    );
}

/// A server at noon with this limiter.
fn of(limiter: Limiter<MemoryStore>) -> Server {
    let clock = ManualClock::at(NOON);
    let api = RespApi::new(Arc::new(limiter), Arc::new(clock.clone()), RespSettings::default());
    Server::of(Arc::new(api), clock)
}

#[test]
fn in_the_servers_shadow_mode_every_command_admits() {
    let settings = LimiterSettings { shadow_mode: true, ..LimiterSettings::default() };
    story(
        &of(Limiter::new(policy(RULES), memory(), settings)),
        &[
            ("CL.THROTTLE ann 0 30 60", "[0, 1, 0, -1, 2]"),
            ("CL.THROTTLE ann 0 30 60", "[0, 1, 0, -1, 2]"), // would be denied
            ("CL.THROTTLE ann 0 30 60 2", "[0, 1, 0, -1, 2]"), // never fits
            ("THROTTLE bob 1 30 60", "[1, 1, 0, 2, 0]"),
            ("THROTTLE bob 1 30 60", "[1, 1, 0, 2, 0]"),
            ("TOLLGATE.CHECK shop user ann COST 2", r#"[0, 2, 0, -1, 60, "user"]"#),
            ("TOLLGATE.CHECK shop user ann", r#"[0, 2, 0, -1, 60, "user"]"#),
        ],
    );
}

#[test]
fn throttle_answers_as_throttlecrab_does() {
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            // allowed, limit, remaining, reset after, retry after
            ("THROTTLE ann 3 30 60", "[1, 3, 2, 2, 0]"),
            ("THROTTLE ann 3 30 60 2", "[1, 3, 0, 6, 0]"),
            ("throttle ann 3 30 60", "[0, 3, 0, 6, 2]"),
            ("... 1999", ""),
            ("THROTTLE ann 3 30 60", "[0, 3, 0, 5, 1]"),
            ("... 1", ""),
            ("THROTTLE ann 3 30 60", "[1, 3, 0, 6, 0]"),
            ("THROTTLE ann 3 30 60 0", "[1, 3, 0, 6, 0]"),
            ("THROTTLE ann 3 30 60 4", "[0, 3, 0, 6, -1]"), // never fits
            ("CL.THROTTLE ann 2 30 60", "[1, 3, 0, 2, 6]"), // the same bucket, asked for in the other way
            ("THROTTLE one 1 1 1", "[1, 1, 0, 1, 0]"),
            ("THROTTLE one 1 1 1", "[0, 1, 0, 1, 1]"), // a burst of one limits too
        ],
    );
}

#[test]
fn tollgate_throttle_takes_and_returns_milliseconds() {
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            ("TOLLGATE.THROTTLE ann 1 10 1000", "[0, 2, 1, -1, 100]"),
            ("tollgate.throttle ann 1 10 1000", "[0, 2, 0, -1, 200]"),
            ("TOLLGATE.THROTTLE ann 1 10 1000", "[1, 2, 0, 100, 200]"),
            ("... 99", ""),
            ("TOLLGATE.THROTTLE ann 1 10 1000", "[1, 2, 0, 1, 101]"),
            ("CL.THROTTLE ann 1 10 1", "[1, 2, 0, 1, 1]"), // the same bucket in seconds
            ("... 1", ""),
            ("TOLLGATE.THROTTLE ann 1 10 1000", "[0, 2, 0, -1, 200]"),
            ("TOLLGATE.THROTTLE ann 1 10 1000 3", "[1, 2, 0, -1, 200]"),
            ("TOLLGATE.THROTTLE fast 0 3 1", "[0, 1, 0, -1, 1]"), // a third of a millisecond, rounded up to one
        ],
    );
}

#[test]
fn tollgate_check_asks_the_rules() {
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            // limited, limit, remaining, retry after, reset after, rule
            ("TOLLGATE.CHECK shop user ann", r#"[0, 2, 1, -1, 60, "user"]"#),
            ("tollgate.check shop user ann", r#"[0, 2, 0, -1, 60, "user"]"#),
            ("... 59999", ""),
            ("TOLLGATE.CHECK shop user ann", r#"[1, 2, 0, 1, 1, "user"]"#),
            ("... 1", ""),
            ("TOLLGATE.CHECK shop user ann COST 0", r#"[0, 2, 2, -1, 0, "user"]"#),
            ("TOLLGATE.CHECK shop user ann cost 2", r#"[0, 2, 0, -1, 60, "user"]"#),
            ("TOLLGATE.CHECK shop user ann COST 3", r#"[1, 2, 0, -1, 60, "user"]"#), // never fits
            ("TOLLGATE.CHECK shop user ann plan gold", r#"[0, 3, 2, -1, 720, "user → plan=gold"]"#),
            ("TOLLGATE.CHECK shop user ann plan iron", "[0, -1, -1, -1, 0, nil]"), // no rule
            ("TOLLGATE.CHECK mall user ann", "[0, -1, -1, -1, 0, nil]"),           // no such domain
            ("TOLLGATE.CHECK shop free x", r#"[0, -1, -1, -1, 0, "free"]"#),
            ("TOLLGATE.CHECK shop never x", r#"[1, 0, 0, -1, 1, "never"]"#),
            ("TOLLGATE.CHECK shop 用户 张三", r#"[0, 1, 0, -1, 1, "用户"]"#),
            ("HELLO 3", HELLO3),
            ("TOLLGATE.CHECK mall user ann", "[0, -1, -1, -1, 0, null]"),
            ("TOLLGATE.CHECK shop cost 7", "[0, -1, -1, -1, 0, null]"), // a descriptor of its own
        ],
    );
}

const HELLO3: &str = r#"{"server", "tollgate", "version", "7.4.0", "proto", 3, "id", 1, "mode", "standalone", "role", "master", "modules", []}"#;

#[test]
fn invalid_arguments_are_errors_and_nothing_is_taken() {
    const NUMBER: &str = "-ERR value is not an integer or out of range";
    const NEGATIVE: &str = "-ERR the number of permits is negative; the smallest is 0, which only looks";
    let server = Server::start(RespSettings::default());
    let usage = "-ERR syntax error, expected TOLLGATE.CHECK domain key value [key value ...] [COST n | CONSUMED n] [WITHDEGRADED]";
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let cell = arity("cl.throttle");
    let crab = arity("throttle");
    let ms = arity("tollgate.throttle");
    let check = arity("tollgate.check");
    story(
        &server,
        &[
            ("CL.THROTTLE", cell.as_str()),
            ("CL.THROTTLE k 1 1", &cell),
            ("CL.THROTTLE k 1 1 1 1 1", &cell),
            ("THROTTLE k 1 1", &crab),
            ("TOLLGATE.THROTTLE k", &ms),
            ("CL.THROTTLE k x 1 1", NUMBER),
            ("CL.THROTTLE k 1 1.5 1", NUMBER),
            ("CL.THROTTLE k 1 1 +1", NUMBER),
            ("CL.THROTTLE k 1 1 1 9223372036854775808x", NUMBER),
            ("CL.THROTTLE k 1 1 1 ", NUMBER),
            ("CL.THROTTLE k -1 1 1", "-ERR max_burst is -1; the smallest is 0"),
            ("THROTTLE k 0 1 1", "-ERR max_burst is 0; the smallest is 1"),
            ("CL.THROTTLE k 1 0 1", "-ERR count is 0; the smallest is 1"),
            ("CL.THROTTLE k 1 1 -60", "-ERR period is -60; the smallest is 1"),
            ("CL.THROTTLE k 1 1 1 -1", NEGATIVE),
            (
                "CL.THROTTLE k 9007199254740990 1 1",
                "-ERR a limit of 9007199254740991 is too large; the largest is 9007199254740990",
            ),
            (
                "CL.THROTTLE k 9223372036854775807 1 1",
                "-ERR a limit of 9223372036854775808 is too large; the largest is 9007199254740990",
            ),
            (
                "CL.THROTTLE k 1 1 315360001",
                "-ERR a period of 315360001s is too long; the longest is ten years",
            ),
            (
                "CL.THROTTLE k 1000 1 315360000",
                "-ERR a bucket of 1001 at this rate takes more than thirty years to fill; make it smaller",
            ),
            (
                "TOLLGATE.THROTTLE k 1 9007199254740990 1",
                "-ERR 9007199254740990 permits per 1ms are too fast to count; the fastest is 100 a nanosecond",
            ),
            ("TOLLGATE.CHECK", &check),
            ("TOLLGATE.CHECK shop user", &check),
            ("TOLLGATE.CHECK shop user ann plan", usage),
            ("TOLLGATE.CHECK shop user ann COST 1 1", usage),
            ("TOLLGATE.CHECK shop user ann COST x", NUMBER),
            ("TOLLGATE.CHECK shop user ann COST -1", NEGATIVE),
            ("TOLLGATE.CHECK  user ann", "-ERR the domain is empty; name the domain whose rules apply"),
            (
                "TOLLGATE.CHECK shop user ann plan gold COST 9223372036854775807",
                r#"[1, 3, 0, -1, 0, "user → plan=gold"]"#,
            ),
            ("CL.THROTTLE k 1 1 1 9223372036854775807", "[1, 2, 2, -1, 0]"),
            ("TOLLGATE.CHECK shop user ann plan gold COST 3", r#"[0, 3, 0, -1, 2160, "user → plan=gold"]"#),
        ],
    );
}

#[test]
fn slots_are_acquired_renewed_and_released() {
    let a = "ID 0000000000000000000000000000000a";
    let b = "id 0000000000000000000000000000000B";
    let [ida, idb] = ["a", "b"].map(|id| format!("\"{id:0>32}\""));
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            // limited, limit, free, retry after, expires in, rule, id
            (
                &format!("TOLLGATE.ACQUIRE shop export x {a}"),
                &format!("[0, 2, 1, -1, 30, \"export\", {ida}]"),
            ),
            (
                &format!("tollgate.acquire shop export x {b}"),
                &format!("[0, 2, 0, -1, 30, \"export\", {idb}]"),
            ),
            ("... 10001", ""),
            ("TOLLGATE.ACQUIRE shop export x", "[1, 2, 0, 20, 0, \"export\", nil]"),
            (
                &format!("TOLLGATE.ACQUIRE shop export x {a} WITHDEGRADED"),
                &format!("[0, 2, 0, -1, 30, \"export\", {ida}, nil]"),
            ),
            (&format!("TOLLGATE.RELEASE shop export x {b}"), "1"),
            (&format!("TOLLGATE.RELEASE shop export x {b}"), "0"),
            (
                "TOLLGATE.ACQUIRE shop export x ID 7",
                "-ERR the id of a slot's holder is 32 hexadecimal digits; write a UUID without hyphens, or leave it out",
            ),
            (
                "TOLLGATE.RELEASE shop export x id y",
                "-ERR the id of a slot's holder is 32 hexadecimal digits; write a UUID without hyphens, or leave it out",
            ),
            (
                "TOLLGATE.RELEASE shop export x key y",
                "-ERR syntax error, expected TOLLGATE.RELEASE domain key value [key value ...] ID id",
            ),
            (
                &format!("TOLLGATE.RELEASE shop free x {b}"),
                "-ERR no rule with algorithm: concurrency matches it, so there is no slot to release",
            ),
            (
                "TOLLGATE.ACQUIRE shop user x",
                "-ERR rule user counts permits and has no slots; take them with a check or a reservation",
            ),
            (
                "TOLLGATE.CHECK shop export x",
                "-ERR rule export limits what runs at the same time, so there are no permits to take; acquire a slot and release it (docs/concurrency.md)",
            ),
        ],
    );
}

#[test]
fn a_block_is_a_limit_of_zero_until_it_ends_and_an_allowance_is_none() {
    let server = Server::start(RespSettings::default());
    let one = |value: &str, action| Intervention {
        domain: "shop".to_owned(),
        entries: vec![("user".into(), value.into())],
        action,
        until: NOON + Duration::from_secs(90),
    };
    let list = vec![one("eve", Intervened::Blocked), one("ann", Intervened::Allowed)];
    assert_eq!(server.api.limiter().intervene(list, NOON).in_force, 2);
    story(
        &server,
        &[
            ("TOLLGATE.CHECK shop user eve", r#"[1, 0, 0, 90, 90, "user"]"#),
            ("TOLLGATE.CHECK shop user ann COST 5", r#"[0, -1, -1, -1, 0, "user"]"#),
            ("TOLLGATE.CHECK shop user bob", r#"[0, 2, 1, -1, 60, "user"]"#),
        ],
    );
}

#[test]
fn a_number_of_permits_that_a_client_may_have_chosen_is_denied_however_large_it_is() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    for number in ["9223372036854775807", "9223372036854775808", "18446744073709551616", &"9".repeat(1_000)] {
        assert_eq!(client.ask(&format!("CL.THROTTLE k 1 1 1 {number}")), "[1, 2, 2, -1, 0]", "{number}");
        let check = client.ask(&format!("TOLLGATE.CHECK shop user ann plan gold COST {number}"));
        assert_eq!(check, "[1, 3, 0, -1, 0, \"user → plan=gold\"]", "{number}");
    }
    assert_eq!(client.ask("CL.THROTTLE k 1 1 1 2"), "[0, 2, 0, -1, 2]", "nothing was taken before");
}
