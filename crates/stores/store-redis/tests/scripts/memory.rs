//! The server's memory for one key.

use super::*;

const KEYS: u32 = 20_000;
/// PERFORMANCE: bytes per key, without its name.
const MOST: f64 = 115.0;

fn used_memory(store: &Direct) -> i64 {
    let info = store.command(&["INFO", "memory"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
    line.trim().parse().expect("a number")
}

/// A log of many entries that are over, or that a large cost has to wait for, is searched and not walked: no
/// caller holds up the server.
#[test]
fn a_long_list_costs_a_few_steps() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let quota = quota(1 << 20, HOUR, Algorithm::SlidingWindowLog { log_denied: false });
    let key = store.text_key(b"k");
    let begins_ms = (AHEAD.as_nanos() / 1_000_000).to_string();
    let fill = "redis.call('RPUSH', KEYS[1], 'log 0 0 0') \
                for i = 1, 100000 do redis.call('RPUSH', KEYS[1], string.format('%d 0 %d', ARGV[1] + i, i * 10)) end";
    store.command(&["EVAL", fill, "1", &key, &begins_ms]);
    store.command(&["CONFIG", "RESETSTAT"]);
    let ask = |kind, now| store.run(&[store.ask(b"k", &quota, kind)], now).expect("an answer");
    let Answer::Decision(refused) = ask(KeyOperation::Take(Cost(600_000)), AHEAD + SECOND * 100)[0] else {
        panic!("a decision")
    };
    assert_eq!(refused.remaining(), (1 << 20) - 1_000_000);
    // Room for it is made by the entry with which 551,424 have left: the 55,143rd.
    let wait = Duration::from_millis(55_143) + HOUR - SECOND * 100;
    assert_eq!(refused.retry_after(), tollgate_core::RetryAfter::After(wait));
    ask(KeyOperation::GiveBack(Cost(400_005)), AHEAD + SECOND * 100);
    let Answer::Decision(later) = ask(KeyOperation::Take(Cost(1)), AHEAD + HOUR + SECOND * 90)[0] else {
        panic!("a decision")
    };
    assert_eq!(later.remaining(), (1 << 20) - 1 - 100_000, "of the youngest 10,000 entries");
    let stats = store.command(&["INFO", "commandstats"]).text();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_lindex:calls=")).expect("a line");
    let steps: u32 = line.split(',').next().and_then(|steps| steps.parse().ok()).expect("a number");
    assert!(steps < 150, "{steps} steps");
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
        // One server per case: tables that have grown do not shrink at once.
        let Some(redis) = Redis::start(&Options::new()) else { return };
        let store = store(&redis, StoreTime::Store);
        let name = |nth: u32| format!("shop|user=user-{nth:08}|token_bucket");
        let take = |nth: u32| {
            let asks = [store.ask(name(nth).as_bytes(), &quota, KeyOperation::Take(Cost(quota.limit() / 2)))];
            store.run(&asks, AHEAD).expect("an answer");
        };
        take(KEYS);
        let before = used_memory(&store);
        (0..KEYS).for_each(take);
        // While a table of the server grows it has two; each command moves a little from the old one.
        let key = store.text_key(name(0).as_bytes());
        let look = "for i = 1, 50000 do redis.call('EXISTS', KEYS[1]) end";
        store.command(&["EVAL", look, "1", &key]);
        let length = store.key(name(0).as_bytes()).len() as f64;
        let bytes = (used_memory(&store) - before) as f64 / f64::from(KEYS) - length;
        println!("{}: {bytes:.1} bytes a key above its name of {length}", quota.algorithm().name());
        assert!(bytes <= MOST, "{bytes} bytes, {:?}", quota.algorithm());
    }
}
