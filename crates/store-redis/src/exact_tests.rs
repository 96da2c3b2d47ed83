//! The scripts against a real server, over a plain connection.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tollgate_core::Timestamp;
use tollgate_store::suite;
use tollgate_testkit::redis::{Options, Redis};

use crate::config::StoreTime;
use crate::direct::Direct;

/// So far ahead that no key expires by the server's clock: 2050.
const AHEAD: Timestamp = Timestamp::from_unix_seconds(2_524_608_000);

fn cases(default: u32) -> u32 {
    std::env::var("TOLLGATE_SUITE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

#[test]
fn scripts_answer_as_the_model_does() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let stores = AtomicU32::new(0);
    let options = suite::Options {
        begins: AHEAD,
        cases: cases(64),
        takes: 60,
        threads: 8,
        ..suite::Options::default()
    };
    let make = || {
        let nth = stores.fetch_add(1, Relaxed);
        Direct::new(&redis.url(), &format!("t{nth}:"), StoreTime::Node)
    };
    suite::run(&suite::Parked, make, &options);
}
