//! The laws of liveness, by arithmetic of their own: the admissions of one exact bucket, and max-min shares.

use parking_lot::Mutex;
use tollgate_lease::Mistake;

use super::Fleet;
use crate::run;
use tollgate_lease_sim::{Broken, RunOutcome, Trouble};
use tollgate_testkit::seeds::Seeds;

/// Fleets in which each fault of liveness must be found, and that are tried without a setting.
const SEEDS: u64 = 300;
/// Fleets of the long form.
const LONG: u64 = 2_000;

/// Figures of a run that the laws compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Permits admitted, as a part of the admissions of one exact bucket at the lower rate; and at the
    /// higher.
    pub(super) of_lower: f64,
    pub(super) of_higher: f64,
    /// The worst node's share of its fair share.
    pub(super) worst: f64,
    /// Store calls a take.
    pub(super) calls: f64,
    /// Takes without an answer in time, of all.
    pub(super) late: f64,
}

impl Fleet {
    pub(super) fn figures(&self, outcome: &RunOutcome) -> Figures {
        let plan = self.plan();
        let served = &outcome.served;
        let sum = |of: fn(&tollgate_lease_sim::Host) -> u64| served.hosts.iter().map(of).sum::<u64>() as f64;
        let got = sum(|host| host.admitted);
        let takes = sum(|host| host.takes);
        let exact = |rate| served.exact(&plan, if plan.is_window() { plan.limit } else { rate }) as f64;
        let fair = served.fair(got as u64);
        let mut shares: Vec<f64> = (served.hosts.iter().zip(fair))
            .filter(|(host, _)| host.takes > 0)
            .map(|(host, fair)| host.admitted as f64 / fair)
            .collect();
        shares.sort_by(f64::total_cmp);
        Figures {
            of_lower: got / exact(self.lowest()),
            of_higher: got / exact(self.highest()),
            worst: shares.first().copied().unwrap_or(1.0),
            calls: served.calls as f64 / takes,
            late: sum(|host| host.late) / takes,
        }
    }

    /// L1, L2, L4 and L5.
    pub(super) fn check(&self, outcome: &RunOutcome) -> Result<(), Broken> {
        if let Some(broken) = &outcome.broken {
            return Err(broken.clone());
        }
        let plan = self.plan();
        let served = &outcome.served;
        let figures = self.figures(outcome);
        let got: u64 = served.hosts.iter().map(|host| host.admitted).sum();
        let nodes = self.loads.len() as u64;
        let largest = self.largest_cost();

        let exact = served.exact(&plan, if plan.is_window() { plan.limit } else { self.lowest() });
        // Permits that nodes have come to hold are not lost; and one more take may fall into the span or not.
        let held = served.held.1.saturating_sub(served.held.0);
        let slack = (2 * largest + held) as f64;
        let is_roomy = 4 * nodes * largest * self.gaps.at_once() <= self.burst && self.turns_ms == 0;
        let least = if is_roomy || plan.is_window() { 0.95 } else { 0.9 };
        if (got as f64) < least * exact as f64 - slack {
            return Err(format!("L1: {got} admitted where one exact bucket admits {exact}"));
        }
        if self.is_shared_fairly() {
            for (host, fair) in served.hosts.iter().zip(served.fair(got)) {
                // A node that is asked less than once in a second holds nothing when it is asked.
                let is_seldom = host.takes * 1_000_000_000 < self.measured_ns;
                // Arrivals are random: of few, two deviations may be missing.
                let lump = (largest * self.gaps.at_once()) as f64;
                let slack = 3.0 * lump + 2.0 * (fair * lump).sqrt();
                if !is_seldom && (host.admitted as f64) < 0.8 * fair - slack {
                    let asked = host.asked;
                    return Err(format!(
                        "L2: {} of {asked} admitted, {fair:.0} would be fair",
                        host.admitted
                    ));
                }
            }
        }
        let takes: u64 = served.hosts.iter().map(|host| host.takes).sum();
        let each = takes as f64 * 1e9 / self.measured_ns as f64 / nodes as f64;
        let is_used_up = !plan.is_window() && self.demand() >= 10.0 * self.highest() as f64 && largest == 1;
        // Five calls a second keep a node's place in the queue.
        let has_places = self.burst >= 2 * nodes && self.turns_ms == 0 && self.rates.is_empty();
        let most = if is_used_up && has_places { 0.05 + 6.0 / each } else { 1.3 };
        if figures.calls > most {
            return Err(format!("L4: {:.3} store calls a take", figures.calls));
        }
        // Ten a second leave: those of the last two tau, and of the last nine those that were killed with
        // permits.
        if outcome.entries as u64 > nodes + 35 {
            return Err(format!("L4: {} nodes are on the book, {nodes} are there", outcome.entries));
        }
        let is_churning = self.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::Crash { .. }));
        if figures.late > 0.000_5 && !is_churning {
            return Err(format!("L5: {:.2} % of the takes had no answer in time", 100.0 * figures.late));
        }
        Ok(())
    }

    /// Whether max-min shares are promised: a bucket, of which every node can hold some takes at once, that
    /// come back soon; one rate, a demand that does not change, and nodes that are equally far from the
    /// store.
    fn is_shared_fairly(&self) -> bool {
        let holds = 8 * self.largest_cost() * self.loads.len() as u64 <= self.burst;
        self.far_us == 0
            && self.window_ms == 0
            && holds
            && self.rates.is_empty()
            && self.turns_ms == 0
            && self.burst * 2 >= self.rate
    }
}

/// The first seed whose fleet is not served as the laws say.
fn first_unserved(seeds: &Seeds, fault: Option<Mistake>) -> Option<(u64, Broken)> {
    let found = Mutex::new(None::<(u64, Broken)>);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.draw() {
                    let is_found = |at: &Option<(u64, Broken)>| at.as_ref().is_some_and(|(at, _)| *at < seed);
                    if is_found(&found.lock()) {
                        return;
                    }
                    let fleet = Fleet::of(seed);
                    if let Err(law) = fleet.check(&run(&fleet.plan(), fault, false)) {
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

/// Runs 300 fleets, or 2,000 with `TOLLGATE_SIM_SECONDS`, or `TOLLGATE_SIM_FLEETS=5000`;
/// `TOLLGATE_SIM_FLEET=17` runs one and prints its trace. Among the first 3,000, one breaks L1 (2230: 87 %).
#[test]
fn every_fleet_is_served_as_one_exact_bucket_would() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("TOLLGATE_SIM_FLEET") {
        let fleet = Fleet::of(seed);
        let outcome = run(&fleet.plan(), None, true);
        println!("{}\n{fleet:#?}\n{:#?}", outcome.trace, outcome.served.hosts);
        println!("{:?}\n{:?}", fleet.figures(&outcome), fleet.check(&outcome));
        return;
    }
    let seeds = match (number("TOLLGATE_SIM_FLEETS"), number("TOLLGATE_SIM_SECONDS")) {
        (None, Some(_)) => Seeds::exactly(LONG),
        (fleets, _) => Seeds::exactly(fleets.unwrap_or(SEEDS)),
    };
    if let Some((seed, law)) = first_unserved(&seeds, None) {
        panic!("seed {seed}: {law}\n{:?}", Fleet::of(seed));
    }
    println!("{} fleets", seeds.drawn());
}

#[test]
fn every_fault_of_liveness_is_found() {
    // Each with the row that shows it.
    let faults = [
        (Mistake::GrantsParts, "8 nodes, B 1000, cost 200"),
        (Mistake::RoundsDebtUp, "8 nodes, 10 and 11/s"),
        (Mistake::NeverQueues, "one at 1.05 r, 3 at 5/s, r 10,000"),
        (Mistake::OneCostATrip, "1 node, B 30, costs 1 to 20"),
        (Mistake::ForgetsTheCrowd, "16 nodes, r 10"),
        (Mistake::KeepsEntries, "window of 60,000, nodes come and go"),
        (Mistake::AsksForEachCaller, "30 ms away, costs 1 and 625"),
        (Mistake::GivesBackWhatOthersWaitFor, "30 ms away, costs 1 and 625"),
    ];
    let mut missed = Vec::new();
    for (fault, row) in faults {
        if let Some((name, figures)) = super::rows::short_rows(Some(fault), Some(row)).first() {
            println!("{fault:?}: found by {name}: {figures:?}");
        } else if let Some((seed, law)) = first_unserved(&Seeds::exactly(SEEDS), Some(fault)) {
            println!("{fault:?}: found at seed {seed}: {law}");
        } else {
            missed.push(fault);
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS} fleets: {missed:?}");
}
