//! On the server's clock: ordinary behaviour, and keys that expire when they should.

use tollgate_core::RetryAfter;

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

/// The expiry of the key: at or after the end that it states (`reset_after`), and not long after.
#[test]
fn keys_expire_when_they_say_nothing_any_more() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let day = HOUR * 24;
    for quota in each(day) {
        let store = store(&redis, StoreTime::Store);
        let key = store.text_key(b"k");
        let before_ms = server_ms(&store);
        let asks = vec![store.ask(b"k", &quota, KeyOperation::Take(Cost(1))); 3];
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
        let longer_ms = match quota.algorithm() {
            // A weighted window counts until the end of the next one at most.
            Algorithm::SlidingWindowCounter => day.as_millis() as u64,
            // A key that owes nothing any more gets cold for at most its warm-up.
            Algorithm::WarmUp { warm_up, .. } => warm_up.as_millis() as u64,
            _ => 0,
        };
        let least = before_ms + reset_ms + kept_ms;
        let most = after_ms + reset_ms + kept_ms + longer_ms + 2;
        let expires_ms = u64::try_from(expires_ms).expect("it expires");
        assert!(
            (least..=most).contains(&expires_ms),
            "{least}..={most}: {expires_ms}, {:?}",
            quota.algorithm()
        );
    }
}

/// The node's clock may show any time: it is a hint. Only the server's counts admit, and windows are the
/// server's.
#[test]
fn the_nodes_clock_may_be_wrong_by_hours() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(HOUR * 1_000) {
        let (store, right) = (store(&redis, StoreTime::Store), store(&redis, StoreTime::Store));
        let now_ms = server_ms(&store);
        for hint in [now_ms, now_ms - 5_000_000, now_ms + 4_000_000_000, 0, now_ms] {
            let asks = |store: &Direct| vec![store.ask(b"k", &quota, KeyOperation::Take(Cost(1))); 2];
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

/// The most permits that `quota` can admit within `span`, whenever that begins, to a client that it has not
/// seen before.
fn most(quota: &Quota, span: Duration) -> f64 {
    let Period::Span(window) = quota.period() else { panic!("{quota:?}") };
    let limit = quota.limit() as f64;
    let windows = span.as_secs_f64() / window.as_secs_f64();
    match *quota.algorithm() {
        Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
            let begins = initial.or(burst).unwrap_or(quota.limit()) + overdraft;
            let refilled = if refill == Refill::Interval { windows.floor() } else { windows };
            begins as f64 + limit * refilled
        }
        Algorithm::LeakyBucket { capacity, .. } => capacity.unwrap_or(quota.limit()) as f64 + limit * windows,
        Algorithm::SlidingWindow { .. } | Algorithm::SlidingWindowLog { .. } => {
            limit * (windows.floor() + 1.0)
        }
        _ => limit * (windows.floor() + 2.0), // a window that has ended, and one that begins
    }
}

/// The wait that a denial returns is enough by the server's clock, and never more is admitted than the
/// algorithm allows for the time that has passed on it.
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
            let asks = [store.ask(&key, quota, KeyOperation::Take(Cost(2)))];
            let answers = store.run(&asks, at_ms(server_ms(&store))).expect("answers");
            let [Answer::Decision(decision)] = &answers[..] else { panic!("{answers:?}") };
            *decision
        };
        let began_ms = server_ms(&store);
        let mut admitted = 0;
        let mut waits = 0;
        while waits < 5 {
            let decision = take();
            let elapsed = Duration::from_millis(server_ms(&store) - began_ms);
            if decision.is_admitted() {
                admitted += 2;
                let most = most(quota, elapsed + Duration::from_millis(1)); // `began_ms` is rounded down
                assert!(f64::from(admitted) <= most, "{admitted} in {elapsed:?}, at most {most}: {quota:?}");
                continue;
            }
            let RetryAfter::After(wait) = decision.retry_after() else { panic!("{decision:?}: {quota:?}") };
            store.command(&["BLPOP", "nothing", &format!("{:.3}", wait.as_secs_f64() + 0.001)]); // waits
            let until = elapsed + wait;
            while Duration::from_millis(server_ms(&store) - began_ms) <= until {
                std::hint::spin_loop();
            }
            let decision = take();
            assert!(decision.is_admitted(), "after {wait:?}: {decision:?}, {quota:?}");
            (admitted, waits) = (admitted + 2, waits + 1);
        }
    }
}
