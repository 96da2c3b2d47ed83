//! A reply is never another call's: after late replies, cut connections, calls that are sent again, and a
//! server that says too much.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};
use tollgate_store::remote::Failure;

use super::server::Said;
use super::{Chance, Far, TICK, Tested, ask, run, store, warm};

/// Calls 1 ms apart, each of which is sent at once where the server is far away.
async fn one_by_one(store: &Tested, many: usize) -> Vec<JoinHandle<Result<(), Failure>>> {
    let mut calls = Vec::new();
    for nth in 0..many {
        let store = store.clone();
        calls.push(tokio::spawn(async move { ask(&store, &format!("call {nth}")).await }));
        tokio::time::sleep(TICK).await;
    }
    calls
}

async fn ends(calls: Vec<JoinHandle<Result<(), Failure>>>) -> Vec<Result<(), Failure>> {
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await.expect("its own answer"));
    }
    ended
}

#[test]
fn whatever_happens_a_call_is_answered_with_its_own_reply_or_not_at_all() {
    for (ms, deadline_ms, callers) in [(0, 10, 200), (2, 10, 16), (6, 10, 32), (6, 50, 300), (12, 40, 8)] {
        let far = Far::away(Duration::from_millis(ms));
        let mut chance = Chance(0x1234_5678_9abc_def1);
        run(async {
            let store = store(&far, |settings| {
                settings.deadline = Duration::from_millis(deadline_ms);
                settings.max_flight = 16;
            });
            warm(&store).await;
            (far.set().late_share, far.set().late_by) = (50, Duration::from_millis(deadline_ms + 3));
            let ran = Arc::new(Mutex::new(HashMap::<Vec<u8>, u32>::new()));
            let runs = ran.clone();
            far.says(move |_, words| {
                if words[0] != b"EVALSHA" || words.len() != 4 {
                    return Said::Usual; // no call of this test's
                }
                let said = match chance.next() % 10_000 {
                    0..100 => Said::Bytes(b"-NOSCRIPT no such\r\n".to_vec()),
                    100..200 => Said::Bytes(b"-TRYAGAIN later\r\n".to_vec()),
                    200..300 => Said::Bytes(b"-ERR that one not\r\n".to_vec()),
                    300..305 => Said::Bytes(b"-READONLY not now\r\n".to_vec()),
                    305..315 => Said::Cut,
                    _ => Said::Usual,
                };
                if matches!(said, Said::Usual) {
                    *runs.lock().entry(words[3].clone()).or_default() += 1;
                }
                said
            });
            let answered = Arc::new(AtomicU64::new(0));
            let until = Instant::now() + Duration::from_secs(2);
            let tasks: Vec<_> = (0..callers)
                .map(|caller| {
                    let store = store.clone();
                    let answered = answered.clone();
                    tokio::spawn(async move {
                        for nth in 0.. {
                            if Instant::now() > until {
                                break;
                            }
                            match ask(&store, &format!("{caller}: {nth}")).await {
                                Ok(()) => _ = answered.fetch_add(1, SeqCst),
                                Err(_) => tokio::time::sleep(TICK).await,
                            }
                            if nth % 7 == caller % 7 {
                                tokio::time::sleep(TICK).await;
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("each its own answer");
            }
            let answered = answered.load(SeqCst);
            println!("{ms} ms: {answered} answered, {:?}", store.stats());
            assert!(answered > 500, "{answered}");
            let ran = ran.lock();
            assert!(
                ran.len() as u64 >= answered && ran.values().all(|runs| *runs == 1),
                "none was run twice"
            );
        });
    }
}

/// Requests sent without a reply are lost; requests that wait behind them are sent again by another
/// connection, in time.
#[test]
fn of_flights_on_a_connection_that_is_cut_those_not_sent_are_sent_again_and_no_other() {
    let far = Far::away(Duration::from_millis(8));
    run(async {
        let store = store(&far, |settings| settings.deadline = Duration::from_secs(1));
        far.set().buffer = 150; // one call and a part of the next
        warm(&store).await;
        let ran = far.set().ran;
        let reads_from = Instant::now() + Duration::from_millis(16);
        far.set().reads_from = Some(reads_from);
        // Each connection continues waiting for its replies; from the next read on it follows the new rule.
        let _ = ends(one_by_one(&store, 2).await).await;
        far.set().cuts_after = Some(0);
        far.set().reads_from = Some(Instant::now() + Duration::from_millis(16));
        let ended = ends(one_by_one(&store, 14).await).await;
        let silent = ended.iter().filter(is_silent).count();
        let answered = ended.iter().filter(|it| it.is_ok()).count();
        println!("{answered} answered, {silent} silent");
        assert_eq!(answered + silent, 14, "{ended:?}");
        assert!((1..=4).contains(&silent), "{ended:?}");
        let ran = far.set().ran - ran - 2;
        assert!((answered..=answered + silent).contains(&(ran as usize)), "{ran} ran: none twice");
    });
}

fn is_silent(ended: &&Result<(), Failure>) -> bool {
    matches!(ended, Err(Failure::Silent { .. }))
}

#[test]
fn a_script_that_several_flights_miss_is_loaded_once() {
    let far = Far::away(Duration::from_millis(8));
    run(async {
        let store = store(&far, |settings| settings.deadline = Duration::from_millis(60));
        warm(&store).await;
        far.set().knows = Some(HashSet::new());
        let ended = ends(one_by_one(&store, 6).await).await;
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        assert_eq!((far.set().loaded, store.script_loads()), (1, 1));
    });
}

#[test]
fn calls_that_a_replica_rejects_are_all_sent_again_though_others_are_in_flight() {
    let far = Far::away(Duration::from_millis(8));
    run(async {
        let store = store(&far, |settings| settings.deadline = Duration::from_millis(200));
        warm(&store).await;
        let connects = store.stats().connects;
        let ran = far.set().ran;
        let refuses = Arc::new(AtomicU64::new(3));
        far.says(move |_, words| {
            let refuses = words[0] == b"EVALSHA"
                && refuses.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            if refuses { Said::Bytes(b"-READONLY a replica\r\n".to_vec()) } else { Said::Usual }
        });
        let ended = ends(one_by_one(&store, 6).await).await;
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        assert_eq!(far.set().ran - ran, 6, "each was run once");
        assert!(store.stats().connects > connects, "it looks for the master");
    });
}

#[test]
fn flights_in_the_air_land_before_another_master_is_asked() {
    let far = Far::away(Duration::from_millis(8));
    run(async {
        let store = store(&far, |settings| settings.deadline = Duration::from_millis(60));
        warm(&store).await;
        let connects = store.stats().connects;
        let before = store.stats().silent;
        let calls = one_by_one(&store, 4).await;
        store.shared().topology().new_master();
        let calls: Vec<_> = calls.into_iter().chain(one_by_one(&store, 4).await).collect();
        let ended = ends(calls).await;
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        assert_eq!(store.stats().silent, before);
        assert!(store.stats().connects > connects);
    });
}

/// Each flight that follows another begins with a number that must come back.
#[test]
fn a_reply_too_many_among_several_flights_is_found_before_another_call_is_answered_with_it() {
    for ms in [0, 2, 8] {
        let far = Far::away(Duration::from_millis(ms));
        run(async {
            let store = store(&far, |settings| settings.deadline = Duration::from_millis(40));
            warm(&store).await;
            let connects = store.stats().connects;
            let once = AtomicBool::new(false);
            far.says(move |_, words| {
                let is_it = words.get(3).is_some_and(|key| key == b"call 3") && !once.swap(true, SeqCst);
                if is_it { Said::Bytes(b"$6\r\ncall 3\r\n$7\r\ngarbage\r\n".to_vec()) } else { Said::Usual }
            });
            for _ in 0..3 {
                ends(one_by_one(&store, 8).await).await;
            }
            assert!(store.stats().connects > connects, "{ms} ms: it is believed no further");
            assert!(ask(&store, "at last").await.is_ok());
        });
    }
}
