//! Large changes are rehearsed, written ahead and then published: what comes of them is what one transaction
//! makes of them.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::changes::{self, ChangeInput, OpInput};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::{
    Actor, Claim, Committed, Control, ControlError, OldNodes, Role, RuleKind, Steps, apps, audit, change_set,
    reviews, rules, transfer, versions,
};
use tollgate_db::Tx;
use tollgate_harness::people::user;
use tollgate_harness::rules::{all_of, checked, limit};
use tollgate_harness::{ControlPlane, Interruptions, block_on};

/// An action of somebody.
#[derive(Clone, Debug)]
enum Do {
    /// Changes the rules with these numbers, in one call or as a draft; a rate of 0 deletes the rule.
    Write(BTreeMap<usize, i64>, bool),
    /// As the first of these, with the base of a version before.
    WriteLate(BTreeMap<usize, i64>),
    Submit,
    Approve,
    Publish,
    Comment,
    /// Makes the rules those of a version this number of versions before.
    RollBack(i64),
    /// Number of approvals that the app needs.
    Approvals(u8),
}

fn deeds() -> impl Strategy<Value = Vec<Do>> {
    let rules = || prop::collection::btree_map(0_usize..12, 0_i64..4, 1..9);
    let one = prop_oneof![
        5 => (rules(), prop::bool::weighted(0.3)).prop_map(|(rules, is_draft)| Do::Write(rules, is_draft)),
        1 => rules().prop_map(Do::WriteLate),
        1 => Just(Do::Submit),
        1 => Just(Do::Approve),
        3 => Just(Do::Publish),
        1 => Just(Do::Comment),
        3 => (1_i64..4).prop_map(Do::RollBack),
        1 => (0_u8..2).prop_map(Do::Approvals),
    ];
    prop::collection::vec(one, 1..7)
}

/// `control` with an approver.
async fn with_bob(control: ControlPlane) -> ControlPlane {
    control.invite(&claim("ann"), "bob", "shop", "approver").await.expect("a user");
    control
}

fn claim(name: &str) -> Claim {
    Claim::assumed(&user(name, Role::Admin, "*"))
}

fn op(tx: &mut dyn Tx, by: &Actor, nth: usize, rate: i64, is_late: bool) -> Option<OpInput> {
    let key = format!("key{nth:02}");
    let now = rules::get(tx, by, "shop", &key).ok().map(|it| it.etag);
    let base = now.map(|etag| if is_late { (etag - 1).max(1) } else { etag });
    let after = (rate > 0).then(|| checked(&limit(&key, rate)));
    (base.is_some() || after.is_some()).then_some(OpInput { kind: RuleKind::TableRule, key, base, after })
}

/// Does it, and returns what came of it.
async fn do_it(control: &Control, deed: &Do) -> Result<String, ControlError> {
    let newest = |tx: &mut dyn Tx, by: &Actor| {
        let query = change_set::Query { limit: 1, state: "open".to_owned(), ..change_set::Query::default() };
        let newest = change_set::list(tx, by, &query)?;
        Ok::<_, ControlError>(newest.first().map_or((String::new(), 0), |it| (it.id.clone(), it.etag)))
    };
    let shown = |it: Committed<change_set::ChangeSet>| {
        let set = &it.value;
        let text = format!("{:?} {:?} {:?} {}", set.state, set.published_version, set.ops, set.events.len());
        Committed { value: text, documents: it.documents }
    };
    let deed = deed.clone();
    let who = if matches!(deed, Do::Approve) { "bob" } else { "ann" };
    let work = move |tx: &mut dyn Tx, by: &Actor| match &deed {
        Do::Write(..) | Do::WriteLate(..) => {
            let (rules, is_draft, is_late) = match &deed {
                Do::Write(rules, is_draft) => (rules, *is_draft, false),
                Do::WriteLate(rules) => (rules, false, true),
                _ => unreachable!(),
            };
            let ops = rules.iter().filter_map(|(nth, rate)| op(tx, by, *nth, *rate, is_late)).collect();
            let input = ChangeInput { title: "some".to_owned(), comment: String::new(), ops };
            let intent = if is_draft { Intent::Draft } else { Intent::Publish };
            publishing::propose(tx, by, "shop", &input, intent).map(shown)
        }
        Do::Submit | Do::Approve | Do::Publish | Do::Comment => {
            let (id, etag) = newest(tx, by)?;
            match &deed {
                Do::Submit => changes::submit(tx, by, &id, etag).map(shown),
                Do::Approve => reviews::approve(tx, by, &id, etag, "good").map(shown),
                Do::Comment => changes::comment(tx, by, &id, "why").map(shown),
                _ => publishing::publish(tx, by, &id, etag).map(shown),
            }
        }
        Do::RollBack(back) => {
            let now = apps::get(tx, by, Role::Viewer, "shop")?.version;
            let done = versions::rollback(tx, by, "shop", now, now - back, "why")?;
            Ok(Committed { value: done.value.to_string(), documents: done.documents })
        }
        Do::Approvals(approvals) => {
            let etag = apps::get(tx, by, Role::Viewer, "shop")?.etag;
            let input = AppInput { approvals: approvals.to_string(), ..AppInput::default() };
            let done = app_settings::update(tx, by, "shop", etag, &input)?;
            Ok(Committed { value: String::new(), documents: done.documents })
        }
    };
    control.commit_beside_as(&claim(who), OldNodes::Reject, work).await
}

/// The state afterwards, without its random parts.
async fn state(control: &Control) -> String {
    let read = |tx: &mut dyn Tx, by: &Actor| {
        let Ok(app) = apps::get(tx, by, Role::Viewer, "shop") else { return Ok("no app".to_owned()) };
        let yaml = transfer::export(tx, by, "shop")?;
        let sets = change_set::list(tx, by, &change_set::Query { limit: 500, ..Default::default() })?;
        let sets = sets.iter().map(|it| change_set::get(tx, by, &it.id)).collect::<Result<Vec<_>, _>>()?;
        let sets: Vec<_> =
            sets.iter().map(|it| (it.state, it.etag, it.published_version, it.ops.clone())).collect();
        let mut history = Vec::new();
        for version in 1..=app.version {
            let all = versions::difference(tx, by, "shop", 0, version)?;
            history.push((all.len(), versions::documents(tx, by, "shop", version)?));
        }
        let chain = audit::list(tx, by, "shop", "", 0, 500)?;
        let chain: Vec<_> = chain.iter().map(|it| (it.action.clone(), it.target.clone())).collect();
        Ok(format!("{} {}\n{yaml}\n{sets:?}\n{history:?}\n{chain:?}", app.version, app.rules))
    };
    control.read_as(&claim("ann"), read).await.expect("a state")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn a_change_that_is_written_ahead_is_the_one_that_one_transaction_makes(
        deeds in deeds(), most_at_once in 0_usize..3, of_one in 1_usize..5,
    ) {
        block_on(async {
            let ahead = with_bob(ControlPlane::start().await).await;
            let at_once = with_bob(ControlPlane::start().await).await;
            ahead.set_steps(Steps { most_at_once, of_one });
            for deed in deeds {
                ahead.pass(1); // ids sort by it
                at_once.pass(1);
                let [a, b] = [do_it(&ahead, &deed).await, do_it(&at_once, &deed).await];
                // Errors have ids, which are random.
                let said = |it: Result<String, ControlError>| it.map_err(|error| std::mem::discriminant(&error));
                assert_eq!(said(a), said(b), "{deed:?}");
                assert_eq!(state(&ahead).await, state(&at_once).await, "{deed:?}");
            }
            let compared = ahead.compare_rows(&claim("ann")).await.expect("compared");
            assert!(compared.is_whole(), "{compared:?}");
        });
    }
}

/// The most rows that one transaction has left, behind this number of seals.
fn largest(control: &ControlPlane, since: usize) -> (usize, usize) {
    let file = control.file();
    let mut seals = file.prepare("SELECT rows FROM seals ORDER BY seq").expect("seals");
    let rows = seals.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let counts: Vec<_> = rows.map(|it| it.expect("a text").lines().count()).collect();
    (counts.len(), counts[since..].iter().copied().max().unwrap_or_default())
}

#[tokio::test]
async fn whatever_its_size_no_change_leaves_many_rows_in_one_transaction() {
    let all = |rate: i64| (0..90).map(|nth| (nth, rate)).collect::<BTreeMap<_, _>>();
    let of_one = 5;
    for (steps, is_bounded) in
        [(Steps { most_at_once: 10, of_one }, true), (Steps { most_at_once: 1_000, of_one }, false)]
    {
        let control = with_bob(ControlPlane::in_real_time().await).await;
        control.set_steps(steps);
        let mut since = largest(&control, 0).0;
        for deed in [
            Do::Write(all(1), false),
            Do::Write(all(2), false),
            Do::RollBack(1),
            Do::Write(all(3), true),
            Do::Publish,
            Do::Approvals(1),
            Do::Write(all(4), false),
            Do::Approve,
            Do::Publish,
            Do::Write(all(0), false),
        ] {
            do_it(&control, &deed).await.expect("done");
            let (now, most) = largest(&control, since);
            let is_small = matches!(deed, Do::Approvals(_) | Do::Approve);
            // Of each rule its row, its version, the end of the one before, and its operation.
            let is_few = most <= 4 * of_one;
            let is_of_a_draft = matches!(deed, Do::Publish) && !is_bounded; // whose operations are there already
            assert!(is_few == (is_bounded || is_small) || is_of_a_draft, "{deed:?}: {most} rows, {steps:?}");
            since = now;
        }
    }
}

/// Somebody else changes one rule, before the transaction of this number.
fn write_one(control: &Control, key: usize, nth: usize) {
    let rate = 10 + i64::try_from(nth).expect("few");
    block_on(do_it(control, &Do::Write(BTreeMap::from([(key, rate)]), false))).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_others_between_any_two_steps_stays_and_one_of_the_same_rule_is_a_conflict() {
    for is_same_rule in [false, true] {
        let other = with_bob(ControlPlane::in_real_time().await).await;
        let first = (0..8).map(|nth| (nth, 1)).collect();
        do_it(&other, &Do::Write(first, false)).await.expect("written");
        let transactions = Interruptions::default();
        let at = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&at);
        let others = Arc::clone(&other.control);
        let key = if is_same_rule { 0 } else { 7 };
        let time = transactions.time(move |nth| {
            if nth == Some(asked.load(Relaxed)) {
                write_one(&others, key, asked.load(Relaxed));
            }
        });
        let control = other.beside_at(time).await;
        control.set_steps(Steps { most_at_once: 2, of_one: 2 });
        let rates = || async {
            let read = |tx: &mut dyn Tx, by: &Actor| rules::list(tx, by, &all_of("shop"));
            let list = other.read_as(&claim("ann"), read).await.expect("a list").rules;
            list.iter().map(|it| it.row.rate).collect::<Vec<_>>()
        };
        let mut conflicts = 0;
        let mut published = 0;
        for step in 0..40 {
            let before = rates().await;
            let rate = 100 + i64::try_from(step).expect("few");
            let draft = Do::Write((0..6).map(|nth| (nth, rate)).collect(), true);
            do_it(&other, &draft).await.expect("a draft");
            at.store(step, Relaxed);
            transactions.begin();
            let done = do_it(&control, &Do::Publish).await;
            let has_written = transactions.end() > step;
            let theirs = 10 + i64::try_from(step).expect("few");
            let mut then = before;
            match done {
                Ok(_) => {
                    published += 1;
                    // Of the same rule, what comes first and last.
                    let is_last = has_written && rates().await[key] == theirs;
                    then[..6].fill(rate);
                    then[key] = if is_last || (has_written && !is_same_rule) { theirs } else { then[key] };
                }
                Err(ControlError::Conflict(_)) => {
                    assert!(is_same_rule && has_written, "{step}");
                    conflicts += 1;
                    then[key] = theirs;
                    let abandon = |tx: &mut dyn Tx| {
                        tx.execute("UPDATE changes SET state = 'abandoned' WHERE state = 'draft'", &[])?;
                        Ok(Committed { value: (), documents: None })
                    };
                    other.commit(abandon).await.expect("abandoned");
                }
                Err(error) => panic!("{step}: {error}"),
            }
            assert_eq!(rates().await, then, "{step}");
            if !has_written {
                break;
            }
        }
        assert!(published > 0 && (conflicts >= 4) == is_same_rule, "{conflicts} {published}");
        let compared = other.compare_rows(&claim("ann")).await.expect("compared");
        assert!(compared.is_whole(), "{compared:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_who_write_before_every_step_do_not_starve_a_large_change() {
    let other = with_bob(ControlPlane::in_real_time().await).await;
    do_it(&other, &Do::Write((0..8).map(|nth| (nth, 1)).collect(), false)).await.expect("written");
    let transactions = Interruptions::default();
    let others = Arc::clone(&other.control);
    let time = transactions.time(move |nth| {
        if let Some(nth) = nth {
            write_one(&others, 7, nth);
        }
    });
    let control = other.beside_at(time).await;
    control.set_steps(Steps { most_at_once: 2, of_one: 2 });
    do_it(&other, &Do::Write((0..6).map(|nth| (nth, 2)).collect(), true)).await.expect("a draft");
    transactions.begin();
    let done = do_it(&control, &Do::Publish).await;
    let steps = transactions.end();
    assert!(done.is_ok(), "{done:?}");
    assert!((5..100).contains(&steps), "three attempts, and one transaction that does all of it: {steps}");
}
