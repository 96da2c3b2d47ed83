//! Many seeds of the simulation: no law is broken, the same seed gives the same trace, and every known bug is
//! found.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use tollgate_fleet_sim::sim::{Finding, Mistake, Report, RolloutMistake, simulate};
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
    let events = sum(|it| it.events);
    let crashes = sum(|it| it.crashes);
    let rejected = sum(|it| it.rejected);
    let breaks = sum(|it| it.breaks);
    let rollouts = sum(|it| it.rollouts);
    let withdrawn = sum(|it| it.withdrawn);
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
    use tollgate_control::rollout::Mistake as Rollout;
    use tollgate_fleet_agent::Mistake as Agent;
    use tollgate_fleet_hub::Mistake as Hub;
    let mistakes = [
        (Mistake::Agent(Agent::OlderVersionsApplied), "C2"),
        (Mistake::Agent(Agent::OneBadAppRejectsAll), "C9"),
        (Mistake::Agent(Agent::RepeatedReportsRenumbered), "C5"),
        (Mistake::Agent(Agent::UnseenReportsDropped), "C5"),
        (Mistake::Agent(Agent::NoMarker), "again"), // a crash loop
        (Mistake::Agent(Agent::AcknowledgedBeforeSaved), "C"), // C2, and C9 where apps have steps of their own
        (Mistake::Agent(Agent::RejectedRulesAcknowledged), "C9|C10|R2|again"),
        (Mistake::Hub(Hub::ForeignReplaced), "C10"),
        (Mistake::Hub(Hub::PublicationForgotten), "C9"),
        (Mistake::Hub(Hub::SeenBeforeStored), "C5"),
        (Mistake::Hub(Hub::RemovalForgotten), "still has"),
        (Mistake::Hub(Hub::RejectedSentAgain), "again"),
        (Mistake::Rollout(Rollout::ShareShrinks), "R1"),
        (Mistake::Rollout(Rollout::LateAcknowledgement), "R2"),
        (Mistake::Rollout(Rollout::StepNotWaited), "R2"),
        (Mistake::Rollout(Rollout::RejectionIgnored), "R3"),
        (Mistake::Surroundings(RolloutMistake::OldVersionRepublished), "C9"), // nodes do not go back
        (Mistake::Surroundings(RolloutMistake::OldTermWrites), "R"),
    ];
    for (mistake, law) in mistakes {
        let found = (0..2_000).find_map(|seed| simulate(seed, Some(mistake)).err());
        let Finding { seed, what } = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {what}");
        assert!(law.split('|').any(|law| what.contains(law)), "{mistake:?} at seed {seed}: {what}");
    }
}
