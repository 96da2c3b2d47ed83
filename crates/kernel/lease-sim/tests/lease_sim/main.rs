//! Nodes, ledger and network in one process and on made-up clocks, from one seed: the laws of leases under
//! every fault.
//!
//! The number of seeds follows from a budget of time (`TOLLGATE_SIM_SECONDS=600` for a long run), or is
//! `TOLLGATE_SIM_SEEDS=100000`; `TOLLGATE_SIM_SEED=17` runs one and prints its trace.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which, and figures are printed"
)]

mod cap;
mod dry;
mod fleet;
mod honest;
mod idle;
mod step;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_lease::Mistake;

use tollgate_lease_sim::{Plan, PlanKind, RunOutcome, Trouble, World};
use tollgate_testkit::seeds::Seeds;

/// Fewest seeds of every check.
const LEAST: u64 = 2_000;
/// Seeds in which each known fault must be found.
const SEEDS: u64 = 10_000;

fn run(plan: &Plan, fault: Option<Mistake>, keeps_trace: bool) -> RunOutcome {
    World::new(plan, fault.into(), keeps_trace).run()
}

/// The first of the seeds that breaks a law, with its law; on all cores.
fn first_broken(
    seeds: &Seeds,
    kind: PlanKind,
    fault: Option<Mistake>,
    seen: &(dyn Fn(&Plan, &RunOutcome) + Sync),
) -> Option<(u64, String)> {
    let found = Mutex::new(None::<(u64, String)>);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = seeds.draw() {
                    if found.lock().as_ref().is_some_and(|(at, _)| *at < seed) {
                        return;
                    }
                    let plan = Plan::of_kind(seed, kind);
                    let outcome = run(&plan, fault, false);
                    seen(&plan, &outcome);
                    if let Some(law) = outcome.broken {
                        let mut found = found.lock();
                        if found.as_ref().is_none_or(|(at, _)| seed < *at) {
                            *found = Some((seed, law));
                        }
                    }
                }
            });
        }
    });
    found.into_inner()
}

/// The same run with as little as possible in it that still breaks a law, and its outcome.
fn shrunk(seed: u64, fault: Option<Mistake>) -> (Plan, RunOutcome) {
    let mut best = Plan::of(seed);
    let law = |outcome: &RunOutcome| outcome.broken.as_ref().and_then(|law| law.get(..3).map(str::to_owned));
    let the_law = law(&run(&best, fault, false));
    for _ in 0..4 {
        let before = format!("{best:?}");
        let mut attempts: Vec<Plan> = Vec::new();
        let mut attempt = |change: &dyn Fn(&mut Plan)| {
            let mut plan = best.clone();
            change(&mut plan);
            attempts.push(plan);
        };
        attempt(&|plan| plan.slow = 0);
        attempt(&|plan| plan.loss = 0);
        attempt(&|plan| plan.twice = 0);
        attempt(&|plan| plan.drift_ppm = 0);
        attempt(&|plan| (plan.refunds, plan.charges) = (0, 0));
        attempt(&|plan| plan.late_refunds = false);
        attempt(&|plan| plan.local_share = false);
        for at in 0..best.troubles.len() {
            attempt(&|plan| {
                plan.troubles.remove(at);
            });
        }
        for at in 0..best.phases.len() {
            attempt(&|plan| {
                plan.phases.remove(at);
            });
        }
        for mut plan in attempts {
            // A part that an earlier attempt dropped stays dropped where it can.
            plan.slow = plan.slow.min(best.slow);
            plan.loss = plan.loss.min(best.loss);
            plan.twice = plan.twice.min(best.twice);
            plan.drift_ppm = plan.drift_ppm.min(best.drift_ppm);
            let tried = run(&plan, fault, false);
            if law(&tried) == the_law && format!("{plan:?}").len() <= format!("{best:?}").len() {
                best = plan;
            }
        }
        if format!("{best:?}") == before {
            break;
        }
    }
    let outcome = run(&best, fault, true);
    (best, outcome)
}

/// The message of a broken law.
fn report(seed: u64, law: &str, fault: Option<Mistake>) -> String {
    let (plan, outcome) = shrunk(seed, fault);
    let lines: Vec<_> = outcome.trace.lines().collect();
    let tail = lines[lines.len().saturating_sub(60)..].join("\n");
    format!("seed {seed}: {law}\nshrunk: {plan:?}\nlast of {} lines:\n{tail}", lines.len())
}

#[test]
fn every_law_holds_for_every_seed() {
    if let Some(seed) = std::env::var("TOLLGATE_SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let outcome = run(&Plan::of(seed), None, true);
        println!("{:#?}\n{}{:?}", Plan::of(seed), outcome.trace, outcome.broken);
        return;
    }
    let sums: [AtomicU64; 6] = Default::default();
    let add = |at: usize, more: u64| sums[at].fetch_add(more, Ordering::Relaxed);
    let worst = Mutex::new((f64::MAX, 0_u64, 0.0_f64));
    let broken = first_broken(
        &Seeds::for_a_while(LEAST, "TOLLGATE_SIM_SEEDS"),
        PlanKind::Usual,
        None,
        &|plan, outcome| {
            add(0, 1);
            add(1, outcome.admitted);
            add(2, outcome.requests);
            add(3, outcome.centrals);
            add(4, outcome.degraded);
            add(5, outcome.digest);
            let mut worst = worst.lock();
            if let Some(yielded) = outcome.yielded
                && yielded < worst.0
            {
                (worst.0, worst.1) = (yielded, plan.seed);
            }
            worst.2 = worst.2.max(if plan.troubles.is_empty() { outcome.peak } else { 0.0 });
        },
    );
    let [runs, admitted, requests, centrals, degraded, digest] = sums.map(AtomicU64::into_inner);
    let (least, at, peak) = worst.into_inner();
    println!(
        "{runs} seeds: {admitted} permits admitted, {requests} requests for leases, {centrals} central calls, {degraded} permits \
         admitted degraded; least yield {least:.3} (seed {at}), highest burst without troubles {peak:.4} of B; digest {digest:016x}"
    );
    if let Some((seed, law)) = broken {
        panic!("{}", report(seed, &law, None));
    }
}

/// Half of the work is paid for afterwards, at many nodes, beside takes: no used permit is lost, except for
/// those that a node had not reported when it crashed; and nothing passes while any is owed.
#[test]
fn every_law_holds_where_work_is_paid_for_afterwards() {
    if let Some((seed, law)) = first_broken(&Seeds::exactly(LEAST), PlanKind::Paid, None, &|_, _| {}) {
        let outcome = run(&Plan::of_kind(seed, PlanKind::Paid), None, true);
        let lines: Vec<_> = outcome.trace.lines().collect();
        let tail = lines[lines.len().saturating_sub(60)..].join("\n");
        panic!("seed {seed}: {law}\n{tail}");
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    for seed in 0..40 {
        let one = run(&Plan::of(seed), None, true);
        let two = run(&Plan::of(seed), None, true);
        assert_eq!(one.digest, two.digest, "seed {seed}");
        assert!(one.trace == two.trace && one.trace.len() > 1_000, "seed {seed}");
    }
}

#[test]
fn every_known_fault_is_found() {
    let faults = [
        Mistake::CreditsLostRefill,
        Mistake::SettlesTwice,
        Mistake::ExpiryFromReceipt,
        Mistake::NoCapOnPromises,
        Mistake::SpendsWhatItGaveBack,
        Mistake::ForgetsEarly,
        Mistake::ClockStepMints,
        Mistake::DealsTwice,
        Mistake::TakesLateReplies,
        Mistake::SpendsPromises,
        Mistake::CreditsWrittenOff,
        Mistake::OutlivesWindow,
        Mistake::OverfillsOnGiveBack,
        Mistake::IgnoresDrift,
        Mistake::RemembersDenials,
        Mistake::GivesBackPart,
        Mistake::GivesBackDropped,
        Mistake::SwallowsWhatComesBack,
        Mistake::ChargesWhatFits,
        Mistake::ForgivesCharges,
        Mistake::ForgetsTheRest,
        Mistake::PaysFromNothing,
        Mistake::ChecksNothing,
    ];
    let mut missed = Vec::new();
    for fault in faults {
        let kind = match fault {
            Mistake::SwallowsWhatComesBack => PlanKind::Windows,
            Mistake::GivesBackDropped => PlanKind::Losses,
            Mistake::ChargesWhatFits
            | Mistake::ForgivesCharges
            | Mistake::ForgetsTheRest
            | Mistake::PaysFromNothing
            | Mistake::ChecksNothing => PlanKind::Paid,
            _ => PlanKind::Usual,
        };
        match first_broken(&Seeds::exactly(SEEDS), kind, Some(fault), &|_, _| {}) {
            Some((seed, law)) => println!("{fault:?}: found at seed {seed}: {law}"),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS} seeds: {missed:?}");
}

#[test]
fn a_broken_law_is_reported_with_a_short_trace() {
    let (seed, law) =
        first_broken(&Seeds::exactly(SEEDS), PlanKind::Usual, Some(Mistake::SettlesTwice), &|_, _| {})
            .expect("found");
    let report = report(seed, &law, Some(Mistake::SettlesTwice));
    assert!(report.contains("BROKEN") && report.lines().count() < 250, "{report}");
    let (plan, _) = shrunk(seed, Some(Mistake::SettlesTwice));
    assert!(plan.troubles.len() <= Plan::of(seed).troubles.len());
    assert!(!plan.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::WallStep { .. })));
}
