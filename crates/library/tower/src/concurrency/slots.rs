//! The slots of a layer, and the slot of a request.

use std::time::Duration;

use tollgate::adaptive::Finish;
use tollgate::{
    AdaptiveGuard, AdaptiveLimiter, Clock, ConcurrencyGuard, ConcurrencyLimiter, EnterError,
    KeyedConcurrencyLimiter,
};

use crate::key::{Head, Key, KeyBytes, key_of};

/// Source of the slots of requests.
#[derive(Debug)]
pub(super) enum Slots<C> {
    Fixed(ConcurrencyLimiter),
    Keyed(KeyedConcurrencyLimiter<[u8]>, Key),
    Adaptive(AdaptiveLimiter<C>),
}

impl<C> Clone for Slots<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(limiter) => Self::Fixed(limiter.clone()),
            Self::Keyed(limiter, key) => Self::Keyed(limiter.clone(), key.clone()),
            Self::Adaptive(limiter) => Self::Adaptive(limiter.clone()),
        }
    }
}

impl<C: Clock> Slots<C> {
    /// Key by which a request is counted.
    pub(super) fn key(&self, head: &Head<'_>) -> KeyBytes {
        match self {
            Self::Keyed(_, key) => key_of(std::slice::from_ref(key), head).0,
            Self::Fixed(_) | Self::Adaptive(_) => KeyBytes::new(),
        }
    }

    /// Takes a slot, for which a request waits at most `max_wait`.
    pub(super) async fn enter(&self, key: &KeyBytes, max_wait: Duration) -> Result<Slot<C>, EnterError> {
        if max_wait.is_zero() {
            let taken = match self {
                Self::Fixed(limiter) => limiter.try_enter().map(Slot::Fixed),
                Self::Keyed(limiter, _) => limiter.try_enter(key.as_slice()).map(Slot::Fixed),
                Self::Adaptive(limiter) => limiter.try_enter().map(Slot::Adaptive),
            };
            return taken.map_err(|_| EnterError::TimedOut { timeout: max_wait });
        }
        match self {
            Self::Fixed(limiter) => limiter.enter_within(1, max_wait).await.map(Slot::Fixed),
            Self::Keyed(limiter, _) => {
                limiter.enter_within(key.as_slice(), 1, max_wait).await.map(Slot::Fixed)
            }
            Self::Adaptive(limiter) => limiter.enter_within(max_wait).await.map(Slot::Adaptive),
        }
    }

    pub(super) fn set_max_waiting(&self, most: usize) {
        match self {
            Self::Fixed(limiter) => limiter.set_max_waiting(most),
            Self::Keyed(limiter, _) => limiter.set_max_waiting(most),
            Self::Adaptive(limiter) => limiter.set_max_waiting(most),
        }
    }
}

/// A slot that a request holds. Dropped, it is given up, and shows nothing about load.
#[derive(Debug)]
pub(super) enum Slot<C: Clock> {
    Fixed(ConcurrencyGuard),
    Adaptive(AdaptiveGuard<C>),
}

impl<C: Clock> Slot<C> {
    pub(super) fn finish(self, how: Finish) {
        match self {
            Self::Fixed(slot) => drop(slot),
            Self::Adaptive(call) => call.finish(how),
        }
    }
}
