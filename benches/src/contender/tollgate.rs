//! Ours: the memory store under one quota, the machine's clock read once a call; and the library's limiter
//! without keys.

use tollgate::{KeyedRateLimiter, Quota, RateLimiter};
use tollgate_clock::SystemClock;
use tollgate_core::{Algorithm, Clock as _, Cost, Decision, Period, Refill};
use tollgate_store::{Charge, Counter, Key, Take, Verdicts};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use super::{Allowance, Contender};

const BATCH: usize = 16;

pub(crate) struct Tollgate {
    store: MemoryStore,
    quota: tollgate_core::Quota,
    clock: SystemClock,
}

fn token_bucket(allowance: Allowance) -> Option<tollgate_core::Quota> {
    let burst = Some(u64::from(allowance.burst));
    let refill = Refill::Continuous;
    let algorithm = Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill };
    tollgate_core::Quota::new(1, Period::Span(allowance.every), algorithm).ok()
}

impl Tollgate {
    pub(crate) fn token_bucket(allowance: Allowance) -> Option<Self> {
        Some(Self::under(token_bucket(allowance)?))
    }

    pub(crate) fn fixed_window(allowance: Allowance) -> Option<Self> {
        Some(Self::under(
            tollgate_core::Quota::fixed_window(u64::from(allowance.burst), allowance.every).ok()?,
        ))
    }

    fn under(quota: tollgate_core::Quota) -> Self {
        Self { store: MemoryStore::new(MemoryConfig::default()), quota, clock: SystemClock::new() }
    }
}

impl Contender for Tollgate {
    fn pass(&self, keys: &[String]) -> u64 {
        let decide = |key: &String| {
            let decision = self.store.take_one(
                Counter::new(Key(key.as_bytes()), &self.quota),
                Cost::ONE,
                self.clock.now(),
            );
            decision.is_admitted()
        };
        keys.iter().map(|key| u64::from(decide(key))).sum()
    }
}

/// The same, 16 takes per call.
pub(crate) struct Batches(pub(crate) Tollgate);

impl Contender for Batches {
    fn pass(&self, keys: &[String]) -> u64 {
        let Tollgate { store, quota, clock } = &self.0;
        let (batches, rest) = keys.as_chunks::<BATCH>();
        let mut verdicts = Verdicts::with_capacity(BATCH);
        let mut admitted = self.0.pass(rest);
        for batch in batches {
            let takes = batch.each_ref().map(|key| take(key, quota));
            store.take_now(&takes, Charge::Each, clock.now(), &mut verdicts);
            let passed = verdicts.drain(..).flatten().filter(Decision::is_admitted);
            admitted += passed.count() as u64;
        }
        admitted
    }
}

fn take<'a>(key: &'a str, quota: &'a tollgate_core::Quota) -> Take<'a> {
    Counter::new(Key(key.as_bytes()), quota).take(Cost::ONE)
}

/// No key: the library's limiter, as a program has one that limits itself.
pub(crate) struct Unkeyed(RateLimiter);

impl Unkeyed {
    pub(crate) fn new(allowance: Allowance) -> Option<Self> {
        let quota = Quota::token_bucket(1, allowance.every).burst(u64::from(allowance.burst));
        Some(Self(RateLimiter::direct(quota).ok()?))
    }
}

impl Contender for Unkeyed {
    fn pass(&self, keys: &[String]) -> u64 {
        keys.iter().map(|_| u64::from(self.0.check().is_ok())).sum()
    }
}

/// The library's limiter by key.
pub(crate) struct Keyed(KeyedRateLimiter<str>);

impl Keyed {
    pub(crate) fn new(allowance: Allowance) -> Option<Self> {
        let quota = Quota::token_bucket(1, allowance.every).burst(u64::from(allowance.burst));
        Some(Self(RateLimiter::keyed(quota).ok()?))
    }
}

impl Contender for Keyed {
    fn pass(&self, keys: &[String]) -> u64 {
        keys.iter().map(|key| u64::from(self.0.check(key.as_str()).is_ok())).sum()
    }
}
