//! Rollouts over the database: what nodes should have at each step, rights, two operators, restarts.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::changes::{self, ChangeInput, OpInput};
use tollgate_control::file_rules::FileInput;
use tollgate_control::overrides::OverrideInput;
use tollgate_control::publishing::Intent;
use tollgate_control::rollout::{Ask, Plan, PlanInput, State, Why};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::tokens::{self, TokenInput};
use tollgate_control::{
    Actor, AppDocuments, Claim, Content, Control, ControlError, Kind, KnownNodes, NodeApp, NodeState,
    OldNodes, Role, Roller, Who, apps, audit, problems, publishing, rules, versions,
};
use tollgate_db::{TimeSource, Tx};
use tollgate_fleet_proto::{Report, RuleCounts};

const SOAK_MS: i64 = 60_000;
/// For what is expected soon, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A control plane whose nodes take what they should have when they are asked to.
struct World {
    control: Control,
    nodes: Arc<KnownNodes>,
    now: Arc<AtomicI64>,
    roller: Roller,
    sequence: u64,
}

impl World {
    async fn open(folder: &Path, now: Arc<AtomicI64>) -> Self {
        let nodes = Arc::new(KnownNodes::default());
        let time = TimeSource::Manual(Arc::clone(&now));
        let control =
            Control::open(folder, time, Arc::<KnownNodes>::clone(&nodes)).await.expect("a database");
        let roller = Roller::take_over(&control).await.expect("taken over");
        Self { control, nodes, now, roller, sequence: 0 }
    }

    /// With version 1 of the app `shop` on `nodes`, and a plan for those that follow.
    async fn new(folder: &Path, nodes: &[&str], plan: Option<Plan>) -> Self {
        let world = Self::open(folder, Arc::new(AtomicI64::new(1_700_000_000_000))).await;
        world.write("a", 1).await.expect("version 1");
        if let Some(rollout) = plan {
            world.settings(AppInput { rollout: Some(rollout), ..AppInput::default() }).await;
        }
        for node in nodes {
            world.join(node);
        }
        world.take();
        world
    }

    async fn settings(&self, input: AppInput) {
        let set = self.control.change(move |tx| {
            let etag = apps::get(tx, &Actor::system(), Role::Admin, "shop")?.etag;
            app_settings::update(tx, &Actor::system(), "shop", etag, &input)
        });
        set.await.expect("changed");
    }

    /// Publishes one rule.
    async fn write(&self, key: &str, rate: i64) -> Result<(), ControlError> {
        let key = key.to_owned();
        let rate = rate.to_string();
        let input = TableRuleInput { key, rate, max_permits: "100".to_owned(), ..TableRuleInput::default() };
        let write =
            self.control.change(move |tx| match rules::get(tx, &Actor::system(), "shop", &input.key) {
                Ok(now) => rules::update(tx, &Actor::system(), "shop", now.etag, &input),
                Err(_) => rules::create(tx, &Actor::system(), "shop", &input),
            });
        write.await.map(drop)
    }

    fn join(&self, id: &str) {
        self.nodes.report(NodeState {
            id: id.to_owned(),
            name: id.to_owned(),
            is_connected: true,
            last_seen_ms: self.now.load(Relaxed),
            ..NodeState::default()
        });
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut NodeState)) {
        use tollgate_control::Nodes as _;
        let mut node = self.nodes.nodes().into_iter().find(|it| it.id == id).expect("a node");
        change(&mut node);
        self.nodes.report(node);
    }

    fn published(&self) -> AppDocuments {
        let published = self.control.published();
        let published = published.borrow();
        published.apps.iter().find(|it| it.app == "shop").expect("the app").clone()
    }

    fn wanted(&self, node: &str) -> u64 {
        let app = self.published();
        match &app.candidate {
            Some(it) if it.reach.includes(node, []) => it.version,
            _ => app.version,
        }
    }

    /// Every live node takes what it should have.
    fn take(&self) {
        for id in self.ids() {
            let wanted = self.wanted(&id);
            let now = self.now.load(Relaxed);
            self.change(&id, |node| {
                if node.is_connected {
                    let app = "shop".to_owned();
                    let acked = node.apps.first().map_or(0, |it| it.acked);
                    assert!(acked <= wanted, "version {acked} of {id} would go down to {wanted}");
                    node.apps = vec![NodeApp { app, wanted, acked: wanted, ..NodeApp::default() }];
                    node.last_seen_ms = now;
                }
            });
        }
    }

    fn ids(&self) -> Vec<String> {
        use tollgate_control::Nodes as _;
        self.nodes.nodes().into_iter().map(|it| it.id).collect()
    }

    fn acked(&self, id: &str) -> u64 {
        use tollgate_control::Nodes as _;
        let node = self.nodes.nodes().into_iter().find(|it| it.id == id).expect("a node");
        node.apps.first().map_or(0, |it| it.acked)
    }

    fn with(&self, version: u64) -> Vec<String> {
        self.ids().into_iter().filter(|id| self.wanted(id) == version).collect()
    }

    async fn look(&mut self) {
        self.roller.look(&self.control).await.expect("looked");
    }

    /// Nodes take what they should have, and report; then the time of a step passes.
    async fn soak(&mut self) {
        self.look().await;
        self.take();
        self.look().await;
        self.pass(SOAK_MS).await;
    }

    /// Time passes while every node reports that it has decided nothing; ends with a look.
    async fn pass(&mut self, ms: i64) {
        let until = self.now.load(Relaxed) + ms;
        while self.now.load(Relaxed) < until {
            let span_ms = (until - self.now.load(Relaxed)).min(10_000);
            self.now.fetch_add(span_ms, Relaxed);
            self.take();
            for id in self.ids() {
                let span_ms = span_ms.unsigned_abs();
                self.store(&id, Report { span_ms, ..Report::default() }).await;
            }
            self.look().await;
        }
    }

    async fn store(&mut self, node: &str, report: Report) {
        self.sequence += 1;
        let report = Report { sequence: self.sequence, ..report };
        let now = self.now.load(Relaxed);
        let stored = self.control.store_report(node, 1, report, now);
        let (stored, written) = tokio::join!(stored, self.control.write_reports());
        stored.and(written.map_err(|error| panic!("{error}"))).expect("stored");
    }

    async fn report(&mut self, node: &str, admitted: u64, denied: u64) {
        self.sequence += 1;
        let rules = vec![counted(admitted, denied)];
        let report = Report { sequence: self.sequence, rules, ..Report::default() };
        let now = self.now.load(Relaxed);
        for _ in 0..2 {
            // It comes twice, and counts once.
            let stored = self.control.store_report(node, 1, report.clone(), now);
            let (stored, written) = tokio::join!(stored, self.control.write_reports());
            stored.and(written.map_err(|error| panic!("{error}"))).expect("stored");
        }
    }

    async fn rollout(&self) -> Rollout {
        let get = self.control.read(|tx| rollouts::get(tx, &Actor::system(), "shop"));
        get.await.expect("a rollout")
    }

    async fn state(&self) -> State {
        self.rollout().await.progress.state
    }

    async fn ask(&self, actor: Who, ask: Ask) -> Result<Rollout, ControlError> {
        let etag = self.rollout().await.etag;
        self.control.ask_rollout(&Claim::assumed(&actor), "shop", etag, ask).await
    }

    async fn actions(&self) -> Vec<String> {
        let entries = self.control.read(|tx| audit::export(tx, &Actor::system(), 0, audit::MAX_EXPORT));
        let entries = entries.await.expect("entries");
        entries.into_iter().map(|it| it.action).filter(|it| it.starts_with("rollout.")).collect()
    }

    async fn problems(&self) -> Vec<problems::Kind> {
        use problems::Kind::{HaltedRollout, VersionLag, WithdrawnRollout};
        let of_rollouts = [WithdrawnRollout, HaltedRollout, VersionLag];
        let found = self.control.problems(&Claim::program("tollgate")).await.expect("problems");
        found.into_iter().map(|it| it.kind).filter(|it| of_rollouts.contains(it)).collect()
    }
}

fn counted(admitted: u64, denied: u64) -> RuleCounts {
    let domain = "shop".into();
    let rule = "key=a".into();
    RuleCounts { domain, rule, admitted, denied, ..RuleCounts::default() }
}

fn plan(steps: &str) -> Plan {
    let steps = steps.replace('/', "\n");
    PlanInput { steps, ..PlanInput::default() }.check().expect("a plan")
}

fn user(name: &str, role: Role) -> Who {
    let id = name.to_owned();
    let roles = vec![("shop".to_owned(), role)];
    Who { kind: "user", user_id: id, name: name.to_owned(), roles, ..Who::system() }
}

#[tokio::test]
async fn without_a_plan_a_change_is_for_all_nodes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::new(folder.path(), &["n1", "n2"], None).await;
    world.write("a", 2).await.expect("version 2");
    assert_eq!(world.with(2), ["n1", "n2"]);
    let none = world.control.read(|tx| rollouts::get(tx, &Actor::system(), "shop")).await;
    assert!(matches!(none, Err(ControlError::NotFound { .. })), "{none:?}");
}

#[tokio::test]
async fn a_change_reaches_one_node_then_all_and_each_move_is_in_the_audit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    assert_eq!(world.with(2), [""; 0], "no node before the first look");
    world.look().await;
    assert_eq!(world.with(2).len(), 1);
    world.soak().await;
    assert_eq!(world.with(2).len(), 3);
    world.soak().await;
    let done = world.rollout().await;
    assert_eq!((done.progress.state, done.ended.len()), (State::Done, 2));
    assert_eq!((world.published().version, world.published().candidate), (2, None));
    assert_eq!(world.actions().await, ["rollout.start", "rollout.step", "rollout.step", "rollout.finish"]);
    world.write("a", 3).await.expect("the next one");
    assert_eq!(world.state().await, State::Running);
}

#[tokio::test]
async fn while_a_version_is_rolled_out_no_other_is_published_and_drafts_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    let second = world.write("b", 1).await;
    assert!(matches!(second, Err(ControlError::RolloutOpen { version: 2, .. })), "{second:?}");
    let draft = world.control.change(|tx| {
        let after = Some(Content::TableRule(Box::new(
            TableRuleInput { key: "b".into(), max_permits: "1".into(), ..TableRuleInput::default() }
                .check()?,
        )));
        let op = OpInput { kind: Kind::TableRule, key: "b".into(), base: None, after };
        changes::create(
            tx,
            &Actor::system(),
            "shop",
            &ChangeInput { ops: vec![op], ..ChangeInput::default() },
        )
    });
    let draft = draft.await.expect("a draft");
    world.soak().await;
    world.soak().await;
    let publish =
        world.control.change(move |tx| publishing::publish(tx, &Actor::system(), &draft.id, draft.etag));
    publish.await.expect("published after the end");
}

#[tokio::test]
async fn a_plan_of_its_own_needs_an_approver() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::new(folder.path(), &["n1", "n2"], None).await;
    let draft = world.control.change(|tx| {
        let after = Some(Content::TableRule(Box::new(
            TableRuleInput { key: "b".into(), max_permits: "1".into(), ..TableRuleInput::default() }
                .check()?,
        )));
        let op = OpInput { kind: Kind::TableRule, key: "b".into(), base: None, after };
        changes::create(
            tx,
            &user("ann", Role::Editor).assumed(),
            "shop",
            &ChangeInput { ops: vec![op], ..ChangeInput::default() },
        )
    });
    let draft = draft.await.expect("a draft");
    for (role, is_allowed) in [(Role::Editor, false), (Role::Approver, true)] {
        let id = draft.id.clone();
        let etag = draft.etag;
        let own = plan("1 node/all");
        let published = world.control.change(move |tx| {
            publishing::publish_by(tx, &user("bob", role).assumed(), &id, etag, Some(&own))
        });
        assert_eq!(published.await.is_ok(), is_allowed, "{role:?}");
    }
    assert_eq!(world.rollout().await.plan, plan("1 node/all"));
}

#[tokio::test]
async fn a_candidate_that_denies_too_much_is_withdrawn_by_a_new_version_for_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    world.take();
    world.look().await;
    let chosen = world.with(2)[0].clone();
    for id in world.ids() {
        let denied = if id == chosen { 300 } else { 0 };
        world.report(&id, 600 - denied, denied).await;
    }
    world.look().await;
    let sides = world.control.observed("shop").expect("watched").sides;
    assert_eq!((sides.chosen.decisions, sides.chosen.denied), (600, 300), "each report counts once");
    assert_eq!((sides.others.decisions, sides.others.denied), (1_200, 0));
    world.pass(SOAK_MS).await;
    let withdrawn = world.rollout().await;
    assert_eq!((withdrawn.progress.state, withdrawn.withdrawn_version), (State::Withdrawn, Some(3)));
    assert!(matches!(withdrawn.progress.why, Some(Why::DeniesMore(_))), "{withdrawn:?}");
    assert_eq!(world.with(3).len(), 3, "also those that never had the candidate");
    world.take();
    let rate = world.control.read(|tx| rules::get(tx, &Actor::system(), "shop", "a")).await.expect("a rule");
    assert_eq!(rate.row.rate, 1, "with the content of before");
    assert_eq!(world.problems().await, [problems::Kind::WithdrawnRollout]);
    let versions = world.control.read(|tx| versions::list(tx, &Actor::system(), "shop", 10)).await;
    assert_eq!(versions.expect("versions")[0].kind, "withdraw");
    assert_eq!(world.actions().await, ["rollout.start", "rollout.step", "rollout.withdraw"]);
    world.write("a", 5).await.expect("the next one");
    assert_eq!(world.problems().await, [], "something newer was published");
}

#[tokio::test]
async fn reports_that_come_after_the_soak_time_still_withdraw_a_candidate() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    world.take();
    world.look().await;
    let chosen = world.with(2)[0].clone();
    for _ in 0..6 {
        world.now.fetch_add(SOAK_MS / 6, Relaxed);
        world.take();
        world.look().await;
    }
    assert_eq!(world.control.observed("shop").expect("watched").unreported, 2);
    assert_eq!((world.state().await, world.with(2).len()), (State::Running, 1), "the step is not over");
    // They were made before its end, and sent a second later.
    world.now.fetch_add(1_000, Relaxed);
    for id in world.ids() {
        let rules = vec![if id == chosen { counted(300, 300) } else { counted(600, 0) }];
        world.store(&id, Report { rules, span_ms: 5_000, age_ms: 1_000, ..Report::default() }).await;
    }
    world.look().await;
    let withdrawn = world.rollout().await.progress;
    assert!(matches!(withdrawn.why, Some(Why::DeniesMore(_))), "{withdrawn:?}");
}

#[tokio::test]
async fn each_step_and_the_end_give_nodes_their_thirty_seconds_before_they_lag() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.soak().await; // ends with the step for all
    assert_eq!(world.rollout().await.progress.step, 1);
    let lacking = world.ids().into_iter().find(|id| world.acked(id) == 1).expect("a node of the second step");
    let lacks = |world: &World, later_ms: i64| {
        world.now.fetch_add(later_ms, Relaxed);
        let now = world.now.load(Relaxed);
        world.change(&lacking, |node| {
            (node.apps[0].wanted, node.apps[0].acked, node.last_seen_ms) = (2, 1, now);
        });
    };
    lacks(&world, 0);
    assert_eq!(world.problems().await, [], "version 2 is a minute old, and on its way for a moment");
    lacks(&world, 30_000);
    assert_eq!(world.problems().await, []);
    lacks(&world, 1);
    assert_eq!(world.problems().await, [problems::Kind::VersionLag]);
    for _ in 0..8 {
        if world.state().await.is_open() {
            world.pass(10_000).await;
        }
    }
    assert_eq!(world.state().await, State::Done);
    lacks(&world, 0); // it was away, and returns
    assert_eq!(world.problems().await, []);
    lacks(&world, 30_001);
    assert_eq!(world.problems().await, [problems::Kind::VersionLag]);
}

#[tokio::test]
async fn a_candidate_that_a_node_rejects_is_withdrawn_or_halts() {
    for auto_rollback in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan { auto_rollback, ..plan("1 node/all") };
        let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan)).await;
        world.write("a", 2).await.expect("version 2");
        world.look().await;
        let chosen = world.with(2)[0].clone();
        world.change(&chosen, |node| {
            (node.apps[0].fault, node.apps[0].fault_version) = (Some("is bad".to_owned()), 2);
        });
        world.look().await;
        let rollout = world.rollout().await;
        assert_eq!(rollout.progress.why, Some(Why::Rejected(vec![chosen.clone()])));
        if auto_rollback {
            assert_eq!((rollout.progress.state, world.with(3).len()), (State::Withdrawn, 2));
        } else {
            assert_eq!((rollout.progress.state, world.with(2)), (State::Halted, vec![chosen]));
            assert_eq!(world.problems().await, [problems::Kind::HaltedRollout]);
            world.ask(user("bob", Role::Approver), Ask::Withdraw("bad".into())).await.expect("withdrawn");
            assert_eq!((world.state().await, world.with(3).len()), (State::Withdrawn, 2));
            assert_eq!(world.problems().await, [], "an operator knows what they withdrew");
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_version_before_withdraws_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    for id in ["n1", "n2"] {
        world.change(id, |node| {
            (node.apps[0].fault, node.apps[0].fault_version) = (Some("old".to_owned()), 1)
        });
    }
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    world.look().await;
    assert_eq!(world.state().await, State::Running);
}

#[tokio::test]
async fn operators_pause_resume_advance_and_withdraw_with_the_right_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan("1 node/2 nodes/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    for role in [Role::Viewer, Role::Editor] {
        for ask in [Ask::Pause, Ask::Resume, Ask::Advance, Ask::Withdraw("w".into())] {
            let asked = world.ask(user("ann", role), ask).await;
            assert!(matches!(asked, Err(ControlError::NoRight { .. })), "{role:?} {asked:?}");
        }
    }
    let bob = || user("bob", Role::Approver);
    world.ask(bob(), Ask::Pause).await.expect("paused");
    world.soak().await;
    assert_eq!((world.state().await, world.with(2).len()), (State::Paused, 1));
    let wrong = world.ask(bob(), Ask::Pause).await;
    assert!(matches!(wrong, Err(ControlError::WrongRolloutState { state: "paused", .. })), "{wrong:?}");
    world.ask(bob(), Ask::Resume).await.expect("resumed");
    world.ask(bob(), Ask::Advance).await.expect("advanced");
    world.look().await;
    assert_eq!(world.with(2).len(), 2);
    world.take();
    world.look().await;
    let chosen = world.with(2)[0].clone();
    world.report(&chosen, 30, 10).await;
    world.look().await;
    let without = world.ask(bob(), Ask::Withdraw(" ".into())).await;
    assert!(matches!(without, Err(ControlError::Invalid(_))), "{without:?}");
    world.ask(bob(), Ask::Withdraw("too strict".into())).await.expect("withdrawn");
    world.look().await;
    assert_eq!(world.with(3).len(), 3);
    world.take();
    let want = ["start", "step", "pause", "resume", "advance", "step", "withdraw"];
    assert_eq!(world.actions().await, want.map(|it| format!("rollout.{it}")));
    let ended = world.rollout().await.ended;
    let of_step = ended.last().expect("the step that was withdrawn").sides.chosen;
    assert_eq!((of_step.decisions, of_step.denied), (40, 10), "its figures are kept");
}

#[tokio::test]
async fn of_two_operators_the_second_reads_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    let etag = world.rollout().await.etag;
    world.ask(user("bob", Role::Approver), Ask::Pause).await.expect("paused");
    let eve = user("eve", Role::Approver);
    let eve = Claim::assumed(&eve);
    let late = world.control.ask_rollout(&eve, "shop", etag, Ask::Advance);
    assert!(matches!(late.await, Err(ControlError::Stale { .. })));
    assert_eq!(world.with(2).len(), 1);
}

#[tokio::test]
async fn of_operators_who_ask_at_the_same_moment_one_is_obeyed_and_one_version_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    let by = Claim::program("tollgate");
    let etag = world.rollout().await.etag;
    let withdraw = |why: &str| Ask::Withdraw(why.to_owned());
    let ask = |ask| world.control.ask_rollout(&by, "shop", etag, ask);
    // The program moves it on in the same moment: n1 or n2 has yet to acknowledge, so there is nothing to do.
    let (first, second, third, fourth, looked) = tokio::join!(
        ask(withdraw("too strict")),
        ask(Ask::Pause),
        ask(withdraw("too lenient")),
        ask(Ask::Advance),
        world.roller.look(&world.control),
    );
    looked.expect("looked");
    let asked = [first, second, third, fourth];
    assert_eq!(asked.iter().filter(|it| it.is_ok()).count(), 1, "{asked:?}");
    assert!(asked.iter().all(|it| matches!(it, Ok(_) | Err(ControlError::Stale { .. }))), "{asked:?}");
    let moved = world.rollout().await;
    let newest = world.published().version;
    match moved.progress.state {
        State::Withdrawn => assert_eq!((moved.withdrawn_version, newest), (Some(3), 3)),
        _ => assert_eq!((moved.withdrawn_version, newest), (None, 1)),
    }
}

#[tokio::test]
async fn a_rollback_ends_the_rollout_and_reaches_all_nodes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    world.take();
    let back = world.control.change(|tx| {
        versions::rollback(tx, &user("ann", Role::Editor).assumed(), "shop", 2, 1, "too strict")
    });
    back.await.expect("version 3");
    assert_eq!(world.with(3).len(), 2);
    let ended = world.rollout().await;
    assert_eq!(ended.progress.why, Some(Why::Superseded("too strict".into())));
    assert_eq!((ended.withdrawn_version, ended.progress.state), (Some(3), State::Withdrawn));
    world.look().await;
    world.take();
    assert_eq!(world.with(3).len(), 2);
}

#[tokio::test]
async fn disabling_an_app_takes_its_rules_off_all_nodes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    world.take();
    world.settings(AppInput { state: "disabled".into(), ..AppInput::default() }).await;
    assert_eq!((world.with(3).len(), world.published().documents.len()), (2, 0));
    assert_eq!(world.state().await, State::Withdrawn);
    world.write("a", 4).await.expect("a disabled app has nothing to try");
    assert_eq!((world.published().version, world.published().candidate), (4, None));
}

#[tokio::test]
async fn a_restart_at_any_point_carries_on_with_the_same_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3", "n4"], Some(plan("1 node/50 %/all"))).await;
    world.write("a", 2).await.expect("version 2");
    let mut seen = Vec::new();
    while world.state().await.is_open() {
        let before = world.published();
        let at = world.rollout().await;
        let nodes = Arc::clone(&world.nodes);
        let now = Arc::clone(&world.now);
        drop(world);
        world = World::open(folder.path(), now).await;
        for id in ["n1", "n2", "n3", "n4"] {
            use tollgate_control::Nodes as _;
            let node = nodes.nodes().into_iter().find(|it| it.id == id).expect("a node");
            world.nodes.report(node);
        }
        assert_eq!((world.published(), world.rollout().await), (before, at));
        world.take();
        world.look().await;
        seen.push(world.with(2).len());
        world.pass(SOAK_MS / 2).await;
        assert_eq!(world.with(2).len(), *seen.last().expect("one"), "half of the time is too early");
        world.pass(SOAK_MS / 2).await;
        assert!(seen.len() < 10, "it does not end: {seen:?}");
    }
    assert_eq!((world.state().await, world.published().version), (State::Done, 2));
    assert!(seen.is_sorted() && seen[0] == 1, "{seen:?}");
}

#[tokio::test]
async fn a_process_that_was_overtaken_moves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    let mut newer = Roller::take_over(&world.control).await.expect("taken over");
    let late = world.roller.look(&world.control).await;
    assert!(matches!(late, Err(ControlError::OldTerm)), "{late:?}");
    assert_eq!(world.with(2).len(), 0);
    newer.look(&world.control).await.expect("looked");
    assert_eq!(world.with(2).len(), 1);
}

/// A rule file of the domain `other`; `None` removes the one of version `base`.
async fn file(
    control: &Control,
    app: &'static str,
    base: Option<i64>,
    text: Option<&str>,
) -> Result<(), ControlError> {
    let after = text.map(|text| FileInput { text: text.to_owned(), ..FileInput::default() }.check());
    let after = after.transpose()?.map(Content::File);
    let op = OpInput { kind: Kind::File, key: "other".into(), base, after };
    let input = ChangeInput { ops: vec![op], ..ChangeInput::default() };
    let write =
        move |tx: &mut dyn Tx| publishing::propose(tx, &Actor::system(), app, &input, Intent::Publish);
    control.change(write).await.map(drop)
}

#[tokio::test]
async fn a_domain_that_the_candidate_drops_is_free_after_the_rollout_and_not_before() {
    let text =
        "domain: other\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 5}\n";
    for (ending, is_free) in [("finish", true), ("withdraw", false), ("roll back", false), ("disable", true)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = World::new(folder.path(), &["n1", "n2"], None).await;
        file(&world.control, "shop", None, Some(text)).await.expect("version 2");
        world.settings(AppInput { rollout: Some(plan("1 node/all")), ..AppInput::default() }).await;
        file(&world.control, "shop", Some(2), None).await.expect("version 3");
        world.look().await;
        let early = file(&world.control, "else", None, Some(text)).await;
        assert!(
            matches!(early, Err(ControlError::Faulty(_))),
            "one node still has it of the shop: {early:?}"
        );
        let app = world.control.change(|tx| apps::create(tx, &Actor::system(), "other", "")).await;
        assert!(matches!(app, Err(ControlError::Invalid(_))), "nor may an app have its name: {app:?}");
        match ending {
            "finish" => {
                for _ in 0..2 {
                    world.ask(Who::system(), Ask::Advance).await.expect("moved on");
                }
            }
            "withdraw" => {
                drop(world.ask(Who::system(), Ask::Withdraw("no".to_owned())).await.expect("withdrawn"))
            }
            "roll back" => {
                let back = |tx: &mut dyn Tx| versions::rollback(tx, &Actor::system(), "shop", 3, 2, "back");
                world.control.change(back).await.map(drop).expect("version 4");
            }
            _ => {
                world.settings(AppInput { state: "disabled".to_owned(), ..AppInput::default() }).await;
            }
        }
        assert!(!world.state().await.is_open(), "{ending}");
        let late = file(&world.control, "else", None, Some(text)).await;
        assert_eq!(late.is_ok(), is_free, "{ending}: {late:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_withdrawn_halts_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan("3 nodes/all");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan)).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    for id in ["n1", "n2"] {
        // They hold what the database has never published, so the app is frozen.
        world.change(id, |node| (node.apps[0].acked, node.apps[0].is_ahead) = (9, true));
    }
    world.control.problems(&Claim::program("tollgate")).await.expect("problems");
    world.change("n3", |node| (node.apps[0].fault, node.apps[0].fault_version) = (Some("bad".into()), 2));
    world.look().await;
    let halted = world.rollout().await;
    assert_eq!(halted.progress.state, State::Halted);
    let why = halted.progress.why.clone();
    assert!(matches!(&why, Some(Why::Blocked(why)) if why.contains("frozen")), "{why:?}");
    assert_eq!((world.published().version, world.acked("n3")), (1, 1));
}

#[tokio::test]
async fn a_rollout_does_not_begin_before_its_candidate_is_published() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = ["n1", "n2"];
    let mut world = World::new(folder.path(), &nodes, Some(plan("1 node/all"))).await;
    // What it reads of the database is newer than what it has published, as between a commit and its end.
    let mut behind = World::open(folder.path(), Arc::clone(&world.now)).await;
    for node in nodes {
        behind.join(node);
    }
    world.write("a", 2).await.expect("version 2");
    behind.look().await;
    assert_eq!(world.rollout().await.progress.step_at, None, "which nodes can read it is not known yet");
    world.roller = Roller::take_over(&world.control).await.expect("taken over");
    world.look().await;
    assert_eq!(world.with(2).len(), 1);
}

#[tokio::test]
async fn a_change_whose_caller_leaves_is_published_if_it_was_committed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2"], Some(plan("1 node/all"))).await;
    world.write("a", 2).await.expect("version 2");
    world.look().await;
    let etag = world.rollout().await.etag;
    let actor = Who::system();
    let ask = Ask::Withdraw("no".to_owned());
    left_after_asking(world.control.ask_rollout(&Claim::assumed(&actor), "shop", etag, ask)).await;
    let mut published = world.control.published();
    let is_out = published.wait_for(|it| it.apps.iter().any(|it| it.app == "shop" && it.version == 3));
    tokio::time::timeout(PATIENCE, is_out).await.expect("published").expect("the control plane is there");

    let input = OverrideInput {
        domain: "shop".to_owned(),
        action: "block".to_owned(),
        minutes: "5".to_owned(),
        reason: "floods".to_owned(),
        ..OverrideInput::default()
    };
    left_after_asking(world.control.create_override(&Claim::assumed(&actor), input)).await;
    let mut overrides = world.control.overrides();
    let is_out = overrides.wait_for(|it| it.overrides.len() == 1);
    tokio::time::timeout(PATIENCE, is_out).await.expect("in force").expect("the control plane is there");

    let token = world.control.first_node_token().await.expect("made").expect("the first");
    let mut tokens = world.control.node_tokens();
    assert!(tokens.borrow().admits(Some(&token), 0));
    let listed = world.control.read(|tx| tokens::list(tx, &Actor::system(), "", 10)).await.expect("listed");
    left_after_asking(world.control.revoke_token(&Claim::assumed(&actor), &listed[0].id)).await;
    let is_out = tokens.wait_for(|it| it.is_empty());
    tokio::time::timeout(PATIENCE, is_out).await.expect("revoked").expect("the control plane is there");
}

#[tokio::test]
async fn a_revoked_token_stays_revoked_however_often_tokens_are_read_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::new(folder.path(), &[], None).await;
    for _ in 0..50 {
        let input = TokenInput { kind: "node".into(), name: "n".into(), ..TokenInput::default() };
        let (token, text) =
            world.control.create_token(&Claim::program("tollgate"), input).await.expect("made");
        let reading = || world.control.read_node_tokens();
        let admin = Claim::program("tollgate");
        let revoking = world.control.revoke_token(&admin, &token.id);
        let (a, b, revoked, c) = tokio::join!(reading(), reading(), revoking, reading());
        a.and(b).and(c).and(revoked).expect("done");
        assert!(!world.control.node_tokens().borrow().admits(Some(&text), 0));
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

#[tokio::test]
async fn nodes_that_are_too_old_are_left_out_if_the_author_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(folder.path(), &["n1", "n2", "n3"], Some(plan("2 nodes/all"))).await;
    for id in ["n1", "n2"] {
        world.change(id, |node| node.language = tollgate_fleet_proto::LANGUAGE);
    }
    let publish = async |old_nodes| {
        let key = "costly".to_owned();
        let max_permits = "10".to_owned();
        let need_permits = "2".to_owned();
        let input = TableRuleInput { key, max_permits, need_permits, ..TableRuleInput::default() };
        let create = move |tx: &mut dyn Tx| rules::create(tx, &Actor::system(), "shop", &input);
        world.control.change_beside(old_nodes, create).await.map(drop)
    };
    let rejected = publish(OldNodes::Reject).await;
    assert!(
        matches!(&rejected, Err(ControlError::OldNodes { nodes, .. }) if *nodes == ["n3"]),
        "{rejected:?}"
    );
    publish(OldNodes::Leave).await.expect("published");
    world.look().await;
    let reached = world.with(2);
    assert!(["n1", "n2"].iter().all(|id| reached.contains(&(*id).to_owned())), "{reached:?}");
    for id in ["n1", "n2"] {
        world.change(id, |node| node.apps[0].acked = 2);
    }
    world.change("n3", |node| (node.apps[0].fault, node.apps[0].fault_version) = (Some("cost?".into()), 2));
    for _ in 0..20 {
        world.look().await;
        world.now.fetch_add(10_000, Relaxed);
        let now = world.now.load(Relaxed);
        for id in ["n1", "n2", "n3"] {
            world.change(id, |node| node.last_seen_ms = now);
        }
        world.look().await;
    }
    assert_eq!(world.state().await, State::Done);
}
