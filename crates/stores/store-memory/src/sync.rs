//! The atomics and locks of this crate, in one place, so that the loom tests can put their own beneath them.
//!
//! Not here: any algorithm.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

#[cfg(not(loom))]
pub(crate) use crate::atomic128::{AtomicU128, InLine};
#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use self::modelled::{AtomicU128, InLine, Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

#[cfg(loom)]
mod modelled {
    use std::collections::HashMap;
    use std::sync::atomic::Ordering;
    use std::sync::{LazyLock, PoisonError};

    pub(crate) use loom::sync::MutexGuard;

    /// Loom's mutex with the calls of parking_lot's.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Every 128-bit value that was ever stored, by number: loom knows atomics of 64 bits only, so it is
    /// given the number. Equal values have equal numbers, which is all that compare-and-swap asks.
    static VALUES: LazyLock<parking_lot::Mutex<(HashMap<u128, u64>, Vec<u128>)>> =
        LazyLock::new(|| parking_lot::Mutex::new((HashMap::from([(0, 0)]), vec![0])));

    fn number(value: u128) -> u64 {
        let (numbers, values) = &mut *VALUES.lock();
        *numbers.entry(value).or_insert_with(|| {
            values.push(value);
            values.len() as u64 - 1
        })
    }

    fn value(number: u64) -> u128 {
        VALUES.lock().1[number as usize]
    }

    /// The instructions of the fast path.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct InLine(());

    impl InLine {
        pub(crate) fn if_possible() -> Option<Self> {
            Some(Self(()))
        }

        /// In two loads, as on a processor: the halves may be of different states.
        pub(crate) fn glance(self, word: &AtomicU128) -> u128 {
            const LOW: u128 = u64::MAX as u128;
            let low = word.load(Ordering::Acquire) & LOW;
            word.load(Ordering::Acquire) & !LOW | low
        }

        pub(crate) fn low_half(self, word: &AtomicU128) -> u32 {
            word.load(Ordering::Acquire) as u32
        }

        pub(crate) fn load(self, word: &AtomicU128) -> u128 {
            word.load(Ordering::Acquire)
        }

        pub(crate) fn replace(self, word: &AtomicU128, old: u128, new: u128) -> Result<u128, u128> {
            word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU128(loom::sync::atomic::AtomicU64);

    impl AtomicU128 {
        pub(crate) fn load(&self, order: Ordering) -> u128 {
            value(self.0.load(order))
        }

        pub(crate) fn store(&self, new: u128, order: Ordering) {
            self.0.store(number(new), order);
        }

        pub(crate) fn compare_exchange(
            &self,
            old: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            self.0.compare_exchange(number(old), number(new), success, failure).map(value).map_err(value)
        }
    }
}
