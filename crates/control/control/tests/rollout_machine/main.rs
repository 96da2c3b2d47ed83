//! The machine of rollouts: its steps, its gates, and what holds whatever happens.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

mod laws;

use tollgate_control::rollout::{
    Action, Ask, Event, MORE_MS, Machine, PATIENCE_MS, Plan, Progress, REPORTS_MS, SeenNode, Span, State,
    Tally, Why, WrongState,
};
use tollgate_harness::rules::plan;

const CANDIDATE: u64 = 2;
const SOAK_MS: i64 = 60_000;

fn node(id: &str, acked: u64) -> SeenNode {
    let labels = vec![("zone".to_owned(), id[..1].to_owned())];
    SeenNode { id: id.to_owned(), name: id.to_owned(), labels, is_live: true, acked, ..SeenNode::default() }
}

/// A rollout among nodes that take what they should have, as soon as they are asked.
struct OneRollout {
    machine: Machine,
    nodes: Vec<SeenNode>,
    now: i64,
    /// Live nodes report in time.
    is_reporting: bool,
}

impl OneRollout {
    fn new(plan: Plan, nodes: &[&str]) -> Self {
        let nodes = nodes.iter().map(|id| node(id, 1)).collect();
        let machine = Machine::new(plan, CANDIDATE, Progress::new("r"), 0);
        Self { machine, nodes, now: 0, is_reporting: true }
    }

    fn look(&mut self) -> Option<Action> {
        let span = Span { from_ms: self.now, to_ms: self.now };
        for node in self.nodes.iter_mut().filter(|node| node.is_live && self.is_reporting) {
            node.last_report = Some(span);
        }
        self.machine.on(Event::Nodes(&self.nodes), self.now).expect("looking is always possible")
    }

    /// Looks every second until this time has passed, or there is something to do.
    fn after(&mut self, ms: i64) -> Option<Action> {
        let until = self.now + ms;
        while self.now + 1_000 < until {
            self.now += 1_000;
            let action = self.look();
            if action.is_some() {
                return action;
            }
        }
        self.now = until;
        self.look()
    }

    /// The time that the last report of a node covers.
    fn report(&mut self, at: usize, from_ms: i64, to_ms: i64) {
        self.nodes[at].last_report = Some(Span { from_ms, to_ms });
    }

    fn chosen(&self) -> Vec<usize> {
        let reach = &self.machine.progress().reach;
        let is_chosen = |node: &SeenNode| {
            reach.includes(&node.id, node.labels.iter().map(|(key, value)| (&**key, &**value)))
        };
        (0..self.nodes.len()).filter(|at| is_chosen(&self.nodes[*at])).collect()
    }

    fn acknowledge(&mut self) {
        for at in self.chosen() {
            self.nodes[at].acked = CANDIDATE;
        }
    }

    fn count(&mut self, at: usize, decisions: u64, denied: u64, degraded: u64) {
        let id = self.nodes[at].id.clone();
        let tally = Tally { decisions, denied, degraded };
        let event = Event::Counted { node: &id, from_ms: self.now, tally };
        assert_eq!(self.machine.on(event, self.now), Ok(None));
    }

    fn state(&self) -> State {
        self.machine.progress().state
    }

    fn why(&self) -> Option<&Why> {
        self.machine.progress().why.as_ref()
    }
}

#[test]
fn a_version_reaches_one_node_then_a_share_then_all() {
    let mut rollout = OneRollout::new(plan("1 node/50 %/all"), &["a", "b", "c", "d", "e", "f"]);
    let mut sizes = Vec::new();
    for _ in 0..3 {
        if rollout.machine.progress().step_at.is_none() {
            assert_eq!(rollout.look(), Some(Action::Reach));
        }
        sizes.push(rollout.chosen().len());
        rollout.acknowledge();
        assert_eq!(rollout.look(), None);
        assert_eq!(rollout.after(SOAK_MS - 1), None, "one millisecond too early");
        let action = rollout.after(1);
        assert!(matches!(action, Some(Action::Reach | Action::Finish)), "{action:?}");
    }
    assert_eq!((sizes[0], sizes[2], rollout.state()), (1, 6, State::Done));
    assert!((1..6).contains(&sizes[1]), "{sizes:?}");
    assert_eq!(rollout.after(SOAK_MS), None, "a rollout that is done does nothing");
}

#[test]
fn a_step_by_labels_reaches_the_nodes_with_one_of_them() {
    let mut rollout = OneRollout::new(plan("zone in (a, b)/all"), &["a1", "a2", "b1", "c1"]);
    assert_eq!(rollout.look(), Some(Action::Reach));
    assert_eq!(rollout.chosen(), [0, 1, 2]);
}

#[test]
fn a_share_of_few_nodes_is_at_least_one_of_them() {
    for nodes in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        let mut rollout = OneRollout::new(plan("1 %/all"), nodes);
        assert_eq!(rollout.look(), Some(Action::Reach));
        assert_eq!(rollout.chosen().len(), 1, "{nodes:?}");
    }
}

#[test]
fn a_rollout_waits_for_a_node_to_begin_with_and_for_one_to_answer() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &[]);
    assert_eq!(rollout.after(10 * SOAK_MS), None);
    rollout.nodes = vec![node("a", 1)];
    rollout.nodes[0].is_live = false;
    assert_eq!(rollout.after(1), None, "a node that is not live begins nothing");
    rollout.nodes[0].is_live = true;
    assert_eq!(rollout.after(1), Some(Action::Reach));
    rollout.nodes[0].is_live = false;
    assert_eq!(rollout.after(10 * SOAK_MS), None, "nobody can say whether the candidate is good");
    assert_eq!(rollout.state(), State::Running);
    rollout.nodes[0].is_live = true;
    rollout.nodes[0].acked = CANDIDATE;
    assert_eq!(rollout.after(1), Some(Action::Reach), "the next step");
}

#[test]
fn a_node_that_rejects_the_candidate_withdraws_it_at_once() {
    for is_live in [true, false] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.look();
        let at = rollout.chosen()[0];
        (rollout.nodes[at].has_rejected, rollout.nodes[at].is_live) = (true, is_live);
        assert_eq!(rollout.after(1_000), Some(Action::Withdraw));
        assert_eq!(rollout.why(), Some(&Why::Rejected(vec![rollout.nodes[at].name.clone()])));
        assert_eq!((rollout.state(), rollout.after(1_000)), (State::Withdrawn, None));
    }
}

#[test]
fn a_live_node_has_thirty_seconds_to_acknowledge() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a"]);
    rollout.look();
    assert_eq!(rollout.after(PATIENCE_MS - 1), None);
    rollout.nodes[0].is_live = false; // it is left out, and has its time again when it returns
    assert_eq!(rollout.after(PATIENCE_MS), None);
    rollout.nodes[0].is_live = true;
    assert_eq!(rollout.after(1), None);
    assert_eq!(rollout.after(PATIENCE_MS - 1), None);
    assert_eq!(rollout.after(1), Some(Action::Withdraw));
    assert_eq!(rollout.why(), Some(&Why::NotAcknowledged(vec!["a".into()])));
}

#[test]
fn nodes_that_are_not_live_are_left_out() {
    let mut rollout = OneRollout::new(plan("all"), &["a", "b"]);
    rollout.look();
    rollout.nodes[0].acked = CANDIDATE;
    rollout.nodes[1].is_live = false;
    assert_eq!(rollout.after(SOAK_MS), Some(Action::Finish));
}

#[test]
fn a_node_that_joins_during_a_step_must_acknowledge_too() {
    let mut rollout = OneRollout::new(plan("all"), &["a"]);
    rollout.look();
    rollout.acknowledge();
    rollout.after(SOAK_MS - 1_000);
    rollout.nodes.push(node("b", 0));
    rollout.look();
    assert_eq!(rollout.after(1_000), None, "b has yet to answer");
    rollout.acknowledge();
    assert_eq!(rollout.after(1), Some(Action::Finish));
}

#[test]
fn shares_of_both_sides_decide_once_there_are_500_decisions() {
    for (chosen, others, action) in [
        ((500, 25, 0), (500, 0, 0), Action::Reach),
        ((500, 26, 0), (500, 0, 0), Action::Withdraw),
        ((0, 0, 0), (500, 0, 0), Action::Reach),
        ((500, 500, 0), (0, 0, 0), Action::Reach),
        ((1_000, 0, 1), (1_000, 0, 0), Action::Withdraw),
        ((1_000, 0, 1), (1_000, 0, 1), Action::Reach),
    ] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.look();
        rollout.acknowledge();
        rollout.after(1_000);
        let chosen_at = rollout.chosen()[0];
        rollout.count(chosen_at, chosen.0, chosen.1, chosen.2);
        rollout.count(1 - chosen_at, others.0, others.1, others.2);
        assert_eq!(rollout.after(SOAK_MS), Some(action), "{chosen:?} {others:?}");
    }
}

#[test]
fn a_step_with_too_few_decisions_is_watched_a_minute_longer_if_there_are_any() {
    for (chosen, others, more, action) in [
        // Those that come late are judged as soon as there are enough.
        ((499, 499), (500, 0), Some((1, 1)), Action::Withdraw),
        ((500, 500), (499, 0), None, Action::Reach),
        ((499, 0), (499, 0), Some((1, 0)), Action::Reach),
    ] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.look();
        rollout.acknowledge();
        rollout.after(1_000);
        let at = rollout.chosen()[0];
        rollout.count(at, chosen.0, chosen.1, 0);
        rollout.count(1 - at, others.0, others.1, 0);
        assert_eq!(rollout.after(SOAK_MS + 5_000), None, "{chosen:?} {others:?}");
        if let Some((decisions, denied)) = more {
            rollout.count(at, decisions, denied, 0);
            rollout.count(1 - at, decisions, 0, 0);
            assert_eq!(rollout.after(1), Some(action), "{chosen:?} {others:?}");
        } else {
            let left = MORE_MS - 6_000; // a second of them was before the soak time
            assert_eq!(rollout.after(left - 1), None, "{chosen:?} {others:?}");
            assert_eq!(rollout.after(1), Some(action), "{chosen:?} {others:?}");
        }
    }
}

#[test]
fn a_step_that_leaves_no_node_to_compare_with_is_compared_with_the_time_before() {
    for (steps, nodes, before, chosen, action) in [
        ("all", &["a", "b"][..], (1_000, 10), (1_000, 60), Action::Finish), // 5 points exactly
        ("all", &["a", "b"], (1_000, 10), (1_000, 61), Action::Withdraw),
        ("all", &["a", "b"], (0, 0), (1_000, 1_000), Action::Finish), // nothing to compare with
        ("1 node/all", &["a"], (1_000, 0), (1_000, 51), Action::Withdraw), // the only node
    ] {
        let mut rollout = OneRollout::new(plan(steps), nodes);
        let tally = |(decisions, denied)| Tally { decisions, denied, degraded: 0 };
        rollout.machine.compare_with(tally(before));
        rollout.look();
        rollout.acknowledge();
        rollout.after(1_000);
        rollout.count(0, chosen.0, chosen.1, 0);
        if before.0 > 0 {
            // The reports of the last seconds are missing: the step waits for them.
            rollout.is_reporting = false;
            assert_eq!(rollout.after(SOAK_MS + REPORTS_MS - 2_000), None, "{steps} {before:?} {chosen:?}");
            rollout.is_reporting = true;
        }
        assert_eq!(rollout.after(SOAK_MS), Some(action), "{steps} {before:?} {chosen:?}");
        assert_eq!(rollout.machine.progress().why.is_some(), action == Action::Withdraw);
        if let Some(Why::DeniesMore(sides)) = rollout.why() {
            assert_eq!((sides.chosen, sides.others), (tally(chosen), tally(before)));
        }
    }
}

#[test]
fn counts_from_before_the_step_or_the_answer_belong_to_no_side() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.now = 10_000;
    rollout.look();
    let at = rollout.chosen()[0];
    let tally = Tally { decisions: 1_000, denied: 1_000, degraded: 0 };
    let counts = |rollout: &mut OneRollout, at: usize, from_ms: i64| {
        let id = rollout.nodes[at].id.clone();
        rollout.machine.on(Event::Counted { node: &id, from_ms, tally }, rollout.now).expect("counted");
        rollout.machine.sides()
    };
    assert_eq!(counts(&mut rollout, 1 - at, 9_999).others, Tally::default(), "before the step");
    assert_eq!(counts(&mut rollout, at, 10_000).chosen, Tally::default(), "before the answer");
    rollout.acknowledge();
    rollout.after(2_000);
    assert_eq!(counts(&mut rollout, at, 10_999).chosen, Tally::default(), "before the answer");
    assert_eq!(counts(&mut rollout, at, 11_000).chosen, tally);
    assert_eq!(counts(&mut rollout, 1 - at, 10_000).others, tally);
}

#[test]
fn without_auto_rollback_a_failed_gate_halts_and_an_operator_decides() {
    for ask in [Ask::Resume, Ask::Advance, Ask::Withdraw("bad".into())] {
        let plan = Plan { auto_rollback: false, ..plan("1 node/all") };
        let mut rollout = OneRollout::new(plan, &["a", "b"]);
        rollout.look();
        let at = rollout.chosen()[0];
        rollout.nodes[at].has_rejected = true;
        assert_eq!((rollout.after(1), rollout.state()), (Some(Action::Keep), State::Halted));
        assert_eq!(rollout.after(10 * SOAK_MS), None);
        assert_eq!(rollout.machine.on(Event::Asked(Ask::Pause), 0), Err(WrongState(State::Halted)));
        let action = rollout.machine.on(Event::Asked(ask.clone()), rollout.now).expect("possible");
        let expected = if ask == Ask::Withdraw("bad".into()) { Action::Withdraw } else { Action::Keep };
        assert_eq!(action, Some(expected), "{ask:?}");
        assert_eq!(rollout.state().is_open(), expected == Action::Keep);
    }
}

#[test]
fn a_pause_holds_everything_and_the_step_is_watched_again_afterwards() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.look();
    rollout.acknowledge();
    rollout.after(SOAK_MS - 1);
    rollout.machine.on(Event::Asked(Ask::Pause), rollout.now).expect("paused");
    assert_eq!(rollout.after(10 * SOAK_MS), None);
    assert_eq!(rollout.machine.on(Event::Asked(Ask::Pause), 0), Err(WrongState(State::Paused)));
    rollout.machine.on(Event::Asked(Ask::Resume), rollout.now).expect("resumed");
    assert_eq!(rollout.look(), None);
    assert_eq!(rollout.after(SOAK_MS - 1), None);
    assert_eq!(rollout.after(1), Some(Action::Reach));
}

#[test]
fn an_operator_skips_the_wait_and_ends_the_rollout_by_the_last_step() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.look();
    assert_eq!(rollout.machine.on(Event::Asked(Ask::Advance), rollout.now), Ok(Some(Action::Keep)));
    assert_eq!((rollout.look(), rollout.chosen().len()), (Some(Action::Reach), 2));
    assert_eq!(rollout.machine.on(Event::Asked(Ask::Advance), rollout.now), Ok(Some(Action::Finish)));
    for ask in [Ask::Pause, Ask::Resume, Ask::Advance, Ask::Withdraw(String::new())] {
        assert_eq!(rollout.machine.on(Event::Asked(ask), rollout.now), Err(WrongState(State::Done)));
    }
}

#[test]
fn after_a_restart_a_step_is_watched_from_its_beginning() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.look();
    rollout.acknowledge();
    rollout.after(SOAK_MS - 1);
    let kept = rollout.machine.progress().clone();
    rollout.machine = Machine::new(plan("1 node/all"), CANDIDATE, kept.clone(), rollout.now);
    assert_eq!(rollout.after(SOAK_MS - 1), None);
    assert_eq!(rollout.machine.progress(), &kept);
    assert_eq!(rollout.after(1), Some(Action::Reach));
}

#[test]
fn a_step_waits_for_the_reports_of_its_last_seconds_but_not_for_ever() {
    for (are_late, action) in [(true, Action::Withdraw), (false, Action::Reach)] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.is_reporting = false;
        rollout.look();
        rollout.acknowledge();
        assert_eq!(rollout.after(SOAK_MS), None, "what both sides decided is on its way");
        assert_eq!(rollout.machine.unreported(), 2);
        let chosen = rollout.chosen()[0];
        if are_late {
            rollout.report(chosen, 1_000, SOAK_MS);
            rollout.report(1 - chosen, 1_000, SOAK_MS - 1);
            for (at, denied) in [(chosen, 500), (1 - chosen, 0)] {
                let id = rollout.nodes[at].id.clone();
                let tally = Tally { decisions: 500, denied, degraded: 0 };
                let event = Event::Counted { node: &id, from_ms: 1_000, tally };
                rollout.machine.on(event, rollout.now).expect("counted");
            }
            assert_eq!(
                (rollout.look(), rollout.machine.unreported()),
                (None, 1),
                "one millisecond is missing"
            );
            rollout.report(1 - chosen, 1_000, SOAK_MS);
            assert_eq!(rollout.look(), Some(action));
        } else {
            assert_eq!(rollout.after(REPORTS_MS - 1), None);
            assert_eq!(rollout.after(1), Some(action), "a node that only acknowledges holds nothing up");
        }
    }
}

#[test]
fn a_report_that_began_before_the_answer_does_not_end_the_wait() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.is_reporting = false;
    rollout.look();
    let chosen = rollout.chosen()[0];
    rollout.after(2_000);
    rollout.acknowledge();
    rollout.look();
    rollout.report(chosen, 1_999, 2 * SOAK_MS);
    rollout.report(1 - chosen, 0, 2 * SOAK_MS);
    assert_eq!(rollout.after(SOAK_MS), None);
    assert_eq!(rollout.machine.unreported(), 1);
    rollout.report(chosen, 2_000, 2 * SOAK_MS);
    assert_eq!(rollout.look(), Some(Action::Reach));
}

#[test]
fn a_step_waits_for_nodes_that_have_yet_to_report_when_no_other_can_be_compared_with() {
    for (becomes_known, action) in [(false, Action::Reach), (true, Action::Withdraw)] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.look();
        rollout.acknowledge();
        let chosen = rollout.chosen()[0];
        let new = 1 - chosen;
        (rollout.nodes[new].is_new, rollout.nodes[new].is_left_out) = (true, true);
        assert_eq!(rollout.after(SOAK_MS + REPORTS_MS - 2_000), None, "it may report any moment");
        rollout.count(chosen, 500, 500, 0);
        rollout.count(new, 500, 0, 0); // it counts for nothing yet
        if becomes_known {
            (rollout.nodes[new].is_new, rollout.nodes[new].is_left_out) = (false, false);
            rollout.is_reporting = false;
            rollout.report(new, 0, rollout.now); // what it decided as a new node is of no side
            assert_eq!(rollout.after(1), None);
            rollout.count(new, 500, 0, 0);
            rollout.is_reporting = true;
        } else {
            assert_eq!(rollout.after(1_999), None);
        }
        assert_eq!(rollout.after(1), Some(action), "but not for ever");
    }
}

#[test]
fn nothing_waits_for_reports_where_nothing_is_compared() {
    let at_once = Plan { soak_s: 0, ..plan("1 node/all") };
    for plan in [plan("all"), at_once] {
        let mut rollout = OneRollout::new(plan.clone(), &["a", "b"]);
        rollout.is_reporting = false;
        rollout.look();
        rollout.acknowledge();
        assert!(rollout.after(plan.soak_s * 1_000).is_some(), "{plan:?}");
    }
}

#[test]
fn a_clock_that_is_set_makes_a_step_begin_anew_and_withdraws_nothing() {
    const HOUR: i64 = 3_600_000;
    for hours in [-1, 1] {
        let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
        rollout.now = 10 * HOUR;
        rollout.machine = Machine::new(plan("1 node/all"), CANDIDATE, Progress::new("r"), rollout.now);
        rollout.look();
        assert_eq!(rollout.after(PATIENCE_MS - 1), None);
        rollout.now += hours * HOUR;
        assert_eq!(rollout.look(), None, "the node has its 30 s again");
        rollout.acknowledge();
        assert_eq!(rollout.after(SOAK_MS - 1), None, "{hours}: too early");
        assert_eq!(rollout.after(1), Some(Action::Reach), "{hours}: no later than ever");
    }
}

#[test]
fn a_restart_after_the_clock_was_set_back_does_not_wait_for_the_old_time() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.now = 10 * SOAK_MS;
    rollout.machine = Machine::new(plan("1 node/all"), CANDIDATE, Progress::new("r"), rollout.now);
    rollout.look();
    rollout.acknowledge();
    rollout.now = 0;
    let kept = rollout.machine.progress().clone();
    rollout.machine = Machine::new(plan("1 node/all"), CANDIDATE, kept, rollout.now);
    assert_eq!(rollout.after(SOAK_MS - 1), None);
    assert_eq!(rollout.after(1), Some(Action::Reach));
}

#[test]
fn a_node_that_comes_and_goes_between_gates_neither_passes_nor_fails_one() {
    let mut rollout = OneRollout::new(plan("1 node/all"), &["a", "b"]);
    rollout.look();
    let at = rollout.chosen()[0];
    for second in 0..600 {
        rollout.nodes[at].is_live = second % 20 < 10;
        assert_eq!(rollout.after(1_000), None, "at second {second}");
    }
    rollout.nodes[at].is_live = true;
    rollout.acknowledge();
    assert_eq!(rollout.after(1_000), Some(Action::Reach), "it stayed, and the time of the step is over");
}

#[test]
fn a_thousand_nodes_are_reached_by_their_shares() {
    let ids: Vec<String> = (0..1_000).map(|it| format!("{}{it}", ['a', 'b', 'c'][it % 3])).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let mut rollout = OneRollout::new(plan("1 node/10 %/50 %/all"), &ids);
    let mut sizes = Vec::new();
    while rollout.state().is_open() {
        rollout.after(1_000);
        rollout.acknowledge();
        if rollout.chosen().len() != sizes.last().copied().unwrap_or(0) {
            sizes.push(rollout.chosen().len());
        }
    }
    assert_eq!((sizes.len(), sizes[0], sizes[3]), (4, 1, 1_000));
    assert!((50..=150).contains(&sizes[1]) && (425..=575).contains(&sizes[2]), "{sizes:?}");
}
