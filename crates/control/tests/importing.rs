//! Imports: what is worked out before the transaction is what the transaction would have worked out.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_clock::MonotonicClock;
use tollgate_control::car::CarInput;
use tollgate_control::publishing::Intent;
use tollgate_control::transfer::{self, Imported};
use tollgate_control::{
    Actor, Claim, Content, Control, ControlError, FileRule, KnownNodes, OldNodes, Role, Settings, apps,
    audit, change_set, rules, versions,
};
use tollgate_core::Clock as _;
use tollgate_db::{TimeSource, Tx};

async fn open(folder: &Path, time: TimeSource) -> Control {
    Control::open(folder, time, Arc::new(KnownNodes::default())).await.expect("a database")
}

fn admin() -> Claim {
    Claim::program("tests")
}

fn car(key: &str, rate: i64) -> Content {
    let (key, rate, max_permits) = (key.to_owned(), rate.to_string(), "100".to_owned());
    let input = CarInput { key, rate, max_permits, ..CarInput::default() };
    Content::Car(Box::new(input.check().expect("a rule")))
}

fn file(domain: &str, limit: i64) -> Content {
    let text = format!(
        "domain: {domain}\ndescriptors:\n  - {{key: k, rate_limit: {{unit: second, requests_per_unit: {limit}}}}}\n"
    );
    let (domain, state) = (domain.to_owned(), if limit % 2 == 0 { "off" } else { "on" }.to_owned());
    Content::File(FileRule { domain, text, description: String::new(), state })
}

/// A document: which of a few rules there are, with which numbers.
fn document() -> impl Strategy<Value = Imported> {
    let rules = prop::collection::btree_map(0_usize..8, 1_i64..4, 0..8);
    rules.prop_map(|rules| {
        let rule = |(nth, number): (usize, i64)| match nth {
            6 | 7 => file(&format!("files.{nth}"), number),
            nth => car(&format!("key{nth}"), number),
        };
        Imported { app: "shop".to_owned(), rules: rules.into_iter().map(rule).collect() }
    })
}

/// What an app is: its version, its rules as a document, and its newest change set, without what is random.
async fn state(control: &Control) -> String {
    let read = |tx: &mut dyn Tx, actor: &Actor| {
        let version = apps::get(tx, actor, Role::Viewer, "shop").map(|it| it.version);
        let Ok(version) = version else { return Ok("no app".to_owned()) };
        let yaml = transfer::export(tx, actor, "shop")?;
        let query = change_set::Query { limit: 1, ..change_set::Query::default() };
        let newest = change_set::list(tx, actor, &query)?;
        let newest = newest.first().map(|it| change_set::get(tx, actor, &it.id)).transpose()?;
        let newest = newest.map(|it| {
            let events: Vec<_> = it.events.iter().map(|event| event.verdict.clone()).collect();
            format!("{:?} {} {:?} {:?} {events:?}", it.state, it.etag, it.published_version, it.ops)
        });
        let documents = match version {
            0 => String::new(),
            _ => format!("{:?}", versions::documents(tx, actor, "shop", version)?),
        };
        let chain = audit::list(tx, actor, "shop", "", 0, 2)?;
        let entries: Vec<_> = chain.iter().map(|it| (it.action.clone(), it.target.clone())).collect();
        Ok(format!("{version}\n{yaml}\n{newest:?}\n{documents}\n{entries:?}"))
    };
    control.read_as(&admin(), read).await.expect("a state")
}

fn rejected(error: &ControlError) -> String {
    error.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn an_import_worked_out_before_its_transaction_is_the_one_that_is_worked_out_within_it(
        documents in prop::collection::vec(document(), 1..4), approvals in prop::bool::weighted(0.2),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
            let now = Arc::new(AtomicI64::new(1_800_000_000_000));
            let time = || TimeSource::Manual(Arc::clone(&now));
            let [before, within] =
                [open(folders[0].path(), time()).await, open(folders[1].path(), time()).await];
            if approvals {
                for control in [&before, &within] {
                    let new = Settings { approvals: 1, ..Settings::default() };
                    control.change_settings(&admin(), 0, new).await.expect("set");
                }
            }
            for all in documents {
                now.fetch_add(1, Relaxed); // ids sort by it
                let a = before.import(&admin(), OldNodes::Reject, all.clone()).await;
                let work = move |tx: &mut dyn Tx, by: &Actor| {
                    transfer::import(tx, by, &all, Intent::Publish)
                };
                let b = within.change_beside_as(&admin(), OldNodes::Reject, work).await;
                assert_eq!(a.as_ref().err().map(rejected), b.as_ref().err().map(rejected));
                assert_eq!(state(&before).await, state(&within).await);
                // What is returned is what is stored.
                if let Ok(Some(returned)) = a {
                    let id = returned.id.clone();
                    let stored = before.read_as(&admin(), move |tx, by| change_set::get(tx, by, &id)).await;
                    assert_eq!(returned, stored.expect("a change set"));
                }
            }
        });
    }
}

/// Adds a rule `otherN` from a thread without a runtime.
fn add(control: &Control, nth: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let input = CarInput { key: format!("other{nth}"), max_permits: "5".to_owned(), ..CarInput::default() };
    let create = move |tx: &mut dyn Tx, by: &Actor| rules::create(tx, by, "shop", &input);
    runtime.block_on(control.change_as(&admin(), create)).expect("added");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_between_the_work_and_the_transaction_is_seen() {
    for interruptions in [0, 1, 2, 3, 5] {
        let folder = tempfile::tempdir().expect("a folder");
        let other = open(folder.path(), TimeSource::Database).await;
        let first = Imported { app: "shop".to_owned(), rules: vec![car("a", 1), car("b", 1)] };
        other.import(&admin(), OldNodes::Reject, first).await.expect("imported");
        // The time is asked before a transaction begins: then somebody else adds a rule.
        let left = Arc::new(AtomicUsize::new(0));
        let others = Arc::clone(&left);
        let before_each = move || {
            let is_writer = std::thread::current().name() == Some("db-write");
            if is_writer && let Ok(nth) = others.fetch_update(Relaxed, Relaxed, |it| it.checked_sub(1)) {
                add(&other, nth);
            }
            1_800_000_000_000
        };
        let control = open(folder.path(), TimeSource::Asked(Arc::new(before_each))).await;
        left.store(interruptions, Relaxed);
        let all = Imported { app: "shop".to_owned(), rules: vec![car("a", 2), car("c", 1)] };
        let done = control.import(&admin(), OldNodes::Reject, all.clone()).await.expect("imported");
        let version = done.expect("a change").published_version;
        // Of more than three, the last come too late to be seen.
        let seen = interruptions.min(4);
        assert_eq!(version, Some(2 + i64::try_from(seen).expect("few")), "{interruptions}");
        let export = |tx: &mut dyn Tx, by: &Actor| transfer::export(tx, by, "shop");
        let now = control.read_as(&admin(), export).await.expect("a document");
        assert_eq!(now, transfer::write(&all), "{interruptions}: what came between is not there any more");
    }
}

/// An app of `count` rules with this rate.
fn large(count: usize, rate: i64) -> Imported {
    let rules = (0..count).map(|nth| car(&format!("key{nth:05}"), rate)).collect();
    Imported { app: "shop".to_owned(), rules }
}

#[tokio::test(flavor = "multi_thread")]
async fn most_of_the_time_that_an_import_takes_others_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = Arc::new(open(folder.path(), TimeSource::Database).await);
    let clock = MonotonicClock::new();
    let count = std::env::var("TOLLGATE_TEST_RULES").ok().and_then(|it| it.parse().ok()).unwrap_or(1_500);
    for rate in [1, 2] {
        let (importing, began) = (Arc::clone(&control), clock.now());
        let all = large(count, rate);
        let import = tokio::spawn(async move { importing.import(&admin(), OldNodes::Reject, all).await });
        let mut longest = Duration::ZERO;
        while !import.is_finished() {
            let asked = clock.now();
            control.read_node_tokens().await.expect("written");
            longest = longest.max(clock.now().since(asked));
        }
        import.await.expect("it ends").expect("imported");
        let whole = clock.now().since(began);
        println!("{count} rules: {whole:?}, of which others waited {longest:?} at once");
        assert!(longest < whole * 2 / 3, "others waited {longest:?} of {whole:?}");
    }
}
