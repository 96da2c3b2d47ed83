//! Many callers at once. The answers on the way depend on chance; the final state does not.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Cost, Quota, Timestamp};

use super::quotas;
use super::setup::{Executor, Failure, Options};
use crate::{Charge, Counter, Key, ModelStore, Store, Take, Verdicts};

/// Rows 8, 23 and 156: n callers on one key admit exactly what one caller after another would.
pub(super) fn callers_at_once_admit_exactly_the_limit<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "callers_at_once_admit_exactly_the_limit";
    for quota in quotas::all(options) {
        let counter = Counter::new(Key(b"hot"), &quota);
        let take = counter.take(Cost::ONE);
        let model = ModelStore::default();
        let rounds = options.takes * options.threads as u32;
        let want = (0..rounds)
            .filter(|_| passes(executor, &model, &[take], Charge::Each, options.begins))
            .count() as u64;
        let store = make();
        let got = at_once(options, |_, _| {
            u64::from(passes(executor, &store, &[take], Charge::Each, options.begins))
        });
        expect(LAW, got == want, || {
            format!("{got} of {rounds} passed, {want} may, by {:?}", quota.algorithm())
        })?;
        let left = left(executor, &store, counter, options.begins);
        let want = self::left(executor, &model, counter, options.begins);
        expect(LAW, left == want, || format!("{left} are left, not {want}, by {:?}", quota.algorithm()))?;
    }
    Ok(())
}

/// Two limits taken together: the smaller one decides, and the larger one is charged only for admitted takes.
pub(super) fn together_charges_all_or_nobody<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "together_charges_all_or_nobody";
    let many = u64::from(options.takes) * options.threads as u64;
    let narrow = slow_quota(LAW, many / 4 + 1, options)?;
    let wide = slow_quota(LAW, many + 1, options)?;
    let store = make();
    let a = Counter::new(Key(b"narrow"), &narrow);
    let b = Counter::new(Key(b"wide"), &wide);
    let got = at_once(options, |thread, _| {
        let mut batch = [a.take(Cost::ONE), b.take(Cost::ONE)];
        if thread % 2 == 1 {
            batch.reverse(); // whoever locks in the order of the batch locks up here
        }
        u64::from(passes(executor, &store, &batch, Charge::Together, options.begins))
    });
    let want = narrow.limit();
    expect(LAW, got == want, || format!("{got} passed where the narrower limit is {want}"))?;
    let rest = left(executor, &store, b, options.begins);
    let want = wide.limit() - got;
    expect(LAW, rest == want, || {
        format!("{got} passed, yet {rest} instead of {want} are left of the wider limit")
    })
}

/// Batches over three limits in every order, mixed with takes on their own, never pass any of the limits, and
/// the permits left of each are exactly those that were not admitted.
pub(super) fn together_in_any_order_never_passes_a_limit<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "together_in_any_order_never_passes_a_limit";
    let many = u64::from(options.takes) * options.threads as u64;
    let limits = [
        slow_quota(LAW, many / 5 + 1, options)?,
        slow_quota(LAW, many / 4 + 1, options)?,
        slow_quota(LAW, many / 3 + 1, options)?,
    ];
    let keys = [Key(b"one"), Key(b"two"), Key(b"three")];
    let counter = |index: usize| Counter::new(keys[index], &limits[index]);
    let admitted = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
    let store = make();
    at_once(options, |thread, round| {
        let first = (thread + round as usize) % 3;
        let second = (first + 1 + thread % 2) % 3;
        let alone = round % 5 == 0;
        let members = if alone { &[first][..] } else { &[first, second] };
        let batch: Vec<Take<'_>> = members.iter().map(|&index| counter(index).take(Cost::ONE)).collect();
        let charge = if alone { Charge::Each } else { Charge::Together };
        if passes(executor, &store, &batch, charge, options.begins) {
            members.iter().for_each(|&index| {
                admitted[index].fetch_add(1, Relaxed);
            });
        }
        0
    });
    for (index, quota) in limits.iter().enumerate() {
        let got = admitted[index].load(Relaxed);
        let limit = quota.limit();
        expect(LAW, got <= limit, || format!("{got} passed limit {limit}"))?;
        let rest = left(executor, &store, counter(index), options.begins);
        expect(LAW, rest == limit - got, || format!("{got} of {limit} passed, yet {rest} are left"))?;
    }
    Ok(())
}

/// Callers that check, work, and report the cost afterwards: all is counted, in any order; and the admitted
/// work is at most the permits that were left, and one piece of work for each caller.
pub(super) fn charges_at_once_are_all_counted<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "charges_at_once_are_all_counted";
    let callers = options.threads as u64;
    let work = (options.most / (4 * callers)).clamp(1, 900);
    let quota = slow_quota(LAW, 3 * work * callers, options)?;
    let counter = Counter::new(Key(b"worked"), &quota);
    let store = make();
    let pay = |cost| passes(executor, &store, &[counter.pay(Cost(cost))], Charge::Each, options.begins);
    let used = at_once(options, |thread, round| {
        if !pay(0) {
            return 0;
        }
        match (thread as u64 + u64::from(round)) % 3 {
            0 => drop(executor.block_on(store.charge(counter, Cost(work), options.begins))),
            1 => drop(pay(work)),
            _ => {
                // In one batch with others, and beside a take.
                let other = Counter::new(Key(b"beside"), &quota);
                let batch = [other.take(Cost::ONE), counter.pay(Cost(work))];
                passes(executor, &store, &batch, Charge::Each, options.begins);
            }
        }
        work
    });
    let most = quota.limit() + callers * work;
    expect(LAW, used < most, || format!("{used} were used of {}, by {callers} callers", quota.limit()))?;
    let charged = executor.block_on(store.charge(counter, Cost::PEEK, options.begins));
    let (left, owed) = charged.map_or((u64::MAX, 0), |it| (it.remaining(), it.owed()));
    expect(
        LAW,
        left == quota.limit().saturating_sub(used) && owed == used.saturating_sub(quota.limit()),
        || format!("{used} were used of {}, and {left} are left, {owed} owed", quota.limit()),
    )?;
    expect(LAW, !pay(0) || left > 0, || "a check passes where nothing is left".into())
}

/// Every permit that is given back can be taken again, once.
pub(super) fn giving_back_at_once_loses_and_mints_nothing<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "giving_back_at_once_loses_and_mints_nothing";
    let quota = slow_quota(LAW, options.threads as u64 * 3, options)?;
    let counter = Counter::new(Key(b"lent"), &quota);
    let store = make();
    let kept = at_once(options, |_, round| {
        if !passes(executor, &store, &[counter.take(Cost::ONE)], Charge::Each, options.begins) {
            return 0;
        }
        let keep = round % 50 == 0;
        if !keep {
            let _ = executor.block_on(store.give_back(counter, Cost::ONE, options.begins));
        }
        u64::from(keep)
    });
    let rest = left(executor, &store, counter, options.begins);
    expect(LAW, kept + rest == quota.limit(), || {
        format!("{kept} are kept and {rest} are left of {}", quota.limit())
    })
}

/// Callers that reserve ahead, two counters at a time, and give some of them back: each promised instant is
/// one caller's, and permits that one counter denied are left in the other. Not for stores without buckets,
/// which have nothing to promise.
pub(super) fn reserving_at_once_promises_no_permit_twice<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "reserving_at_once_promises_no_permit_twice";
    if options.unsupported.contains(&"token_bucket") {
        return Ok(());
    }
    let many = u64::from(options.takes) * options.threads as u64;
    let fail = |error: tollgate_core::QuotaError| Failure { law: LAW, details: error.to_string() };
    // One permit per second, and a burst of one second's worth; within `max_wait` a quarter of all finds a
    // place.
    let narrow = Quota::token_bucket(1, Duration::from_secs(1)).map_err(fail)?;
    let wide = slow_quota(LAW, many + 1, options)?;
    let places = many / 4;
    let max_wait = Duration::from_secs(places - 1);
    let a = Counter::new(Key(b"narrow"), &narrow);
    let b = Counter::new(Key(b"wide"), &wide);
    let store = make();
    let delays = Mutex::new(Vec::new());
    let kept = at_once(options, |thread, round| {
        let mut batch = [a.take(Cost::ONE), b.take(Cost::ONE)];
        if thread % 2 == 1 {
            batch.reverse();
        }
        let mut verdicts = Verdicts::new();
        executor.block_on(store.reserve(&batch, max_wait, options.begins, &mut verdicts));
        if !verdicts.iter().all(|verdict| verdict.as_ref().is_ok_and(|decision| decision.is_admitted())) {
            return 0;
        }
        if round % 7 == 0 {
            for take in &batch {
                let _ = executor.block_on(store.give_back(take.counter, take.cost, options.begins));
            }
            return 0;
        }
        let delay = verdicts.iter().flatten().map(|it| it.delay()).max();
        delays.lock().extend(delay);
        1
    });
    let delays = delays.into_inner();
    let latest = delays.iter().max().copied().unwrap_or_default();
    expect(LAW, latest <= max_wait, || format!("a wait of {latest:?}, where {max_wait:?} was the most"))?;
    expect(LAW, kept <= places, || format!("{kept} are promised what {places} can have"))?;
    let rest = left(executor, &store, b, options.begins);
    let want = wide.limit() - kept;
    expect(LAW, rest == want, || format!("{kept} are kept, yet {rest} instead of {want} are left"))?;
    // The debt now equals the permits kept: one second for each until all are there.
    let inspection = executor.block_on(store.inspect(a, options.begins));
    let owed = inspection.map_or(u64::MAX, |it| it.decision.reset_after().as_secs());
    expect(LAW, owed == kept, || format!("{kept} are kept, and {owed} are owed"))
}

/// Runs `call(thread, round)` from many threads that begin together; returns the sum of its results.
pub(super) fn at_once(options: &Options, call: impl Fn(usize, u32) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(options.threads);
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..options.threads {
            let barrier = &barrier;
            let sum = &sum;
            let call = &call;
            scope.spawn(move || {
                barrier.wait();
                let own: u64 = (0..options.takes).map(|round| call(thread, round)).sum();
                sum.fetch_add(own, Relaxed);
            });
        }
    });
    sum.into_inner()
}

/// True when every take of the batch is admitted.
pub(super) fn passes(
    executor: &impl Executor,
    store: &impl Store,
    batch: &[Take<'_>],
    charge: Charge,
    now: Timestamp,
) -> bool {
    let mut verdicts = Verdicts::new();
    executor.block_on(store.take(batch, charge, now, &mut verdicts));
    verdicts.iter().all(|verdict| verdict.as_ref().is_ok_and(|decision| decision.is_admitted()))
}

/// The permits left according to a peek; `u64::MAX` when the store gives no answer.
fn left(executor: &impl Executor, store: &impl Store, counter: Counter<'_>, now: Timestamp) -> u64 {
    executor.block_on(store.inspect(counter, now)).map_or(u64::MAX, |it| it.decision.remaining())
}

fn slow_quota(law: &'static str, limit: u64, options: &Options) -> Result<Quota, Failure> {
    quotas::slow(limit, options).map_err(|error| Failure { law, details: error.to_string() })
}

pub(super) fn expect(
    law: &'static str,
    holds: bool,
    details: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure { law, details: details() }) }
}
