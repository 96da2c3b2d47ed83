//! Limits of attempts with passwords: sliding windows in this process.
//!
//! A name from one address has 5 attempts in 5 minutes, and an address 20. So nobody locks out another user
//! by failing in their name from elsewhere. Addresses of IPv6 count by their first 64 bits: a client has all
//! of those.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

use crate::error::ControlError;

const WINDOW_MS: i64 = 5 * 60 * 1_000;

/// Attempts at the same moment read the time in any order. What is further ahead than this is of a clock that
/// was set back since.
const SLACK_MS: i64 = 60_000;
const PER_NAME: usize = 5;
const PER_ADDRESS: usize = 20;

/// Windows that are kept; above it, the half that was used longest ago is forgotten: many addresses must not
/// lock out all others.
const MAX: usize = 20_000;

/// Attempts of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<String, VecDeque<i64>>>);

impl Attempts {
    /// Counts an attempt of `name` from `address`, if it may be made.
    pub(crate) fn begin(&self, address: &str, name: &str, now_ms: i64) -> Result<(), ControlError> {
        let mut windows = self.0.lock();
        if windows.len() + 2 > MAX {
            windows.retain(|_, at| at.iter().max().is_some_and(|at| now_ms - at < WINDOW_MS));
        }
        if windows.len() + 2 > MAX {
            drop_older_half(&mut windows);
        }
        let address = network(address);
        let both = [(of(&address, name), PER_NAME), (address, PER_ADDRESS)];
        for (window, most) in &both {
            let Some(at) = windows.get_mut(window) else { continue };
            // An attempt with an older time forgets nothing newer.
            at.iter_mut().filter(|at| **at > now_ms + SLACK_MS).for_each(|at| *at = now_ms);
            at.retain(|at| now_ms - *at < WINDOW_MS);
            if at.len() >= *most {
                let wait_ms = at.iter().min().map_or(0, |first| first + WINDOW_MS - now_ms);
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
        let address = network(address);
        windows.remove(&of(&address, name));
        if let Some(at) = windows.get_mut(&address) {
            at.pop_back();
        }
    }
}

fn drop_older_half(windows: &mut HashMap<String, VecDeque<i64>>) {
    let mut used: Vec<_> =
        windows.iter().map(|(window, at)| (at.iter().max().copied(), window.clone())).collect();
    used.sort_unstable();
    used.truncate(MAX / 2);
    for (_, window) in used {
        windows.remove(&window);
    }
}

/// The address or network that attempts from an address count for.
fn network(address: &str) -> String {
    match address.parse().map(|it: IpAddr| it.to_canonical()) {
        Ok(IpAddr::V6(it)) => Ipv6Addr::from_bits(it.to_bits() >> 64 << 64).to_string() + "/64",
        Ok(IpAddr::V4(it)) => it.to_string(),
        Err(_) => address.to_owned(),
    }
}

fn of(address: &str, name: &str) -> String {
    format!("{address} {}", name.chars().take(64).collect::<String>().to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

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
    fn never_more_than_five_whatever_time_each_of_a_burst_has_read() {
        for seed in 0..500_u64 {
            let attempts = Attempts::default();
            let mut random = seed;
            let mut next = |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let skew = [1, 50, 5_000, 30_000][usize::try_from(next(4)).expect("an index")];
            let start = 1_000_000 + i64::try_from(next(1_000)).expect("small");
            let at = |it: u64| start + i64::try_from(it).expect("small");
            let made = (0..150 + next(250)).filter(|_| attempts.begin("a", "ann", at(next(skew))).is_ok());
            assert_eq!(made.count(), 5, "seed {seed}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_neither_forgets_attempts_nor_keeps_them_for_longer() {
        let attempts = Attempts::default();
        let hour = 3_600_000;
        (0..5).for_each(|at| attempts.begin("a", "ann", hour + at).expect("one of five"));
        assert!(attempts.begin("a", "ann", 0).is_err(), "an hour back");
        assert!(attempts.begin("a", "ann", WINDOW_MS - 1).is_err());
        attempts.begin("a", "ann", WINDOW_MS).expect("five minutes later");
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let attempts = Attempts::default();
        let made = (0..40).filter(|n| attempts.begin(&format!("2001:db8::{n:x}"), &n.to_string(), 0).is_ok());
        assert_eq!(made.count(), 20);
        attempts.begin("2001:db8:0:1::1", "ann", 0).expect("another network");
        let mapped = (0..40).filter(|n| attempts.begin(&format!("::ffff:10.0.0.{n}"), "ann", 0).is_ok());
        assert_eq!(mapped.count(), 40, "mapped addresses of IPv4 are clients of their own");
    }

    #[test]
    fn attempts_from_very_many_addresses_lock_nobody_out() {
        let attempts = Attempts::default();
        for n in 0..30_000_u32 {
            attempts.begin(&Ipv4Addr::from_bits(n).to_string(), "eve", i64::from(n)).expect("its first");
            assert!(attempts.remembered() <= MAX);
        }
        attempts.begin("192.0.2.1", "ann", 30_000).expect("let in");
        for _ in 0..4 {
            attempts.begin("192.0.2.1", "ann", 30_000).expect("one of five");
        }
        assert!(attempts.begin("192.0.2.1", "ann", 30_000).is_err(), "counted all the same");
    }

    #[test]
    fn an_address_has_twenty_attempts_over_all_names() {
        let attempts = Attempts::default();
        let made = (0..40).filter(|n| attempts.begin("a", &format!("user{n}"), 0).is_ok()).count();
        assert_eq!(made, 20);
    }
}
