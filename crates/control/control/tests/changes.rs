//! Change sets: approvals, conflicts, rights, and that the sum of what was accepted is what is in force.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::change_set::{self, ChangeSet, State};
use tollgate_control::changes::{self, ChangeInput, Choice, Keep, OpInput};
use tollgate_control::file_rules;
use tollgate_control::publishing::{self, Intent};
use tollgate_control::{
    Actor, Claim, Committed, Content, Control, ControlError, Role, RuleKind, Who, apps, audit, checks,
    reviews, rules, users, versions,
};
use tollgate_db::Tx;
use tollgate_harness::rules::{
    all_of, change_of, create_rule, file_text, limit, put, put_file, removal, set_app,
};
use tollgate_harness::{ControlPlane, people};

type Done<T> = Result<Committed<T>, ControlError>;

/// A control plane whose app `shop` has the rules `a` and `b`, and needs as many approvals.
async fn shop(approvals: &str) -> ControlPlane {
    let control = ControlPlane::in_real_time().await;
    for key in ["a", "b"] {
        create_rule(&control, "shop", limit(key, 1)).await.expect("a rule");
    }
    approvals_of(&control, approvals).await;
    control
}

async fn approvals_of(control: &Control, approvals: &str) {
    let input = AppInput { approvals: approvals.to_owned(), ..AppInput::default() };
    set_app(control, "shop", input).await;
}

fn user(name: &str, role: Role) -> Who {
    people::user(name, role, "shop")
}

async fn run(
    control: &Control,
    work: impl Fn(&mut dyn Tx) -> Done<ChangeSet> + Send + 'static,
) -> Result<ChangeSet, ControlError> {
    control.commit(work).await
}

async fn rate(control: &Control, key: &'static str) -> i64 {
    let read = control.read(move |tx| rules::get(tx, &Actor::system(), "shop", key));
    read.await.expect("a rule").row.rate
}

#[tokio::test]
async fn an_approval_holds_for_one_submission() {
    let control = shop("1").await;
    for (name, role) in [("bob", "approver"), ("cyd", "admin")] {
        control.invite(&Claim::program("tollgate"), name, "shop", role).await.expect("a user");
    }
    let ann = user("ann", Role::Approver);
    let bob = user("bob", Role::Approver);
    let by = ann.clone();
    let draft = run(&control, move |tx| {
        changes::create(tx, &by.assumed(), "shop", &change_of(&[put("a", Some(1), 5)]))
    });
    let draft = draft.await.expect("a draft");
    let id = draft.id.clone();
    let step = |by: &Who, etag: i64, work: fn(&mut dyn Tx, &Actor, &str, i64) -> Done<ChangeSet>| {
        let by = by.clone();
        let id = id.clone();
        run(&control, move |tx| work(tx, &by.assumed(), &id, etag))
    };
    let publish = publishing::publish;
    let approve: fn(&mut dyn Tx, &Actor, &str, i64) -> Done<ChangeSet> =
        |tx, by, id, etag| reviews::approve(tx, by, id, etag, "good");
    assert!(matches!(step(&ann, 1, publish).await, Err(ControlError::NeedsApproval { .. })));
    let submitted = step(&ann, 1, changes::submit).await.expect("submitted");
    assert_eq!((submitted.state, submitted.etag), (State::Submitted, 2));
    assert!(matches!(step(&ann, 2, approve).await, Err(ControlError::OwnChange)));
    assert!(
        matches!(step(&bob, 1, approve).await, Err(ControlError::Stale { .. })),
        "seen before the submission"
    );
    let approved = step(&bob, 2, approve).await.expect("approved");
    assert_eq!((approved.state, approved.approved_by()), (State::Approved, vec!["bob"]));

    // An edit voids it, and the same content again is a new submission.
    let edit = |rate: i64, etag: i64| {
        let by = ann.clone();
        let id = id.clone();
        run(&control, move |tx| {
            changes::update(tx, &by.assumed(), &id, etag, &change_of(&[put("a", Some(1), rate)]))
        })
    };
    let edited = edit(6, approved.etag).await.expect("edited");
    assert_eq!((edited.state, edited.approved_by().len()), (State::Draft, 0));
    let waiting = step(&ann, edited.etag, changes::submit).await.expect("submitted");
    assert_eq!(waiting.state, State::Submitted);
    assert!(matches!(step(&ann, waiting.etag, publish).await, Err(ControlError::NeedsApproval { .. })));
    let back = edit(5, waiting.etag).await.expect("edited");
    let back = step(&ann, back.etag, changes::submit).await.expect("submitted");
    assert_eq!((back.state, back.submission(), back.approved_by().len()), (State::Submitted, 3, 0));
    let back = step(&bob, back.etag, approve).await.expect("approved");
    assert_eq!(back.state, State::Approved);

    // The app needs more meanwhile; the same approver twice is one.
    approvals_of(&control, "2").await;
    assert!(matches!(step(&ann, back.etag, publish).await, Err(ControlError::NeedsApproval { .. })));
    let twice = step(&bob, back.etag, approve).await.expect("approved again");
    assert_eq!(twice.state, State::Submitted);
    let third = step(&user("cyd", Role::Admin), twice.etag, approve).await.expect("approved");
    assert_eq!(third.state, State::Approved);
    assert_eq!(rate(&control, "a").await, 1);
    // Who may approve no more, has not approved.
    let eve = user("eve", Role::Editor);
    for role in [None, Some(Role::Editor), Some(Role::Approver)] {
        let set = control.commit(move |tx| users::set_role(tx, &Actor::system(), "bob", "shop", role));
        set.await.expect("set");
        if role != Some(Role::Approver) {
            let early = step(&eve, third.etag, publish).await;
            assert!(matches!(early, Err(ControlError::NeedsApproval { approvals: 2, .. })), "{early:?}");
        }
    }
    let published = step(&eve, third.etag, publish).await.expect("published");
    assert_eq!((published.state, published.published_version), (State::Published, Some(3)));
    assert_eq!(rate(&control, "a").await, 5);
    assert!(matches!(step(&ann, published.etag, publish).await, Err(ControlError::WrongState { .. })));
}

#[tokio::test]
async fn a_rejected_change_can_be_edited_and_an_abandoned_one_cannot() {
    let control = shop("1").await;
    let ann = user("ann", Role::Editor);
    let bob = user("bob", Role::Approver);
    let by = ann.clone();
    let write = move |tx: &mut dyn Tx| {
        publishing::propose(tx, &by.assumed(), "shop", &change_of(&[put("a", Some(1), 5)]), Intent::Publish)
    };
    let waiting = run(&control, write).await.expect("submitted");
    assert_eq!((waiting.state, rate(&control, "a").await), (State::Submitted, 1));
    let direct = control.commit({
        let by = ann.clone();
        move |tx| rules::update(tx, &by.assumed(), "shop", 1, &limit("a", 9))
    });
    assert!(matches!(direct.await, Err(ControlError::NeedsApproval { approvals: 1, .. })));

    let id = waiting.id.clone();
    let reject = |comment: &'static str| {
        let by = bob.clone();
        let id = id.clone();
        run(&control, move |tx| reviews::reject(tx, &by.assumed(), &id, 2, comment))
    };
    assert!(matches!(reject(" ").await, Err(ControlError::Invalid(_))), "without a reason");
    assert_eq!(reject("too low").await.expect("rejected").state, State::Rejected);
    let other = {
        let by = user("eve", Role::Editor);
        let id = id.clone();
        run(&control, move |tx| {
            changes::update(tx, &by.assumed(), &id, 3, &change_of(&[put("a", Some(1), 7)]))
        })
        .await
    };
    assert!(matches!(other, Err(ControlError::NotAuthor { .. })));
    let by = ann.clone();
    let edited = id.clone();
    let edited = run(&control, move |tx| {
        changes::update(tx, &by.assumed(), &edited, 3, &change_of(&[put("a", Some(1), 7)]))
    });
    assert_eq!(edited.await.expect("edited").state, State::Draft);
    let by = ann.clone();
    let given_up = id.clone();
    let abandoned =
        run(&control, move |tx| changes::abandon(tx, &by.assumed(), &given_up, 4, "not needed")).await;
    let abandoned = abandoned.expect("abandoned");
    let said: Vec<&str> = abandoned.events.iter().map(|it| &*it.verdict).collect();
    assert_eq!(said, ["submit", "reject", "edit", "abandon"]);
    let late = run(&control, move |tx| {
        changes::update(tx, &ann.assumed(), &id, 5, &change_of(&[put("a", Some(1), 8)]))
    })
    .await;
    assert!(matches!(late, Err(ControlError::WrongState { .. })));
}

/// The later one of two change sets decides its conflict.
async fn conflict(keep: Keep, want: i64) {
    let control = shop("0").await;
    let ann = user("ann", Role::Editor);
    let bob = user("bob", Role::Editor);
    let ops = [put("a", Some(1), 5), put("b", Some(2), 6), put("new", None, 7)];
    let by = ann.clone();
    let draft = run(&control, move |tx| changes::create(tx, &by.assumed(), "shop", &change_of(&ops)))
        .await
        .expect("a draft");
    let by = bob.clone();
    let other = move |tx: &mut dyn Tx| {
        let ops = [put("c", None, 1), put("b", Some(2), 60)];
        publishing::propose(tx, &by.assumed(), "shop", &change_of(&ops), Intent::Publish)
    };
    assert_eq!(run(&control, other).await.expect("published").published_version, Some(3));

    let publish = |etag: i64| {
        let by = ann.clone();
        let id = draft.id.clone();
        run(&control, move |tx| publishing::publish(tx, &by.assumed(), &id, etag))
    };
    let Err(ControlError::Conflict(sides)) = publish(draft.etag).await else { panic!("b was changed") };
    let rate_of =
        |side: &Option<serde_json::Value>| side.as_ref().and_then(|it| it["rate"].as_i64()).unwrap_or(0);
    let shown: Vec<_> = sides
        .iter()
        .map(|it| (&*it.key, rate_of(&it.base), rate_of(&it.theirs), rate_of(&it.yours)))
        .collect();
    assert_eq!(shown, [("b", 1, 60, 6)]);
    assert_eq!((rate(&control, "a").await, rate(&control, "b").await), (1, 60), "all or nothing");

    let by = ann.clone();
    let id = draft.id.clone();
    let etag = draft.etag;
    let resolved = run(&control, move |tx| {
        changes::resolve(
            tx,
            &by.assumed(),
            &id,
            etag,
            &[Choice { kind: RuleKind::TableRule, key: "b".to_owned(), keep }],
        )
    });
    let resolved = resolved.await.expect("resolved");
    assert_ne!(resolved.content_sha256, draft.content_sha256, "an approval does not cover it");
    publish(resolved.etag).await.expect("published");
    assert_eq!((rate(&control, "a").await, rate(&control, "new").await), (5, 7));
    assert_eq!(rate(&control, "b").await, want);
}

#[tokio::test]
async fn changes_of_other_rules_merge_and_of_the_same_rule_show_three_sides() {
    conflict(Keep::Theirs, 60).await;
    conflict(Keep::Yours, 6).await;
}

#[tokio::test]
async fn each_version_has_exactly_one_entry_of_the_audit() {
    let control = shop("0").await;
    let ann = || user("ann", Role::Admin);
    let several = [put("a", Some(1), 5), put("c", None, 6)];
    run(&control, move |tx| {
        publishing::propose(tx, &ann().assumed(), "shop", &change_of(&several), Intent::Publish)
    })
    .await
    .expect("version 3");
    let rejected = [put("a", Some(1), 6)];
    run(&control, move |tx| {
        publishing::propose(tx, &ann().assumed(), "shop", &change_of(&rejected), Intent::Publish)
    })
    .await
    .expect_err("a conflict");
    let op = put_file("shop-files", None, &file_text("shop-files", 5)).expect("a file");
    run(&control, move |tx| {
        let draft =
            changes::create(tx, &ann().assumed(), "shop", &change_of(std::slice::from_ref(&op)))?.value;
        publishing::publish(tx, &ann().assumed(), &draft.id, draft.etag)
    })
    .await
    .expect("version 4");
    control.commit(move |tx| rules::delete(tx, &ann().assumed(), "shop", "b", 2)).await.expect("version 5");
    control
        .commit(move |tx| versions::rollback(tx, &ann().assumed(), "shop", 5, 2, "worse"))
        .await
        .expect("version 6");
    let off = AppInput { state: "disabled".to_owned(), ..AppInput::default() };
    control
        .commit(move |tx| app_settings::update(tx, &ann().assumed(), "shop", 2, &off))
        .await
        .expect("version 7");
    let (entries, made) = control
        .read(|tx| {
            let by = Who::system();
            Ok((
                audit::list(tx, &by.assumed(), "shop", "", 0, 500)?,
                versions::list(tx, &by.assumed(), "shop", 500)?,
            ))
        })
        .await
        .expect("read");
    let puts_in_force = |entry: &&audit::AuditEntry| {
        let one_rule = ["rule.create", "rule.update", "rule.delete", "file.create"].contains(&&*entry.action);
        let is_state =
            entry.action == "app.update" && entry.after.as_ref().is_some_and(|it| it.contains("disabled"));
        one_rule || is_state || ["change.publish", "app.rollback"].contains(&&*entry.action)
    };
    assert_eq!(entries.iter().filter(puts_in_force).count(), made.len(), "{entries:#?}");
    assert_eq!(made.len(), 7);
}

/// An operation on the change set of this id and etag.
type Operation = (&'static str, Role, fn(&mut dyn Tx, &Actor, &str, i64) -> Result<(), ControlError>);

const OPERATIONS: &[Operation] = &[
    ("get", Role::Viewer, |tx, by, id, _| change_set::get(tx, by, id).map(drop)),
    ("list", Role::Viewer, |tx, by, _, _| {
        let query = change_set::Query { app: "shop".to_owned(), limit: 1, ..change_set::Query::default() };
        change_set::list(tx, by, &query).map(drop)
    }),
    ("preview", Role::Viewer, |tx, by, _, _| checks::preview(tx, by, "shop", &[]).map(drop)),
    ("difference", Role::Viewer, |tx, by, _, _| versions::difference(tx, by, "shop", 1, 2).map(drop)),
    ("past", Role::Viewer, |tx, by, _, _| rules::past(tx, by, "shop", RuleKind::TableRule, "a").map(drop)),
    ("files", Role::Viewer, |tx, by, _, _| file_rules::list(tx, by, "shop").map(drop)),
    ("create", Role::Editor, |tx, by, _, _| {
        changes::create(tx, by, "shop", &change_of(&[put("n", None, 1)])).map(drop)
    }),
    ("write", Role::Editor, |tx, by, _, _| {
        let input = change_of(&[put("n", None, 1)]);
        publishing::propose(tx, by, "shop", &input, Intent::Publish).map(drop)
    }),
    ("comment", Role::Editor, |tx, by, id, _| changes::comment(tx, by, id, "so").map(drop)),
    ("publish", Role::Editor, |tx, by, id, etag| publishing::publish(tx, by, id, etag).map(drop)),
    ("approve", Role::Approver, |tx, by, id, etag| reviews::approve(tx, by, id, etag, "").map(drop)),
    ("reject", Role::Approver, |tx, by, id, etag| reviews::reject(tx, by, id, etag, "no").map(drop)),
    ("abandon that of another", Role::Admin, |tx, by, id, etag| {
        changes::abandon(tx, by, id, etag, "").map(drop)
    }),
];

#[tokio::test]
async fn every_operation_on_a_change_set_asks_for_its_role() {
    let control = shop("0").await;
    let made = run(&control, |tx| {
        let ann = user("ann", Role::Editor);
        let draft = changes::create(tx, &ann.assumed(), "shop", &change_of(&[put("a", Some(1), 5)]))?.value;
        changes::submit(tx, &ann.assumed(), &draft.id, draft.etag)
    });
    let made = made.await.expect("submitted");
    for (name, need, call) in OPERATIONS {
        for bound in ["*", "shop", "other"] {
            for role in [None].into_iter().chain(Role::ALL.map(Some)) {
                let by =
                    role.map_or_else(|| people::stranger("bob"), |role| people::user("bob", role, bound));
                let want = bound != "other" && role.is_some_and(|role| role >= *need);
                let id = made.id.clone();
                let etag = made.etag;
                // The error at the end undoes what the call did.
                let done = control.commit(move |tx| -> Done<()> {
                    call(tx, &by.assumed(), &id, etag)?;
                    Err(ControlError::Hash)
                });
                match done.await.expect_err("undone") {
                    ControlError::Hash => assert!(want, "{name} by {role:?} of {bound}"),
                    ControlError::NoRight { .. } => assert!(!want, "{name} by {role:?} of {bound}"),
                    other => panic!("{name} by {role:?} of {bound}: {other}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn rows_and_files_are_one_version_and_a_domain_has_one_owner() {
    let control = shop("0").await;
    let by = Who::system;
    let write = |app: &'static str, ops: Vec<OpInput>| {
        let input = change_of(&ops);
        run(&control, move |tx| {
            if app != "shop" && apps::list(tx, &by().assumed())?.iter().all(|it| it.name != app) {
                apps::create(tx, &by().assumed(), app, "")?;
            }
            publishing::propose(tx, &by().assumed(), app, &input, Intent::Publish)
        })
    };
    let made =
        write("shop", vec![put_file("web", None, &file_text("web", 5)).expect("a file"), put("c", None, 3)]);
    assert_eq!(made.await.expect("published").published_version, Some(3));
    let documents = control.published().borrow().apps[0].documents.clone();
    let domains: Vec<&str> = documents.iter().map(|it| it.domain()).collect();
    assert_eq!(domains, ["shop", "web"]);
    assert_eq!(documents[1].yaml(), file_text("web", 5), "byte for byte");

    for (app, domain, part) in [
        ("bank", "web", "another app"),
        ("shop", "shop", "limits of the app itself"),
        ("bank", "shop", "another app"),
    ] {
        let rejected = write(app, vec![put_file(domain, None, &file_text(domain, 1)).expect("a file")]).await;
        let Err(ControlError::Faulty(faults)) = rejected else { panic!("{app} {domain}") };
        assert!(faults[0].message.contains(part) && faults[0].line == 1, "{faults:?}");
    }
    let taken = control.commit(move |tx| apps::create(tx, &by().assumed(), "web", "")).await;
    assert!(matches!(taken, Err(ControlError::Invalid(_))), "an app of the name of a domain");
    let Err(ControlError::Faulty(faults)) =
        put_file("web", None, &file_text("web", 5).replace("minute", "minuet"))
    else {
        panic!("a unit")
    };
    assert_eq!((faults[0].line, &*faults[0].path), (4, "descriptors[0].rate_limit.unit"));

    // Its removal frees the domain; a rollback wants it back.
    let delete = removal(RuleKind::File, "web", 3);
    assert_eq!(write("shop", vec![delete]).await.expect("published").published_version, Some(4));
    write("bank", vec![put_file("web", None, &file_text("web", 9)).expect("a file")])
        .await
        .expect("free now");
    let back = control.commit(move |tx| versions::rollback(tx, &by().assumed(), "shop", 4, 3, "again")).await;
    assert!(matches!(back, Err(ControlError::Faulty(_))), "the bank owns it");
    let delete = removal(RuleKind::File, "web", 1);
    write("bank", vec![delete]).await.expect("published");
    control
        .commit(move |tx| versions::rollback(tx, &by().assumed(), "shop", 4, 3, "again"))
        .await
        .expect("version 5");
    let shop = control.published().borrow().apps.iter().find(|it| it.app == "shop").cloned().expect("shop");
    assert_eq!((shop.version, shop.documents), (5, documents));
}

#[tokio::test]
async fn rude_operations_are_rejected() {
    let control = shop("0").await;
    let mut forged = limit("a", 1).check().expect("a limit");
    forged.rate = 0;
    let forged = Some(Content::TableRule(Box::new(forged)));
    let op = |kind, key: &str, base, after| OpInput { kind, key: key.to_owned(), base, after };
    for (name, ops) in [
        ("nothing", vec![]),
        ("a base that is to come", vec![put("a", Some(9), 5)]),
        ("a base of another rule", vec![put("a", Some(2), 5)]),
        ("deletes what it says is not there", vec![op(RuleKind::TableRule, "a", None, None)]),
        ("twice the same rule", vec![put("a", Some(1), 5), put("a", Some(1), 6)]),
        ("another key than its rule", vec![op(RuleKind::TableRule, "z", None, put("a", None, 1).after)]),
        ("another kind than its rule", vec![op(RuleKind::File, "a", None, put("a", None, 1).after)]),
        ("a rate that no form accepts", vec![op(RuleKind::TableRule, "a", Some(1), forged)]),
        ("a pattern as key", vec![op(RuleKind::TableRule, "a*", Some(1), None)]),
    ] {
        let input = change_of(&ops);
        let done = run(&control, move |tx| {
            publishing::propose(tx, &Actor::system(), "shop", &input, Intent::Publish)
        });
        let error = done.await.expect_err(name);
        assert!(matches!(error, ControlError::Invalid(_) | ControlError::NotFound { .. }), "{name}: {error}");
    }
    let long = ChangeInput { title: "t".repeat(201), ..change_of(&[put("a", Some(1), 5)]) };
    let done = run(&control, move |tx| changes::create(tx, &Actor::system(), "shop", &long)).await;
    assert!(matches!(done, Err(ControlError::Invalid(_))));
}

/// The change sets of one editor: each has keys and their new rates; `None` deletes.
type Plan = Vec<Vec<(u8, Option<i64>)>>;

/// Publishes the change sets of one editor, each as a draft first. Returns those that were accepted.
async fn edit(control: Arc<ControlPlane>, number: usize, plan: Plan) -> Vec<ChangeSet> {
    let mut accepted = Vec::new();
    for wishes in plan {
        let by = user(&format!("editor{number}"), Role::Editor);
        let reader = by.clone();
        let draft = run(&control, move |tx| {
            let ops = operations(tx, &reader.assumed(), number, &wishes)?;
            changes::create(tx, &reader.assumed(), "shop", &change_of(&ops))
        });
        let draft = draft.await.expect("a draft");
        tokio::task::yield_now().await; // others publish between the reading and the publication
        let id = draft.id.clone();
        match run(&control, move |tx| publishing::publish(tx, &by.assumed(), &id, draft.etag)).await {
            Ok(done) => accepted.push(done),
            Err(ControlError::Conflict(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    accepted
}

/// The operations that an editor wishes for, based on what is there now.
fn operations(
    tx: &mut dyn Tx,
    by: &Actor,
    number: usize,
    wishes: &[(u8, Option<i64>)],
) -> Result<Vec<OpInput>, ControlError> {
    let mut ops: BTreeMap<String, OpInput> = BTreeMap::new();
    for (key, rate) in wishes {
        let key = format!("k{key}");
        let base = match rules::get(tx, by, "shop", &key) {
            Ok(rule) => Some(rule.etag),
            Err(ControlError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let op = match (rate, base) {
            (Some(rate), _) => put(&key, base, *rate),
            (None, Some(base)) => removal(RuleKind::TableRule, &key, base),
            (None, None) => continue,
        };
        ops.insert(key, op);
    }
    if ops.is_empty() {
        ops.insert("x".to_owned(), put(&format!("own{number}"), None, 1));
    }
    Ok(ops.into_values().collect())
}

/// Several editors at once, each with change sets of its own: which keys, and put (a rate) or delete.
async fn edit_at_once(plans: Vec<Plan>) {
    let control = Arc::new(ControlPlane::in_real_time().await);
    control.commit(|tx| apps::create(tx, &Actor::system(), "shop", "")).await.expect("an app");
    let editors = plans.into_iter().enumerate();
    let editors = editors.map(|(number, plan)| tokio::spawn(edit(Arc::clone(&control), number, plan)));
    let mut accepted = Vec::new();
    for editor in editors.collect::<Vec<_>>() {
        accepted.extend(editor.await.expect("an editor"));
    }
    accepted.sort_by_key(|it| it.published_version);
    let numbers: Vec<_> = accepted.iter().filter_map(|it| it.published_version).collect();
    let count = i64::try_from(accepted.len()).expect("few");
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "each accepted change is one version");
    let mut want: BTreeMap<String, i64> = BTreeMap::new();
    for op in accepted.into_iter().flat_map(|it| it.ops) {
        let began_with = match &op.before {
            Some(Content::TableRule(table_rule)) => Some(table_rule.rate),
            _ => None,
        };
        assert_eq!(
            began_with,
            want.get(&op.key).copied(),
            "{} was accepted over a change of another",
            op.key
        );
        match op.after {
            Some(Content::TableRule(table_rule)) => drop(want.insert(op.key, table_rule.rate)),
            _ => drop(want.remove(&op.key)),
        }
    }
    let list = control.read(|tx| rules::list(tx, &Actor::system(), &all_of("shop")));
    let page = list.await.expect("a page");
    let found: BTreeMap<String, i64> = page.rules.into_iter().map(|it| (it.row.key, it.row.rate)).collect();
    assert_eq!(found, want);
}

fn plans(editors: usize) -> impl Strategy<Value = Vec<Plan>> {
    let wish = (0..6_u8, prop::option::weighted(0.8, 1..1_000_i64));
    let change = prop::collection::vec(wish, 1..4);
    prop::collection::vec(prop::collection::vec(change, 1..4), editors)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn the_sum_of_what_two_and_32_editors_had_accepted_is_in_force(two in plans(2), many in plans(32)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        runtime.block_on(async {
            edit_at_once(two).await;
            edit_at_once(many).await;
        });
    }
}
