//! A cap on recorded rejections of one user: a program that repeats its mistake must not fill the audit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

const WINDOW_MS: i64 = 60_000;

/// Entries of one user in a window.
const MOST: u32 = 60;

/// Users that are remembered; above it, those whose window has passed are forgotten.
const MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Window {
    since: i64,
    recorded: u32,
    left_out: u64,
}

/// Windows by user.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    windows: Mutex<HashMap<String, Window>>,
    left_out: AtomicU64,
}

impl Rejections {
    /// Whether a rejected change of `user` is recorded now: the number of those that were left out since the
    /// last one that was, or `None`.
    pub(crate) fn admit(&self, user: &str, now_ms: i64) -> Option<u64> {
        let admitted = self.try_admit(user, now_ms);
        if admitted.is_none() {
            self.left_out.fetch_add(1, Relaxed);
        }
        admitted
    }

    /// Number of rejections that were not recorded since the start.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    fn try_admit(&self, user: &str, now_ms: i64) -> Option<u64> {
        let mut windows = self.windows.lock();
        if windows.len() >= MAX {
            windows.retain(|_, it| now_ms - it.since < WINDOW_MS);
            if windows.len() >= MAX {
                return None;
            }
        }
        let window = windows.entry(user.to_owned()).or_default();
        if !(0..WINDOW_MS).contains(&(now_ms - window.since)) {
            (window.since, window.recorded) = (now_ms, 0);
        }
        if window.recorded == MOST {
            window.left_out += 1;
            return None;
        }
        window.recorded += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_a_minute_are_recorded_and_the_next_says_how_many_were_not() {
        let rejections = Rejections::default();
        for n in 0..60 {
            assert_eq!(rejections.admit("ann", n), Some(0));
        }
        for at in [60, 59_999] {
            assert_eq!(rejections.admit("ann", at), None);
        }
        assert_eq!(rejections.admit("bob", 60_000), Some(0));
        assert_eq!(rejections.admit("ann", 60_000), Some(2));
        assert_eq!(rejections.admit("ann", 60_001), Some(0));
        assert_eq!(rejections.left_out(), 2);
    }
}
