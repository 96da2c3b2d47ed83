//! The keys that are denied most, by rule: a sketch of fixed size that counts the heaviest keys and bounds
//! its error.
//!
//! Space-Saving: a fixed number of places, each with a key, a count, and the most by which the count may be
//! too high. A key without a place takes that of the smallest count and continues from it. Of n denials in k
//! places, no count is more than n/k too high, none is too low, and every key with more than n/k denials has
//! a place. Every five minutes all counts are halved (rounded down; their errors are rounded up), so that the
//! sketch shows which keys are limited now.
//!
//! If a rule denies more than 4,096 times in a second, one in eight further denials of that second is sampled
//! and counted as eight. Such a count may be too high or too low; its stated error includes four standard
//! deviations of the sampling.
//!
//! A rule gets a sketch with its first denial. No denial waits for it: while another thread holds the sketch,
//! the denial is counted as missed. Not here: metrics by key, which do not exist.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::Timestamp;
use tollgate_human_text::show_bytes;

/// Time after which the weight of a denial is halved.
pub(crate) const HALF_LIFE: Duration = Duration::from_secs(300);
const HALF_LIFE_NS: u64 = HALF_LIFE.as_nanos() as u64;
/// Bytes of a key that are shown; a longer one ends in `…`.
pub(crate) const SHOWN: usize = 63;
/// Denials of one second that a sketch counts one by one.
const EXACT: u32 = 4_096;
/// Above that, sample 1 in `WEIGHT` denials and count each as `WEIGHT`.
const WEIGHT: u64 = 8;
/// Most places of a sketch, whatever the settings say.
const MOST_PLACES: usize = 1024;

/// One key of those that are denied most.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopKey {
    /// The descriptor's values, joined by `, `; cut after 63 bytes, with `…`, and with odd
    /// bytes as `\xE9`.
    pub key: String,
    /// Number of recent denials: the count is halved every five minutes. It may be too high by `at_most_over`
    /// and too low by `at_most_under`; denials that were missed while another thread held the sketch come on
    /// top.
    pub denied: u64,
    /// Most by which `denied` may be too high; of sampled denials, four standard deviations.
    pub at_most_over: u64,
    /// Most by which `denied` may be too low: 0, or four standard deviations of the sampled denials for rules
    /// that deny more than 4,096 times in a second.
    pub at_most_under: u64,
}

/// The sketch of a rule, made at its first denial.
pub(crate) type LazyTopKeys = OnceLock<Arc<TopKeys>>;

/// Settings that all sketches share.
#[derive(Debug)]
pub(crate) struct TopSettings {
    places: usize,
    max_bytes: u64,
    bytes: Arc<AtomicU64>,
    /// Makes hashes unpredictable for clients.
    seed: u64,
}

impl TopSettings {
    pub(crate) fn new(places: usize, max_bytes: u64) -> Self {
        let seed = getrandom::u64().unwrap_or_else(|_| fastrand::u64(..)) | 1;
        Self { places: places.min(MOST_PLACES), max_bytes, bytes: Arc::default(), seed }
    }

    pub(crate) const fn is_off(&self) -> bool {
        self.places == 0
    }

    /// Bytes that all sketches take, and may take.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.max_bytes)
    }

    /// Weight of the next denial of the rule with `slot`; `None` if it is skipped.
    #[inline]
    pub(crate) fn weight(&self, slot: &LazyTopKeys, now: Timestamp) -> Option<u64> {
        match slot.get() {
            Some(sketch) => sketch.weight(now),
            None => (!self.is_off()).then_some(1),
        }
    }

    /// The sketch in `slot`, made if needed; `None` if there is no room for one.
    #[inline]
    pub(crate) fn sketch<'a>(&self, slot: &'a LazyTopKeys) -> Option<&'a TopKeys> {
        match slot.get() {
            Some(sketch) => Some(sketch),
            None => self.make(slot),
        }
    }

    #[cold]
    fn make<'a>(&self, slot: &'a LazyTopKeys) -> Option<&'a TopKeys> {
        let size = TopKeys::size(self.places);
        if self.bytes.fetch_add(size, Relaxed) + size > self.max_bytes {
            self.bytes.fetch_sub(size, Relaxed);
            return None;
        }
        // One that loses the race is dropped, and gives its bytes back.
        let sketch = Arc::new(TopKeys::new(self.places, Arc::clone(&self.bytes)));
        Some(slot.get_or_init(|| sketch))
    }

    /// A hash of `parts` that depends on the end of each.
    #[inline]
    pub(crate) fn hash<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut hash = self.seed;
        for part in parts {
            let (words, rest) = part.as_chunks::<8>();
            for word in words {
                hash = mix(hash ^ u64::from_le_bytes(*word), self.seed);
            }
            // The last eight bytes may overlap those before; the length distinguishes these cases.
            let last = match part.last_chunk::<8>() {
                Some(last) => u64::from_le_bytes(*last),
                None => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            };
            hash = mix(hash ^ last, self.seed ^ (part.len() as u64) << 1);
        }
        hash
    }
}

#[inline]
fn mix(value: u64, key: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * u128::from(key);
    (product as u64) ^ (product >> 64) as u64
}

/// True for one call in eight of this thread, in no order that keys could come in (steps of the golden
/// ratio).
#[inline]
fn is_eighth() -> bool {
    thread_local! {
        static AT: Cell<u64> = const { Cell::new(0) };
    }
    AT.with(|at| {
        let next = at.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        at.set(next);
        next < u64::MAX / WEIGHT
    })
}

/// Four standard deviations of a count of `sampled` denials, of which 7 in 8 were skipped.
fn chance(sampled: u64) -> u64 {
    sampled.saturating_mul(16 * (WEIGHT - 1)).isqrt()
}

/// One rule's sketch.
#[derive(Debug)]
pub(crate) struct TopKeys {
    sketch: Mutex<Sketch>,
    /// The second after whose first denials further ones are sampled.
    busy_second: AtomicU64,
    missed: AtomicU64,
    /// Bytes of all sketches; those of this sketch are subtracted when it is dropped.
    bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Sketch {
    most: usize,
    /// Beside the places, so that a look-up touches little memory.
    hashes: Vec<u64>,
    places: Vec<SketchEntry>,
    aged_at: Timestamp,
    /// The current second, and its denials.
    second: u64,
    in_second: u32,
}

#[derive(Clone, Debug)]
struct SketchEntry {
    count: u64,
    over: u64,
    /// Part of the count that was sampled.
    sampled: u64,
    text: ShownKey,
}

/// A key, cut to the length that is shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownKey {
    length: u8,
    bytes: [u8; SHOWN],
}

impl ShownKey {
    /// The values, joined by `, `, in the spelling of [`show_bytes`].
    pub(crate) fn of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut text = Self { length: 0, bytes: [0; SHOWN] };
        for (index, part) in parts.enumerate() {
            if (index > 0 && !text.push(b", ")) || !text.push(part) {
                break;
            }
        }
        text
    }

    /// False when it does not fit whole.
    fn push(&mut self, part: &[u8]) -> bool {
        let start = usize::from(self.length);
        let is_plain = part.iter().all(|byte| (0x20..0x7f).contains(byte) && *byte != b'\\');
        if is_plain && start + part.len() <= SHOWN {
            self.bytes[start..start + part.len()].copy_from_slice(part);
            self.length += part.len() as u8;
            return true;
        }
        // Every byte is shown as at least one byte, so further ones cannot be visible; nor is a cut
        // character.
        let seen = &part[..part.len().min(SHOWN + 4)];
        show_bytes(seen).chars().all(|char| self.push_char(char))
    }

    fn push_char(&mut self, char: char) -> bool {
        let start = usize::from(self.length);
        if start + char.len_utf8() > SHOWN {
            self.cut();
            return false;
        }
        char.encode_utf8(&mut self.bytes[start..]);
        self.length += char.len_utf8() as u8;
        true
    }

    /// Makes room for `…` at the end.
    fn cut(&mut self) {
        const MARK: &str = "…";
        let text = self.as_str();
        let mut end = text.len().min(SHOWN - MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[end..end + MARK.len()].copy_from_slice(MARK.as_bytes());
        self.length = (end + MARK.len()) as u8;
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl TopKeys {
    const fn size(places: usize) -> u64 {
        (size_of::<Self>() + places * (size_of::<SketchEntry>() + size_of::<u64>())) as u64
    }

    fn new(most: usize, bytes: Arc<AtomicU64>) -> Self {
        let sketch = Sketch {
            most,
            hashes: Vec::with_capacity(most),
            places: Vec::with_capacity(most),
            aged_at: Timestamp::ZERO,
            second: 0,
            in_second: 0,
        };
        let busy_second = AtomicU64::new(u64::MAX);
        Self { sketch: Mutex::new(sketch), busy_second, missed: AtomicU64::new(0), bytes }
    }

    /// Weight of the next denial; `None` if it is skipped.
    #[inline]
    pub(crate) fn weight(&self, now: Timestamp) -> Option<u64> {
        if self.busy_second.load(Relaxed) != now.unix_seconds() {
            return Some(1);
        }
        is_eighth().then_some(WEIGHT)
    }

    /// Counts `weight` denials of the key with this hash; `text` is called if it has no place yet. Never
    /// waits.
    #[inline]
    pub(crate) fn count(&self, hash: u64, weight: u64, now: Timestamp, text: impl FnOnce() -> ShownKey) {
        match self.sketch.try_lock() {
            Some(mut sketch) => {
                if sketch.count(hash, weight, now, text) {
                    self.busy_second.store(now.unix_seconds(), Relaxed);
                }
            }
            None => {
                self.missed.fetch_add(weight, Relaxed);
            }
        }
    }

    /// Denials that were not counted, since another thread held the sketch.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// The keys, most denied first.
    pub(crate) fn top(&self, now: Timestamp) -> Vec<TopKey> {
        let mut sketch = self.sketch.lock();
        sketch.age(now);
        let mut top: Vec<TopKey> = sketch
            .places
            .iter()
            .map(|it| TopKey {
                key: it.text.as_str().to_owned(),
                denied: it.count,
                at_most_over: (it.over + chance(it.sampled)).min(it.count),
                at_most_under: chance(it.sampled),
            })
            .collect();
        drop(sketch);
        top.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(&b.key)));
        top
    }
}

impl Drop for TopKeys {
    fn drop(&mut self) {
        let most = self.sketch.get_mut().most;
        self.bytes.fetch_sub(Self::size(most), Relaxed);
    }
}

impl Sketch {
    /// True if further denials of this second are to be sampled.
    #[inline]
    fn count(&mut self, hash: u64, weight: u64, now: Timestamp, text: impl FnOnce() -> ShownKey) -> bool {
        self.age(now);
        let sampled = if weight > 1 { weight } else { 0 };
        match self.hashes.iter().position(|&known| known == hash) {
            Some(at) => {
                let place = &mut self.places[at];
                place.count += weight;
                place.sampled += sampled;
            }
            None => self.add(hash, SketchEntry { count: weight, over: 0, sampled, text: text() }),
        }
        if self.second != now.unix_seconds() {
            (self.second, self.in_second) = (now.unix_seconds(), 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        self.in_second == EXACT
    }

    fn add(&mut self, hash: u64, new: SketchEntry) {
        if self.places.len() < self.most {
            self.hashes.push(hash);
            self.places.push(new);
            return;
        }
        if let Some((at, least)) = self.places.iter_mut().enumerate().min_by_key(|(_, place)| place.count) {
            *least = SketchEntry { count: least.count + new.count, over: least.count, ..new };
            self.hashes[at] = hash;
        }
    }

    #[inline]
    fn age(&mut self, now: Timestamp) {
        if now.as_nanos().saturating_sub(self.aged_at.as_nanos()) >= HALF_LIFE_NS {
            self.halve(now);
        }
    }

    #[cold]
    fn halve(&mut self, now: Timestamp) {
        let periods = now.as_nanos().saturating_sub(self.aged_at.as_nanos()) / HALF_LIFE_NS;
        let times = u32::try_from(periods).unwrap_or(u32::MAX).min(u64::BITS - 1);
        // Whole half-lives, so that the age does not depend on how often the sketch is read; the first
        // half-life begins with the first denial.
        self.aged_at = match self.places.is_empty() {
            true => now,
            false => self.aged_at + HALF_LIFE * u32::try_from(periods).unwrap_or(u32::MAX),
        };
        for place in &mut self.places {
            place.count >>= times;
            place.over = place.over.div_ceil(1 << times).min(place.count);
            place.sampled >>= times;
        }
        for at in (0..self.places.len()).rev() {
            if self.places[at].count == 0 {
                self.places.swap_remove(at);
                self.hashes.swap_remove(at);
            }
        }
    }
}
