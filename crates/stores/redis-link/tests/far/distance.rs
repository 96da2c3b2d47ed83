//! The number of calls that are answered in time by a server that is far away, or answers some of them late.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::LocalSet;
use tokio::time::{Duration, Instant, sleep_until};
use tollgate_store::remote::ConnStats;

use super::{Chance, Far, TICK, ask, run, store, timed, warm};

/// The results of callers: calls, those without an answer, and the longest wait.
#[derive(Debug)]
struct CallerResults {
    calls: u64,
    degraded: u64,
    longest: Duration,
    stats: ConnStats,
}

impl CallerResults {
    fn share(&self) -> f64 {
        self.degraded as f64 / self.calls as f64
    }
}

/// Callers in a closed loop, or calls at random times at `rate` a second, on keys of their own.
fn load(far: &Arc<Far>, callers: u64, rate: u64, lasts: Duration, late: (u64, Duration)) -> CallerResults {
    run(LocalSet::new().run_until(async {
        let store = store(far, |_| {});
        warm(&store).await;
        (far.set().late_share, far.set().late_by) = late;
        let seen = Rc::new((Cell::new(0), Cell::new(0), Cell::new(Duration::ZERO)));
        let began = Instant::now();
        let one = {
            let store = store.clone();
            let seen = seen.clone();
            async move |key: &str| {
                let (said, took) = timed(ask(&store, key)).await;
                seen.0.set(seen.0.get() + 1);
                seen.1.set(seen.1.get() + u64::from(said.is_err()));
                seen.2.set(seen.2.get().max(took));
                said.is_ok()
            }
        };
        let one = Rc::new(one);
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let one = one.clone();
                tokio::task::spawn_local(async move {
                    let key = format!("k{caller}");
                    let mut chance = Chance((caller + 1) << 17);
                    let mut next = began;
                    while began.elapsed() < lasts {
                        if rate > 0 {
                            let wait = -(((chance.next() + 1) as f64) / (1_u64 << 53) as f64).ln();
                            next += Duration::from_secs_f64(wait * callers as f64 / rate as f64);
                            sleep_until(next).await;
                            let one = one.clone();
                            let key = key.clone();
                            tokio::task::spawn_local(async move { one(&key).await });
                        } else if !one(&key).await {
                            tokio::time::sleep(TICK).await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        CallerResults {
            calls: seen.0.get(),
            degraded: seen.1.get(),
            longest: seen.2.get(),
            stats: store.stats(),
        }
    }))
}

#[test]
fn a_round_trip_of_8_ms_fits_into_a_deadline_of_10_however_many_call() {
    for ms in 1..=8 {
        for (callers, rate) in [(1, 0), (8, 0), (64, 0), (8, 450), (8, 2_000), (64, 20_000)] {
            let far = Far::away(Duration::from_millis(ms));
            let seen = load(&far, callers, rate, Duration::from_secs(1), (0, Duration::ZERO));
            println!("{ms} ms, {callers} callers, {rate}/s: {:.2} %, {seen:?}", seen.share() * 100.0);
            assert!(
                seen.calls > 50 && seen.share() <= 0.01,
                "{ms} ms, {callers} callers, {rate}/s: {seen:?}"
            );
            assert_eq!(seen.stats.breaker_opened, 0);
        }
    }
}

#[test]
fn late_answers_cost_the_decisions_that_rode_on_them_and_hardly_another() {
    for (ms, share, by_ms) in
        [(1, 20, 12), (2, 20, 12), (2, 100, 12), (2, 190, 12), (2, 4, 200), (3, 100, 12)]
    {
        for (callers, rate) in [(1, 0), (8, 0), (8, 500), (8, 2_000)] {
            let far = Far::away(Duration::from_millis(ms));
            let seen =
                load(&far, callers, rate, Duration::from_secs(4), (share, Duration::from_millis(by_ms)));
            let state = far.set();
            let late = state.late as f64 / state.reads as f64;
            println!(
                "{ms} ms, {share} late by {by_ms}, {callers} callers, {rate}/s: {:.2} % of {:.2} %, {} connects, {seen:?}",
                seen.share() * 100.0,
                late * 100.0,
                state.connections,
            );
            assert!(
                seen.share() <= 1.5 * late + 0.01,
                "{ms} ms, {share} late, {callers} callers: {seen:?}, {late}"
            );
            assert_eq!(seen.stats.breaker_opened, 0, "{ms} ms, {share} late, {callers} callers");
            assert!(seen.longest <= Duration::from_millis(11), "{seen:?}");
        }
    }
}

/// This holds even for calls that come while the reply is awaited.
#[test]
fn one_late_answer_costs_one_flight() {
    for ms in [1, 2, 3, 4, 6] {
        let far = Far::away(Duration::from_millis(ms));
        run(async {
            let store = store(&far, |_| {});
            warm(&store).await;
            let connects = store.stats().connects;
            let unsent = store.stats().unsent;
            let silent = store.stats().silent;
            (far.set().late_share, far.set().late_by) = (1000, Duration::from_millis(12));
            let first = tokio::spawn({
                let store = store.clone();
                async move { ask(&store, "first").await }
            });
            tokio::time::sleep(TICK).await;
            far.set().late_share = 0;
            for nth in 0..30 {
                let (said, took) = timed(ask(&store, &format!("k{nth}"))).await;
                assert!(
                    said.is_ok() && took <= Duration::from_millis(2 * ms + 2),
                    "{ms} ms, {nth}: {said:?}, {took:?}"
                );
            }
            assert!(first.await.expect("no panic").is_err());
            let stats = store.stats();
            let lost = (stats.silent - silent, stats.unsent - unsent, stats.breaker_opened);
            assert_eq!(lost, (1, 0, 0), "{ms} ms");
            assert!(stats.connects <= connects + 1, "{ms} ms: one more beside it, and nothing was closed");
            assert_eq!(stats.connects, stats.connections, "{ms} ms");
        });
    }
}
