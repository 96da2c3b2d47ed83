//! The breaker's counting and the pauses between probes, without any server.

use std::sync::atomic::AtomicBool;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tollgate_core::{Holder, Slots, Timestamp};
use tollgate_store::remote::Breaker;
use tollgate_store::{StoreError, StoreName};

use super::*;
use crate::config::{RedisConfig, StoreTime};
use crate::figures::Counters;
use crate::flight::{Context, Item, Rider};
use crate::hub::{Hub, Traffic};
use crate::slots::{self, What};

/// A driver whose link is driven by nobody else: the runtime stands still.
fn driver(breaker: Breaker) -> (Driver, Runtime) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let mut config = RedisConfig::parse_url("redis://127.0.0.1:1").expect("a URL");
    config.breaker = breaker;
    let context = Context {
        name: StoreName::new("redis"),
        time: config.time,
        deadline: config.deadline,
        counters: Counters::default(),
        keeps_slots_apart: AtomicBool::new(false),
    };
    let entered = runtime.enter();
    let lane = Lane::here(&Arc::new(Hub::new(config, context).expect("settings"))).expect("in a runtime");
    let driver = Driver::new(&lane.link(0, Traffic::Decisions), &lane);
    drop(entered);
    (driver, runtime)
}

#[test]
fn pauses_double_up_to_the_longest_and_each_is_shortened_by_chance() {
    let longest = Duration::from_millis(400);
    let (mut driver, _runtime) = driver(Breaker { failures: 3, longest_pause: longest });
    for (failures, most_ms) in [(0, 2), (1, 4), (2, 8), (7, 256), (8, 400), (16, 400), (u32::MAX, 400)] {
        driver.failures = failures;
        let most = Duration::from_millis(most_ms);
        let pauses: Vec<_> = (0..200).map(|_| driver.pause()).collect();
        let (Some(shortest), Some(longest)) = (pauses.iter().min(), pauses.iter().max()) else { panic!() };
        assert!(
            *shortest >= most / 2 && *longest <= most,
            "{failures} failures: {shortest:?} to {longest:?}"
        );
        assert!(*longest - *shortest > most / 4, "{failures} failures: {shortest:?} to {longest:?}");
    }
}

#[test]
fn after_a_probe_one_failure_more_opens_it_anew_and_the_next_probe_comes_soon() {
    let breaker = Breaker { failures: 3, longest_pause: Duration::from_secs(60) };
    let (mut driver, _runtime) = driver(breaker);
    let trouble = Trouble::new(Kind::Network, "cut");
    for nth in 1..=20 {
        driver.failed(&trouble);
        assert_eq!(driver.open, nth >= 3, "after {nth} failures");
    }
    assert!(driver.pause() >= Duration::from_secs(30), "it was down for long");
    driver.close_breaker();
    assert!(!driver.open);
    driver.failed(&trouble);
    assert!(driver.open);
    assert!(driver.pause() <= FIRST_PAUSE * 8, "what was answered just now is asked soon again");
}

/// As one that another node sent here, or that was under way when the connection broke.
#[test]
fn what_comes_back_to_an_open_breaker_is_refused_at_once() {
    let (mut driver, _runtime) = driver(Breaker { failures: 2, ..Breaker::default() });
    let one = Slots::new(1, Duration::from_secs(1)).expect("slots");
    for (is_open, told) in [(false, false), (true, true)] {
        driver.failed(&Trouble::new(Kind::Network, "cut"));
        assert_eq!(driver.open, is_open);
        let (to, mut answer) = oneshot::channel();
        let call =
            slots::call(b"k".to_vec(), &one, Holder(1), What::Release, Timestamp::ZERO, StoreTime::Store);
        driver.link.push_front(Item::Call(call, Rider::new(to, Instant::now() + Duration::from_secs(60))));
        match answer.try_recv() {
            Ok(Err(StoreError::Unreachable { source, .. })) => assert!(told && source.to_string() == "cut"),
            Err(_) => assert!(!told, "it waits"),
            other => panic!("{other:?}"),
        }
    }
}
