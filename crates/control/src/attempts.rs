//! How often passwords may be tried: sliding windows in this process.
//!
//! A name from one address has 5 attempts in 5 minutes, and an address 20. So nobody locks out another user
//! by failing in their name from elsewhere.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::error::ControlError;

const WINDOW_MS: i64 = 5 * 60 * 1_000;
const PER_NAME: usize = 5;
const PER_ADDRESS: usize = 20;

/// Windows that are kept; above it, attempts are rejected until old ones end.
const MAX: usize = 20_000;

/// Attempts of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<String, VecDeque<i64>>>);

impl Attempts {
    /// Counts an attempt of `name` from `address`, if it may be made.
    pub(crate) fn begin(&self, address: &str, name: &str, now_ms: i64) -> Result<(), ControlError> {
        let mut windows = self.0.lock();
        if windows.len() + 2 > MAX {
            windows.retain(|_, at| at.back().is_some_and(|at| now_ms - at < WINDOW_MS));
            if windows.len() + 2 > MAX {
                return Err(ControlError::TooMany { seconds: 60 });
            }
        }
        let both = [(of(address, name), PER_NAME), (address.to_owned(), PER_ADDRESS)];
        for (window, most) in &both {
            let Some(at) = windows.get_mut(window) else { continue };
            at.retain(|at| (0..WINDOW_MS).contains(&(now_ms - at)));
            if at.len() >= *most {
                let wait_ms = at.front().map_or(0, |first| first + WINDOW_MS - now_ms);
                return Err(ControlError::TooMany { seconds: wait_ms.unsigned_abs().div_ceil(1_000).max(1) });
            }
        }
        for (window, _) in both {
            windows.entry(window).or_default().push_back(now_ms);
        }
        Ok(())
    }

    /// Windows that are kept now.
    pub(crate) fn remembered(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets the attempts of a name that got in: people behind one address do not keep each other out.
    pub(crate) fn succeeded(&self, address: &str, name: &str) {
        let mut windows = self.0.lock();
        windows.remove(&of(address, name));
        if let Some(at) = windows.get_mut(address) {
            at.pop_back();
        }
    }
}

fn of(address: &str, name: &str) -> String {
    format!("{address} {}", name.chars().take(64).collect::<String>().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_in_five_minutes_and_the_next_when_the_first_is_old() {
        let attempts = Attempts::default();
        for at in 0..5 {
            attempts.begin("a", "ann", at * 1_000).expect("one of five");
        }
        let waits = |address, name, at| match attempts.begin(address, name, at) {
            Err(ControlError::TooMany { seconds }) => seconds,
            _ => 0,
        };
        assert_eq!(waits("a", "ANN", 5_000), 295);
        assert_eq!(waits("b", "ann", 5_000), 0, "from elsewhere");
        assert_eq!(waits("a", "ann", 299_999), 1);
        assert_eq!(waits("a", "ann", 300_000), 0);
        attempts.succeeded("a", "ann");
        assert_eq!(waits("a", "ann", 300_001), 0);
    }

    #[test]
    fn an_address_has_twenty_attempts_over_all_names() {
        let attempts = Attempts::default();
        let made = (0..40).filter(|n| attempts.begin("a", &format!("user{n}"), 0).is_ok()).count();
        assert_eq!(made, 20);
    }
}
