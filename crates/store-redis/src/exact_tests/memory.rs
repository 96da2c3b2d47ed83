//! What a key costs the server.

use redis::Value;

use super::*;

const KEYS: u32 = 20_000;
/// PERFORMANCE: bytes a key above its name.
const MOST: f64 = 115.0;

fn used_memory(store: &Direct) -> i64 {
    let Value::BulkString(info) = store.command(&["INFO", "memory"]) else { panic!("no text") };
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
    line.trim().parse().expect("a number")
}

#[test]
fn a_key_of_one_word_costs_no_more_than_115_bytes_above_its_name() {
    let day = HOUR * 24;
    let window = Algorithm::FixedWindow { align: Align::FirstHit };
    let queue = Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Queue { delay_after: 0 } };
    for quota in [
        quota(999_983, day, bucket(None, None, 0, Refill::Continuous)),
        quota(100, day, queue),
        quota(100, day, Algorithm::FixedWindow { align: Align::Calendar }),
        quota(100, day, window),
        quota(100, day, Algorithm::Total),
    ] {
        // A server each: tables that have grown do not shrink at once.
        let Some(redis) = Redis::start(&Options::new()) else { return };
        let store = store(&redis, StoreTime::Store);
        let name = |nth: u32| format!("shop|user=user-{nth:08}|token_bucket");
        let take = |nth: u32| {
            let asks = [store.ask(name(nth).as_bytes(), &quota, Kind::Take(Cost(quota.limit() / 2)))];
            store.run(&asks, AHEAD).expect("an answer");
        };
        take(KEYS);
        let before = used_memory(&store);
        (0..KEYS).for_each(take);
        // While a table of the server grows it has two; each command moves a little from the old one.
        store.command(&["EVAL", "for i = 1, 50000 do redis.call('EXISTS', 'nothing') end", "0"]);
        let length = store.key(name(0).as_bytes()).len() as f64;
        let bytes = (used_memory(&store) - before) as f64 / f64::from(KEYS) - length;
        println!("{}: {bytes:.1} bytes a key above its name of {length}", quota.algorithm().name());
        assert!(bytes <= MOST, "{bytes} bytes, {:?}", quota.algorithm());
    }
}
