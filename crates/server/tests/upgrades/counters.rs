//! Counters in Redis. They are kept as commands, with the instants of a day in the year 2060: so their keys
//! have not expired for a long time, and the clock of the test says that it is that day.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::{Cost, Quota, RetryAfter, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch, Throttle};
use tollgate_rule_files::Options as RuleOptions;
use tollgate_store_redis::{HashTag, RedisConfig, RedisStore, StoreTime};
use tollgate_testkit::redis::{Options, Redis, RedisReply, installed};

use crate::kept::{of_this_build, read as file, releases};

/// 2060-03-10 12:34:56 UTC: before the last instant that a bucket can owe until, in 2072.
const THEN: Timestamp = Timestamp::from_unix_seconds(2_846_147_696);
/// Delay after which the counters are read.
const LATER: Duration = Duration::from_millis(1_500);

/// Each way in which the names of keys can be tagged, with the prefix of its keys here.
const TAGS: [(HashTag, &str); 3] =
    [(HashTag::Counter, "counter:"), (HashTag::Domain, "domain:"), (HashTag::FirstEntry, "first:")];

/// The entries of a descriptor.
type Pairs = &'static [(&'static str, &'static str)];

/// Descriptors and the permits taken of each, one take after the other.
pub(crate) const TAKEN: &[(Pairs, &[u64])] = &[
    (&[("calendar", "ann")], &[1, 40]),
    (&[("zone", "ann")], &[1, 40]),
    (&[("first_hit", "ann")], &[1, 40]),
    (&[("cells", "ann")], &[1, 40]),
    (&[("two", "ann")], &[1, 40]),
    (&[("log", "ann")], &[1, 40]),
    (&[("bucket", "ann")], &[1, 40]),
    (&[("thirds", "ann")], &[1, 80]),
    (&[("odd", "ann")], &[1, 12_000_000]),
    (&[("initial", "ann")], &[1, 3]),
    (&[("debt", "ann")], &[1, 40]),
    (&[("interval", "ann")], &[1, 40]),
    (&[("meter", "ann")], &[1, 40]),
    (&[("queue", "ann")], &[1, 40]),
    (&[("total", "ann")], &[1, 40]),
    (&[("warm", "ann")], &[30]),
    (&[("tenant", "ann"), ("class", "high")], &[1, 40]),
    (&[("tenant", "ann"), ("class", "low")], &[1, 5]),
    (&[("call", "list")], &[1, 40]),
    (&[("call", "search")], &[2]),
    (&[("several", "ann")], &[1, 20]),
    (&[("leased", "ann")], &[1, 400, 3]),
    (&[("leased_window", "ann")], &[1, 400, 3]),
    (&[("leased", CRASHED)], &[1; 60]),
    (&[("leased_window", CRASHED)], &[1; 60]),
    // A name with characters that are escaped, and a name of more than 1,024 bytes.
    (&[("bucket", "a|b%c{d}\u{1}é")], &[1, 40]),
    (&[("bucket", LONG)], &[1, 40]),
];

/// A caller whose node ends without giving back its leased permits.
const CRASHED: &str = "bob";

/// A value that makes the name of its key too long.
const LONG: &str = const {
    const BYTES: [u8; 1_500] = [b'x'; 1_500];
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!("x is a letter"),
    }
};

/// A limiter over `redis` as a node is that has the rules of this folder.
fn limiter(redis: &Redis, folder: &Path, (tag, prefix): (HashTag, &str)) -> Limiter<RedisStore> {
    let mut config = RedisConfig::parse_url(&redis.url()).expect("a URL");
    config.link.deadline = Duration::from_secs(10);
    config.link.connect_timeout = Duration::from_secs(10);
    (config.time, config.hash_tag) = (StoreTime::Node, tag);
    prefix.clone_into(&mut config.prefix);
    let rules =
        tollgate_rule_files::load(&[folder.join("rules.yaml")], &RuleOptions::default()).expect("rules");
    let store = RedisStore::new(config).expect("settings that can work");
    Limiter::new(rules.policy, store, LimiterSettings::default())
}

fn entries<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<Entry<'a>> {
    pairs.iter().map(|(key, value)| Entry::new(*key, *value)).collect()
}

/// The quota of `CL.THROTTLE`, whose counters keep instants.
fn throttled() -> Quota {
    Quota::token_bucket(60, Duration::from_secs(60)).expect("a quota").keeping_instants()
}

/// Takes of the counters of every caller, or of the one whose node crashes.
async fn take(limiter: &Limiter<RedisStore>, crashes: bool) {
    let mut scratch = Scratch::new();
    // Often enough that permits are leased ahead.
    let apart = Duration::from_millis(if crashes { 5 } else { 100 });
    for (pairs, hits) in TAKEN.iter().filter(|(pairs, _)| (pairs[0].1 == CRASHED) == crashes) {
        let entries = entries(pairs);
        for (turn, hits) in hits.iter().enumerate() {
            let request = Request { domain: "kept", descriptors: &[Descriptor::new(&entries)], hits: *hits };
            let now = THEN + apart * u32::try_from(turn).expect("few");
            let answer = limiter.decide(&request, now, &mut scratch).await.expect("a valid request");
            let answer = answer.descriptor(0).expect("it asked about one");
            assert_eq!(answer.degraded, None, "{pairs:?}: the store did not answer");
            assert!(answer.is_admitted(), "{pairs:?}: {answer:?}");
        }
    }
    if crashes {
        return;
    }
    let slots = entries(&[("slots", "ann")]);
    for holder in 1..4 {
        let id = format!("{holder:032x}").parse().expect("an id");
        let request = Request { domain: "kept", descriptors: &[Descriptor::new(&slots)], hits: 1 };
        assert!(limiter.acquire(&request, Some(id), THEN, &mut scratch).await.expect("a rule").is_admitted());
    }
    let quota = throttled();
    let mut out = Vec::new();
    let ask = Throttle { key: b"ann", quota: &quota, cost: Cost(40) };
    limiter.throttle(&[ask], THEN, &mut scratch, &mut out).await;
    assert!(out[0].is_admitted() && out[0].degraded.is_none(), "{out:?}");
}

/// State of the counters a little later, one line for each.
async fn read(limiter: &Limiter<RedisStore>, prefix: &str) -> Vec<Value> {
    let now = THEN + LATER;
    let mut scratch = Scratch::new();
    let mut lines = Vec::new();
    let nanos = |retry| match retry {
        RetryAfter::Now => json!("now"),
        RetryAfter::After(wait) => json!(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
        RetryAfter::Never => json!("never"),
    };
    for (pairs, _) in TAKEN {
        for report in limiter.inspect("kept", &entries(pairs), now).await.expect("a counter") {
            assert_eq!(report.degraded, None, "the store did not answer");
            assert!(report.is_tracked, "{pairs:.40?} is forgotten: {report:?}");
            let entries: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key}={value:.40}")).collect();
            lines.push(json!({
                "prefix": prefix, "entries": entries.join(" "), "limit": report.burst, "tokens": report.tokens,
                "remaining": report.decision.remaining(),
                "retry_after_ns": nanos(report.decision.retry_after()),
                "reset_after_ns": nanos(RetryAfter::After(report.decision.reset_after())),
            }));
        }
    }
    // A take counts on. (A lease comes when it comes, so leased rules are not asked.)
    for (pairs, _) in TAKEN.iter().filter(|(pairs, _)| !pairs[0].0.starts_with("leased")) {
        let entries = entries(pairs);
        let request = Request { domain: "kept", descriptors: &[Descriptor::new(&entries)], hits: 1 };
        let answer = limiter.decide(&request, now, &mut scratch).await.expect("a valid request");
        let answer = answer.descriptor(0).expect("it asked about one");
        assert_eq!(answer.degraded, None, "the store did not answer");
        let remaining = answer.remaining();
        lines.push(json!({"prefix": prefix, "admits": answer.is_admitted(), "remaining": remaining}));
    }
    // The slot of a holder is renewed, and the free ones are counted.
    let slots = entries(&[("slots", "ann")]);
    let request = Request { domain: "kept", descriptors: &[Descriptor::new(&slots)], hits: 1 };
    let holder = format!("{:032x}", 2).parse().expect("an id");
    let slot = limiter.acquire(&request, Some(holder), now, &mut scratch).await.expect("a rule");
    lines.push(json!({"prefix": prefix, "slots": slot.remaining(), "is_renewal": slot.is_renewal}));
    let quota = throttled();
    let mut out = Vec::new();
    limiter
        .throttle(&[Throttle { key: b"ann", quota: &quota, cost: Cost::PEEK }], now, &mut scratch, &mut out)
        .await;
    let remaining = out[0].decision.as_ref().map(tollgate_core::Decision::remaining);
    lines.push(json!({"prefix": prefix, "throttled": remaining}));
    lines
}

/// Every key of the server as commands that make it again, in the order of their names.
fn dump(redis: &Redis) -> String {
    let names: BTreeSet<String> =
        redis.command(&["KEYS", "*"]).array().iter().map(RedisReply::text).collect();
    let mut text = String::new();
    // Nodes beat by the clock of the server, and are forgotten after half a minute.
    for name in names.iter().filter(|name| !name.ends_with(":nodes")) {
        let words = |command: &[&str]| {
            redis.command(command).array().iter().map(RedisReply::text).collect::<Vec<_>>()
        };
        let kind = redis.command(&["TYPE", name]).text();
        let mut command = vec![];
        match kind.as_str() {
            "string" => {
                command.extend(["SET".to_owned(), name.clone(), redis.command(&["GET", name]).text()])
            }
            "list" => {
                command.extend(["RPUSH".to_owned(), name.clone()]);
                command.extend(words(&["LRANGE", name, "0", "-1"]));
            }
            "hash" => {
                let fields = words(&["HGETALL", name]);
                let mut pairs: Vec<_> = fields.chunks(2).collect();
                pairs.sort();
                command.extend(["HSET".to_owned(), name.clone()]);
                command.extend(pairs.concat());
            }
            "zset" => {
                let scored = words(&["ZRANGE", name, "0", "-1", "WITHSCORES"]);
                command.extend(["ZADD".to_owned(), name.clone()]);
                command.extend(scored.chunks(2).flat_map(|it| [it[1].clone(), it[0].clone()]));
            }
            other => panic!("{name} is a {other}"),
        }
        text += &format!("{}\n", json!(command));
        let expires = redis.command(&["PEXPIRETIME", name]).int();
        if expires > 0 {
            text += &format!("{}\n", json!(["PEXPIREAT", name, expires.to_string()]));
        }
    }
    text
}

/// Fills a folder with the counters of this build.
fn write(redis: &Redis, folder: &Path) {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrades/rules/kept.yaml");
    std::fs::copy(rules, folder.join("rules.yaml")).expect("copied");
    run(async {
        for tag in TAGS {
            let limiter = limiter(redis, folder, tag);
            take(&limiter, false).await;
            limiter.store().close().await;
        }
    });
    for tag in TAGS {
        run(async {
            let limiter = limiter(redis, folder, tag);
            take(&limiter, true).await;
            // A ledger has one field, and one more for each node with a lease.
            let is_leased = || {
                let names = redis.command(&["KEYS", &format!("{}*={CRASHED}*leased", tag.1)]);
                let fields = |name: &RedisReply| redis.command(&["HLEN", &name.text()]).int();
                names.array().len() == 2 && names.array().iter().all(|name| fields(name) == 2)
            };
            while !is_leased() {
                tokio::task::yield_now().await;
            }
        });
    }
    std::fs::write(folder.join("redis"), dump(redis)).expect("written");
    let lines = expected(redis, folder);
    std::fs::write(folder.join("counts"), lines).expect("written");
}

/// State of the counters on nodes that have just started, one line for each.
fn expected(redis: &Redis, folder: &Path) -> String {
    let mut text = String::new();
    for tag in TAGS {
        let lines = run(async { read(&limiter(redis, folder, tag), tag.1).await });
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    }
    text
}

fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(what)
}

/// The counters in this folder are read with their counts.
fn are_read(folder: &Path) {
    let redis = Redis::start(&Options::new()).expect("it was there a moment ago");
    for line in file(folder, "redis").lines() {
        let words: Vec<String> = serde_json::from_str(line).expect("a command");
        let reply = redis.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(reply.error(), None, "{line}");
    }
    let want = file(folder, "counts");
    let found = expected(&redis, folder);
    for (want, found) in want.lines().zip(found.lines()) {
        assert_eq!(found, want, "{}", folder.display());
    }
    assert_eq!(found.lines().count(), want.lines().count(), "{}", folder.display());
}

#[test]
fn the_counters_of_this_build_are_read_with_their_counts() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    are_read(of_this_build("counters", |folder| write(&redis, folder)).path());
}

#[test]
fn the_counters_of_every_kept_release_are_read_with_their_counts() {
    if !installed() {
        return;
    }
    let releases = releases("counters");
    assert!(!releases.is_empty());
    releases.iter().for_each(|folder| are_read(folder));
}
