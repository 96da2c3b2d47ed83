//! The model with one fault of the kinds that real stores have had.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Acquired, Cost, Decision, Holder, Quota, Released, Slots, Timestamp};
use tollgate_store::{
    Charge, Counter, Inspection, Key, ModelStore, Payment, SlotKey, Store, StoreError, StoreName, Take,
    Verdicts,
};

/// The mistake of a faulty store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFault {
    DeniedIsCharged,
    PeekCharges,
    GivesBackAboveFull,
    GivesBackNothing,
    BatchIsReversed,
    RepeatedKeysAreBlind,
    FirstQuotaCountsAll,
    TogetherIsEach,
    TogetherKeepsTheFirst,
    TogetherStopsAtADenial,
    TimeNeverGoesBack,
    StepBackForgets,
    LongKeysAreCut,
    NulEndsAKey,
    ResetDoesNothing,
    ResetForgetsAll,
    InspectIsATake,
    EverythingIsTracked,
    VerdictsAreCleared,
    OneAnswerIsMissing,
    ReadThenWrite,
    TogetherIsNotAtomic,
    ReserveWaitsForNothing,
    ReserveWaitsForever,
    ReserveKeepsTheFirst,
    ReserveIsNotAtomic,
    ChargeAsksFirst,
    PayAsksFirst,
    PayIsNotAtomic,
    PayIsNeverDenied,
    PayDeniesWhatDoesNotFit,
    CheckTakesOne,
    DebtIsCut,
    SlotsNeverLapse,
    ReleaseFreesTheOldest,
    RenewalTakesAnother,
    OneSlotTooMany,
    AcquireIsNotAtomic,
}

pub(crate) struct Faulty {
    fault: StoreFault,
    model: Mutex<ModelStore>,
    /// Latest time seen, and permits given back beyond a full quota.
    memory: Mutex<(Timestamp, u64)>,
}

impl Faulty {
    pub(crate) fn new(fault: StoreFault) -> Self {
        Self { fault, model: Mutex::default(), memory: Mutex::default() }
    }

    fn is(&self, fault: StoreFault) -> bool {
        self.fault == fault
    }

    /// The time that the faulty store believes in.
    fn time(&self, now: Timestamp) -> Timestamp {
        let mut memory = self.memory.lock();
        let latest = memory.0;
        memory.0 = latest.max(now);
        if now < latest && self.is(StoreFault::StepBackForgets) {
            *self.model.lock() = ModelStore::default();
        }
        if self.is(StoreFault::TimeNeverGoesBack) { memory.0 } else { now }
    }

    fn counter<'a>(&self, counter: Counter<'a>) -> Counter<'a> {
        let bytes = counter.key.0;
        let key = match self.fault {
            StoreFault::LongKeysAreCut => Key(&bytes[..bytes.len().min(256)]),
            StoreFault::NulEndsAKey => Key(bytes.split(|&byte| byte == 0).next().unwrap_or_default()),
            _ => counter.key,
        };
        Counter { key, ..counter }
    }

    fn batch<'a>(&self, batch: &[Take<'a>]) -> Vec<Take<'a>> {
        batch.iter().map(|take| Take { counter: self.counter(take.counter), ..*take }).collect()
    }

    fn one(&self, model: &ModelStore, take: Take<'_>, charge: Charge, now: Timestamp) -> Decision {
        let mut verdicts = Verdicts::new();
        tollgate_store::block_on(model.take(&[take], charge, now, &mut verdicts));
        verdicts.remove(0).expect("the model has no errors")
    }

    /// A take that is paid afterwards, as the store understands it.
    fn misread(&self, take: &mut Take<'_>) {
        match self.fault {
            // What does not fit is refused and forgotten.
            StoreFault::PayAsksFirst if !take.cost.is_peek() => take.payment = Payment::Ahead,
            StoreFault::CheckTakesOne if take.cost.is_peek() => take.cost = Cost::ONE,
            StoreFault::PayIsNeverDenied => take.payment = Payment::Consumed,
            StoreFault::DebtIsCut => take.cost = take.cost.min(Cost(take.counter.quota.burst())),
            _ => {}
        }
    }

    fn take_now(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp) -> Verdicts {
        let mut batch = self.batch(batch);
        batch.iter_mut().filter(|take| take.payment.is_after()).for_each(|take| self.misread(take));
        let model = self.model.lock();
        let mut verdicts = Verdicts::new();
        let mut run = |batch: &[Take<'_>], charge| {
            tollgate_store::block_on(model.take(batch, charge, now, &mut verdicts));
        };
        match self.fault {
            StoreFault::PeekCharges => {
                batch.iter_mut().for_each(|take| take.cost = take.cost.max(Cost::ONE));
                run(&batch, charge);
            }
            StoreFault::BatchIsReversed => {
                batch.reverse();
                run(&batch, charge);
                verdicts.reverse();
            }
            StoreFault::FirstQuotaCountsAll => {
                for index in 1..batch.len() {
                    let of_key = |take: &&Take<'_>| take.counter.key == batch[index].counter.key;
                    if let Some(quota) = batch[..index].iter().find(of_key).map(|take| take.counter.quota) {
                        batch[index].counter.quota = quota;
                    }
                }
                run(&batch, charge);
            }
            StoreFault::TogetherIsEach => run(&batch, Charge::Each),
            StoreFault::TogetherKeepsTheFirst => {
                run(&batch, charge);
                if charge == Charge::Together && verdicts.iter().flatten().any(|it| !it.is_admitted()) {
                    let _ = self.one(&model, batch[0], Charge::Each, now);
                }
            }
            StoreFault::TogetherStopsAtADenial => {
                run(&batch, charge);
                let denied = verdicts.iter().position(|it| it.as_ref().is_ok_and(|it| !it.is_admitted()));
                if let (Charge::Together, Some(index)) = (charge, denied) {
                    let answer = *verdicts[index].as_ref().expect("the model has no errors");
                    verdicts[index..].iter_mut().for_each(|it| *it = Ok(answer));
                }
            }
            StoreFault::DeniedIsCharged => {
                run(&batch, charge);
                for (take, verdict) in batch.iter().zip(&verdicts) {
                    let decision = verdict.as_ref().expect("the model has no errors");
                    if charge == Charge::Each && !decision.is_admitted() && decision.remaining() > 0 {
                        let cost = Cost(decision.remaining());
                        let _ = self.one(&model, Take { cost, ..*take }, Charge::Each, now);
                    }
                }
            }
            StoreFault::RepeatedKeysAreBlind => {
                let alone: Vec<_> = batch
                    .iter()
                    .map(|take| self.one(&model, Take { cost: Cost::PEEK, ..*take }, Charge::Each, now))
                    .collect();
                run(&batch, charge);
                for index in 1..batch.len() {
                    let is_repeated =
                        batch[..index].iter().any(|take| take.counter.key == batch[index].counter.key);
                    if is_repeated && batch[index].cost.is_peek() {
                        verdicts[index] = Ok(alone[index]);
                    }
                }
            }
            StoreFault::PayDeniesWhatDoesNotFit => {
                run(&batch, charge);
                for (take, verdict) in batch.iter().zip(&mut verdicts) {
                    let decision = verdict.as_ref().expect("the model has no errors");
                    if take.payment == Payment::After && decision.owed() > 0 && decision.is_admitted() {
                        *verdict = Ok(self.one(&model, Take { cost: Cost::PEEK, ..*take }, charge, now));
                    }
                }
            }
            _ => run(&batch, charge),
        }
        verdicts
    }

    /// Asks first, and takes in a second step that another caller may come before.
    fn take_in_two_steps(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp) -> Verdicts {
        let mut peeks = batch.to_vec();
        peeks.iter_mut().for_each(|take| take.cost = Cost::PEEK);
        let seen = self.take_now(&peeks, Charge::Each, now);
        let enough = |(take, seen): (&Take<'_>, &Result<Decision, StoreError>)| {
            seen.as_ref().is_ok_and(|seen| seen.remaining() >= take.cost.permits())
        };
        std::thread::yield_now();
        if !batch.iter().zip(&seen).all(enough) {
            return self.take_now(batch, charge, now);
        }
        let mut got = self.take_now(batch, Charge::Each, now);
        for (got, seen) in got.iter_mut().zip(seen) {
            if got.as_ref().is_ok_and(|got| !got.is_admitted()) {
                *got = seen;
            }
        }
        got
    }
}

impl Store for Faulty {
    fn name(&self) -> StoreName {
        StoreName::new("faulty")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let now = self.time(now);
        // Right for a single caller: only the checks with many callers are to find it.
        let is_checked = |key: Key<'_>| matches!(key.0, b"hot" | b"narrow" | b"wide");
        if self.is(StoreFault::PayIsNotAtomic)
            && let [take] = batch
            && take.counter.key == Key(b"worked")
            && !take.cost.is_peek()
        {
            // Reads the permits left, and writes them in a second step that another caller may come before.
            let seen = self.take_now(&[Take { cost: Cost::PEEK, ..*take }], charge, now).remove(0);
            let seen = seen.expect("the model has no errors");
            std::thread::yield_now();
            let model = self.model.lock();
            let _ = tollgate_store::block_on(model.reset(take.counter, now));
            let quota = take.counter.quota;
            let used = quota.burst() - seen.remaining() + seen.owed() + take.cost.permits();
            let written = tollgate_store::block_on(model.charge(take.counter, Cost(used), now));
            return verdicts.push(written);
        }
        let races = match self.fault {
            StoreFault::ReadThenWrite => charge == Charge::Each,
            StoreFault::TogetherIsNotAtomic => charge == Charge::Together,
            _ => false,
        };
        let mut got = if races && is_checked(batch[0].counter.key) {
            self.take_in_two_steps(batch, charge, now)
        } else {
            self.take_now(batch, charge, now)
        };
        match self.fault {
            StoreFault::VerdictsAreCleared => verdicts.clear(),
            StoreFault::OneAnswerIsMissing if got.len() > 1 => drop(got.pop()),
            StoreFault::GivesBackAboveFull => {
                let mut memory = self.memory.lock();
                for verdict in &mut got {
                    if memory.1 > 0 && verdict.as_ref().is_ok_and(|it| !it.is_admitted()) {
                        memory.1 -= 1;
                        let quota = Quota::token_bucket(1, Duration::from_secs(1)).expect("in bounds");
                        let take = Counter::new(Key(b"spare"), &quota).take(Cost::PEEK);
                        *verdict = Ok(self.one(&ModelStore::default(), take, Charge::Each, now));
                    }
                }
            }
            _ => {}
        }
        verdicts.append(&mut got);
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let counter = self.counter(counter);
        let now = self.time(now);
        let model = self.model.lock();
        if self.is(StoreFault::GivesBackNothing) {
            return tollgate_store::block_on(model.give_back(counter, Cost(0), now));
        }
        let decision = tollgate_store::block_on(model.give_back(counter, cost, now))?;
        if decision.reset_after().is_zero() {
            self.memory.lock().1 += 1;
        }
        Ok(decision)
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let now = self.time(now);
        let batch = self.batch(batch);
        let is_atomic = !(self.is(StoreFault::ReserveIsNotAtomic) && batch[0].counter.key == Key(b"wide"));
        if !is_atomic {
            // Permits denied late are given back, but others lacked them meanwhile.
            let mut seen = Verdicts::new();
            for take in &batch {
                let model = self.model.lock();
                tollgate_store::block_on(model.reserve(&[*take], max_wait, now, &mut seen));
                drop(model);
                std::thread::yield_now();
            }
            verdicts.append(&mut seen);
            return;
        }
        let max_wait = match self.fault {
            StoreFault::ReserveWaitsForNothing => Duration::ZERO,
            StoreFault::ReserveWaitsForever => Duration::MAX,
            _ => max_wait,
        };
        let model = self.model.lock();
        let begin = verdicts.len();
        tollgate_store::block_on(model.reserve(&batch, max_wait, now, verdicts));
        let is_denied = verdicts[begin..].iter().flatten().any(|it| !it.is_admitted());
        if self.is(StoreFault::ReserveKeepsTheFirst) && is_denied {
            let _ = self.one(&model, batch[0], Charge::Each, now);
        }
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        let counter = self.counter(counter);
        let now = self.time(now);
        let model = self.model.lock();
        if self.is(StoreFault::ChargeAsksFirst) {
            return Ok(self.one(&model, counter.take(cost), Charge::Each, now));
        }
        tollgate_store::block_on(model.charge(counter, cost, now))
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let counter = self.counter(counter);
        let now = self.time(now);
        let mut model = self.model.lock();
        if self.is(StoreFault::ResetDoesNothing) {
            return Ok(tollgate_store::block_on(model.inspect(counter, now))?.is_tracked);
        }
        let answer = tollgate_store::block_on(model.reset(counter, now));
        if self.is(StoreFault::ResetForgetsAll) {
            *model = ModelStore::default();
        }
        answer
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        let counter = self.counter(counter);
        let now = self.time(now);
        let model = self.model.lock();
        let mut inspection = tollgate_store::block_on(model.inspect(counter, now))?;
        if self.is(StoreFault::InspectIsATake) {
            let _ = self.one(&model, counter.take(Cost::ONE), Charge::Each, now);
        }
        inspection.is_tracked |= self.is(StoreFault::EverythingIsTracked);
        Ok(inspection)
    }

    async fn acquire(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Acquired, StoreError> {
        let with = |limit, ttl| Slots::new(limit, ttl).expect("slots");
        // Right for a single caller: only the checks with many callers are to find it.
        let is_checked = key.key == Key(b"busy");
        let mut model = self.model.lock();
        let slots = match self.fault {
            StoreFault::SlotsNeverLapse => with(slots.limit(), Quota::LONGEST_PERIOD),
            StoreFault::OneSlotTooMany if is_checked => with(slots.limit() + 1, slots.ttl()),
            StoreFault::AcquireIsNotAtomic if is_checked => {
                // Asks whether a slot is free, and takes one in a second step that another caller may come
                // before.
                let free = tollgate_store::block_on(model.acquire(key, slots, holder, now))?;
                if !free.is_admitted() {
                    return Ok(free);
                }
                tollgate_store::block_on(model.release(key, slots, holder, now))?;
                drop(model);
                std::thread::yield_now();
                model = self.model.lock();
                with(Slots::MOST, slots.ttl())
            }
            _ => *slots,
        };
        let mut holder = holder;
        if self.is(StoreFault::RenewalTakesAnother) {
            let mut memory = self.memory.lock();
            memory.1 += 1;
            holder.0 ^= u128::from(memory.1) << 64;
        }
        tollgate_store::block_on(model.acquire(key, &slots, holder, now))
    }

    async fn release(
        &self,
        key: SlotKey<'_>,
        slots: &Slots,
        holder: Holder,
        now: Timestamp,
    ) -> Result<Released, StoreError> {
        let model = self.model.lock();
        let oldest = if self.is(StoreFault::ReleaseFreesTheOldest) { 0..6 } else { 0..0 };
        for other in oldest.map(Holder) {
            let released = tollgate_store::block_on(model.release(key, slots, other, now))?;
            if released.was_held {
                return Ok(released);
            }
        }
        tollgate_store::block_on(model.release(key, slots, holder, now))
    }
}
