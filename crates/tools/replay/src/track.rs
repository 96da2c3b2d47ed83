//! Requests of each key of a rule in a trace, compared with a limit that remembers everything. Rules of one
//! bucket have their keys together, as they have one counter; each key is listed under the rule that met it
//! first.
//!
//! Keys that never came near their limit have one log; two more logs, of the exact limit's admissions and of
//! the rule's, begin with the first denial. If the memory is full, keys that are idle, owe nothing and were
//! never denied are forgotten, and then requests of new keys are not compared. Both are counted.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::hint::black_box;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;
use tollgate_core::Algorithm;
use tollgate_exact::{ExactLog, Line};
use tollgate_policy::{Limit, Rule};

/// A limit as the exact arithmetic sees it.
#[derive(Clone, Copy, Debug)]
struct Exact {
    limit: u64,
    window_ns: u64,
    /// Permits that each hit takes.
    permits: u64,
    /// It counts and never denies.
    is_shadow: bool,
}

/// Decision of a rule on a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// The limits in force admit it.
    pub(crate) admits: bool,
    /// The limits in shadow do so too.
    pub(crate) admits_in_trial: bool,
    /// It was charged, unless the rule itself denied it.
    pub(crate) counts: bool,
    /// Each limit is charged, whatever the others say.
    pub(crate) is_apart: bool,
}

/// Whether a limit of `rule` is compared with an exact one. Classes of priority have shares of their own of
/// one counter; and a key has either the counters of its rule or that of a bucket.
pub(crate) fn is_compared(rule: &Rule, limit: &Limit) -> bool {
    let has_classes = matches!(limit.quota.algorithm(), Algorithm::PriorityBuckets { .. });
    !has_classes && (limit.bucket.is_none() || rule.limits.len() == 1)
}

impl Exact {
    /// `None` of a limit that has no window: a total.
    fn of(limit: &Limit) -> Option<Self> {
        let window_ns = u64::try_from(limit.period.as_nanos()).ok().filter(|ns| *ns > 0)?;
        Some(Self { limit: limit.quota.limit(), window_ns, permits: limit.cost, is_shadow: limit.shadow })
    }
}

/// Results of the keys of one rule.
#[derive(Debug, Default)]
pub(crate) struct RuleTrack {
    limits: Vec<Option<Exact>>,
    pub(crate) compared: u64,
    pub(crate) left_out: u64,
    pub(crate) wrongly_admitted: u64,
    pub(crate) wrongly_denied: u64,
    /// For each limit: the window in which most was admitted.
    pub(crate) worst: Vec<Option<Window>>,
    /// For each limit: how many keys have this as the most that they asked for in a window, and above the
    /// rate.
    pub(crate) peaks: Vec<Peaks>,
    /// Keys that came, as far as they were tracked.
    pub(crate) keys: u64,
    /// Keys that were forgotten for lack of memory; a key that comes again counts again.
    pub(crate) forgotten: u64,
}

/// Numbers of keys, by the most that each asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peaks {
    pub(crate) in_window: Histogram,
    pub(crate) above_rate: Histogram,
}

/// Number of keys with each value: exact while there are few values, then rounded up by at most a thousandth,
/// so that a suggested limit stays large enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    by_value: BTreeMap<u64, u64>,
    is_rounded: bool,
}

/// Different values that are kept before they are rounded.
const MOST_VALUES: usize = 1 << 16;

impl Histogram {
    fn add(&mut self, value: u64, keys: u64) {
        let value = if self.is_rounded { rounded_up(value) } else { value };
        *self.by_value.entry(value).or_default() += keys;
        if self.by_value.len() > MOST_VALUES && !self.is_rounded {
            self.is_rounded = true;
            for (value, keys) in std::mem::take(&mut self.by_value) {
                self.add(value, keys);
            }
        }
    }

    /// The least value that this share of the keys does not exceed; `None` without keys.
    pub(crate) fn at_percentile(&self, percentile: f64) -> Option<u64> {
        let keys: u64 = self.by_value.values().sum();
        let needed = (keys as f64 * percentile / 100.0).ceil().max(1.0) as u64;
        let mut so_far = 0;
        self.by_value.iter().find_map(|(&value, &count)| {
            so_far += count;
            (so_far >= needed).then_some(value)
        })
    }
}

/// To eleven binary digits.
const fn rounded_up(value: u64) -> u64 {
    let spare = (u64::BITS - value.leading_zeros()).saturating_sub(11);
    let step = (1_u64 << spare) - 1;
    value.saturating_add(step) & !step
}

/// The window in which a key got most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) key: Box<[u8]>,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) admitted: u64,
}

/// The bytes of a key, stored inline if they are few, as those of an address are.
type KeyBytes = SmallVec<[u8; 24]>;

#[derive(Debug)]
struct TrackedKey {
    text: KeyBytes,
    rule: usize,
    denied: u64,
    first_ns: u64,
    first: KeyLimit,
    /// State of the further limits of a rule with several.
    others: Box<[KeyLimit]>,
}

#[derive(Debug, Default)]
struct KeyLimit {
    offered: ExactLog,
    /// `None` while all that was offered was admitted.
    apart: Option<Box<Apart>>,
    line: Line,
    total: u64,
    most: u64,
}

/// The logs that are not that of all that was offered.
#[derive(Debug, Default)]
struct Apart {
    /// Admissions of the exact limit.
    exact: Option<ExactLog>,
    /// Admissions of the rule.
    admitted: Option<ExactLog>,
}

/// A decision that waits to be tracked.
struct Decided {
    /// End of its key in the bytes of all that wait.
    key_end: usize,
    hash: u64,
    rule: usize,
    cost: u64,
    now: u64,
    how: How,
}

/// Decisions that are tracked together. The memory of one key of many is rarely in a cache; that of all keys
/// of a batch is fetched at the same time.
const BATCH: usize = 32;

/// State of all keys.
pub(crate) struct Tracks {
    keys: HashTable<TrackedKey>,
    hasher: RandomState,
    waiting: Vec<Decided>,
    waiting_keys: Vec<u8>,
    pub(crate) rules: Vec<RuleTrack>,
    bytes: usize,
    max_bytes: usize,
    sweep_from_ns: u64,
}

/// Bytes of a key without its logs. A table that has just grown has 16 places for 7 keys.
const KEY_BYTES: usize = size_of::<TrackedKey>() * 16 / 7 + 32;

impl Tracks {
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule>, max_bytes: usize) -> Self {
        let rules = rules.map(|rule| RuleTrack {
            limits: rule.limits.iter().map(|it| Exact::of(it).filter(|_| is_compared(rule, it))).collect(),
            worst: vec![None; rule.limits.len()],
            peaks: vec![Peaks::default(); rule.limits.len()],
            ..RuleTrack::default()
        });
        Self {
            keys: HashTable::new(),
            hasher: RandomState::default(),
            waiting: Vec::with_capacity(BATCH),
            waiting_keys: Vec::new(),
            rules: rules.collect(),
            bytes: 0,
            max_bytes,
            sweep_from_ns: 0,
        }
    }

    /// A request of `key` that costs `cost` hits, which `rule` admitted or denied. Results of keys are
    /// complete after [`finish`](Self::finish).
    #[inline]
    pub(crate) fn decided(&mut self, key: &[u8], rule: usize, cost: u64, now: u64, how: How) {
        self.waiting_keys.extend_from_slice(key);
        let key_end = self.waiting_keys.len();
        let hash = self.hasher.hash_one(key);
        self.waiting.push(Decided { key_end, hash, rule, cost, now, how });
        if self.waiting.len() == BATCH {
            self.track_waiting();
        }
    }

    fn track_waiting(&mut self) {
        for decided in &self.waiting {
            // Nearly all hashes belong to one key, so the first key with this hash is prefetched, whatever
            // its text.
            if let Some(key) = self.keys.find(decided.hash, |_| true) {
                black_box((key.denied, key.first.offered.oldest(), key.first.offered.newest()));
            }
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut keys = std::mem::take(&mut self.waiting_keys);
        let mut begin = 0;
        for decided in &waiting {
            self.track(&keys[begin..decided.key_end], decided);
            begin = decided.key_end;
        }
        waiting.clear();
        keys.clear();
        (self.waiting, self.waiting_keys) = (waiting, keys);
    }

    fn track(&mut self, key: &[u8], decided: &Decided) {
        let &Decided { hash, rule, cost, now, how, .. } = decided;
        if self.bytes > self.max_bytes {
            self.sweep(now);
        }
        let Some(track) = self.rules.get_mut(rule) else { return };
        if track.limits.iter().all(Option::is_none) {
            return;
        }
        // A known key may exceed the memory by an eighth, a new one may not begin. Requests without room are
        // counted.
        let state = match self.keys.find_mut(hash, |it| it.text.as_slice() == key) {
            Some(state) if self.bytes <= self.max_bytes.saturating_add(self.max_bytes / 8) => state,
            None if self.bytes <= self.max_bytes => {
                self.bytes += KEY_BYTES + key.len();
                track.keys += 1;
                let others = track.limits.iter().skip(1).map(|_| KeyLimit::default()).collect();
                let first = KeyLimit::default();
                let text = KeyBytes::from_slice(key);
                let new = TrackedKey { text, rule, denied: 0, first_ns: now, first, others };
                self.keys.insert_unique(hash, new, |it| self.hasher.hash_one(it.text.as_slice())).into_mut()
            }
            _ => {
                track.left_out += 1;
                return;
            }
        };
        track.compared += 1;
        state.denied += u64::from(!how.admits);
        // First whether all limits in force fit, since limits that are charged together depend on each other.
        let mut fits_all = true;
        for (limit, exact) in state.limits().zip(&track.limits) {
            let Some(exact) = exact else { continue };
            limit.forget(now, exact.window_ns);
            fits_all &= exact.is_shadow || limit.fits(cost.saturating_mul(exact.permits), exact.limit);
        }
        // Then the charges: `fits` is the decision of the exact limit, `passes` that of the rule.
        let first_ns = state.first_ns;
        for (place, (limit, exact)) in state.limits().zip(&track.limits).enumerate() {
            let Some(exact) = exact else { continue };
            let cost = cost.saturating_mul(exact.permits);
            let before = limit.bytes();
            let refilled = product(exact.limit, now - first_ns);
            let fits = limit.fits(cost, exact.limit) && (how.is_apart || fits_all);
            let passes = how.counts && if exact.is_shadow { how.admits_in_trial } else { how.admits };
            limit.push(now, cost, passes, how.counts && fits);
            let line = product(limit.total, exact.window_ns) - refilled;
            limit.line.step(line - product(cost, exact.window_ns), line, now);
            self.bytes += limit.bytes().saturating_sub(before);
            let log = limit.admitted();
            if passes && track.worst[place].as_ref().is_none_or(|worst| worst.admitted < log.sum()) {
                let from_ns = log.oldest().unwrap_or(now);
                track.worst[place] =
                    Some(Window { key: key.into(), from_ns, to_ns: now, admitted: log.sum() });
            }
        }
        track.wrongly_admitted += u64::from(how.admits && !fits_all);
        track.wrongly_denied += u64::from(!how.admits && fits_all);
    }

    #[cold]
    fn sweep(&mut self, now: u64) {
        if now < self.sweep_from_ns {
            return;
        }
        let before = self.bytes;
        let rules = &mut self.rules;
        let mut bytes = 0;
        let mut shortest = u64::MAX;
        self.keys.retain(|key| {
            let Some(track) = rules.get_mut(key.rule) else { return false };
            let longest = track.limits.iter().flatten().map(|exact| exact.window_ns).max().unwrap_or(0);
            shortest = shortest.min(longest);
            let newest = key.limits().filter_map(|limit| limit.offered.newest()).max();
            let is_active = newest.is_some_and(|at| at.saturating_add(longest) > now);
            let is_kept = key.denied > 0 || is_active || !key.is_refilled(track, now);
            if is_kept {
                bytes += KEY_BYTES + key.text.len();
                for limit in key.limits() {
                    limit.shrink();
                    bytes += limit.bytes();
                }
            } else {
                track.forgotten += 1;
                key.note_peaks(track);
            }
            is_kept
        });
        self.bytes = bytes;
        if before - bytes.min(before) < before / 8 {
            self.sweep_from_ns = now.saturating_add((shortest / 8).max(1));
        }
    }

    /// Ends the trace: the peaks of all keys are noted. Returns for each rule how many keys were denied, and
    /// the `most` that were denied most.
    pub(crate) fn finish(&mut self, most: usize) -> Vec<Denied> {
        self.track_waiting();
        let mut denied: Vec<Denied> = self.rules.iter().map(|_| Denied::default()).collect();
        for mut key in self.keys.drain() {
            let (Some(track), Some(of_rule)) = (self.rules.get_mut(key.rule), denied.get_mut(key.rule))
            else {
                continue;
            };
            key.note_peaks(track);
            if key.denied > 0 {
                of_rule.keys += 1;
                of_rule.top.push((key.denied, key.text.into_vec().into()));
                if of_rule.top.len() >= 2 * most.max(512) {
                    keep(&mut of_rule.top, most);
                }
            }
        }
        for of_rule in &mut denied {
            keep(&mut of_rule.top, most);
        }
        denied
    }
}

/// The keys of a rule that were denied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denied {
    pub(crate) keys: u64,
    pub(crate) top: Vec<(u64, Box<[u8]>)>,
}

fn keep(top: &mut Vec<(u64, Box<[u8]>)>, most: usize) {
    top.sort_unstable_by(|(a, a_key), (b, b_key)| b.cmp(a).then_with(|| a_key.cmp(b_key)));
    top.truncate(most);
}

fn product(permits: u64, ns: u64) -> i128 {
    i128::try_from(u128::from(permits) * u128::from(ns)).unwrap_or(i128::MAX)
}

impl TrackedKey {
    fn limits(&mut self) -> impl Iterator<Item = &mut KeyLimit> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Whether it owes nothing at the rate of any limit: its past requests do not affect later ones.
    fn is_refilled(&mut self, track: &RuleTrack, now: u64) -> bool {
        let spent_ns = now - self.first_ns;
        self.limits().zip(&track.limits).all(|(limit, exact)| {
            let line = |exact: &Exact| product(limit.total, exact.window_ns) - product(exact.limit, spent_ns);
            exact.as_ref().is_none_or(|exact| limit.line.is_lowest(line(exact)))
        })
    }

    fn note_peaks(&mut self, track: &mut RuleTrack) {
        for ((limit, exact), peaks) in self.limits().zip(&track.limits).zip(&mut track.peaks) {
            let Some(exact) = exact else { continue };
            peaks.in_window.add(limit.most, 1);
            let window = i128::from(exact.window_ns);
            let above = u64::try_from((limit.line.highest() + window - 1) / window).unwrap_or(u64::MAX);
            peaks.above_rate.add(above, 1);
        }
    }
}

impl KeyLimit {
    #[inline]
    fn forget(&mut self, now: u64, window_ns: u64) {
        for log in self.logs_mut() {
            log.forget(now, window_ns);
        }
    }

    /// Admissions of the exact limit.
    #[inline]
    fn exact(&self) -> &ExactLog {
        self.apart.as_ref().and_then(|apart| apart.exact.as_ref()).unwrap_or(&self.offered)
    }

    /// Admissions of the rule.
    #[inline]
    fn admitted(&self) -> &ExactLog {
        self.apart.as_ref().and_then(|apart| apart.admitted.as_ref()).unwrap_or(&self.offered)
    }

    #[inline]
    fn fits(&self, cost: u64, limit: u64) -> bool {
        self.exact().sum().checked_add(cost).is_some_and(|sum| sum <= limit)
    }

    #[inline]
    fn push(&mut self, now: u64, cost: u64, is_admitted: bool, fits: bool) {
        if self.apart.is_some() || !fits || !is_admitted {
            let apart = self.apart.get_or_insert_default();
            for (log, passes) in [(&mut apart.exact, fits), (&mut apart.admitted, is_admitted)] {
                match log {
                    Some(log) if passes => log.push(now, cost),
                    None if !passes => *log = Some(self.offered.clone()),
                    _ => {}
                }
            }
        }
        self.offered.push(now, cost);
        self.total = self.total.saturating_add(cost);
        self.most = self.most.max(self.offered.sum());
    }

    #[inline]
    fn logs_mut(&mut self) -> impl Iterator<Item = &mut ExactLog> {
        let apart = self.apart.iter_mut().flat_map(|apart| [&mut apart.exact, &mut apart.admitted]);
        std::iter::once(&mut self.offered).chain(apart.flatten())
    }

    /// Bytes beside those of [`TrackedKey`].
    #[inline]
    fn bytes(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |apart| {
            let logs = [&apart.exact, &apart.admitted].into_iter().flatten();
            size_of::<Apart>() + logs.map(ExactLog::bytes).sum::<usize>()
        });
        self.offered.bytes() + apart
    }

    fn shrink(&mut self) {
        self.logs_mut().for_each(ExactLog::shrink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tracks of one rule of 10 a minute.
    fn tracks(max_bytes: usize) -> Tracks {
        let mut tracks = Tracks::new(std::iter::empty(), max_bytes);
        tracks.rules.push(RuleTrack {
            limits: vec![Some(Exact { limit: 10, window_ns: 60_000_000_000, permits: 1, is_shadow: false })],
            worst: vec![None],
            peaks: vec![Peaks::default()],
            ..RuleTrack::default()
        });
        tracks
    }

    #[test]
    fn keys_and_their_table_stay_within_the_memory_that_is_used() {
        let how = How { admits: true, admits_in_trial: true, counts: true, is_apart: true };
        for max_bytes in [100_000, 1 << 17, 300_000, 1 << 20, 3_000_000, 1 << 23] {
            for name in ["c", "a client with a name of more than 24 bytes "] {
                let mut tracks = tracks(max_bytes);
                for nth in 0..40_000 {
                    tracks.decided(format!("{name}{nth}").as_bytes(), 0, 1, nth, how);
                    if nth % 64 == 0 {
                        let apart = |key: &TrackedKey| {
                            key.first.bytes() + usize::from(key.text.spilled()) * key.text.len()
                        };
                        let keys: usize = tracks.keys.iter().map(apart).sum();
                        let used = tracks.keys.allocation_size() + keys;
                        assert!(used <= max_bytes + KEY_BYTES + 1_000, "{used} of {max_bytes}");
                    }
                }
                let denied = tracks.finish(10);
                let track = &tracks.rules[0];
                assert_eq!((denied[0].keys, track.compared + track.left_out), (0, 40_000));
                assert!(track.left_out > 0 && track.keys >= max_bytes as u64 / 800, "{track:?}");
            }
        }
    }

    #[test]
    fn requests_that_wait_for_a_batch_are_in_what_is_found() {
        for requests in [1, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + 7] {
            let mut tracks = tracks(1 << 20);
            for nth in 0..requests {
                let admits = nth % 3 != 2;
                let how = How { admits, admits_in_trial: admits, counts: true, is_apart: true };
                tracks.decided(&[(nth % 3) as u8], 0, 1, nth as u64, how);
            }
            let denied = tracks.finish(10);
            let track = &tracks.rules[0];
            let of_the_third = (requests / 3) as u64;
            assert_eq!((track.compared, track.keys), (requests as u64, requests.min(3) as u64));
            assert_eq!(denied[0].top.first().map_or(0, |(count, _)| *count), of_the_third);
            assert_eq!(track.wrongly_denied, of_the_third.min(10));
        }
    }

    #[test]
    fn many_values_take_little_memory_and_what_is_enough_stays_enough() {
        let mut few = Histogram::default();
        let mut many = Histogram::default();
        for value in 1..=1_000 {
            few.add(value * 1_000, 1);
        }
        assert_eq!((few.at_percentile(99.0), few.at_percentile(100.0)), (Some(990_000), Some(1_000_000)));
        for value in 1..=1_000_000 {
            many.add(value * 1_000, 1);
        }
        assert!(many.by_value.len() < MOST_VALUES, "{}", many.by_value.len());
        let found = many.at_percentile(99.0).expect("there are keys");
        assert!((990_000_000..=991_000_000).contains(&found), "{found}");
        assert_eq!(many.by_value.values().sum::<u64>(), 1_000_000);
        many.add(u64::MAX, 1);
        assert_eq!(many.at_percentile(100.0), Some(!((1 << 53) - 1)));
    }
}
