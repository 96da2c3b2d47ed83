//! Imports: what is worked out before the transaction is what the transaction would have worked out.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a failed step of a test must say which")]

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use tollgate_clock::MonotonicClock;
use tollgate_control::publishing::Intent;
use tollgate_control::transfer::{self, Imported};
use tollgate_control::{
    Actor, Claim, Content, Control, ControlError, FileRule, OldNodes, Origin, Role, Settings, Steps, apps,
    audit, change_set, rules, users, versions,
};
use tollgate_core::Clock as _;
use tollgate_db::{Tx, query_int};
use tollgate_harness::people::PASSWORD;
use tollgate_harness::rules::{all_of, checked, create_rule, limit};
use tollgate_harness::{ControlPlane, Interruptions, block_on};

fn admin() -> Claim {
    Claim::program("tests")
}

fn table_rule(key: &str, rate: i64) -> Content {
    checked(&limit(key, rate))
}

fn file(domain: &str, limit: i64) -> Content {
    let text = format!(
        "domain: {domain}\ndescriptors:\n  - {{key: k, rate_limit: {{unit: second, requests_per_unit: {limit}}}}}\n"
    );
    let domain = domain.to_owned();
    let state = if limit % 2 == 0 { "off" } else { "on" }.to_owned();
    Content::File(FileRule { domain, text, description: String::new(), state })
}

/// A document: which of a few rules there are, with which numbers.
fn document() -> impl Strategy<Value = Imported> {
    let rules = prop::collection::btree_map(0_usize..8, 1_i64..4, 0..8);
    rules.prop_map(|rules| {
        let rule = |(nth, number): (usize, i64)| match nth {
            6 | 7 => file(&format!("files.{nth}"), number),
            nth => table_rule(&format!("key{nth}"), number),
        };
        Imported { app: "shop".to_owned(), rules: rules.into_iter().map(rule).collect() }
    })
}

/// The state of an app: its version, its rules as a document, and its newest change set, without what is
/// random.
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn an_import_worked_out_before_its_transaction_is_the_one_that_is_worked_out_within_it(
        documents in prop::collection::vec(document(), 1..4), approvals in prop::bool::weighted(0.2),
        most_at_once in 0_usize..6, of_one in 1_usize..4,
    ) {
        block_on(async {
            let [before, within] = [ControlPlane::start().await, ControlPlane::start().await];
            // Some are large, and written in several transactions.
            before.set_steps(Steps { most_at_once, of_one });
            if approvals {
                for control in [&before, &within] {
                    let new = Settings { approvals: 1, ..Settings::default() };
                    control.change_settings(&admin(), 0, new).await.expect("set");
                }
            }
            for all in documents {
                before.pass(1); // ids sort by it
                within.pass(1);
                let a = before.import(&admin(), OldNodes::Reject, all.clone()).await;
                let work = move |tx: &mut dyn Tx, by: &Actor| {
                    transfer::import(tx, by, &all, Intent::Publish)
                };
                let b = within.commit_beside_as(&admin(), OldNodes::Reject, work).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_change_between_the_work_and_the_transaction_is_seen() {
    for interruptions in [0, 1, 2, 3, 5] {
        let other = ControlPlane::in_real_time().await;
        let first = Imported { app: "shop".to_owned(), rules: vec![table_rule("a", 1), table_rule("b", 1)] };
        other.import(&admin(), OldNodes::Reject, first).await.expect("imported");
        let transactions = Interruptions::default();
        let others = Arc::clone(&other.control);
        let time = transactions.time(move |nth| {
            if let Some(nth) = nth.filter(|nth| *nth < interruptions) {
                block_on(create_rule(&others, "shop", limit(&format!("other{nth}"), 1))).expect("added");
            }
        });
        let control = other.beside_at(time).await;
        transactions.begin();
        let all = Imported { app: "shop".to_owned(), rules: vec![table_rule("a", 2), table_rule("c", 1)] };
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
    let rules = (0..count).map(|nth| table_rule(&format!("key{nth:05}"), rate)).collect();
    Imported { app: "shop".to_owned(), rules }
}

#[tokio::test(flavor = "multi_thread")]
async fn most_of_the_time_that_an_import_takes_others_write() {
    let control = ControlPlane::in_real_time().await;
    let clock = MonotonicClock::new();
    let count = std::env::var("TOLLGATE_TEST_RULES").ok().and_then(|it| it.parse().ok()).unwrap_or(1_500);
    for rate in [1, 2] {
        let importing = Arc::clone(&control.control);
        let began = clock.now();
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

/// Changes the rule `key00001` if it is there, and adds a rule if not: somebody else does, between the steps.
fn write_between(control: &Control, app: &str, key: &str) {
    let app = app.to_owned();
    let key = key.to_owned();
    let write = move |tx: &mut dyn Tx, by: &Actor| match rules::get(tx, by, &app, "key00001") {
        Ok(now) => rules::update(tx, by, &app, now.etag, &limit("key00001", 9)),
        Err(_) => rules::create(tx, by, &app, &limit(&key, 1)),
    };
    block_on(control.commit_as(&admin(), write)).expect("written");
}

type Look = (i64, String, Vec<String>, i64, usize, usize);

/// The app as readers see it: its version, its rules as a document, its list, how many it has, what nodes
/// get, and its change sets.
fn looked_at(control: &Control) -> Look {
    let look = |tx: &mut dyn Tx, by: &Actor| {
        let Ok(app) = apps::get(tx, by, Role::Viewer, "shop") else {
            return Ok((0, String::new(), Vec::new(), 0, 0, 0));
        };
        let listed = rules::list(tx, by, &all_of("shop"))?;
        let keys = listed.rules.iter().map(|it| format!("{} {}", it.row.key, it.row.rate)).collect();
        assert_eq!(listed.matching, app.rules, "a list counts what there is");
        let diffs = match app.version {
            0 => 0,
            version => versions::difference(tx, by, "shop", version - 1, version)?.len(),
        };
        let sets = change_set::list(tx, by, &change_set::Query { limit: 500, ..Default::default() })?.len();
        Ok((app.version, transfer::export(tx, by, "shop")?, keys, app.rules, diffs, sets))
    };
    block_on(control.read_as(&admin(), look)).expect("a look")
}

/// The rules of a document, as a list shows them.
fn of(all: &Imported) -> Vec<String> {
    let shown = |rule: &Content| match rule {
        Content::TableRule(table_rule) => format!("{} {}", table_rule.key, table_rule.rate),
        Content::File(file) => file.domain.clone(),
    };
    all.rules.iter().map(shown).collect()
}

/// Seals of the database, each with how many rows its transaction has left, and whether it made a version.
fn transactions(control: &ControlPlane) -> Vec<(usize, bool)> {
    let file = control.file();
    let mut seals = file.prepare("SELECT rows FROM seals ORDER BY seq").expect("seals");
    let rows = seals.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let rows = rows.map(|it| it.expect("a text"));
    rows.map(|it| (it.lines().count(), it.lines().any(|line| line.starts_with("versions ")))).collect()
}

/// A document of rules `keyN`, each with its rate.
fn of_rates(rates: &[i64]) -> Imported {
    let rules = rates.iter().enumerate().filter(|(_, rate)| **rate > 0);
    let rules = rules.map(|(nth, rate)| table_rule(&format!("key{nth:05}"), *rate)).collect();
    Imported { app: "shop".to_owned(), rules }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn between_the_steps_of_a_large_import_others_write_and_see_all_of_it_or_nothing(
        first in prop::collection::vec(0_i64..3, 0..20), second in prop::collection::vec(0_i64..3, 3..20),
        of_one in 1_usize..6, most_at_once in 0_usize..3,
        between in prop::collection::vec((0_usize..30, prop::bool::ANY), 0..5),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let steps = Steps { most_at_once, of_one };
        runtime.expect("a runtime").block_on(import_among_others(&first, &second, steps, between));
    }
}

/// Imports `second` over `first`. Before each transaction others look at the app, and write at those of these
/// numbers: into the app, or into another one.
async fn import_among_others(first: &[i64], second: &[i64], steps: Steps, between: Vec<(usize, bool)>) {
    let other = ControlPlane::in_real_time().await;
    other.import(&admin(), OldNodes::Reject, of_rates(first)).await.expect("imported");
    let before = looked_at_from(&other);
    let transactions = Interruptions::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let others = Arc::clone(&other.control);
    let looks = Arc::clone(&seen);
    let time = transactions.time(move |nth| {
        for (place, (_, is_of_app)) in between.iter().enumerate().filter(|(_, it)| Some(it.0) == nth) {
            write_between(&others, if *is_of_app { "shop" } else { "mail" }, &format!("other{place}"));
        }
        looks.lock().push(looked_at(&others));
    });
    let control = other.beside_at(time).await;
    control.set_steps(steps);
    transactions.begin();
    let all = of_rates(second);
    let done = control.import(&admin(), OldNodes::Reject, all.clone()).await.expect("imported");
    transactions.end(); // others do not write while what is left is removed
    control.read_node_tokens().await.expect("nobody writes any more");
    let after = looked_at_from(&other);
    let published = done.as_ref().and_then(|it| it.published_version);
    assert_eq!(published.is_some(), done.is_some());
    // Each look is what there was before, with what others wrote, or what there is after, with what they wrote
    // since: before the program has begun to remove what is left, and this test has learned that all is done.
    let without = |listed: &[String]| -> Vec<String> {
        let is_of_others = |it: &&String| it.starts_with("other") || it.starts_with("key00001 ");
        listed.iter().filter(|it| !is_of_others(it)).cloned().collect()
    };
    let looks = seen.lock().clone();
    for look in looks.iter().chain([&after]) {
        match published.map(|version| look.0.cmp(&version)) {
            Some(Ordering::Equal) => assert_eq!(look.2, of(&all), "{look:?}"),
            Some(Ordering::Greater) => assert_eq!(without(&look.2), without(&of(&all)), "{look:?}"),
            Some(Ordering::Less) | None => assert_eq!(without(&look.2), without(&before.2), "{look:?}"),
        }
        assert_eq!(look.2.len() as i64, look.3);
    }
    // The history says of each version what was seen of it.
    for (version, listed) in looks.iter().map(|it| (it.0, it.2.clone())) {
        let at = move |tx: &mut dyn Tx, by: &Actor| versions::difference(tx, by, "shop", 0, version);
        let then = if version == 0 { Vec::new() } else { other.read_as(&admin(), at).await.expect("read") };
        let rules = then.into_iter().filter_map(|it| it.after).collect();
        assert_eq!(of(&Imported { app: String::new(), rules }), listed, "version {version}");
    }
    let compared = control.compare_rows(&admin()).await.expect("compared");
    assert!(compared.is_whole(), "{compared:?}");
    drop(control);
    nothing_is_left(other, after).await;
}

/// Nothing is left of a large import once it is removed, and each rule says one thing at a time.
async fn nothing_is_left(other: ControlPlane, after: Look) {
    let again = other.beside().await;
    assert_eq!(looked_at_from(&again), after);
    let left = again.read(|tx| {
        let counts = [
            "SELECT COUNT(*) FROM staged",
            "SELECT COUNT(*) FROM car WHERE NOT EXISTS \
             (SELECT 1 FROM apps WHERE apps.id = app_id AND apps.edition = car.edition)",
            "SELECT COUNT(*) FROM rule_versions LEFT JOIN versions ON versions.version = from_version \
             AND versions.app_id = rule_versions.app_id WHERE versions.version IS NULL",
            "SELECT COUNT(*) FROM change_ops LEFT JOIN changes ON id = change_id WHERE id IS NULL",
            "SELECT COUNT(*) FROM rule_versions AS a JOIN rule_versions AS b USING (rule_id) \
             WHERE a.from_version < b.from_version \
             AND (a.to_version IS NULL OR a.to_version > b.from_version)",
        ];
        let left = counts.into_iter().map(|count| query_int(tx, count, &[]));
        Ok(left.collect::<Result<Vec<_>, _>>()?)
    });
    assert_eq!(left.await.expect("counted"), [0; 5]);
}

/// As [`looked_at`], from within a runtime.
fn looked_at_from(control: &ControlPlane) -> Look {
    let control = Arc::clone(&control.control);
    std::thread::spawn(move || looked_at(&control)).join().expect("a look")
}

#[tokio::test]
async fn whatever_its_size_an_import_writes_few_rows_in_each_transaction() {
    let most = |all: &[(usize, bool)]| all.iter().map(|it| it.0).max().unwrap_or_default();
    for (steps, is_bounded) in
        [(Steps { most_at_once: 20, of_one: 10 }, true), (Steps { most_at_once: 1_000, of_one: 10 }, false)]
    {
        let mut versions_of = Vec::new();
        for count in [50, 200] {
            let control = ControlPlane::in_real_time().await;
            control.set_steps(steps);
            for rate in [1, 2] {
                let before = transactions(&control).len();
                control.import(&admin(), OldNodes::Reject, large(count, rate)).await.expect("imported");
                control.import(&admin(), OldNodes::Reject, large(count, rate)).await.expect("equal already");
                let made = transactions(&control).split_off(before);
                let publishing: Vec<_> = made.iter().filter(|it| it.1).map(|it| it.0).collect();
                assert_eq!(publishing.len(), 1, "{count}: one transaction makes the version");
                versions_of.push(publishing[0]);
                // Of each rule its row, its version, the end of the one before, and its operation.
                assert_eq!(most(&made) <= 4 * steps.of_one, is_bounded, "{count} {rate}: {made:?}");
            }
        }
        // 50 new, 50 changed, 200 new, 200 changed.
        let [new, changed, new_large, changed_large] = versions_of[..] else { panic!("four versions") };
        let same = (new == new_large, changed == changed_large, new < 10 && changed < 10);
        assert_eq!(same, (is_bounded, is_bounded, is_bounded), "{versions_of:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_end_between_any_two_steps_of_a_large_import_end_it() {
    let other = ControlPlane::in_real_time().await;
    other.create_user(&admin(), "ann", PASSWORD).await.expect("a user");
    other.import(&admin(), OldNodes::Reject, large(4, 1)).await.expect("imported");
    let set_role = |role| move |tx: &mut dyn Tx, by: &Actor| users::set_role(tx, by, "ann", "shop", role);
    let before = looked_at_from(&other);
    let transactions = Interruptions::default();
    let others = Arc::clone(&other.control);
    let ends_at = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&ends_at);
    let time = transactions.time(move |nth| {
        if nth == Some(asked.load(Relaxed)) {
            block_on(others.commit_as(&admin(), set_role(None))).expect("ended");
        }
    });
    let control = other.beside_at(time).await;
    control.set_steps(Steps { most_at_once: 2, of_one: 2 });
    let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
    let mut rejections = 0;
    for at in 0.. {
        other.commit_as(&admin(), set_role(Some(Role::Editor))).await.expect("a role");
        ends_at.store(at, Relaxed);
        transactions.begin();
        let ann = Claim::login(&cookie, Origin::default());
        let done = control.import(&ann, OldNodes::Reject, large(4, 2)).await;
        let steps = transactions.end();
        if done.is_ok() {
            assert!(at >= 4, "the steps that write, and the one that publishes: {at}");
            break;
        }
        assert!(matches!(done, Err(ControlError::NoRight { .. })), "{done:?}");
        assert!(at < steps, "{at} of {steps}");
        assert_eq!(looked_at_from(&other), before, "{at}");
        rejections += 1;
    }
    assert!(rejections >= 4, "{rejections}");
    assert_ne!(looked_at_from(&other), before);
}
