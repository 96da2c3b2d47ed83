//! Counters are listed page by page: each that stays is listed, none of another domain, no page above the cap.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota};
use tollgate_store::{
    Charge, Counter, Kept, Key, MAX_SCANNED, ModelStore, ScanError, Sharing, Store, Verdicts, block_on,
};
use tollgate_store_redis::{HashTag, RedisStore};
use tollgate_testkit::redis::{Cluster, Options, Redis};

use crate::common::{NOW, patient, run, store, until_up};

async fn take(store: &RedisStore, keys: &[String], sharing: Sharing) {
    let quota = Quota::token_bucket(100, Duration::from_secs(86_400)).expect("a quota");
    for keys in keys.chunks(500) {
        let counters = keys.iter().map(|key| Counter::new(Key(key.as_bytes()), &quota).shared(sharing));
        let batch: Vec<_> = counters.map(|counter| counter.take(Cost::ONE)).collect();
        let mut verdicts = Verdicts::new();
        store.take(&batch, Charge::Each, NOW, &mut verdicts).await;
        let is_admitted = |it: &Result<Decision, _>| it.as_ref().is_ok_and(Decision::is_admitted);
        assert!(verdicts.iter().all(is_admitted), "{verdicts:?}");
    }
}

/// All pages: the keys, and how many pages there were.
async fn listed(store: &RedisStore, start: &str) -> (BTreeSet<String>, usize) {
    let mut keys = BTreeSet::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        let page = store.scan(start.as_bytes(), &cursor).await.expect("a page");
        assert!(page.keys.len() <= MAX_SCANNED, "{} keys", page.keys.len());
        assert!(page.keys.iter().all(|it| it.kept == Kept::Counter), "no ledgers and no slots here");
        keys.extend(page.keys.into_iter().map(|it| String::from_utf8(it.key).expect("text")));
        pages += 1;
        match page.next {
            Some(next) => cursor = next,
            None => return (keys, pages),
        }
    }
}

fn keys(domain: &str, users: usize) -> Vec<String> {
    (0..users).map(|user| format!("{domain}|user={user}|path=/a|token_bucket")).collect()
}

#[test]
fn every_counter_of_a_domain_is_listed_and_none_of_another_whatever_the_hash_tag() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        for (prefix, tag) in
            [("a:", HashTag::Counter), ("b:", HashTag::Domain), ("[c]*:", HashTag::FirstEntry)]
        {
            let mut config = patient(&redis.url());
            (config.prefix, config.hash_tag) = (prefix.to_owned(), tag);
            let store = store(config);
            store.start();
            until_up(&store).await;
            let shop = keys("shop", 7_000);
            let other = keys("shop2", 2_000);
            take(&store, &shop, Sharing::Exact).await;
            take(&store, &other, Sharing::Exact).await;
            let (found, pages) = listed(&store, "shop").await;
            assert_eq!(found, shop.iter().cloned().collect(), "{tag:?}");
            assert!(pages >= 2, "7,000 counters do not fit one page");
            // Whole entries: 7 is neither 70 nor 700.
            let (found, _) = listed(&store, "shop|user=7").await;
            assert_eq!(found, BTreeSet::from([shop[7].clone()]), "{tag:?}");
            let (found, _) = listed(&store, "sho").await;
            assert_eq!(found, BTreeSet::new(), "{tag:?}");
        }
    });
}

#[test]
fn the_counters_of_all_servers_of_a_cluster_are_listed() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        let store = store(patient(&cluster.url()));
        store.start();
        until_up(&store).await;
        let shop = keys("shop", 6_000);
        take(&store, &shop, Sharing::Exact).await;
        let (found, pages) = listed(&store, "shop").await;
        assert_eq!(found, shop.into_iter().collect());
        assert!(pages >= 2, "{pages}");
    });
}

#[test]
fn what_is_kept_of_leases_is_listed_as_such_and_a_cursor_of_elsewhere_is_rejected() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let store = store(patient(&redis.url()));
        store.start();
        until_up(&store).await;
        take(&store, &keys("shop", 1), Sharing::Leased).await;
        let page = store.scan(b"shop", "").await.expect("a page");
        let found: Vec<_> = page.keys.iter().map(|it| (it.key.escape_ascii().to_string(), it.kept)).collect();
        assert_eq!(found, [("shop|user=0|path=/a|token_bucket".to_owned(), Kept::Ledger)]);
        for cursor in ["1", "x@y", "-1@127.0.0.1:1", "0@192.0.2.1:1", "@", &"9".repeat(300)] {
            let error = store.scan(b"shop", cursor).await.expect_err(cursor);
            assert!(matches!(error, ScanError::Cursor(_)), "{cursor}: {error}");
        }
    });
}

#[test]
fn a_store_that_stalls_or_is_gone_fails_a_listing_in_bounded_time() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    let mut config = patient(&redis.url());
    config.link.deadline = Duration::from_millis(50);
    config.link.connect_timeout = Duration::from_millis(300);
    let store = store(config);
    redis.stop();
    let error = run(store.scan(b"shop", "")).expect_err("it stalls");
    assert!(matches!(&error, ScanError::Failed { .. }), "{error}");
    redis.resume();
    redis.kill();
    let error = run(store.scan(b"shop", "")).expect_err("it is gone");
    assert!(matches!(&error, ScanError::Failed { .. }), "{error}");
}

#[test]
fn a_store_that_keeps_no_names_says_so() {
    let error = block_on(ModelStore::default().scan(b"shop", "")).expect_err("it has hashes");
    assert!(matches!(error, ScanError::Unsupported { .. }), "{error}");
}
