//! Decisions made without the store: reported to clients that ask for it; for others, replies keep their
//! shape.

use std::sync::Arc;

use tollgate_core::ManualClock;
use tollgate_limiter::{Limiter, LimiterSettings, OnStoreFailure};
use tollgate_resp_api::{RespApi, RespSettings};
use tollgate_store::routed::RoutedStore;
use tollgate_store::suite::OutageStore;
use tollgate_store_memory::MemoryStore;

use crate::common::{NOON, Server, memory, policy, story};

const RULES: &str = "
domain: shop
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: shut, rate_limit: {requests_per_unit: 2, unit: minute, on_store_failure: deny}}
  - {key: own, rate_limit: {requests_per_unit: 2, unit: minute, on_store_failure: local}}
";

/// A server whose store is down, with memory beside it.
fn without_store(throttle: OnStoreFailure) -> Server<RoutedStore<OutageStore, MemoryStore>> {
    let clock = ManualClock::at(NOON);
    let settings = LimiterSettings { throttle_on_store_failure: throttle, ..LimiterSettings::default() };
    let store = RoutedStore::new(OutageStore::default().down(), memory());
    let limiter = Limiter::new(policy(RULES), store, settings);
    let api = RespApi::new(Arc::new(limiter), Arc::new(clock.clone()), RespSettings::default());
    Server::of(Arc::new(api), clock)
}

#[test]
fn withdegraded_returns_how_a_decision_was_made_without_the_store() {
    let server = without_store(OnStoreFailure::Local);
    story(
        &server,
        &[
            ("TOLLGATE.CHECK shop open 1", r#"[0, -1, -1, -1, 0, "open"]"#),
            ("TOLLGATE.CHECK shop open 1 WITHDEGRADED", r#"[0, -1, -1, -1, 0, "open", "allow"]"#),
            ("TOLLGATE.CHECK shop shut 1 COST 1 withdegraded", r#"[1, 2, 0, 1, 0, "shut", "deny"]"#),
            ("TOLLGATE.CHECK shop own 1 COST 2 WITHDEGRADED", r#"[0, 2, 0, -1, 60, "own", "local"]"#),
            ("TOLLGATE.CHECK shop nobody 1 WITHDEGRADED", "[0, -1, -1, -1, 0, nil, nil]"), // no rule, no store
            ("CL.THROTTLE k 0 1 60", "[0, 1, 0, -1, 60]"),
            ("CL.THROTTLE k 0 1 60 WITHDEGRADED", r#"[1, 1, 0, 60, 60, "local"]"#),
            ("THROTTLE k 1 1 60 1 WithDegraded", r#"[0, 1, 0, 60, 60, "local"]"#),
            ("TOLLGATE.THROTTLE k 0 1 60000 1 WITHDEGRADED", r#"[1, 1, 0, 60000, 60000, "local"]"#),
        ],
    );
    for (way, want) in [
        (OnStoreFailure::Allow, r#"[0, 1, 0, -1, 0, "allow"]"#),
        (OnStoreFailure::Deny, r#"[1, 1, 0, 1, 0, "deny"]"#),
    ] {
        story(&without_store(way), &[("CL.THROTTLE k 0 1 60 WITHDEGRADED", want)]);
    }
}

#[test]
fn a_decision_of_the_store_has_a_null_in_that_place() {
    let server = Server::start(RespSettings::default());
    story(
        &server,
        &[
            ("TOLLGATE.CHECK shop user ann WITHDEGRADED", r#"[0, 2, 1, -1, 60, "user", nil]"#),
            ("CL.THROTTLE ann 2 30 60 WITHDEGRADED", "[0, 3, 2, -1, 2, nil]"),
            ("CL.THROTTLE ann 2 30 60 0 WITHDEGRADED", "[0, 3, 2, -1, 2, nil]"),
            ("TOLLGATE.CHECK shop withdegraded withdegraded", "[0, -1, -1, -1, 0, nil]"), // a key and its value
            ("CL.THROTTLE WITHDEGRADED 2 30 60", "[0, 3, 2, -1, 2]"),                     // a key
            ("CL.THROTTLE ann 2 30 WITHDEGRADED", "-ERR value is not an integer or out of range"),
            (
                "CL.THROTTLE ann 2 30 60 1 1 WITHDEGRADED",
                "-ERR wrong number of arguments for 'cl.throttle' command",
            ),
            (
                "CL.THROTTLE ann 2 30 60 1 DEGRADED",
                "-ERR wrong number of arguments for 'cl.throttle' command",
            ),
            (
                "TOLLGATE.CHECK shop user ann DEGRADED",
                "-ERR syntax error, expected TOLLGATE.CHECK domain key value [key value ...] [COST n | CONSUMED n] [WITHDEGRADED]",
            ),
        ],
    );
    let mut client = server.connect();
    client.ask("HELLO 3");
    assert_eq!(client.ask("CL.THROTTLE bob 2 30 60 WITHDEGRADED"), "[0, 3, 2, -1, 2, null]");
}
