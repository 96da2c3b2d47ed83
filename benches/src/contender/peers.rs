//! The peers that are crates, each used as its own documentation shows.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::SystemTime;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};
use limitador::limit::{Limit, Namespace};
use parking_lot::Mutex;
use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Allowance, Contender, ContenderKind};

pub(crate) fn make(kind: ContenderKind, allowance: Allowance, keys: u64) -> Option<Box<dyn Contender>> {
    match kind {
        ContenderKind::Governor => {
            Some(Box::new(Governor(governor::RateLimiter::keyed(governor_quota(allowance)?))))
        }
        ContenderKind::GovernorUnkeyed => {
            Some(Box::new(GovernorUnkeyed(governor::RateLimiter::direct(governor_quota(allowance)?))))
        }
        ContenderKind::Throttlecrab | ContenderKind::ThrottlecrabLocked => {
            // Not one sweep within a run: the sweeps are a fault of their own, and would hide the cost of a
            // decision.
            let store =
                PeriodicStore::builder().cleanup_interval(std::time::Duration::from_secs(86_400)).build();
            let limiter = Mutex::new(RateLimiter::new(store));
            let crab = Throttlecrab { limiter, allowance };
            Some(if kind == ContenderKind::Throttlecrab { Box::new(crab) } else { Box::new(Locked(crab)) })
        }
        ContenderKind::Limitador => {
            // The second argument is the greatest number of counters.
            let limiter = limitador::RateLimiter::new(keys + keys / 8 + 1_000);
            let user = "user".try_into().ok()?;
            let seconds = allowance.every.as_secs();
            limiter.add_limit(Limit::new("bench", u64::from(allowance.burst), seconds, [], [user]));
            Some(Box::new(Limitador { limiter, namespace: "bench".into() }))
        }
        _ => None,
    }
}

fn governor_quota(allowance: Allowance) -> Option<governor::Quota> {
    Some(governor::Quota::with_period(allowance.every)?.allow_burst(NonZeroU32::new(allowance.burst)?))
}

struct GovernorUnkeyed(DefaultDirectRateLimiter);

impl Contender for GovernorUnkeyed {
    fn pass(&self, keys: &[String]) -> u64 {
        keys.iter().map(|_| u64::from(self.0.check().is_ok())).sum()
    }
}

struct Governor(DefaultKeyedRateLimiter<String>);

impl Contender for Governor {
    fn pass(&self, keys: &[String]) -> u64 {
        keys.iter().map(|key| u64::from(self.0.check_key(key).is_ok())).sum()
    }
}

struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    allowance: Allowance,
}

impl Throttlecrab {
    #[inline]
    fn decide(limiter: &mut RateLimiter<PeriodicStore>, key: &str, allowance: Allowance) -> bool {
        #[allow(clippy::disallowed_methods, reason = "this peer is handed the time by its caller")]
        let now = SystemTime::now();
        let period = allowance.every.as_secs().cast_signed();
        limiter
            .rate_limit(key, i64::from(allowance.burst), 1, period, 1, now)
            .is_ok_and(|(admitted, _)| admitted)
    }
}

/// Alone on one thread: the lock is taken once a pass, so it costs nothing.
impl Contender for Throttlecrab {
    fn pass(&self, keys: &[String]) -> u64 {
        let mut limiter = self.limiter.lock();
        keys.iter().map(|key| u64::from(Self::decide(&mut limiter, key, self.allowance))).sum()
    }
}

struct Locked(Throttlecrab);

impl Contender for Locked {
    fn pass(&self, keys: &[String]) -> u64 {
        let crab = &self.0;
        let decide = |key: &String| Throttlecrab::decide(&mut crab.limiter.lock(), key, crab.allowance);
        keys.iter().map(|key| u64::from(decide(key))).sum()
    }
}

struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Contender for Limitador {
    fn pass(&self, keys: &[String]) -> u64 {
        let decide = |key: &String| {
            let context = HashMap::from([("user".to_owned(), key.clone())]).into();
            let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
            answer.is_ok_and(|answer| !answer.limited)
        };
        keys.iter().map(|key| u64::from(decide(key))).sum()
    }
}
