//! Rollouts that end or halt by themselves: after denials, after rejections, or since they cannot end.

use tollgate_control::rollout::{Ask, Plan, State, Why};
use tollgate_control::{Actor, Claim, Role, problems, rules, versions};
use tollgate_fleet_proto::Report;
use tollgate_harness::people::user;
use tollgate_harness::rules::plan;

use crate::{SOAK_MS, Shop, counted};

#[tokio::test]
async fn a_candidate_that_denies_too_much_is_withdrawn_by_a_new_version_for_all() {
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    shop.take();
    shop.look().await;
    let chosen = shop.with(2)[0].clone();
    for id in shop.node_ids() {
        let denied = if id == chosen { 300 } else { 0 };
        shop.report_twice(&id, 600 - denied, denied).await;
    }
    shop.look().await;
    let sides = shop.observed("shop").expect("watched").sides;
    assert_eq!((sides.chosen.decisions, sides.chosen.denied), (600, 300), "each report counts once");
    assert_eq!((sides.others.decisions, sides.others.denied), (1_200, 0));
    shop.wait(SOAK_MS).await;
    let withdrawn = shop.rollout().await;
    assert_eq!((withdrawn.progress.state, withdrawn.withdrawn_version), (State::Withdrawn, Some(3)));
    assert!(matches!(withdrawn.progress.why, Some(Why::DeniesMore(_))), "{withdrawn:?}");
    assert_eq!(shop.with(3).len(), 3, "also those that never had the candidate");
    shop.take();
    let rate = shop.read(|tx| rules::get(tx, &Actor::system(), "shop", "a")).await.expect("a rule");
    assert_eq!(rate.row.rate, 1, "with the content of before");
    assert_eq!(shop.rollout_problems().await, [problems::ProblemKind::WithdrawnRollout]);
    let versions = shop.read(|tx| versions::list(tx, &Actor::system(), "shop", 10)).await;
    assert_eq!(versions.expect("versions")[0].kind, "withdraw");
    assert_eq!(shop.actions().await, ["rollout.start", "rollout.step", "rollout.withdraw"]);
    shop.write("a", 5).await.expect("the next one");
    assert_eq!(shop.rollout_problems().await, [], "something newer was published");
}

#[tokio::test]
async fn reports_that_come_after_the_soak_time_still_withdraw_a_candidate() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    shop.take();
    shop.look().await;
    let chosen = shop.with(2)[0].clone();
    for _ in 0..6 {
        shop.pass(SOAK_MS / 6);
        shop.take();
        shop.look().await;
    }
    assert_eq!(shop.observed("shop").expect("watched").unreported, 2);
    assert_eq!((shop.state().await, shop.with(2).len()), (State::Running, 1), "the step is not over");
    // They were made before its end, and sent a second later.
    shop.pass(1_000);
    for id in shop.node_ids() {
        let rules = vec![if id == chosen { counted(300, 300) } else { counted(600, 0) }];
        shop.report(&id, Report { rules, span_ms: 5_000, age_ms: 1_000, ..Report::default() }).await;
    }
    shop.look().await;
    let withdrawn = shop.rollout().await.progress;
    assert!(matches!(withdrawn.why, Some(Why::DeniesMore(_))), "{withdrawn:?}");
}

#[tokio::test]
async fn a_candidate_that_a_node_rejects_is_withdrawn_or_halts() {
    for auto_rollback in [true, false] {
        let plan = Plan { auto_rollback, ..plan("1 node/all") };
        let mut shop = Shop::start(&["n1", "n2"], Some(plan)).await;
        shop.write("a", 2).await.expect("version 2");
        shop.look().await;
        let chosen = shop.with(2)[0].clone();
        shop.change_node(&chosen, |node| {
            (node.apps[0].fault, node.apps[0].fault_version) = (Some("is bad".to_owned()), 2);
        });
        shop.look().await;
        let rollout = shop.rollout().await;
        assert_eq!(rollout.progress.why, Some(Why::Rejected(vec![chosen.clone()])));
        if auto_rollback {
            assert_eq!((rollout.progress.state, shop.with(3).len()), (State::Withdrawn, 2));
        } else {
            assert_eq!((rollout.progress.state, shop.with(2)), (State::Halted, vec![chosen]));
            assert_eq!(shop.rollout_problems().await, [problems::ProblemKind::HaltedRollout]);
            shop.ask(user("bob", Role::Approver, "shop"), Ask::Withdraw("bad".into()))
                .await
                .expect("withdrawn");
            assert_eq!((shop.state().await, shop.with(3).len()), (State::Withdrawn, 2));
            assert_eq!(shop.rollout_problems().await, [], "an operator knows what they withdrew");
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_version_before_withdraws_nothing() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    for id in ["n1", "n2"] {
        shop.change_node(id, |node| {
            (node.apps[0].fault, node.apps[0].fault_version) = (Some("old".to_owned()), 1)
        });
    }
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    shop.look().await;
    assert_eq!(shop.state().await, State::Running);
}

#[tokio::test]
async fn what_cannot_be_withdrawn_halts_and_says_why() {
    let plan = plan("3 nodes/all");
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan)).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    for id in ["n1", "n2"] {
        // They hold what the database has never published, so the app is frozen.
        shop.change_node(id, |node| (node.apps[0].acked, node.apps[0].is_ahead) = (9, true));
    }
    shop.problems(&Claim::program("tollgate")).await.expect("problems");
    shop.change_node("n3", |node| (node.apps[0].fault, node.apps[0].fault_version) = (Some("bad".into()), 2));
    shop.look().await;
    let halted = shop.rollout().await;
    assert_eq!(halted.progress.state, State::Halted);
    let why = halted.progress.why.clone();
    assert!(matches!(&why, Some(Why::Blocked(why)) if why.contains("frozen")), "{why:?}");
    assert_eq!((shop.of_shop().version, shop.acknowledged("n3")), (1, 1));
}
