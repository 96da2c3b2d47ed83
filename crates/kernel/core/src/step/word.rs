//! Algorithms whose state is one word: a store can keep it in an atomic and decide by compare-and-swap.

use core::time::Duration;

use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::leaky_queue::LeakyQueue;
use crate::algorithm::token_bucket::{TokenBucket, WordsOf};
use crate::algorithm::total::Total;
use crate::cost::Cost;
use crate::decision::{Decision, RetryAfter};
use crate::error::QuotaError;
use crate::promise::Promise;
use crate::state::{FastStep, Word, WordStep};
use crate::time::{Timestamp, nanos};

/// An algorithm whose state is one [`Word`].
#[derive(Clone, Debug)]
pub struct WordAlgorithm(pub(crate) WordKind);

#[derive(Clone, Debug)]
pub(crate) enum WordKind {
    TokenBucket(TokenBucket),
    FixedWindow(FixedWindow),
    LeakyQueue(LeakyQueue),
    Total(Total),
    Unlimited,
}

impl WordAlgorithm {
    /// Takes `cost` permits if they fit; otherwise takes none and returns the wait until they would.
    #[inline]
    pub fn take(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match self.take_fast(word, cost, now) {
            Some(FastStep { write, decision }) => WordStep { word: write.unwrap_or(word), decision },
            None => self.take_slow(word, cost, now),
        }
    }

    /// The fast path of [`take`](Self::take): a token bucket or a fixed window, and a word that its rate
    /// wrote. Only arithmetic and no call, so that a store can inline it. `None` otherwise.
    #[inline(always)]
    #[must_use]
    pub fn take_fast(&self, word: Word, cost: Cost, now: Timestamp) -> Option<FastStep> {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.take_fast(word, cost, now),
            WordKind::FixedWindow(window) => window.take_fast(word, cost, now),
            _ => None,
        }
    }

    /// The slow path of [`take`](Self::take), which answers for every word and cost: where both answer, they
    /// agree.
    #[inline]
    pub fn take_slow(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.take_slow(word, cost, now),
            WordKind::FixedWindow(window) => window.take_slow(word, cost, now),
            WordKind::LeakyQueue(queue) => queue.take(word, cost, now),
            WordKind::Total(total) => total.take(word, cost),
            WordKind::Unlimited => unlimited(word),
        }
    }

    /// Gives `cost` permits back, never above a full quota.
    pub fn give_back(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.give_back(word, cost, now),
            WordKind::FixedWindow(window) => window.give_back(word, cost, now),
            WordKind::LeakyQueue(queue) => queue.bucket().give_back(word, cost, now),
            WordKind::Total(total) => total.give_back(word, cost),
            WordKind::Unlimited => unlimited(word),
        }
    }

    /// Counts `cost` permits that are used already; see [`Quota::charge`](crate::Quota::charge).
    pub fn charge(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.charge(word, cost, now),
            WordKind::FixedWindow(window) => window.charge(word, cost, now),
            WordKind::LeakyQueue(queue) => queue.bucket().charge(word, cost, now),
            WordKind::Total(total) => total.charge(word, cost),
            WordKind::Unlimited => unlimited(word),
        }
    }

    /// Counts `cost` permits that are used already if `cost` is not zero, and says whether a permit was left
    /// before; see [`Quota::pay`](crate::Quota::pay).
    pub fn pay(&self, word: Word, cost: Cost, now: Timestamp) -> WordStep {
        let before = self.charge(word, Cost::PEEK, now).decision;
        if cost.is_peek() {
            return match &self.0 {
                _ if before.remaining() == 0 => {
                    WordStep { word: self.start_refill(word, now), decision: before.denied() }
                }
                WordKind::LeakyQueue(queue) => {
                    WordStep { word, decision: before.with_delay(queue.delay(word, now)) }
                }
                _ => WordStep { word, decision: before },
            };
        }
        let WordStep { word, decision } = self.charge(word, cost, now);
        WordStep { word, decision: if before.remaining() == 0 { decision.denied() } else { decision } }
    }

    /// Reserves `cost` permits for the first instant at which they are available, if that is at most
    /// `max_wait` away. A token bucket promises permits ahead of time, a queue does so in its order; any
    /// other algorithm grants only permits that are available now. Never granted above the burst; without a
    /// limit, always.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let Step::Word(bucket) = quota.step() else { panic!("one word per key") };
    /// let noon = Timestamp::from_unix_seconds(1_700_000_000);
    /// let first = bucket.promise(Word::FRESH, Cost(10), Duration::ZERO, noon);
    /// assert!(first.granted && first.act_at == noon);
    /// let second = bucket.promise(first.word, Cost(1), Duration::from_secs(1), noon);
    /// assert!(second.granted && second.act_at == noon + Duration::from_millis(100));
    /// # Ok::<(), QuotaError>(())
    /// ```
    pub fn promise(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> Promise {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.promise(word, cost, max_wait, now),
            WordKind::LeakyQueue(queue) => queue.promise(word, cost, max_wait, now),
            _ => {
                let WordStep { word: after, decision } = self.take(word, cost, now);
                let act_at = match decision.retry_after() {
                    RetryAfter::Now => return Promise::granted(after, cost, now),
                    RetryAfter::After(wait) => now + wait,
                    RetryAfter::Never => Timestamp::NEVER,
                };
                Promise::denied(word, cost, act_at)
            }
        }
    }

    /// [`promise`](Self::promise) as a decision: admitted with a [`delay`](Decision::delay) of at most
    /// `max_wait`, or denied with the wait until the same reservation would be granted.
    ///
    /// A cost that [`take`](Self::take) would admit without a delay is reserved without a wait.
    pub fn reserve(&self, word: Word, cost: Cost, max_wait: Duration, now: Timestamp) -> WordStep {
        let step = self.take(word, cost, now);
        let taken = step.decision;
        if taken.is_admitted() && taken.delay() <= max_wait {
            return step;
        }
        let promise = self.promise(word, cost, max_wait, now);
        let wait = promise.act_at.since(now);
        if promise.granted {
            let after = self.take(promise.word, Cost::PEEK, now).decision;
            let decision =
                Decision::admit(taken.limit, after.remaining, after.reset_ns).with_delay(nanos(wait));
            return WordStep { word: promise.word, decision };
        }
        let until_near = nanos(wait.saturating_sub(max_wait));
        let is_ever = promise.act_at != Timestamp::NEVER;
        let before = self.take(word, Cost::PEEK, now).decision;
        let denied = |retry_ns| Decision::deny(taken.limit, before.remaining, retry_ns, before.reset_ns);
        let decision = match (taken.retry_after(), &self.0) {
            (RetryAfter::Never, _) => taken,
            (RetryAfter::Now, _) => denied(until_near),
            // A bucket grants permits that are available now or will be soon enough; a queue must have room,
            // and its end be near.
            (RetryAfter::After(until_room), WordKind::TokenBucket(_)) if is_ever => {
                denied(nanos(until_room).min(until_near))
            }
            (RetryAfter::After(until_room), WordKind::LeakyQueue(_)) if is_ever => {
                denied(nanos(until_room).max(until_near))
            }
            (RetryAfter::After(until_room), _) => denied(nanos(until_room)),
        };
        WordStep { word: self.start_refill(word, now), decision }
    }

    /// The wait until `cost` permits of a promise may be used, if `behind` permits were promised after them;
    /// `None` for an algorithm that promises nothing. Shorter than the promise said if an earlier one was
    /// given back since.
    #[must_use]
    pub fn wait_of_promised(&self, word: Word, cost: Cost, behind: Cost, now: Timestamp) -> Option<Duration> {
        let wait_ns = match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.wait_of_promised_ns(word, behind, now),
            WordKind::LeakyQueue(queue) => queue.wait_of_promised_ns(word, cost, behind, now),
            WordKind::Unlimited => 0,
            WordKind::FixedWindow(_) | WordKind::Total(_) => return None,
        };
        Some(Duration::from_nanos(wait_ns))
    }

    /// The word after a denial that changes nothing else: see
    /// [`Quota::start_refill`](crate::Quota::start_refill).
    #[must_use]
    pub fn start_refill(&self, word: Word, now: Timestamp) -> Word {
        match &self.0 {
            WordKind::TokenBucket(bucket) if bucket.starts_partial() => {
                bucket.take_slow(word, Cost(u64::MAX), now).word
            }
            _ => word,
        }
    }

    /// Reads the states of the successors of `other`.
    pub(crate) fn share_successors_of(&self, other: &Self) {
        if let (WordKind::TokenBucket(this), WordKind::TokenBucket(other)) = (&self.0, &other.0) {
            this.share_successors_of(other);
        }
    }

    /// Keeps the counts of states that `old` wrote until `at`.
    pub(crate) fn migrate_from(&mut self, old: &Self, at: Timestamp) {
        match (&mut self.0, &old.0) {
            (WordKind::TokenBucket(new), WordKind::TokenBucket(old)) => new.migrate_from(old, at),
            (WordKind::LeakyQueue(new), WordKind::LeakyQueue(old)) => new.migrate_from(old, at),
            _ => {} // the states of the others are permits and instants, whatever the rate
        }
    }

    /// Words become those of every token bucket of this rate and burst with at most this overdraft.
    pub(crate) fn make_room_for_overdraft(&mut self, period: Duration, most: u64) -> Result<(), QuotaError> {
        if let WordKind::TokenBucket(bucket) = &mut self.0 {
            *bucket = bucket.with_words_up_to(period, bucket.burst().saturating_add(most))?;
        }
        Ok(())
    }

    /// The quotas that write its words.
    pub(crate) fn words_of(&self) -> WordsOf {
        match &self.0 {
            WordKind::TokenBucket(bucket) => bucket.words_of(),
            _ => WordsOf::This,
        }
    }

    /// Keeps instants where it can.
    pub(crate) const fn keep_instants(&mut self) {
        if let WordKind::TokenBucket(bucket) = &mut self.0 {
            bucket.keep_instants();
        }
    }

    pub(crate) const fn keeps_instants(&self) -> bool {
        matches!(&self.0, WordKind::TokenBucket(bucket) if bucket.keeps_instants())
    }

    /// True when both remember the same earlier rates.
    pub(crate) fn has_history_of(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (WordKind::TokenBucket(a), WordKind::TokenBucket(b)) => a.has_history_of(b),
            (WordKind::LeakyQueue(a), WordKind::LeakyQueue(b)) => a.bucket().has_history_of(b.bucket()),
            _ => true,
        }
    }
}

const fn unlimited(word: Word) -> WordStep {
    WordStep { word, decision: Decision::admit(u64::MAX, u64::MAX, 0) }
}
