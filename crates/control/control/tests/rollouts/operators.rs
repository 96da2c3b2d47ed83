//! Plans and moves by people: rights, two at once, and the changes that end a rollout.

use tollgate_control::app_settings::AppInput;
use tollgate_control::rollout::{Ask, State, Why};
use tollgate_control::{Claim, ControlError, Role, changes, publishing, versions};
use tollgate_harness::people::user;
use tollgate_harness::rules::{change_of, plan, put};

use crate::Shop;

#[tokio::test]
async fn a_plan_of_its_own_needs_an_approver() {
    let shop = Shop::start(&["n1", "n2"], None).await;
    let draft = shop.commit(|tx| {
        let ann = user("ann", Role::Editor, "shop");
        changes::create(tx, &ann.assumed(), "shop", &change_of(&[put("b", None, 1)]))
    });
    let draft = draft.await.expect("a draft");
    for (role, is_allowed) in [(Role::Editor, false), (Role::Approver, true)] {
        let id = draft.id.clone();
        let etag = draft.etag;
        let own = plan("1 node/all");
        let published = shop.commit(move |tx| {
            publishing::publish_by(tx, &user("bob", role, "shop").assumed(), &id, etag, Some(&own))
        });
        assert_eq!(published.await.is_ok(), is_allowed, "{role:?}");
    }
    assert_eq!(shop.rollout().await.plan, plan("1 node/all"));
}

#[tokio::test]
async fn operators_pause_resume_advance_and_withdraw_with_the_right_to() {
    let mut shop = Shop::start(&["n1", "n2", "n3"], Some(plan("1 node/2 nodes/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    for role in [Role::Viewer, Role::Editor] {
        for ask in [Ask::Pause, Ask::Resume, Ask::Advance, Ask::Withdraw("w".into())] {
            let asked = shop.ask(user("ann", role, "shop"), ask).await;
            assert!(matches!(asked, Err(ControlError::NoRight { .. })), "{role:?} {asked:?}");
        }
    }
    let bob = || user("bob", Role::Approver, "shop");
    shop.ask(bob(), Ask::Pause).await.expect("paused");
    shop.soak().await;
    assert_eq!((shop.state().await, shop.with(2).len()), (State::Paused, 1));
    let wrong = shop.ask(bob(), Ask::Pause).await;
    assert!(matches!(wrong, Err(ControlError::WrongRolloutState { state: "paused", .. })), "{wrong:?}");
    shop.ask(bob(), Ask::Resume).await.expect("resumed");
    shop.ask(bob(), Ask::Advance).await.expect("advanced");
    shop.look().await;
    assert_eq!(shop.with(2).len(), 2);
    shop.take();
    shop.look().await;
    let chosen = shop.with(2)[0].clone();
    shop.report_twice(&chosen, 30, 10).await;
    shop.look().await;
    let without = shop.ask(bob(), Ask::Withdraw(" ".into())).await;
    assert!(matches!(without, Err(ControlError::Invalid(_))), "{without:?}");
    shop.ask(bob(), Ask::Withdraw("too strict".into())).await.expect("withdrawn");
    shop.look().await;
    assert_eq!(shop.with(3).len(), 3);
    shop.take();
    let want = ["start", "step", "pause", "resume", "advance", "step", "withdraw"];
    assert_eq!(shop.actions().await, want.map(|it| format!("rollout.{it}")));
    let ended = shop.rollout().await.ended;
    let of_step = ended.last().expect("the step that was withdrawn").sides.chosen;
    assert_eq!((of_step.decisions, of_step.denied), (40, 10), "its figures are kept");
}

#[tokio::test]
async fn of_two_operators_the_second_reads_again() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    let etag = shop.rollout().await.etag;
    shop.ask(user("bob", Role::Approver, "shop"), Ask::Pause).await.expect("paused");
    let eve = user("eve", Role::Approver, "shop");
    let eve = Claim::assumed(&eve);
    let late = shop.ask_rollout(&eve, "shop", etag, Ask::Advance);
    assert!(matches!(late.await, Err(ControlError::Stale { .. })));
    assert_eq!(shop.with(2).len(), 1);
}

#[tokio::test]
async fn of_operators_who_ask_at_the_same_moment_one_is_obeyed_and_one_version_is_made() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    let by = Claim::program("tollgate");
    let etag = shop.rollout().await.etag;
    let withdraw = |why: &str| Ask::Withdraw(why.to_owned());
    let Shop { plane, roller } = &mut shop;
    let ask = |ask| plane.ask_rollout(&by, "shop", etag, ask);
    // The program moves it on in the same moment: n1 or n2 has yet to acknowledge, so there is nothing to do.
    let (first, second, third, fourth, looked) = tokio::join!(
        ask(withdraw("too strict")),
        ask(Ask::Pause),
        ask(withdraw("too lenient")),
        ask(Ask::Advance),
        roller.look(plane),
    );
    looked.expect("looked");
    let asked = [first, second, third, fourth];
    assert_eq!(asked.iter().filter(|it| it.is_ok()).count(), 1, "{asked:?}");
    assert!(asked.iter().all(|it| matches!(it, Ok(_) | Err(ControlError::Stale { .. }))), "{asked:?}");
    let moved = shop.rollout().await;
    let newest = shop.of_shop().version;
    match moved.progress.state {
        State::Withdrawn => assert_eq!((moved.withdrawn_version, newest), (Some(3), 3)),
        _ => assert_eq!((moved.withdrawn_version, newest), (None, 1)),
    }
}

#[tokio::test]
async fn a_rollback_ends_the_rollout_and_reaches_all_nodes_at_once() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    shop.take();
    let back = shop.commit(|tx| {
        versions::rollback(tx, &user("ann", Role::Editor, "shop").assumed(), "shop", 2, 1, "too strict")
    });
    back.await.expect("version 3");
    assert_eq!(shop.with(3).len(), 2);
    let ended = shop.rollout().await;
    assert_eq!(ended.progress.why, Some(Why::Superseded("too strict".into())));
    assert_eq!((ended.withdrawn_version, ended.progress.state), (Some(3), State::Withdrawn));
    shop.look().await;
    shop.take();
    assert_eq!(shop.with(3).len(), 2);
}

#[tokio::test]
async fn disabling_an_app_takes_its_rules_off_all_nodes_at_once() {
    let mut shop = Shop::start(&["n1", "n2"], Some(plan("1 node/all"))).await;
    shop.write("a", 2).await.expect("version 2");
    shop.look().await;
    shop.take();
    shop.set(AppInput { state: "disabled".into(), ..AppInput::default() }).await;
    assert_eq!((shop.with(3).len(), shop.of_shop().documents.len()), (2, 0));
    assert_eq!(shop.state().await, State::Withdrawn);
    shop.write("a", 4).await.expect("a disabled app has nothing to try");
    assert_eq!((shop.of_shop().version, shop.of_shop().candidate), (4, None));
}
