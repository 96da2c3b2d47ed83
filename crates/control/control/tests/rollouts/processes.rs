//! Restarts, a second process, and callers who leave in the middle.

use std::time::Duration;

use tollgate_control::overrides::OverrideInput;
use tollgate_control::rollout::{Ask, State};
use tollgate_control::tokens::{self, TokenInput};
use tollgate_control::{Actor, Claim, ControlError, Roller, Who};
use tollgate_harness::rules::plan;

use crate::{SOAK_MS, Shop};

/// For what is expected soon, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_restart_at_any_point_carries_on_with_the_same_nodes() {
    let mut shop = Shop::start(&["n1", "n2", "n3", "n4"], Some(plan("1 node/50 %/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    let mut seen = Vec::new();
    while shop.state().await.is_open() {
        let before = shop.of_shop();
        let at = shop.rollout().await;
        shop = shop.restart().await;
        assert_eq!((shop.of_shop(), shop.rollout().await), (before, at));
        shop.take();
        shop.look().await;
        seen.push(shop.with(2).len());
        shop.wait(SOAK_MS / 2).await;
        assert_eq!(shop.with(2).len(), *seen.last().expect("one"), "half of the time is too early");
        shop.wait(SOAK_MS / 2).await;
        assert!(seen.len() < 10, "it does not end: {seen:?}");
    }
    assert_eq!((shop.state().await, shop.of_shop().version), (State::Done, 2));
    assert!(seen.is_sorted() && seen[0] == 1, "{seen:?}");
}

#[tokio::test]
async fn a_process_that_was_overtaken_moves_nothing() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    let mut newer = Roller::take_over(&shop).await.expect("taken over");
    let late = shop.roller.look(&shop.plane).await;
    assert!(matches!(late, Err(ControlError::OldTerm)), "{late:?}");
    assert_eq!(shop.with(2).len(), 0);
    newer.look(&shop).await.expect("looked");
    assert_eq!(shop.with(2).len(), 1);
}

#[tokio::test]
async fn a_rollout_does_not_begin_before_its_candidate_is_published() {
    let nodes = ["n1", "n2"];
    let mut shop = Shop::start(&nodes, Some(plan("1 node/all"))).await;
    // What it reads of the database is newer than what it has published, as between a commit and its end.
    let mut behind = Shop::of(shop.beside().await).await;
    for node in nodes {
        behind.connect(node);
    }
    shop.write("a", 2).await.expect("version 2");
    behind.look().await;
    assert_eq!(shop.rollout().await.progress.step_at, None, "which nodes can read it is not known yet");
    shop.roller = Roller::take_over(&shop).await.expect("taken over");
    shop.look().await;
    assert_eq!(shop.with(2).len(), 1);
}

#[tokio::test]
async fn a_change_whose_caller_leaves_is_published_if_it_was_committed() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    let etag = shop.rollout().await.etag;
    let actor = Who::system();
    let ask = Ask::Withdraw("no".to_owned());
    left_after_asking(shop.ask_rollout(&Claim::assumed(&actor), "shop", etag, ask)).await;
    let mut published = shop.published();
    let is_out = published.wait_for(|it| it.apps.iter().any(|it| it.app == "shop" && it.version == 3));
    tokio::time::timeout(PATIENCE, is_out).await.expect("published").expect("the control plane is there");

    let input = OverrideInput {
        domain: "shop".to_owned(),
        action: "block".to_owned(),
        minutes: "5".to_owned(),
        reason: "floods".to_owned(),
        ..OverrideInput::default()
    };
    left_after_asking(shop.create_override(&Claim::assumed(&actor), input)).await;
    let mut overrides = shop.overrides();
    let is_out = overrides.wait_for(|it| it.overrides.len() == 1);
    tokio::time::timeout(PATIENCE, is_out).await.expect("in force").expect("the control plane is there");

    let token = shop.first_node_token().await.expect("made").expect("the first");
    let mut tokens = shop.node_tokens();
    assert!(tokens.borrow().admits(Some(&token), 0));
    let listed = shop.read(|tx| tokens::list(tx, &Actor::system(), "", 10)).await.expect("listed");
    left_after_asking(shop.revoke_token(&Claim::assumed(&actor), &listed[0].id)).await;
    let is_out = tokens.wait_for(|it| it.is_empty());
    tokio::time::timeout(PATIENCE, is_out).await.expect("revoked").expect("the control plane is there");
}

#[tokio::test]
async fn a_revoked_token_stays_revoked_however_often_tokens_are_read_meanwhile() {
    let shop = Shop::start(&[], None).await;
    for _ in 0..50 {
        let input = TokenInput { kind: "node".into(), name: "n".into(), ..TokenInput::default() };
        let (token, text) = shop.create_token(&Claim::program("tollgate"), input).await.expect("made");
        let reading = || shop.read_node_tokens();
        let admin = Claim::program("tollgate");
        let revoking = shop.revoke_token(&admin, &token.id);
        let (a, b, revoked, c) = tokio::join!(reading(), reading(), revoking, reading());
        a.and(b).and(c).and(revoked).expect("done");
        assert!(!shop.node_tokens().borrow().admits(Some(&text), 0));
    }
}

/// Asks, and does not wait for the reply.
async fn left_after_asking(asking: impl Future) {
    tokio::select! {
        biased;
        _ = asking => {}
        () = std::future::ready(()) => {}
    }
}
