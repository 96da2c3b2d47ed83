//! Edges that random histories seldom meet: the lifetime of keys, takes that begin a key and are given back
//! at once, rates that change meanwhile, slots.

use tollgate_core::{Holder, Slots};
use tollgate_store_redis::internals::{
    Ask, AskError, Next, Replied, ScriptCall, SlotAction, Swap, answers, argument, each as script, first,
    instant, slot_call, slot_reply,
};

use super::*;

fn expires_ns(store: &Direct, key: &str) -> u64 {
    let ms = store.command(&["PEXPIRETIME", key]).int();
    u64::try_from(ms).map_or(0, |ms| ms.saturating_mul(1_000_000))
}

fn name(store: &Direct) -> String {
    store.text_key(b"k")
}

/// Law: a key lives as long as its state matters. (`server_time` shows that it lives not much longer.)
#[test]
fn a_key_lives_as_long_as_it_says_anything() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let odd = Duration::from_nanos(1_234_567_890);
    let quotas = [each(SECOND), each(odd)].concat();
    let steps = prop::collection::vec((kinds(), 0..1_500_000_000_u64), 1..5);
    let config = Config { cases: cases(160), failure_persistence: None, ..Config::default() };
    let law = TestRunner::new(config).run(&(0..quotas.len(), steps), |(which, steps)| {
        let quota = &quotas[which];
        let model = ModelStore::default();
        let store = store(&redis, StoreTime::Node);
        let mut now = AHEAD;
        for (kinds, gap_ns) in steps {
            now = now + Duration::from_nanos(gap_ns);
            let asks: Vec<_> = kinds.iter().map(|kind| store.ask(b"k", quota, *kind)).collect();
            store.run(&asks, now).expect("an answer");
            one_by_one(&model, quota, &kinds, now);
            let seen = block_on(model.inspect(Counter::new(Key(b"k"), quota), now))
                .expect("the model always answers");
            let says = seen.decision.reset_after();
            if seen.is_tracked && !says.is_zero() && !matches!(quota.algorithm(), Algorithm::Total) {
                let kept = if quota.starts_partial() { HOUR * 24 * 30 } else { Duration::ZERO };
                let lives = expires_ns(&store, &name(&store));
                let least = (now + says + kept).as_nanos();
                prop_assert!(lives >= least, "{} ns short: {:?}", least - lives, quota.algorithm());
            }
        }
        Ok(())
    });
    law.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The weight of the older window is rounded down exactly, where a double would be off by one.
#[test]
fn a_weight_that_a_double_rounds_is_rounded_down_exactly() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let quota = quota(4_000_000_000, SECOND * 10, Algorithm::SlidingWindowCounter);
    let model = ModelStore::default();
    let store = store(&redis, StoreTime::Node);
    let both = |kind, now| {
        let got = store.run(&[store.ask(b"k", &quota, kind)], now).expect("an answer");
        assert_eq!(got, one_by_one(&model, &quota, &[kind], now), "{kind:?} at {now:?}");
    };
    both(KeyOperation::Take(Cost(3_000_000_000)), AHEAD);
    for nth in 1..400 {
        // Three permits leave every ten nanoseconds, so that the weight is whole at each of these instants.
        let now = AHEAD + SECOND * 10 + Duration::from_nanos(10 * 2_399_993 * nth);
        let seen =
            block_on(model.inspect(Counter::new(Key(b"k"), &quota), now)).expect("the model always answers");
        both(KeyOperation::Take(Cost(seen.decision.remaining() + 1)), now);
        both(KeyOperation::Take(Cost::PEEK), now);
    }
}

#[test]
fn a_list_holds_what_counts_and_no_more() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(SECOND) {
        let store = store(&redis, StoreTime::Node);
        let is_list =
            matches!(quota.algorithm(), Algorithm::SlidingWindow { .. } | Algorithm::SlidingWindowLog { .. });
        for nth in (0..60).filter(|_| is_list) {
            let now = AHEAD + Duration::from_millis(250) * nth;
            store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(1)))], now).expect("an answer");
            let length = store.command(&["LLEN", &name(&store)]).int();
            assert!(length <= 8, "{length} after {nth} takes: {:?}", quota.algorithm());
        }
    }
}

/// The last instant that a state can hold is in January 2072. A debt that ends later ends then, and its key
/// stays one of ours.
#[test]
fn a_debt_that_ends_after_2072_ends_then_and_its_key_can_be_read() {
    const DAY: Duration = Duration::from_secs(86_400);
    const LATEST_MS: i64 = 3_221_225_471_000;
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let of = |limit, burst| quota(limit, DAY * 365, bucket(Some(burst), None, 0, Refill::Continuous));
    let now = AHEAD + DAY * 365 * 10; // 2059
    for (first, then) in [(of(1, 29), of(1, 29)), (of(1, 29), of(3, 40)), (of(3, 60), of(3, 60))] {
        for cost in [28, 11, 13] {
            let model = ModelStore::default();
            let store = store(&redis, StoreTime::Node);
            store.run(&[store.ask(b"k", &first, KeyOperation::Take(Cost(cost)))], now).expect("an answer");
            one_by_one(&model, &first, &[KeyOperation::Take(Cost(cost))], now);
            assert!(store.command(&["PEXPIRETIME", &name(&store)]).int() <= LATEST_MS);
            // The model knows when a rate changed, the script only when it is asked: now.
            let later = if then.is_equivalent_to(&first) { now + DAY } else { now };
            let then = then.clone().migrated_from(&first, now);
            for kind in [
                KeyOperation::Take(Cost(1)),
                KeyOperation::GiveBack(Cost(1)),
                KeyOperation::Charge(Cost(2)),
                KeyOperation::Take(Cost::PEEK),
            ] {
                let got = store.run(&[store.ask(b"k", &then, kind)], later);
                let want = one_by_one(&model, &then, &[kind], later);
                let (Ok([Answer::Decision(got)]), [Answer::Decision(want)]) = (got.as_deref(), &want[..])
                else {
                    panic!("{kind:?} after {cost}: {got:?}");
                };
                assert_eq!(
                    got.is_admitted(),
                    want.is_admitted(),
                    "{kind:?} after {cost}: {got:?}, not {want:?}"
                );
                let apart = got.reset_after().abs_diff(want.reset_after());
                assert!(apart <= SECOND, "{kind:?} after {cost}: {got:?}, not {want:?}");
            }
        }
    }
    // A value that an earlier version has left.
    let store = store(&redis, StoreTime::Node);
    let quota = of(1, 29);
    store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(1)))], now).expect("an answer");
    store.command(&["PEXPIREAT", &name(&store), &(LATEST_MS + 1_000_000_000).to_string()]);
    let seen =
        store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost::PEEK))], now).expect("it is ours");
    let [Answer::Decision(seen)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(now + seen.reset_after(), Timestamp::from_unix_seconds(LATEST_MS as u64 / 1_000));
}

/// A take that is given back in the same call has begun the key all the same, where beginning matters.
#[test]
fn what_is_begun_and_given_back_at_once_has_begun() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(SECOND) {
        let model = ModelStore::default();
        let store = store(&redis, StoreTime::Node);
        for (at_ms, kinds) in [
            (0, vec![KeyOperation::Take(Cost(2)), KeyOperation::GiveBack(Cost(2))]),
            (900, vec![KeyOperation::Take(Cost(1))]),
            (1_000, vec![KeyOperation::Inspect, KeyOperation::Take(Cost(3))]),
            (
                1_950,
                vec![KeyOperation::Charge(Cost(2)), KeyOperation::GiveBack(Cost(9)), KeyOperation::Inspect],
            ),
            (2_100, vec![KeyOperation::Take(Cost(1)), KeyOperation::Inspect]),
        ] {
            let now = AHEAD + Duration::from_millis(at_ms);
            let asks: Vec<_> = kinds.iter().map(|kind| store.ask(b"k", &quota, *kind)).collect();
            let decisions = |answers: Vec<Answer>| -> Vec<_> {
                let decision = |answer| match answer {
                    Answer::Inspection(seen) => Answer::Decision(seen.decision),
                    other => other,
                };
                answers.into_iter().map(decision).collect()
            };
            let got = decisions(store.run(&asks, now).expect("answers"));
            let want = decisions(one_by_one(&model, &quota, &kinds, now));
            assert_eq!(got, want, "at {at_ms} ms: {:?}", quota.algorithm());
        }
    }
}

/// While rules change, nodes ask by the old rate and by the new one at the same time, and each continues from
/// the other's state.
#[test]
fn two_rates_at_once_lose_no_count() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let flow = |limit, span, burst| quota(limit, span, bucket(Some(burst), None, 0, Refill::Continuous));
    let [fast, slow] = [2_000_000, 1_000_000].map(|limit| flow(limit, SECOND, 200));
    let strict = |cells| quota(200, HOUR * 24, Algorithm::sliding_window(cells));
    for quotas in
        [[flow(200, HOUR * 24, 200), flow(100, HOUR * 24, 100)], [fast, slow], [strict(10), strict(24)]]
    {
        let store = store(&redis, StoreTime::Node);
        let admitted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let store = &store;
                let quota = &quotas[thread % 2];
                let admitted = &admitted;
                scope.spawn(move || {
                    for _ in 0..80 {
                        // A caller that meets the others too often takes nothing.
                        let asks = [store.ask(b"k", quota, KeyOperation::Take(Cost(1)))];
                        let Ok(answers) = store.run(&asks, AHEAD) else { continue };
                        if matches!(answers[..], [Answer::Decision(it)] if it.is_admitted()) {
                            admitted.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        let admitted = admitted.into_inner();
        assert!((1..=200).contains(&admitted), "{admitted} of 200: {:?}", quotas[0].algorithm());
    }
}

#[test]
fn a_window_begins_by_the_servers_clock_whatever_the_caller_believes() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let quota = quota(5, HOUR * 1_000, Algorithm::FixedWindow { align: Align::Calendar });
    let now = super::server_time::now(&store(&redis, StoreTime::Store));
    let mut ends = Vec::new();
    for hint in [now, now + HOUR * 2_000, Timestamp::from_nanos(now.as_nanos() / 2), Timestamp::ZERO] {
        let store = store(&redis, StoreTime::Store);
        store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(1)))], hint).expect("an answer");
        ends.push(expires_ns(&store, &name(&store)));
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

/// By the server's clock: the key of slots lives at least until the last of them expires, also when that slot
/// was not taken last.
#[test]
fn slots_are_kept_until_the_last_of_them_lapses() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Store);
    for (holder, ttl_s) in [(1, 100), (2, 900), (3, 300)] {
        let slots = Slots::new(3, Duration::from_secs(ttl_s)).expect("slots");
        let key = store.key(b"k");
        let holder = Holder(holder);
        let call = slot_call(key, &slots, holder, SlotAction::Acquire, AHEAD, StoreTime::Store);
        let reply = store.eval(&call);
        assert!(slot_reply(&reply).is_some_and(|reply| reply.done), "{reply:?}");
        let key = String::from_utf8_lossy(&call.keys[0]).into_owned();
        let last = store.command(&["ZRANGE", &key, "-1", "-1", "WITHSCORES"]);
        let score = last.array().last().expect("a score").text();
        let lapses_us: f64 = score.parse().expect("a number");
        assert!(expires_ns(&store, &key) >= lapses_us as u64 * 1_000, "{lapses_us} of {reply:?}");
    }
}

#[test]
fn only_what_counts_alike_on_one_key_shares_a_call() {
    let ask = |key: &[u8], limit, kind| {
        let quota = quota(limit, SECOND, bucket(None, None, 0, Refill::Continuous));
        Ask { key: key.to_vec(), quota, kind }
    };
    let take = KeyOperation::Take(Cost(1));
    let first = ask(b"a", 5, KeyOperation::Take(Cost(2)));
    for (other, want) in [
        (ask(b"a", 5, take), true),
        (ask(b"a", 5, KeyOperation::Inspect), true),
        (ask(b"a", 6, take), false), // a rule that changes: each is counted by its own rate
        (ask(b"b", 5, take), false),
        (ask(b"a", 5, KeyOperation::Reset), false),
    ] {
        assert_eq!((first.joins(&other), other.joins(&first)), (want, want), "{other:?}");
    }
}

/// The next step of a caller whose clock shows `believed` when it is [`AHEAD`].
fn asked_at(store: &Direct, quota: &Quota, believed: Timestamp) -> Next {
    let asks = [store.ask(b"k", quota, KeyOperation::Take(Cost(1)))];
    let mut bytes = Vec::new();
    let mut out = Vec::new();
    argument(&mut bytes, &asks, believed).expect("an argument");
    let Next::Step(step, _) = first(&asks, believed, &mut out) else { panic!("a step") };
    let keys = vec![asks[0].key.clone()];
    let args = vec![bytes, instant(AHEAD)];
    let reply = store.eval(&ScriptCall { script: script(step, Swap::None), keys, args });
    let replied = Replied::read(&reply).expect("a reply");
    let part = replied.part(0).expect("of a key");
    answers(&asks, believed, StoreTime::Node, replied.at, &part, &mut out).expect("an answer")
}

/// A board that boots in 1970: spans of years, in cells of no whole ms, are more than a double counts to the
/// ns.
#[test]
fn a_caller_whose_clock_is_years_off_gets_the_right_cell() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let cells = |span, cells| quota(3, span, Algorithm::sliding_window(cells));
    let counter = |span| quota(3, span, Algorithm::SlidingWindowCounter);
    let odd = Duration::from_nanos(3_000_100);
    let even = Duration::from_millis(40);
    let long = Duration::from_secs(200 * 86_400) + Duration::from_nanos(10);
    let days = |days: u64| Duration::from_secs(days * 86_400);
    for (quota, believed, is_right) in [
        (cells(odd, 2), Timestamp::ZERO, false),
        (cells(odd, 2), AHEAD + days(2_700), false),
        (cells(odd, 2), AHEAD + days(89), true),
        (cells(even, 4), Timestamp::ZERO, true),
        (cells(long, 2), AHEAD, true),
        (counter(odd), Timestamp::ZERO, false),
        (counter(odd), AHEAD, true),
        (counter(even), Timestamp::ZERO, true),
        (counter(long), AHEAD, true),
    ] {
        let store = store(&redis, StoreTime::Node);
        let next = asked_at(&store, &quota, believed);
        let is_done = matches!(next, Next::Done);
        assert!(is_done || matches!(next, Next::Step(_, at) if at == AHEAD), "{next:?}");
        assert_eq!(is_done, is_right, "{believed:?}, {:?} in {:?}", quota.algorithm(), quota.period());
        assert_eq!(store.command(&["EXISTS", &name(&store)]).int(), i64::from(is_right));
        // As if it had been right all the time.
        let model = ModelStore::default();
        if is_done {
            one_by_one(&model, &quota, &[KeyOperation::Take(Cost(1))], AHEAD);
        }
        for nth in 0..8 {
            let now = AHEAD + Duration::from_nanos(nth * 700_001);
            let got =
                store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(1)))], now).expect("an answer");
            assert_eq!(
                got,
                one_by_one(&model, &quota, &[KeyOperation::Take(Cost(1))], now),
                "{:?}",
                quota.algorithm()
            );
        }
    }
}

/// A list that is never empty counts on and on: it is rewritten before a double loses permits.
#[test]
fn a_list_that_has_counted_too_many_is_written_afresh() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for algorithm in [Algorithm::SlidingWindowLog { log_denied: false }, Algorithm::sliding_window(10)] {
        let store = store(&redis, StoreTime::Node);
        let quota = quota(9, HOUR, algorithm);
        let take = |cost| [store.ask(b"k", &quota, KeyOperation::Take(Cost(cost)))];
        store.run(&take(2), AHEAD).expect("an answer");
        // As it would be after many years.
        let head = store.command(&["LINDEX", &name(&store), "0"]).text();
        let aged = head.strip_suffix(" 0").expect("none has left").to_owned() + " 4000000000000001";
        let at_ms = (AHEAD.as_nanos() / 1_000_000).to_string();
        store.command(&["LSET", &name(&store), "0", &aged]);
        store.command(&["LSET", &name(&store), "-1", &format!("{at_ms} 0 4000000000000003")]);
        let Answer::Decision(said) = store.run(&take(3), AHEAD).expect("an answer")[0] else {
            panic!("a decision")
        };
        assert_eq!((said.is_admitted(), said.remaining()), (true, 4), "{:?}", quota.algorithm());
        let last = store.command(&["LINDEX", &name(&store), "-1"]);
        assert_eq!(last.text(), format!("{at_ms} 0 5"));
        let asks = [take(5), take(1)].concat();
        store.run_together(&asks, AHEAD).expect("all or none");
        assert_eq!(store.command(&["LINDEX", &name(&store), "-1"]), last);
    }
}

#[test]
fn a_quota_that_no_script_counts_is_an_error_and_nothing_is_taken() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let bucket = quota(5, SECOND, Algorithm::SlidingWindowCounter);
    let below = Duration::from_nanos(999);
    for (span, algorithm) in
        [(below, Algorithm::SlidingWindowCounter), (3 * below, Algorithm::sliding_window(3))]
    {
        let name = algorithm.name();
        let short = store.ask(b"short", &quota(5, span, algorithm), KeyOperation::Take(Cost(1)));
        let other = store.ask(b"other", &bucket, KeyOperation::Take(Cost(1)));
        let alone = store.run(std::slice::from_ref(&short), AHEAD);
        for answers in [alone, store.run_together(&[other, short], AHEAD)] {
            assert!(
                matches!(answers, Err(AskError::Unsupported { algorithm, .. }) if algorithm == name),
                "{answers:?}"
            );
        }
        let left =
            store.run(&[store.ask(b"other", &bucket, KeyOperation::Inspect)], AHEAD).expect("an answer");
        let [Answer::Inspection(left)] = &left[..] else { panic!("{left:?}") };
        assert_eq!(left.decision.remaining(), 5);
    }
}
