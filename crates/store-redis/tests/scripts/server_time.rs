//! On the server's clock: ordinary behaviour, and keys that expire when they should.

use super::*;

/// The server's time in ms, which is the only clock that a test may read.
fn server_ms(store: &Direct) -> u64 {
    let time = store.command(&["TIME"]);
    let [seconds, micros] = [0, 1].map(|nth| time.array()[nth].int() as u64);
    seconds * 1_000 + micros / 1_000
}

pub(super) fn now(store: &Direct) -> Timestamp {
    at_ms(server_ms(store))
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// When the key expires: at or after the end of what it says (`reset_after`), and not long after.
#[test]
fn keys_expire_when_they_say_nothing_any_more() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let day = HOUR * 24;
    for quota in each(day) {
        let store = store(&redis, StoreTime::Store);
        let key = store.text_key(b"k");
        let before_ms = server_ms(&store);
        let asks = vec![store.ask(b"k", &quota, Kind::Take(Cost(1))); 3];
        let answers = store.run(&asks, at_ms(before_ms)).expect("answers");
        let after_ms = server_ms(&store);
        let Some(Answer::Decision(last)) = answers.last() else { panic!("{answers:?}") };
        let expires_ms = store.command(&["PEXPIRETIME", &key]).int();
        if matches!(quota.algorithm(), Algorithm::Total) {
            assert_eq!(expires_ms, -1, "a total is never forgotten");
            continue;
        }
        let reset_ms = last.reset_after().as_millis() as u64;
        let kept_ms = if quota.starts_partial() { 30 * 86_400_000 } else { 0 };
        // A weighted window counts until the end of the next one at most.
        let longer_ms = if matches!(quota.algorithm(), Algorithm::SlidingWindowCounter) {
            day.as_millis() as u64
        } else {
            0
        };
        let (least, most) = (before_ms + reset_ms + kept_ms, after_ms + reset_ms + kept_ms + longer_ms + 2);
        let expires_ms = u64::try_from(expires_ms).expect("it expires");
        assert!(
            (least..=most).contains(&expires_ms),
            "{least}..={most}: {expires_ms}, {:?}",
            quota.algorithm()
        );
    }
}

/// Whatever the node's clock shows: it is a hint. Only what the server counts is admitted, and windows are
/// the server's.
#[test]
fn the_nodes_clock_may_be_wrong_by_hours() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(HOUR * 1_000) {
        let (store, right) = (store(&redis, StoreTime::Store), store(&redis, StoreTime::Store));
        let now_ms = server_ms(&store);
        for hint in [now_ms, now_ms - 5_000_000, now_ms + 4_000_000_000, 0, now_ms] {
            let asks = |store: &Direct| vec![store.ask(b"k", &quota, Kind::Take(Cost(1))); 2];
            let told = store.run(&asks(&store), at_ms(hint)).expect("answers");
            let wanted = right.run(&asks(&right), at_ms(now_ms)).expect("answers");
            for (told, wanted) in told.iter().zip(&wanted) {
                let (Answer::Decision(told), Answer::Decision(wanted)) = (told, wanted) else {
                    panic!("{told:?}")
                };
                assert_eq!(told.is_admitted(), wanted.is_admitted(), "hint {hint}, {:?}", quota.algorithm());
                assert_eq!(told.remaining(), wanted.remaining(), "hint {hint}, {:?}", quota.algorithm());
                let apart = told.reset_after().abs_diff(wanted.reset_after());
                assert!(apart < Duration::from_secs(20), "hint {hint}: {apart:?}, {:?}", quota.algorithm());
            }
        }
    }
}

#[test]
fn permits_come_back_by_the_servers_clock() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Store);
    for (nth, quota) in each(Duration::from_millis(300)).iter().enumerate() {
        if matches!(quota.algorithm(), Algorithm::Total) {
            continue;
        }
        let key = [nth as u8];
        let take = || {
            let asks = [store.ask(&key, quota, Kind::Take(Cost(2)))];
            let answers = store.run(&asks, at_ms(server_ms(&store))).expect("answers");
            matches!(&answers[..], [Answer::Decision(it)] if it.is_admitted())
        };
        // A client that waits 400 ms after each denial: a log of denials lets it pass too.
        let mut admitted = 0;
        let deadline_ms = server_ms(&store) + 30_000;
        while admitted < 8 {
            if take() {
                admitted += 1;
            } else {
                store.command(&["BLPOP", "nothing", "0.4"]); // waits
            }
            assert!(server_ms(&store) < deadline_ms, "{admitted} admitted by {:?}", quota.algorithm());
        }
    }
}
