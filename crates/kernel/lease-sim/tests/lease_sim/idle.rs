//! The end of permits and accounts: permits of nodes that are idle, dead or unreachable, and accounts of
//! another rule.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Cost, Period, Quota, Refill};
use tollgate_lease::{
    LeaseRequest, Ledger, LedgerCall, LedgerReply, Mistake, Mono, Node, Op, Terms, Timing, Verdict,
};

use crate::run;
use tollgate_lease_sim::{Costs, Gaps, MS, Phase, Plan, Sharing};

const BEGIN_US: u64 = 1_780_000_000_000_000;
const SECOND: u64 = 1_000 * MS;
const TAU_US: u64 = 500_000;

/// L3: a take that fits an idle bucket is admitted within 4 tau, as long as a node that is seldom asked keeps
/// its permits, and the time in which the bucket fills up.
#[test]
fn a_take_of_the_whole_burst_waits_for_idle_nodes_no_longer_than_stated() {
    let light = |takes: f64| (takes, vec![1]);
    for (rate, burst, loads) in [
        (1_000, 1_000, vec![light(1_500.0), light(5.0), light(5.0), light(5.0)]),
        (100, 100, vec![light(100.0); 8]),
        (500, 250, vec![(20.0, vec![1, 1, 40]); 4]),
        (100, 50, vec![light(2.0); 20]),
    ] {
        let end_ns = 8 * SECOND;
        let phase = |host, from_ns, until_ns, takes: f64, costs: &[u64]| Phase {
            host,
            from_ns,
            until_ns,
            every_ns: (1e9 / takes) as u64,
            gaps: Gaps::Poisson,
            together: 1,
            costs: Costs::OneOf(costs.to_vec()),
        };
        let within_ns = 4 * TAU_US * 1_000 + burst * SECOND / rate + TAU_US * 1_000;
        let mut phases: Vec<Phase> = (loads.iter().enumerate())
            .map(|(host, (takes, costs))| phase(host, 0, end_ns, *takes, costs))
            .collect();
        // All loads end; 20 ms later only the first host asks, for the whole burst at a time, until the
        // stated time is over.
        phases.push(phase(0, end_ns + 20 * MS, end_ns + within_ns, 100.0, &[burst]));
        let plan = Plan {
            seed: 1,
            hosts: loads.len(),
            limit: rate,
            limits: Vec::new(),
            period_ns: SECOND,
            burst,
            algorithm: Algorithm::TokenBucket {
                burst: Some(burst),
                initial: None,
                overdraft: 0,
                refill: Refill::Continuous,
            },
            timing: Timing::default(),
            delay_ns: (MS, MS),
            far_ns: 0,
            slow: 0,
            loss: 0,
            twice: 0,
            drift_ppm: 1_000,
            refunds: 0,
            late_refunds: false,
            charges: 0,
            pays: 0,
            local_share: false,
            phases,
            troubles: Vec::new(),
            calm_from_ns: 0,
            measured_ns: (end_ns + 20 * MS, end_ns + within_ns),
            is_fleet: true,
            deadline_ns: 0,
            sharing: Sharing::Leased,
            record_every_ns: 0,
        };
        let outcome = run(&plan, None, false);
        assert_eq!(outcome.broken, None);
        let admitted = outcome.served.hosts[0].admitted;
        assert!(admitted >= burst, "L3: {admitted} of {burst} at {rate}/s, {} nodes", loads.len());
    }
}

fn bucket(limit: u64, burst: u64) -> Terms {
    let refill = Refill::Continuous;
    let algorithm = Algorithm::TokenBucket { burst: Some(burst), initial: None, overdraft: 0, refill };
    let quota = Quota::new(limit, Period::Span(Duration::from_secs(1)), algorithm).expect("within bounds");
    Terms::of(&quota).expect("can be leased")
}

fn apply(ledger: &mut Ledger, terms: &Terms, op: Op, now_us: u64) -> LedgerReply {
    let window_ends_us = (now_us / 86_400_000_000 + 1) * 86_400_000_000;
    ledger.apply(terms, LedgerCall { op, window_ends_us }, now_us)
}

/// A rule that becomes a bucket does not wait until the end of the day for the permits of a dead node.
#[test]
fn what_a_dead_node_held_of_a_window_is_not_out_for_long_in_a_bucket() {
    let day = Period::Span(Duration::from_secs(86_400));
    let window = Quota::new(1_000, day, Algorithm::FixedWindow { align: Align::Calendar });
    let window = Terms::of(&window.expect("within bounds")).expect("can be leased");
    let mut ledger = Ledger::default();
    let held = LeaseRequest { node: 7, seq: 1, held: 0, spent: 0, want: 800, need: 800, least: 1 };
    assert_eq!(apply(&mut ledger, &window, Op::Lease(held), BEGIN_US).granted, 800);
    let terms = bucket(1_000, 1_000);
    let reply = apply(&mut ledger, &terms, Op::Peek, BEGIN_US + 1_000);
    assert_eq!(reply.out + reply.out_before, 800, "until it is written off");
    let reply = apply(&mut ledger, &terms, Op::Peek, BEGIN_US + 2 * TAU_US + 1_000);
    assert_eq!(reply.out + reply.out_before, 0, "after two tau");
    let later = BEGIN_US + 3 * TAU_US + 1_000_000;
    assert_eq!(apply(&mut ledger, &terms, Op::Take { cost: 1_000, times: 1 }, later).admitted, 1);
}

/// If a request that gave permits back was lost, the next request gives them back, also when no take arrives.
#[test]
fn what_was_given_back_in_vain_is_given_back_again() {
    for fault in [None, Some(Mistake::ForgetsLostNews)] {
        let terms = bucket(1_000, 1_000);
        let terms = terms.making(fault);
        let mut node = Node::new(7);
        let mut ledger = Ledger::default();
        let mut ms = 0;
        while node.held() == 0 {
            ms += 1;
            let step = node.take(&terms, Cost::ONE, Mono(ms * MS));
            match step.send {
                Some(request) => {
                    let reply = apply(&mut ledger, &terms, Op::Lease(request), BEGIN_US + ms * 1_000);
                    node.on_grant(&terms, &reply, Mono(ms * MS));
                }
                None => assert_eq!(step.verdict, Verdict::Central, "until it is worth a lease"),
            }
        }
        ms += 260;
        let lost = node.on_time(&terms, Mono(ms * MS)).expect("no takes arrive");
        node.on_lost(&terms, lost.seq);
        ms += 20;
        let again = node.on_time(&terms, Mono(ms * MS));
        assert_eq!(again.is_some(), fault.is_none());
        if let Some(request) = again {
            let reply = apply(&mut ledger, &terms, Op::Lease(request), BEGIN_US + ms * 1_000);
            assert_eq!(reply.out + reply.out_before, 0);
            node.on_grant(&terms, &reply, Mono(ms * MS));
        }
        // Only until the ledger has written it off.
        assert_eq!(node.on_time(&terms, Mono((ms + 1_100) * MS)), None);
    }
}

/// Callers of two rates that take turns lose no refill by the change of the rate alone.
#[test]
fn what_is_owed_stays_the_same_when_rates_take_turns() {
    for (a, b) in [(10, 11), (1, 2), (999_983, 1_000_003)] {
        let low = bucket(a, 10);
        let high = bucket(b, 10);
        let mut ledger = Ledger::default();
        assert_eq!(apply(&mut ledger, &low, Op::Take { cost: 10, times: 1 }, BEGIN_US).admitted, 1);
        let span_us = 10_000_000 / a;
        let mut now_us = BEGIN_US;
        for turn in 0..1_000 {
            now_us = BEGIN_US + span_us * turn / 1_000;
            apply(&mut ledger, if turn % 2 == 0 { &low } else { &high }, Op::Peek, now_us);
        }
        let admitted = apply(&mut ledger, &low, Op::Take { cost: 1, times: 20 }, now_us + 1).admitted;
        assert!((9..=10).contains(&admitted), "{admitted} of 10 after their time, at {a} and {b} a second");
    }
}
