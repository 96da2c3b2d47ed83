//! A server that hangs or answers no scripts: no call waits longer than its deadline, nothing is kept, and
//! all is well afterwards.

use tokio::time::{Duration, Instant};
use tollgate_redis_link::Traffic;
use tollgate_store::remote::Failure;

use super::server::Said;
use super::{Far, TICK, Tested, ask, run, store, timed, warm};

const DEADLINE: Duration = Duration::from_millis(10);

#[test]
fn of_10_000_callers_of_a_server_that_stalls_none_waits_longer_than_its_deadline() {
    let far = Far::away(Duration::ZERO);
    run(async {
        let store = store(&far, |settings| settings.max_queued = 20_000);
        warm(&store).await;
        far.set().stalled_until = Some(Instant::now() + Duration::from_secs(1));
        let calls: Vec<_> = (0..10_000)
            .map(|nth| {
                let store = store.clone();
                tokio::spawn(async move { timed(ask(&store, &format!("k{}", nth % 3000))).await })
            })
            .collect();
        tokio::time::sleep(3 * TICK).await;
        for call in calls.iter().skip(1).step_by(3) {
            call.abort();
        }
        let mut silent = 0;
        let mut unsent = 0;
        for call in calls {
            let Ok((said, took)) = call.await else { continue };
            assert!(took <= DEADLINE + TICK, "{took:?}");
            match said {
                Err(Failure::Silent { .. }) => silent += 1,
                Err(Failure::NotSent { .. }) => unsent += 1,
                other => panic!("{other:?}"),
            }
        }
        println!("{silent} silent, {unsent} unsent");
        assert_eq!(silent + unsent, 6_667);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        far.set().stalled_until = None;
        let (said, took) = timed(ask(&store, "k")).await;
        assert!(said.is_ok() && took <= TICK, "{said:?} after {took:?}");
    });
}

/// A caller that went away may be all that the task sees when it begins to wait.
#[test]
fn calls_behind_abandoned_ones_end_in_time_while_a_connection_is_made() {
    for abandons in [0, 1, 50] {
        let far = Far::away(Duration::ZERO);
        far.says(|_, _| Said::Nothing);
        run(async {
            let store = store(&far, |settings| {
                settings.connect_timeout = Duration::from_secs(4);
                settings.breaker.failures = 1000;
            });
            for _ in 0..abandons {
                tokio::select! { biased; _ = ask(&store, "k") => {}, () = std::future::ready(()) => {} }
            }
            tokio::time::sleep(DEADLINE / 2).await;
            for _ in 0..5 {
                let (said, took) = timed(ask(&store, "k")).await;
                assert!(said.is_err() && took <= DEADLINE + TICK, "{abandons} abandoned: {took:?}");
            }
        });
    }
}

/// Fails unless its answer is its key.
async fn send(store: &Tested, traffic: Traffic, after: Duration) -> Result<(), Failure> {
    store.send(traffic, b"k", Instant::now() + after).await
}

#[test]
fn calls_with_deadlines_of_their_own_end_by_these_in_whatever_order_they_wait() {
    for is_connected in [false, true] {
        let far = Far::away(Duration::ZERO);
        run(async {
            let store = store(&far, |settings| {
                settings.connect_timeout = Duration::from_secs(4);
                settings.breaker.failures = 1000;
                settings.max_flight = 1;
            });
            if is_connected {
                warm(&store).await;
            }
            far.says(|_, _| Said::Nothing);
            let tasks: Vec<_> = [300, 5, 100, 50, 5, 200]
                .map(|ms| {
                    let store = store.clone();
                    tokio::spawn(async move {
                        let after = Duration::from_millis(ms);
                        let (said, took) = timed(send(&store, Traffic::Foreground, after)).await;
                        assert!(said.is_err(), "{said:?}");
                        assert!(took <= after + TICK, "{ms} ms: {took:?}");
                        assert!(took + TICK >= after || is_connected, "{ms} ms: {took:?}");
                    })
                })
                .into_iter()
                .collect();
            for task in tasks {
                task.await.expect("each in time");
            }
        });
    }
}

#[test]
fn leases_and_decisions_hold_each_other_up_no_longer_than_their_own_answers_take() {
    let far = Far::away(Duration::ZERO);
    run(async {
        let store = store(&far, |_| {});
        warm(&store).await;
        assert!(send(&store, Traffic::Background, DEADLINE).await.is_ok());
        let connections = store.stats().connections;
        assert_eq!(connections, 2, "one for each");
        (far.set().late_share, far.set().late_by) = (1000, Duration::from_millis(6));
        let lease = tokio::spawn({
            let store = store.clone();
            async move { timed(send(&store, Traffic::Background, DEADLINE)).await }
        });
        tokio::task::yield_now().await;
        tokio::time::sleep(TICK).await;
        far.set().late_share = 0;
        for _ in 0..3 {
            let (said, took) = timed(ask(&store, "k")).await;
            assert!(said.is_ok() && took <= TICK, "{said:?} after {took:?}");
        }
        let (said, took) = lease.await.expect("no panic");
        assert!(said.is_ok() && took >= 6 * TICK, "{said:?} after {took:?}");
    });
}

/// As under `CLIENT PAUSE … WRITE`: every command that writes waits, `PING` is answered.
#[test]
fn a_server_that_answers_no_scripts_opens_the_breaker_until_it_does() {
    let far = Far::away(Duration::ZERO);
    run(async {
        let store = store(&far, |_| {});
        warm(&store).await;
        far.says(|_, words| if words[0].starts_with(b"EVAL") { Said::Nothing } else { Said::Usual });
        let began = Instant::now();
        while store.stats().breaker_opened == 0 {
            let (said, took) = timed(ask(&store, "k")).await;
            assert!(said.is_err() && took <= DEADLINE + TICK, "{said:?} after {took:?}");
        }
        assert!(began.elapsed() <= 4 * DEADLINE, "{:?}", began.elapsed());
        for _ in 0..2000 {
            let (said, took) = timed(ask(&store, "k")).await;
            assert!(said.is_err() && took.is_zero(), "fails at once: {said:?} after {took:?}");
            tokio::time::sleep(TICK).await;
        }
        assert_eq!(store.stats().breakers_open, 1);
        far.set().says = None;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(ask(&store, "k").await.is_ok());
    });
}

/// As when a firewall forgets a connection: the others are used, and it is closed.
#[test]
fn one_connection_that_falls_silent_costs_the_calls_on_it() {
    let far = Far::away(Duration::ZERO);
    run(async {
        let store = store(&far, |_| {});
        warm(&store).await;
        let mut silent = None;
        far.says(move |nth, words| {
            let is_it = words[0] == b"EVALSHA" && *silent.get_or_insert(nth) == nth;
            if is_it { Said::Nothing } else { Said::Usual }
        });
        assert!(ask(&store, "k").await.is_err());
        let mut lost = 0;
        for _ in 0..500 {
            let (said, took) = timed(ask(&store, "k")).await;
            lost += u64::from(said.is_err());
            assert!(took <= DEADLINE + TICK);
            tokio::time::sleep(TICK).await;
        }
        let stats = store.stats();
        assert_eq!((lost, stats.breaker_opened), (0, 0));
        assert_eq!(stats.connections, 1, "the silent one is closed: {stats:?}");
    });
}

#[test]
fn a_stall_shorter_than_the_longest_pause_costs_no_connection() {
    let far = Far::away(Duration::ZERO);
    run(async {
        let store = store(&far, |_| {});
        warm(&store).await;
        far.set().stalled_until = Some(Instant::now() + Duration::from_millis(200));
        while store.stats().breaker_opened == 0 {
            assert!(ask(&store, "k").await.is_err());
        }
        let stalled = far.set().stalled_until.take();
        let mut back = None;
        for _ in 0..1000 {
            if ask(&store, "k").await.is_ok() {
                back = Some(Instant::now());
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        let after = back.expect("it is back") - stalled.expect("it stalled");
        assert!(after <= Duration::from_millis(20), "{after:?}");
    });
}
