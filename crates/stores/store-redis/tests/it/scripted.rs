//! Replies that no real server can be brought to send at the right moment: while the breaker opens, and
//! replies to no request.

use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::Decision;
use tollgate_store::StoreError;
use tollgate_store_redis::{RedisConfig, RedisStore, Severity};
use tollgate_testkit::redis::free_port;

use crate::common::{patient, run, store, take, total, wait};
use crate::fake::{fake, unseen, usual};

/// Longer than any delay on a busy machine.
const LATE: Duration = Duration::from_secs(20);

/// This many failures in a row open the breaker.
fn allows(failures: u32, url: &str) -> RedisConfig {
    let mut config = patient(url);
    config.link.deadline = LATE;
    config.link.breaker.failures = failures;
    config
}

/// One take, again and again while it fails unsent.
async fn take_once_sent(store: &RedisStore) -> Result<Decision, StoreError> {
    let quota = total(100);
    let mut said = None;
    wait("a call to be sent", async || {
        let answer = take(store, "k", &quota).await;
        let sent = !matches!(answer, Err(StoreError::Unreachable { .. }));
        said = Some(answer);
        sent
    })
    .await;
    said.expect("an answer")
}

#[test]
fn failures_in_a_row_open_the_breaker_one_after_a_probe_opens_it_anew_and_an_answer_forgives_them_all() {
    for (allowed, answered, opened) in [
        (2, &[true, false, true, false, true, false, true][..], 0), // never two in a row
        (2, &[false, false, true], 1),
        (2, &[false, false, false, true, false, true], 2), // the third after a probe, the fourth after an answer
        (3, &[false, false, true, false, false, true], 0),
        (3, &[false, false, false, false, true, false, false, true], 2),
    ] {
        let calls = AtomicUsize::new(0);
        let url = fake(move |command, client| {
            let cut = command == "EVALSHA" && answered.get(calls.fetch_add(1, SeqCst)) == Some(&false);
            if cut { Err(ErrorKind::ConnectionAborted.into()) } else { usual(command, client) }
        });
        run(async {
            let store = store(allows(allowed, &url));
            for (nth, answered) in answered.iter().enumerate() {
                let said = take_once_sent(&store).await;
                assert_eq!(said.is_ok(), *answered, "call {nth}, {allowed} allowed: {said:?}");
                if let Err(StoreError::Silent { waited, .. }) = said {
                    assert!(waited < LATE, "it was told as soon as it was known: {waited:?}");
                }
            }
            assert_eq!(store.stats().conn.breaker_opened, opened, "{answered:?}, {allowed} allowed");
        });
    }
}

/// Once the store has matched a reply to the wrong call, every later answer belongs to another call: it must
/// not be believed once.
#[test]
fn a_server_that_says_more_than_it_was_asked_is_believed_no_further() {
    let over = AtomicBool::new(false);
    let url = fake(move |command, client| match command {
        "EVALSHA" => {
            over.store(true, SeqCst);
            client.write_all(&[&unseen()[..], b"+and more\r\n"].concat())
        }
        _ if over.load(SeqCst) => Ok(()), // so that no probe closes the breaker
        _ => usual(command, client),
    });
    run(async {
        let store = store(allows(1, &url));
        assert!(take(&store, "k", &total(100)).await.expect("its answer is whole").is_admitted());
        told_wrong(&store, ErrorKind::InvalidData, "sends more than it was asked").await;
    });
}

#[test]
fn a_server_that_speaks_unasked_is_left() {
    let over = AtomicBool::new(false);
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let url = fake(move |command, client| match command {
        "EVALSHA" => {
            over.store(true, SeqCst);
            client.write_all(&unseen())?;
            gone.lock().recv().ok();
            client.write_all(&unseen())
        }
        _ if over.load(SeqCst) => Ok(()),
        _ => usual(command, client),
    });
    run(async {
        let store = store(allows(1, &url));
        assert!(take(&store, "k", &total(100)).await.expect("an answer").is_admitted());
        go.send(()).expect("it waits");
        wait("it to be heard", async || store.stats().conn.breaker_opened == 1).await;
        told_wrong(&store, ErrorKind::NotConnected, "sends without being asked").await;
    });
}

#[test]
fn a_single_server_sends_no_call_to_another() {
    let url = fake(|command, client| match command {
        "EVALSHA" => client.write_all(b"-MOVED 7 127.0.0.1:9\r\n"),
        _ => usual(command, client),
    });
    let store = store(allows(1, &url));
    run(told_wrong(&store, ErrorKind::InvalidData, "is asked to go to 127.0.0.1:9, and cannot"));
}

/// As when the sentinels cannot reach the old master, which still answers.
#[test]
fn a_master_that_the_sentinels_have_replaced_is_left_though_it_answers() {
    let port = |url: &str| url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let calls = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let [old, new] = [0, 1].map(|nth| {
        let calls = calls.clone();
        port(&fake(move |command, client| {
            calls[nth].fetch_add(usize::from(command == "EVALSHA"), SeqCst);
            usual(command, client)
        }))
    });
    let named = Arc::new(AtomicU16::new(old));
    let told = named.clone();
    let sentinel = fake(move |_, client| {
        let port = told.load(SeqCst).to_string();
        client.write_all(format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len()).as_bytes())
    });
    let mut config = allows(1, &format!("{}/master", sentinel.replace("redis:", "redis+sentinel:")));
    config.node_timeout = Duration::from_millis(300);
    run(async {
        let store = store(config);
        assert!(take_once_sent(&store).await.is_ok());
        assert_eq!([0, 1].map(|nth| calls[nth].load(SeqCst)), [1, 0]);
        named.store(new, SeqCst);
        wait("the new one to be asked", async || {
            let _ = take_once_sent(&store).await.expect("either answers");
            calls[1].load(SeqCst) > 0
        })
        .await;
        let before = calls[0].load(SeqCst);
        let _ = take_once_sent(&store).await.expect("an answer");
        assert_eq!(calls[0].load(SeqCst), before, "the old one is asked no more");
    });
}

/// Otherwise a busy machine would start beside a store that forgets.
#[test]
#[expect(clippy::disallowed_methods, reason = "its slowness is the matter")]
fn a_server_that_is_too_slow_for_calls_is_looked_at_all_the_same() {
    let url = fake(|command, client| match command {
        "INFO" => {
            let info = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\naof_enabled:1\r\nmaxmemory_policy:allkeys-lru\r\n";
            client.write_all(format!("${}\r\n{info}\r\n", info.len()).as_bytes())
        }
        "PING" => {
            std::thread::sleep(Duration::from_millis(20));
            client.write_all(b"+PONG\r\n")
        }
        _ => usual(command, client),
    });
    let mut config = patient(&url);
    config.link.deadline = Duration::from_millis(2);
    let findings = run(store(config).check());
    let told: Vec<_> = findings.iter().map(|it| (it.severity, it.message.as_str())).collect();
    assert!(
        matches!(told[..], [(Severity::Reject, evicts), (Severity::Unknown, slow)]
            if evicts.contains("allkeys-lru") && slow.contains("the deadline of a call is 2ms")),
        "{told:?}"
    );
}

/// This holds for any number of failures that the breaker allows, and any amount of time.
#[test]
fn callers_waiting_for_a_connection_fail_at_once_when_there_is_none() {
    let store = store(allows(1000, &format!("redis://127.0.0.1:{}", free_port())));
    run(told_wrong(&store, ErrorKind::NotConnected, "refused"));
}

/// That is long before the time to connect is over.
#[test]
fn a_server_that_accepts_and_says_nothing_opens_the_breaker_by_the_calls_that_wait() {
    let url = fake(|_, _| Ok(()));
    run(async {
        let mut config = allows(3, &url);
        config.link.waits_to_connect = false; // as servers have it: each call ends at its own deadline
        config.link.deadline = Duration::from_millis(20);
        config.link.connect_timeout = Duration::from_secs(60);
        let store = store(config);
        wait("the breaker to open", async || {
            take(&store, "k", &total(1)).await.expect_err("nobody answers");
            store.stats().conn.breaker_opened == 1
        })
        .await;
        assert!(store.stats().conn.unsent >= 3, "{:?}", store.stats());
    });
}

/// A call fails for this reason, unsent or undone.
async fn told_wrong(store: &RedisStore, kind: ErrorKind, words: &str) {
    match take(store, "k", &total(100)).await {
        Err(StoreError::Unreachable { source, .. }) => {
            assert_eq!(source.kind(), kind, "{source}");
            assert!(source.to_string().contains(words), "{source}");
        }
        other => panic!("{other:?}"),
    }
}
