//! Laws of a rollout that hold in every order of events.

use proptest::prelude::*;
use tollgate_control::Reach;
use tollgate_control::rollout::{Ask, Event, Machine, Plan, State, Why};
use tollgate_harness::rules::plan;

use crate::{CANDIDATE, OneRollout, SOAK_MS, node};

#[derive(Clone, Debug)]
enum Happens {
    Look(i64),
    Live(usize, bool),
    Answer(usize),
    Reject(usize),
    Join(u8),
    Relabel(usize, u8),
    Count(usize, u64, u64),
    Ask(u8),
    Restart,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        8 => (0..40_000_i64).prop_map(Happens::Look),
        2 => (0..8_usize, any::<bool>()).prop_map(|(at, is)| Happens::Live(at, is)),
        6 => (0..8_usize).prop_map(Happens::Answer),
        1 => (0..8_usize).prop_map(Happens::Reject),
        1 => any::<u8>().prop_map(Happens::Join),
        1 => (0..8_usize, any::<u8>()).prop_map(|(at, zone)| Happens::Relabel(at, zone)),
        2 => (0..8_usize, 0..1_000_u64, 0..1_000_u64)
            .prop_map(|(at, all, part)| Happens::Count(at, all, part)),
        1 => (0..4_u8).prop_map(Happens::Ask),
        1 => Just(Happens::Restart),
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let steps = prop::sample::select(vec![
        "all",
        "1 node/all",
        "1 node/10 %/50 %/all",
        "zone in (a)/50 %/all",
        "10 %/zone in (a, b)/all",
    ]);
    (steps, any::<bool>()).prop_map(|(steps, auto_rollback)| Plan { auto_rollback, ..plan(steps) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// The reach never shrinks; a step ends only after its soak time with the answers of all live chosen
    /// nodes, or because an operator says so; an end is an end.
    #[test]
    fn steps_only_grow_and_gates_hold(plan in plans(), story in prop::collection::vec(happens(), 1..80)) {
        let mut rollout = OneRollout::new(plan.clone(), &["a0", "b1", "c2"]);
        let mut begun_at = 0;
        for event in story {
            let before = rollout.machine.progress().clone();
            let mut is_asked = false;
            let at = |at: usize| at % rollout.nodes.len();
            match event {
                Happens::Look(ms) => { rollout.after(ms); }
                Happens::Live(node, is_live) => {
                    let node = at(node);
                    rollout.nodes[node].is_live = is_live;
                }
                Happens::Answer(node) => {
                    let node = at(node);
                    if rollout.chosen().contains(&node) && !rollout.nodes[node].has_rejected {
                        rollout.nodes[node].acked = CANDIDATE;
                    }
                }
                Happens::Reject(node) => {
                    let node = at(node);
                    if rollout.chosen().contains(&node) && rollout.nodes[node].acked < CANDIDATE {
                        rollout.nodes[node].has_rejected = true;
                    }
                }
                Happens::Join(zone) => {
                    let id = format!("{}{}", ['a', 'b', 'c'][usize::from(zone) % 3], rollout.nodes.len());
                    rollout.nodes.push(node(&id, 1));
                }
                Happens::Relabel(node, zone) => {
                    let node = at(node);
                    rollout.nodes[node].labels[0].1 = ["a", "b", "c"][usize::from(zone) % 3].to_owned();
                }
                Happens::Count(node, all, part) => rollout.count(at(node), all, part.min(all), 0),
                Happens::Ask(which) => {
                    let ask = [Ask::Pause, Ask::Resume, Ask::Advance, Ask::Withdraw("w".into())];
                    let ask = ask[usize::from(which)].clone();
                    is_asked = rollout.machine.on(Event::Asked(ask), rollout.now).is_ok();
                    if is_asked { begun_at = rollout.now; }
                }
                Happens::Restart => {
                    let kept = rollout.machine.progress().clone();
                    rollout.machine = Machine::new(plan.clone(), CANDIDATE, kept, rollout.now);
                    begun_at = rollout.now;
                }
            }
            let after = rollout.machine.progress().clone();
            prop_assert!(after.reach.covers(&before.reach), "{before:?} {after:?}");
            if !before.state.is_open() {
                prop_assert_eq!(&after, &before);
            }
            let is_done = after.state == State::Done && before.state.is_open();
            let has_moved = after.step > before.step || is_done;
            if has_moved && !is_asked {
                prop_assert!(rollout.now - begun_at >= SOAK_MS, "too early: {before:?} {after:?}");
                let reach: &Reach = &before.reach;
                for node in rollout.nodes.iter().filter(|node| node.is_live) {
                    let labels = node.labels.iter().map(|(key, value)| (&**key, &**value));
                    prop_assert!(!reach.includes(&node.id, labels) || node.acked == CANDIDATE, "{node:?}");
                }
                let has_rejected = rollout.nodes.iter().any(|node| node.has_rejected);
                prop_assert!(!has_rejected, "a rejection is passed over");
            }
            if after.step_at != before.step_at && after.step_at.is_some() {
                begun_at = rollout.now;
            }
            let of_gates = |why: &Why| {
                matches!(why, Why::Rejected(_) | Why::NotAcknowledged(_) | Why::DeniesMore(_))
            };
            let is_failed = after.why.as_ref().is_some_and(of_gates);
            prop_assert_eq!(is_failed && after.state == State::Withdrawn, is_failed && plan.auto_rollback);
        }
    }
}
