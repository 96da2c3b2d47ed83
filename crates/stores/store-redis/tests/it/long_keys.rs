//! Values of clients may be long; the names in Redis stay short, and each value has a counter of its own.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Holder, Quota, Slots};
use tollgate_store::{Charge, Counter, Key, Sharing, SlotKey, Store as _, Verdicts};
use tollgate_store_redis::{HashTag, RedisStore};
use tollgate_testkit::redis::{Options, Redis};

use crate::common::{NOW, patient, run, store, until_up};

/// Bytes of the longest name: the prefix, the braces, a counter key of a kibibyte, and the suffix.
const LONGEST_NAME: usize = "tollgate:{}|leased".len() + 1024;

/// Takes `cost` from each counter, all together or each by itself.
async fn take(store: &RedisStore, counters: &[Counter<'_>], charge: Charge, cost: u64) {
    let batch: Vec<_> = counters.iter().map(|counter| counter.take(Cost(cost))).collect();
    let mut verdicts = Verdicts::new();
    store.take(&batch, charge, NOW, &mut verdicts).await;
    assert!(verdicts.iter().all(|verdict| verdict.as_ref().is_ok_and(Decision::is_admitted)), "{verdicts:?}");
}

/// The permits left in each counter.
async fn left(store: &RedisStore, counters: [Counter<'_>; 2]) -> [u64; 2] {
    let mut left = [0; 2];
    for (left, counter) in left.iter_mut().zip(counters) {
        *left = store.inspect(counter, NOW).await.expect("an answer").decision.remaining();
    }
    left
}

#[test]
fn a_value_of_a_megabyte_is_counted_under_a_name_of_a_kibibyte_and_no_two_values_share_a_counter() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let x = "x".repeat(1 << 20);
    let keys = ["a", "b"].map(|end| {
        // A rule's key; a rule's key whose first entry is short; a key that came with its own limit.
        [
            format!("shop|user={x}{end}|minute"),
            format!("shop|ip=1|path={x}{end}|minute"),
            format!("\u{1}{x}{end}"),
        ]
    });
    let quota = Quota::token_bucket(100, Duration::from_secs(86_400)).expect("a quota");
    run(async {
        for (tag, sharing) in [
            (HashTag::Counter, Sharing::Exact),
            (HashTag::Domain, Sharing::Exact),
            (HashTag::FirstEntry, Sharing::Exact),
            (HashTag::Counter, Sharing::Leased),
        ] {
            let mut config = patient(&redis.url());
            config.hash_tag = tag;
            let store = store(config);
            store.start();
            until_up(&store).await;
            for [one, other] in [0, 1, 2].map(|nth| [&keys[0][nth], &keys[1][nth]]) {
                let [one, other] =
                    [one, other].map(|key| Counter::new(Key(key.as_bytes()), &quota).shared(sharing));
                let what = format!("{tag:?}, {sharing:?}, {:?}", &one.key.0[..8]);
                take(&store, &[one], Charge::Each, 10).await;
                assert_eq!(left(&store, [one, other]).await, [90, 100], "{what}");
                take(&store, &[one, other], Charge::Each, 10).await;
                take(&store, &[one, other], Charge::Together, 10).await;
                assert_eq!(left(&store, [one, other]).await, [70, 80], "{what}");
                assert!(store.give_back(one, Cost(5), NOW).await.is_ok(), "{what}");
                assert!(store.charge(other, Cost(5), NOW).await.is_ok(), "{what}");
                assert_eq!(left(&store, [one, other]).await, [75, 75], "{what}");
                let mut held = Verdicts::new();
                store.reserve(&[one.take(Cost::ONE)], Duration::ZERO, NOW, &mut held).await;
                assert!(held[0].as_ref().is_ok_and(Decision::is_admitted), "{what}: {held:?}");
                assert_eq!(left(&store, [one, other]).await, [74, 75], "{what}");
                assert!(store.reset(one, NOW).await.expect("an answer"), "{what}: it was counted");
                assert_eq!(left(&store, [one, other]).await, [100, 75], "{what}");
            }
            let slots = Slots::new(1, Duration::from_secs(60)).expect("slots");
            for (key, holder, want) in
                [(&keys[0][0], 1, true), (&keys[0][0], 2, false), (&keys[1][0], 3, true)]
            {
                let slot =
                    store.acquire(SlotKey::new(Key(key.as_bytes())), &slots, Holder(holder), NOW).await;
                assert_eq!(slot.expect("an answer").is_admitted(), want, "{tag:?}, holder {holder}");
            }
            store.close().await;
            let names = redis.command(&["KEYS", "*"]);
            let lengths: Vec<usize> = names.array().iter().map(|name| name.text().len()).collect();
            assert!(lengths.len() > 5 && lengths.iter().all(|&length| length <= LONGEST_NAME), "{lengths:?}");
            redis.command(&["FLUSHALL"]);
        }
    });
}
