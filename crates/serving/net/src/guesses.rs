//! Slows down the guessing of passwords and tokens, by address.
//!
//! Each address has [`FREE`] wrong guesses, and another one every [`EVERY`]. A client that has none left is
//! rejected before its secret is compared, also if it is right, so that it learns nothing. The same wrong
//! secret again is no further guess: a client with an old password that tries again and again must not lock
//! out its neighbours behind one address. Addresses are remembered only while guesses are missing, and their
//! number is bounded. Not here: any secret; only a keyed hash of the last wrong one is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::Timestamp;

/// Wrong guesses of an address at once.
const FREE: u32 = 10;

/// Time until an address has another guess.
const EVERY: Duration = Duration::from_secs(1);

/// Addresses that are remembered. Further ones share one place, so that a flood of addresses slows itself.
const MAX_ADDRESSES: usize = 4_096;

/// The place of clients without an address, and of those that find none.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Guesses at the secret of one surface. One value serves all workers.
///
/// # Example
/// ```
/// # use tollgate_core::Timestamp;
/// # use tollgate_net::{Guess, Guesses};
/// let (guesses, noon) = (Guesses::new("http"), Timestamp::from_unix_seconds(1_700_000_000));
/// let eve = Some([192, 0, 2, 7].into());
/// for guess in 0..10 {
///     assert_eq!(guesses.judge(eve, noon, guess, || false), Guess::Wrong);
/// }
/// assert_eq!(guesses.judge(eve, noon, b"right", || true), Guess::Slowed { seconds: 1 });
/// assert_eq!(guesses.judge(Some([192, 0, 2, 8].into()), noon, b"right", || true), Guess::Right);
/// assert_eq!((guesses.wrong(), guesses.slowed()), (10, 1));
/// ```
#[derive(Debug)]
pub struct Guesses {
    surface: &'static str,
    addresses: Mutex<Addresses>,
    /// Some address is remembered; without one, right guesses take no lock.
    is_slowing: AtomicBool,
    wrong: AtomicU64,
    slowed: AtomicU64,
    hasher: RandomState,
}

/// Result of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// It is the secret.
    Right,
    /// It is not.
    Wrong,
    /// It was not compared: its address has guessed wrong too often.
    Slowed {
        /// Time until the address has another guess, in seconds, rounded up.
        seconds: u64,
    },
}

/// Guesses by address.
#[derive(Debug, Default)]
struct Addresses {
    guessing: HashMap<IpAddr, Guessing>,
    /// When those that have all their guesses were last removed.
    swept: Option<Timestamp>,
}

/// Guesses of one address.
#[derive(Clone, Copy, Debug)]
struct Guessing {
    /// When it will have all its guesses again.
    restored: Timestamp,
    /// Hash of its last wrong guess.
    last: u64,
}

impl Guesses {
    /// No guesses yet at the secret of `surface`.
    #[must_use]
    pub fn new(surface: &'static str) -> Self {
        Self {
            surface,
            addresses: Mutex::default(),
            is_slowing: AtomicBool::new(false),
            wrong: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Judges the `guess` that a client at `peer` makes at `now`, whole, with all that makes it right;
    /// `is_right` compares it.
    pub fn judge(
        &self,
        peer: Option<IpAddr>,
        now: Timestamp,
        guess: impl Hash,
        is_right: impl FnOnce() -> bool,
    ) -> Guess {
        let address = peer.map_or(OTHERS, one_client);
        let last = self.hasher.hash_one(guess);
        if self.is_slowing.load(Relaxed) {
            let addresses = self.addresses.lock();
            let wait = addresses.wait(address, now);
            let is_known = addresses.last(address) == Some(last);
            drop(addresses);
            if is_known {
                return self.wrong_guess(peer);
            }
            if !wait.is_zero() {
                self.slowed.fetch_add(1, Relaxed);
                return Guess::Slowed { seconds: wait.as_secs() + u64::from(wait.subsec_nanos() > 0) };
            }
        }
        if is_right() {
            return Guess::Right;
        }
        self.is_slowing.store(true, Relaxed);
        self.addresses.lock().charge(address, last, now);
        self.wrong_guess(peer)
    }

    fn wrong_guess(&self, peer: Option<IpAddr>) -> Guess {
        self.wrong.fetch_add(1, Relaxed);
        let surface = self.surface;
        let peer = peer.map(|peer| peer.to_string());
        tracing::warn!(surface, peer = peer.as_deref().unwrap_or("unknown"), "wrong password or token");
        Guess::Wrong
    }

    /// Number of wrong guesses since the start.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Relaxed)
    }

    /// Number of guesses that were rejected without a comparison.
    #[must_use]
    pub fn slowed(&self) -> u64 {
        self.slowed.load(Relaxed)
    }
}

impl Addresses {
    /// The place of `address`: its own, if it has one or there is room.
    fn place(&self, address: IpAddr) -> IpAddr {
        let is_its_own = self.guessing.len() < MAX_ADDRESSES || self.guessing.contains_key(&address);
        if is_its_own { address } else { OTHERS }
    }

    fn find(&self, address: IpAddr) -> Option<&Guessing> {
        self.guessing.get(&self.place(address))
    }

    /// Time until `address` has a guess; zero if it has one.
    fn wait(&self, address: IpAddr, now: Timestamp) -> Duration {
        let missing = self.find(address).map_or(Duration::ZERO, |known| known.restored.since(now));
        missing.saturating_sub(EVERY * (FREE - 1))
    }

    /// The last wrong guess of `address`.
    fn last(&self, address: IpAddr) -> Option<u64> {
        self.find(address).map(|known| known.last)
    }

    /// Takes a guess of `address`.
    fn charge(&mut self, address: IpAddr, last: u64, now: Timestamp) {
        let is_full = self.guessing.len() >= MAX_ADDRESSES && !self.guessing.contains_key(&address);
        if is_full && self.swept.is_none_or(|swept| now.since(swept) >= EVERY) {
            self.guessing.retain(|_, known| known.restored > now);
            self.swept = Some(now);
        }
        let place = self.place(address);
        let known = self.guessing.entry(place).or_insert(Guessing { restored: now, last });
        // Workers judge at once, so the charge of an address is bounded.
        *known = Guessing { restored: known.restored.max(now) + EVERY, last };
    }
}

/// The address of one client: a network of 64 bits is one in IPv6.
fn one_client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64).into(),
        peer => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
    const NANO: Duration = Duration::from_nanos(1);

    fn v6(network: u64, host: u64) -> IpAddr {
        Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(host)).into()
    }

    /// Guesses as if each secret were another one.
    fn judge(guesses: &Guesses, peer: Option<IpAddr>, now: Timestamp, is_right: bool) -> Guess {
        let guess = (guesses.wrong() + guesses.slowed()).to_le_bytes();
        guesses.judge(peer, now, guess, || is_right)
    }

    #[test]
    fn after_ten_wrong_guesses_an_address_has_one_a_second_even_for_the_right_one() {
        let guesses = Guesses::new("test");
        let eve = Some([10, 0, 0, 1].into());
        let ann = Some([10, 0, 0, 2].into());
        for _ in 0..FREE {
            assert_eq!(judge(&guesses, eve, NOON, false), Guess::Wrong);
        }
        let soon = NOON + (EVERY - NANO);
        assert_eq!(judge(&guesses, eve, NOON, true), Guess::Slowed { seconds: 1 });
        assert_eq!(judge(&guesses, eve, soon, true), Guess::Slowed { seconds: 1 });
        assert_eq!(judge(&guesses, ann, soon, true), Guess::Right, "another address");
        // Right guesses take none.
        for _ in 0..3 {
            assert_eq!(judge(&guesses, eve, NOON + EVERY, true), Guess::Right);
        }
        assert_eq!(judge(&guesses, eve, NOON + EVERY, false), Guess::Wrong);
        assert_eq!(judge(&guesses, eve, NOON + EVERY, true), Guess::Slowed { seconds: 1 });
        assert_eq!((guesses.wrong(), guesses.slowed()), (u64::from(FREE) + 1, 3));
    }

    #[test]
    fn the_same_wrong_secret_again_and_again_is_one_guess_and_keeps_no_neighbour_out() {
        let guesses = Guesses::new("test");
        let nat = Some([10, 0, 0, 1].into());
        for _ in 0..1_000 {
            assert_eq!(guesses.judge(nat, NOON, b"of last year", || false), Guess::Wrong);
        }
        assert_eq!(guesses.judge(nat, NOON, b"of this year", || true), Guess::Right);
        // Guesses in turn are guesses, and then the last one is no way to ask more.
        for guess in 1..FREE {
            assert_eq!(guesses.judge(nat, NOON, [guess as u8], || false), Guess::Wrong);
        }
        assert_eq!(guesses.judge(nat, NOON, [FREE as u8 - 1], || true), Guess::Wrong, "not compared");
        assert_eq!(guesses.judge(nat, NOON, b"of this year", || true), Guess::Slowed { seconds: 1 });
        assert_eq!((guesses.wrong(), guesses.slowed()), (1_000 + u64::from(FREE), 1));
    }

    #[test]
    fn the_hosts_of_a_network_guess_together() {
        let guesses = Guesses::new("test");
        for host in 0..u64::from(FREE) {
            assert_eq!(judge(&guesses, Some(v6(7, host)), NOON, false), Guess::Wrong);
        }
        assert_eq!(judge(&guesses, Some(v6(7, 99)), NOON, true), Guess::Slowed { seconds: 1 });
        assert_eq!(judge(&guesses, Some(v6(8, 99)), NOON, true), Guess::Right);
        // An IPv4 address inside IPv6 is that address, not part of one large network.
        for host in 1..=FREE {
            let mapped = Ipv4Addr::from_bits(host).to_ipv6_mapped();
            assert_eq!(judge(&guesses, Some(mapped.into()), NOON, false), Guess::Wrong);
        }
        assert_eq!(judge(&guesses, Some(Ipv4Addr::from_bits(1).into()), NOON, true), Guess::Right);
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_slows_itself() {
        let guesses = Guesses::new("test");
        let judge = |network: u64, now, is_right| judge(&guesses, Some(v6(network, 1)), now, is_right);
        let known = MAX_ADDRESSES as u64;
        for network in 0..known {
            assert_eq!(judge(network, NOON, false), Guess::Wrong);
        }
        assert_eq!(judge(0, NOON, true), Guess::Right, "it has nine left");
        for network in known..known + u64::from(FREE) {
            assert_eq!(judge(network, NOON, false), Guess::Wrong);
        }
        assert_eq!(judge(known + 1_000, NOON, false), Guess::Slowed { seconds: 1 }, "they share a place");
        let held = || guesses.addresses.lock().guessing.len();
        assert_eq!(held(), MAX_ADDRESSES + 1);
        // Those that have all their guesses make room.
        let later = NOON + EVERY;
        assert_eq!(judge(known + 2_000, later, false), Guess::Wrong);
        assert_eq!(held(), 2);
    }
}
