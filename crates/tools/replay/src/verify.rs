//! Whether admitted requests kept a bound, by key, in one pass and bounded memory.
//!
//! A key that is idle for long enough is forgotten without loss: no window can contain both its past and its
//! future requests. So the memory is that of the keys which are active at the same time. If that exceeds the
//! bound, requests are left out and counted. Not here: reading (`reader`), the command (`command`).

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_exact::{ExactLog, Line};

/// The bound to verify for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// At most `limit` permits in any window of `window_ns`.
    Window {
        limit: u64,
        /// Nanoseconds, above 0.
        window_ns: u64,
    },
    /// At most `burst` and `permits` per `period_ns` in any time, however short or long.
    Bucket {
        /// Permits that come back per period.
        permits: u64,
        /// Nanoseconds, above 0.
        period_ns: u64,
        /// Permits at once.
        burst: u64,
    },
}

/// The span in which most was admitted beyond the claim, or nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    pub key: Vec<u8>,
    /// First and last request of it, in nanoseconds of the log's clock.
    pub from_ns: u64,
    /// The last request.
    pub to_ns: u64,
    /// Permits admitted from the first to the last.
    pub admitted: u64,
    /// Permits that the claim has for this span, rounded down.
    pub allowed: u64,
}

impl Worst {
    /// By how much it breaks the claim.
    #[must_use]
    pub const fn over(&self) -> u64 {
        self.admitted.saturating_sub(self.allowed)
    }
}

/// Result of the verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Requests that were verified.
    pub verified: u64,
    /// Requests that were left out, since more keys were active than memory may hold.
    pub left_out: u64,
    /// Requests that broke the claim.
    pub breaking: u64,
    /// Keys that broke it.
    pub broken_keys: u64,
    /// Keys that were known at the same time, at most.
    pub most_keys: u64,
    /// The worst span of all keys.
    pub worst: Option<Worst>,
}

/// State of one key.
#[derive(Debug, Default)]
struct VerifiedKey {
    log: ExactLog,
    line: Line,
    /// Permits in all, and at the least of the line.
    admitted: u64,
    admitted_at_least: u64,
    first_ns: u64,
    last_ns: u64,
    is_broken: bool,
}

/// Verifies a claim while requests come in the order of their times.
///
/// # Example
/// ```
/// # use tollgate_replay::{Claim, Verifier};
/// let mut verifier = Verifier::new(Claim::Window { limit: 2, window_ns: 10 }, 1 << 20);
/// for at in [0, 5, 10, 14] {
///     verifier.admit(b"ann", 1, at);
/// }
/// let verdict = verifier.finish();
/// assert_eq!((verdict.verified, verdict.breaking), (4, 1));
/// let worst = verdict.worst.expect("there were requests");
/// assert_eq!((worst.from_ns, worst.to_ns, worst.admitted, worst.over()), (5, 14, 3, 1));
/// ```
#[derive(Debug)]
pub struct Verifier {
    claim: Claim,
    keys: HashMap<Box<[u8]>, VerifiedKey, RandomState>,
    bytes: usize,
    max_bytes: usize,
    /// No sweep before: the last one found little to forget.
    sweep_from_ns: u64,
    /// Excess of the worst span above the claim, in permits × ns or in permits.
    worst_above: i128,
    verdict: Verdict,
}

/// Memory of a key beside its text and its log: the place in the table, and the allocation of the text.
const KEY_BYTES: usize = size_of::<VerifiedKey>() + 64;

impl Verifier {
    /// A verifier that takes about `max_bytes` at most.
    #[must_use]
    pub fn new(claim: Claim, max_bytes: usize) -> Self {
        Self {
            claim,
            keys: HashMap::default(),
            bytes: 0,
            max_bytes,
            sweep_from_ns: 0,
            worst_above: i128::MIN,
            verdict: Verdict::default(),
        }
    }

    /// `cost` permits of `key` were admitted at `at_ns`, which is not before any earlier request.
    pub fn admit(&mut self, key: &[u8], cost: u64, at_ns: u64) {
        if self.bytes > self.max_bytes {
            self.sweep(at_ns);
        }
        // A known key may grow a little beyond, a new one may not begin.
        let known = self.keys.len() as u64;
        let state = match self.keys.get_mut(key) {
            Some(state) if self.bytes <= self.max_bytes.saturating_add(self.max_bytes / 8) => state,
            None if self.bytes <= self.max_bytes => {
                self.bytes += KEY_BYTES + key.len();
                self.verdict.most_keys = self.verdict.most_keys.max(known + 1);
                self.keys
                    .entry(key.into())
                    .or_insert(VerifiedKey { first_ns: at_ns, ..VerifiedKey::default() })
            }
            _ => {
                self.verdict.left_out += 1;
                return;
            }
        };
        self.verdict.verified += 1;
        let before = state.log.bytes();
        let (above, over, worst) = match self.claim {
            Claim::Window { limit, window_ns } => {
                state.log.forget(at_ns, window_ns);
                state.log.push(at_ns, cost);
                let over = i128::from(state.log.sum()) - i128::from(limit);
                let from_ns = state.log.oldest().unwrap_or(at_ns);
                (over, over, (from_ns, state.log.sum(), limit))
            }
            Claim::Bucket { permits, period_ns, burst } => {
                let above = state.rise(cost, permits, period_ns, at_ns) - permits_ns(burst, period_ns);
                let from_ns = state.line.lowest_at();
                let refilled = permits_ns(permits, at_ns - from_ns) / i128::from(period_ns);
                let allowed = u64::try_from(i128::from(burst) + refilled).unwrap_or(u64::MAX);
                let admitted = state.admitted - state.admitted_at_least;
                (above, above, (from_ns, admitted, allowed))
            }
        };
        state.last_ns = at_ns;
        self.bytes += state.log.bytes() - before;
        if over > 0 {
            self.verdict.breaking += 1;
            self.verdict.broken_keys += u64::from(!state.is_broken);
            state.is_broken = true;
        }
        if above > self.worst_above {
            self.worst_above = above;
            let (from_ns, admitted, allowed) = worst;
            self.verdict.worst = Some(Worst { key: key.to_vec(), from_ns, to_ns: at_ns, admitted, allowed });
        }
    }

    /// Forgets keys whose past cannot share a window with later requests, except those that broke the claim:
    /// they are counted once.
    #[cold]
    fn sweep(&mut self, now: u64) {
        if now < self.sweep_from_ns {
            return;
        }
        let before = self.bytes;
        let claim = self.claim;
        let mut bytes = 0;
        self.keys.retain(|text, key| {
            let is_kept = key.is_broken || !key.is_over(claim, now);
            if is_kept {
                if let Claim::Window { window_ns, .. } = claim {
                    key.log.forget(now, window_ns);
                    key.log.shrink();
                }
                bytes += KEY_BYTES + text.len() + key.log.bytes();
            }
            is_kept
        });
        self.bytes = bytes;
        if before - bytes.min(before) < before / 8 {
            let span = match claim {
                Claim::Window { window_ns, .. } => window_ns,
                Claim::Bucket { period_ns, .. } => period_ns,
            };
            self.sweep_from_ns = now.saturating_add((span / 8).max(1));
        }
    }

    /// Returns the final result.
    #[must_use]
    pub fn finish(self) -> Verdict {
        self.verdict
    }
}

/// Permits × ns.
fn permits_ns(permits: u64, ns: u64) -> i128 {
    // Each is below 2^64; a product beyond 2^127 needs more permits and more years than a log has.
    i128::try_from(u128::from(permits) * u128::from(ns)).unwrap_or(i128::MAX)
}

impl VerifiedKey {
    /// Rise of A − r·t above its least value, in permits × ns.
    fn rise(&mut self, cost: u64, permits: u64, period_ns: u64, at_ns: u64) -> i128 {
        let refilled = permits_ns(permits, at_ns - self.first_ns);
        let before = permits_ns(self.admitted, period_ns) - refilled;
        let admitted = self.admitted.saturating_add(cost);
        let after = permits_ns(admitted, period_ns) - refilled;
        let lowest_before = (self.line.lowest_at(), self.admitted > 0);
        let above = self.line.step(before, after, at_ns);
        if !lowest_before.1 || self.line.lowest_at() != lowest_before.0 {
            self.admitted_at_least = self.admitted;
        }
        self.admitted = admitted;
        above
    }

    /// Whether none of its requests matters after `now`.
    fn is_over(&self, claim: Claim, now: u64) -> bool {
        match claim {
            Claim::Window { window_ns, .. } => self.last_ns.saturating_add(window_ns) <= now,
            Claim::Bucket { permits, period_ns, .. } => {
                let refilled = permits_ns(permits, now - self.first_ns);
                let line = permits_ns(self.admitted, period_ns) - refilled;
                self.line.is_lowest(line)
            }
        }
    }
}
