//! Many seeds of the simulation: no law is broken, the same seed gives the same trace, and every known bug is
//! found.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use tollgate_fleet_sim::sim::{Bug, Finding, Report, RolloutBug, simulate};
use tollgate_testkit::seeds::Seeds;

/// Fewest seeds; a budget of time says how many more, or `FLEET_SEEDS=100000`.
const LEAST: u64 = 1_000;

#[test]
fn no_seed_breaks_a_law() {
    let seeds = Seeds::for_a_while(LEAST, "FLEET_SEEDS");
    let work = || {
        let mut sum = Report::default();
        while let Some(seed) = seeds.draw() {
            let report = simulate(seed, None).unwrap_or_else(|finding| panic!("{finding:?}"));
            sum.events += report.events;
            sum.crashes += report.crashes;
            sum.rejected += report.rejected;
            sum.breaks += report.breaks;
            sum.rollouts += report.rollouts;
            sum.withdrawn += report.withdrawn;
        }
        sum
    };
    let sums: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no law is broken")).collect()
    });
    let sum = |of: fn(&Report) -> u64| sums.iter().map(of).sum::<u64>();
    let (events, crashes) = (sum(|it| it.events), sum(|it| it.crashes));
    let (rejected, breaks) = (sum(|it| it.rejected), sum(|it| it.breaks));
    let (rollouts, withdrawn) = (sum(|it| it.rollouts), sum(|it| it.withdrawn));
    let seeds = seeds.drawn();
    println!(
        "{seeds} seeds: {events} events, {crashes} crashes, {breaks} broken streams, {rejected} rejections, \
         {rollouts} rollouts, {withdrawn} withdrawn"
    );
    assert!(rollouts > seeds && withdrawn > seeds / 2, "too few rollouts");
    assert!(crashes > seeds && breaks > seeds && rejected > seeds, "too little happens");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..50 {
        assert_eq!(simulate(seed, None), simulate(seed, None), "seed {seed}");
    }
    assert_ne!(simulate(1, None).unwrap().trace, simulate(2, None).unwrap().trace);
}

#[test]
fn every_known_bug_is_found() {
    use tollgate_control::rollout::KnownBug as Rollout;
    use tollgate_fleet_agent::KnownBug as Agent;
    use tollgate_fleet_hub::KnownBug as Hub;
    let bugs = [
        (Bug::Agent(Agent::OlderVersionsApplied), "C2"),
        (Bug::Agent(Agent::OneBadAppRejectsAll), "C9"),
        (Bug::Agent(Agent::RepeatedReportsRenumbered), "C5"),
        (Bug::Agent(Agent::UnseenReportsDropped), "C5"),
        (Bug::Agent(Agent::NoMarker), "again"), // a crash loop
        (Bug::Agent(Agent::AcknowledgedBeforeSaved), "C"), // C2, and C9 where apps have steps of their own
        (Bug::Agent(Agent::RejectedRulesAcknowledged), "C9|C10|R2|again"),
        (Bug::Hub(Hub::ForeignReplaced), "C10"),
        (Bug::Hub(Hub::PublicationForgotten), "C9"),
        (Bug::Hub(Hub::SeenBeforeStored), "C5"),
        (Bug::Hub(Hub::RemovalForgotten), "still has"),
        (Bug::Hub(Hub::RejectedSentAgain), "again"),
        (Bug::Rollout(Rollout::ShareShrinks), "R1"),
        (Bug::Rollout(Rollout::LateAcknowledgement), "R2"),
        (Bug::Rollout(Rollout::StepNotWaited), "R2"),
        (Bug::Rollout(Rollout::RejectionIgnored), "R3"),
        (Bug::Surroundings(RolloutBug::OldVersionRepublished), "C9"), // nodes do not go back
        (Bug::Surroundings(RolloutBug::OldTermWrites), "R"),
    ];
    for (bug, law) in bugs {
        let found = (0..2_000).find_map(|seed| simulate(seed, Some(bug)).err());
        let Finding { seed, what } = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: seed {seed}: {what}");
        assert!(law.split('|').any(|law| what.contains(law)), "{bug:?} at seed {seed}: {what}");
    }
}
