//! A version reaches its nodes step by step, and what waits for that.

use tollgate_control::app_settings::AppInput;
use tollgate_control::rollout::{Ask, State};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{
    Actor, Control, ControlError, OldNodes, RuleKind, Who, apps, changes, problems, publishing, rollouts,
    rules, versions,
};
use tollgate_db::Tx;
use tollgate_harness::rules::{change_of, limit, plan, publish, put, put_file, removal};

use crate::Shop;

#[tokio::test]
async fn without_a_plan_a_change_is_for_all_nodes_at_once() {
    let shop = Shop::start(&["n1", "n2"], None).await;
    shop.write("a", 2).await.expect("version 2");
    assert_eq!(shop.with(2), ["n1", "n2"]);
    let none = shop.read(|tx| rollouts::get(tx, &Actor::system(), "shop")).await;
    assert!(matches!(none, Err(ControlError::NotFound { .. })), "{none:?}");
}

#[tokio::test]
async fn a_change_reaches_one_node_then_all_and_each_move_is_in_the_audit() {
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    assert_eq!(shop.with(2), [""; 0], "no node before the first look");
    shop.look().await;
    assert_eq!(shop.with(2).len(), 1);
    shop.soak().await;
    assert_eq!(shop.with(2).len(), 3);
    shop.soak().await;
    let done = shop.rollout().await;
    assert_eq!((done.progress.state, done.ended.len()), (State::Done, 2));
    assert_eq!((shop.of_shop().version, shop.of_shop().candidate), (2, None));
    assert_eq!(shop.actions().await, ["rollout.start", "rollout.step", "rollout.step", "rollout.finish"]);
    shop.write("a", 3).await.expect("the next one");
    assert_eq!(shop.state().await, State::Running);
}

#[tokio::test]
async fn while_a_version_is_rolled_out_no_other_is_published_and_drafts_wait() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    let second = shop.write("b", 1).await;
    assert!(matches!(second, Err(ControlError::RolloutOpen { version: 2, .. })), "{second:?}");
    let draft =
        shop.commit(|tx| changes::create(tx, &Actor::system(), "shop", &change_of(&[put("b", None, 1)])));
    let draft = draft.await.expect("a draft");
    shop.soak().await;
    shop.soak().await;
    let publish = shop.commit(move |tx| publishing::publish(tx, &Actor::system(), &draft.id, draft.etag));
    publish.await.expect("published after the end");
}

#[tokio::test]
async fn each_step_and_the_end_give_nodes_their_thirty_seconds_before_they_lag() {
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.soak().await; // ends with the step for all
    assert_eq!(shop.rollout().await.progress.step, 1);
    let lacking =
        shop.node_ids().into_iter().find(|id| shop.acknowledged(id) == 1).expect("a node of the second step");
    let lacks = |shop: &Shop, later_ms: i64| {
        shop.pass(later_ms);
        let now = shop.now_ms();
        shop.change_node(&lacking, |node| {
            (node.apps[0].wanted, node.apps[0].acked, node.last_seen_ms) = (2, 1, now);
        });
    };
    lacks(&shop, 0);
    assert_eq!(shop.rollout_problems().await, [], "version 2 is a minute old, and on its way for a moment");
    lacks(&shop, 30_000);
    assert_eq!(shop.rollout_problems().await, []);
    lacks(&shop, 1);
    assert_eq!(shop.rollout_problems().await, [problems::ProblemKind::VersionLag]);
    for _ in 0..8 {
        if shop.state().await.is_open() {
            shop.wait(10_000).await;
        }
    }
    assert_eq!(shop.state().await, State::Done);
    lacks(&shop, 0); // it was away, and returns
    assert_eq!(shop.rollout_problems().await, []);
    lacks(&shop, 30_001);
    assert_eq!(shop.rollout_problems().await, [problems::ProblemKind::VersionLag]);
}

#[tokio::test]
async fn nodes_that_are_too_old_are_left_out_if_the_author_says_so() {
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan("2 nodes/all"))).await;
    for id in ["n1", "n2"] {
        shop.change_node(id, |node| node.language = tollgate_fleet_proto::LANGUAGE);
    }
    let publish = async |old_nodes| {
        let input = TableRuleInput { need_permits: "2".to_owned(), ..limit("costly", 1) };
        let create = move |tx: &mut dyn Tx| rules::create(tx, &Actor::system(), "shop", &input);
        shop.commit_beside(old_nodes, create).await.map(drop)
    };
    let rejected = publish(OldNodes::Reject).await;
    assert!(
        matches!(&rejected, Err(ControlError::OldNodes { nodes, .. }) if *nodes == ["n3"]),
        "{rejected:?}"
    );
    publish(OldNodes::Leave).await.expect("published");
    shop.look().await;
    let reached = shop.with(2);
    assert!(["n1", "n2"].iter().all(|id| reached.contains(&(*id).to_owned())), "{reached:?}");
    for id in ["n1", "n2"] {
        shop.change_node(id, |node| node.apps[0].acked = 2);
    }
    shop.change_node("n3", |node| {
        (node.apps[0].fault, node.apps[0].fault_version) = (Some("cost?".into()), 2)
    });
    for _ in 0..20 {
        shop.look().await;
        shop.pass(10_000);
        let now = shop.now_ms();
        for id in ["n1", "n2", "n3"] {
            shop.change_node(id, |node| node.last_seen_ms = now);
        }
        shop.look().await;
    }
    assert_eq!(shop.state().await, State::Done);
}

/// A rule file of the domain `other`; `None` removes the one of version `base`.
async fn file(
    control: &Control,
    app: &'static str,
    base: Option<i64>,
    text: Option<&str>,
) -> Result<(), ControlError> {
    let op = match text {
        Some(text) => put_file("other", base, text)?,
        None => removal(RuleKind::File, "other", base.expect("a version")),
    };
    publish(control, app, &[op]).await
}

#[tokio::test]
async fn a_domain_that_the_candidate_drops_is_free_after_the_rollout_and_not_before() {
    let text =
        "domain: other\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 5}\n";
    for (ending, is_free) in [("finish", true), ("withdraw", false), ("roll back", false), ("disable", true)]
    {
        let mut shop = Shop::start(&["n1", "n2"], None).await;
        file(&shop, "shop", None, Some(text)).await.expect("version 2");
        shop.set(AppInput { rollout: Some(plan("1 node/all")), ..AppInput::default() }).await;
        file(&shop, "shop", Some(2), None).await.expect("version 3");
        shop.look().await;
        let early = file(&shop, "else", None, Some(text)).await;
        assert!(
            matches!(early, Err(ControlError::Faulty(_))),
            "one node still has it of the shop: {early:?}"
        );
        let app = shop.commit(|tx| apps::create(tx, &Actor::system(), "other", "")).await;
        assert!(matches!(app, Err(ControlError::Invalid(_))), "nor may an app have its name: {app:?}");
        match ending {
            "finish" => {
                for _ in 0..2 {
                    shop.ask(Who::system(), Ask::Advance).await.expect("moved on");
                }
            }
            "withdraw" => {
                drop(shop.ask(Who::system(), Ask::Withdraw("no".to_owned())).await.expect("withdrawn"))
            }
            "roll back" => {
                let back = |tx: &mut dyn Tx| versions::rollback(tx, &Actor::system(), "shop", 3, 2, "back");
                shop.commit(back).await.map(drop).expect("version 4");
            }
            _ => {
                shop.set(AppInput { state: "disabled".to_owned(), ..AppInput::default() }).await;
            }
        }
        assert!(!shop.state().await.is_open(), "{ending}");
        let late = file(&shop, "else", None, Some(text)).await;
        assert_eq!(late.is_ok(), is_free, "{ending}: {late:?}");
    }
}
