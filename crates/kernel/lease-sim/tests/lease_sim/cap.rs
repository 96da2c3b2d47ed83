//! The reason why the permits leased out never pass the burst: nodes that hoard the whole of it, and then
//! promises, could spend both in one instant, since a refill that is held up never pays for a promise.

use std::time::Duration;

use tollgate_core::{Cost, Quota};
use tollgate_lease::{LeaseRequest, Ledger, LedgerCall, Mistake, Mono, Node, Op, Terms, Verdict};

const BURST: u64 = 100;

/// The permits that can be spent in one instant, a horizon after ten nodes hoarded the burst and ten others
/// asked for more.
fn spent_at_once(terms: &Terms) -> u64 {
    let mut ledger = Ledger::default();
    let mut now_us = 1_780_000_000_000_000;
    let mut apply = |now_us, request: LeaseRequest| {
        ledger.apply(terms, LedgerCall { op: Op::Lease(request), window_ends_us: 0 }, now_us).granted
    };
    let hoard = |node, need| LeaseRequest { node, seq: 1, held: 0, spent: 0, want: 10, need, least: 1 };
    let mut granted: u64 = (0..10).map(|node| apply(now_us, hoard(node, 10))).sum();
    assert_eq!(granted, BURST);
    granted += (10..20).map(|node| apply(now_us, hoard(node, 1))).sum::<u64>();
    now_us += terms.max_promised().div_ceil(terms.per_us()); // by now all promises are valid
    assert_eq!(
        apply(now_us, LeaseRequest { node: 20, seq: 1, held: 0, spent: 0, want: 0, need: 0, least: 0 }),
        0
    );
    granted
}

#[test]
fn hoarders_get_no_promises_on_top_of_the_burst() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::token_bucket(BURST, Duration::from_millis(100))?;
    let terms = Terms::of(&quota).ok_or("cannot be leased")?;
    assert_eq!(spent_at_once(&terms), BURST);
    assert!(spent_at_once(&terms.making(Mistake::NoCapOnPromises)) > BURST);
    Ok(())
}

/// A promise is spent as the refill pays for it: not at once, and not much later.
#[test]
fn promises_become_valid_one_by_one() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::token_bucket(1_000, Duration::from_secs(1))?;
    let terms = Terms::of(&quota).ok_or("cannot be leased")?;
    let mut ledger = Ledger::default();
    let mut node = Node::new(1);
    let now_us = 1_780_000_000_000_000;
    let central = |op| LedgerCall { op, window_ends_us: 0 };
    ledger.apply(&terms, central(Op::Take { cost: 1, times: 1_000 }), now_us); // all is gone
    let mut admitted = 0;
    for ms in 0..200 {
        let now = Mono(ms * 1_000_000);
        for _ in 0..3 {
            let mut step = node.take(&terms, Cost::ONE, now);
            if let Some(request) = step.send {
                let reply = ledger.apply(&terms, central(Op::Lease(request)), now_us + ms * 1_000);
                node.on_grant(&terms, &reply, now);
            }
            if step.verdict == Verdict::Wait {
                step = node.retake(&terms, Cost::ONE, now);
            }
            if step.verdict == Verdict::Central {
                admitted += ledger
                    .apply(&terms, central(Op::Take { cost: 1, times: 1 }), now_us + ms * 1_000)
                    .admitted;
            }
            admitted +=
                u64::from(matches!(step.verdict, Verdict::Decided(decision) if decision.is_admitted()));
        }
        assert!(admitted <= ms && admitted + 4 + ms / 50 >= ms, "{admitted} in {ms} ms, at one a ms");
    }
    Ok(())
}
