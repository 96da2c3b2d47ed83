//! Slots: acquired by a holder, renewed, and released, or expired.
//!
//! A rule with [`slots`](tollgate_policy::Rule::slots) caps concurrency. A holder is known by its [`SlotId`]:
//! acquiring again under the same id renews its slot, so a call that got no answer is safe to repeat, and a
//! second release changes nothing. The slot of a holder that crashed is free after the rule's `ttl`. Nothing
//! is remembered here: the store keeps the slots, so any node may renew or release one. Not here: permits
//! ([`decide`](crate::Limiter::decide)), slots within one program (`tollgate`).

pub(crate) mod events;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::{Acquired, Decision, Holder, Outcome, RetryAfter, Slots, Timestamp};
use tollgate_observe::{Degraded, Kind, Observer, retry_after};
use tollgate_policy::{Entry, OnStoreFailure, Rule};
use tollgate_store::{Key, Sharing, SlotKey, Store, StoreError};

use crate::keys::write_slot_share;
use crate::limiter::Limiter;
use crate::plan;
use crate::request::{Request, RequestError};
use crate::scratch::Scratch;
use crate::settle;

/// The name of a holder of slots: 128 bits, shown as 32 hexadecimal digits. A caller that knows it may renew
/// and release its slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId(u128);

impl SlotId {
    /// A random one; `None` if the operating system returns no random numbers.
    #[must_use]
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u128::from_le_bytes(bytes)))
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Shows only the beginning, since the whole id is a secret.
impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotId({:08x}…)", self.0 >> 96)
    }
}

/// Not the id of a holder: anything but 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a slot's holder is 32 hexadecimal digits; write a UUID without hyphens, or leave it out")]
pub struct BadSlotId;

impl FromStr for SlotId {
    type Err = BadSlotId;

    fn from_str(text: &str) -> Result<Self, BadSlotId> {
        let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_one.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or(BadSlotId)
    }
}

/// The answer to a holder that would acquire a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotAnswer {
    /// Whether it may run. A rule in shadow mode always admits.
    pub outcome: Outcome,
    /// The id to renew and release the slot by; `None` for a denial.
    pub id: Option<SlotId>,
    /// Slots of the rule, or this node's share of them where [`degraded`](Self::degraded) says `local`.
    /// `None` where no slot was asked for: no rule, an unlimited one, or the store did not answer.
    pub limit: Option<u64>,
    /// The store's decision; `remaining` are free slots.
    pub decision: Option<Decision>,
    /// Time after which the slot is free, unless it is renewed or released; `None` without a slot.
    pub ttl: Option<Duration>,
    /// It had the slot already.
    pub is_renewal: bool,
    /// It would have been denied, but the rule or the server is in shadow mode; it holds no slot.
    pub is_shadowed: bool,
    /// Path of the rule; `None` where none matches.
    pub rule: Option<String>,
    /// The choice of the rule that decided, if the store did not answer.
    pub degraded: Option<Degraded>,
}

impl SlotAnswer {
    /// True when it may run.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admit)
    }

    /// Slots that are free; `None` where none was asked for.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.limit.and(self.decision.as_ref()).map(Decision::remaining)
    }

    /// Time until the first slot expires, for a holder that was denied; one may be released earlier.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        match self.outcome {
            Outcome::Admit => RetryAfter::Now,
            Outcome::Deny => retry_after(self.decision.as_ref(), self.outcome, self.degraded),
        }
    }
}

/// Why no slot was acquired or released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Several descriptors; their number.
    #[error("{0} descriptors; a slot belongs to one, so acquire and release each in a call of its own")]
    ManyDescriptors(usize),
    /// A number of hits other than 1.
    #[error("{0} hits; a holder has one slot, so acquire further ones under other ids")]
    ManyHits(u64),
    /// No rule with slots matches the descriptor of a release.
    #[error("no rule with algorithm: concurrency matches it, so there is no slot to release")]
    NoSlots,
    /// There are no rules yet.
    #[error("no rules are loaded; no slot was taken or released")]
    NoRules,
    /// The rule counts permits.
    #[error("rule {rule} counts permits and has no slots; take them with a check or a reservation")]
    CountsPermits {
        /// Path of the rule, such as `api_key → plan=gold`.
        rule: String,
    },
    /// The operating system returned no random numbers for an id.
    #[error("the system gives no random numbers for an id; no slot was taken; send an id of your own")]
    NoRandomness,
    /// The store did not answer a release.
    #[error("{0}; the slot is free at the end of its ttl; a release is safe to repeat")]
    Store(StoreError),
}

/// The slots of one rule for one descriptor.
struct RuleSlots<'a> {
    rule: &'a Rule,
    slots: Slots,
    key: Vec<u8>,
}

/// Result of an attempt to take a slot.
enum Taken {
    /// The store decided, or this node by its share.
    Decided { slots: Slots, acquired: Acquired, degraded: Option<Degraded> },
    /// The store did not answer.
    Unanswered(OnStoreFailure),
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Takes a slot for the holder `id` (a random one if `None`), or renews the one that it has, of the rule
    /// that the only descriptor of `request` falls under.
    ///
    /// Without a rule, or by an unlimited one, it is admitted without a slot, and denied where a check would
    /// be. A store that does not answer is not an error: the rule's `on_store_failure` says what to do.
    ///
    /// # Errors
    /// [`SlotError`]: no slot was taken.
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let slots = "{algorithm: concurrency, limit: 1, ttl: 30s}";
    /// let text = format!("{{domain: shop, descriptors: [{{key: export, rate_limit: {slots}}}]}}");
    /// let rules = tollgate_rule_files::parse_text("shop.yaml", text)?;
    /// let limiter = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry::new("export", "orders")];
    /// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    /// let (noon, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    /// let first = block_on(limiter.acquire(&request, None, noon, &mut scratch))?;
    /// let id = first.id.expect("it is free");
    /// assert!(!block_on(limiter.acquire(&request, None, noon, &mut scratch))?.is_admitted());
    /// assert!(block_on(limiter.release(&request, id, noon))?);
    /// assert!(!block_on(limiter.release(&request, id, noon))?); // it was released already
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn acquire(
        &self,
        request: &Request<'_>,
        id: Option<SlotId>,
        now: Timestamp,
        scratch: &mut Scratch,
    ) -> Result<SlotAnswer, SlotError> {
        let entries = self.only_descriptor(request)?;
        let id = id.or_else(SlotId::random).ok_or(SlotError::NoRandomness)?;
        scratch.clear();
        let rules = self.rules.load();
        if !rules.policy().is_loaded() {
            self.observer.no_rules();
            return Err(SlotError::NoRules);
        }
        let mut answer = SlotAnswer {
            outcome: Outcome::Admit,
            id: Some(id),
            limit: None,
            decision: None,
            ttl: None,
            is_renewal: false,
            is_shadowed: false,
            rule: None,
            degraded: None,
        };
        let concluded = match rules.policy().domain(request.domain) {
            None => self.answer_of_no_domain(rules, request, now, scratch),
            Some(domain) => {
                let rule = domain.find(entries);
                let first = domain.rules().first().map_or(0, |rule| rule.index);
                let mut status = plan::status(rule, first, &request.descriptors[0], 1, &self.settings);
                answer.rule = rule.map(|rule| rule.path.clone());
                if let Some(rule) = rule.filter(|rule| !rule.limits.is_empty()) {
                    return Err(SlotError::CountsPermits { rule: rule.path.clone() });
                }
                // An intervention precedes the rule: neither a block nor an allowance takes a slot.
                if let Some(found) = self.intervention(request.domain, entries, now) {
                    self.observer.intervened(found.action);
                    found.apply(&mut status);
                } else if let Some(place) = rule.and_then(|rule| RuleSlots::of(rule, domain.name(), entries))
                {
                    (status.kind, status.is_shadow_rule) = (Kind::Limited, place.rule.shadow_mode);
                    match self.take_slot(&place, id, now).await {
                        Taken::Decided { slots, acquired, degraded } => {
                            (status.outcome, status.degraded) = (acquired.decision.outcome(), degraded);
                            status.decision = Some(acquired.decision);
                            status.is_charged = acquired.is_admitted();
                            answer.limit = Some(slots.limit());
                            answer.ttl = acquired.is_admitted().then(|| slots.ttl());
                            answer.is_renewal = acquired.is_renewal;
                        }
                        Taken::Unanswered(OnStoreFailure::Deny) => {
                            (status.outcome, status.degraded) = (Outcome::Deny, Some(Degraded::Denied));
                        }
                        Taken::Unanswered(_) => status.degraded = Some(Degraded::Allowed),
                    }
                }
                scratch.statuses.push(status);
                if rule.is_none() && scratch.statuses[0].kind == Kind::Free {
                    self.decide_unmatched(domain, request, scratch);
                }
                let overall = settle::overall(&mut scratch.statuses);
                let domain = domain.index();
                self.conclude(rules, domain, request, overall, now, scratch)
            }
        };
        answer.outcome = concluded.overall();
        answer.degraded = concluded.degraded();
        if let Some(descriptor) = concluded.descriptor(0) {
            answer.decision = descriptor.decision;
            answer.is_shadowed = descriptor.is_shadowed || concluded.is_shadowed();
        }
        if !answer.is_admitted() {
            answer.id = None;
        }
        Ok(answer)
    }

    /// Frees the slot of the holder `id` at once. False when it has none (any more): it was released before,
    /// or has expired. That is not an error, so a release may be repeated.
    ///
    /// # Errors
    /// [`SlotError`]; after [`SlotError::Store`] the slot may have been freed.
    pub async fn release(
        &self,
        request: &Request<'_>,
        id: SlotId,
        now: Timestamp,
    ) -> Result<bool, SlotError> {
        let entries = self.only_descriptor(request)?;
        let rules = self.rules.load_full();
        if !rules.policy().is_loaded() {
            return Err(SlotError::NoRules);
        }
        let domain = rules.policy().domain(request.domain).ok_or(SlotError::NoSlots)?;
        let rule = domain.find(entries).ok_or(SlotError::NoSlots)?;
        let place = RuleSlots::of(rule, domain.name(), entries).ok_or(SlotError::NoSlots)?;
        let slots = place.slots;
        let holder = Holder(id.0);
        let released = self.store.release(place.key(), &slots, holder, now).await;
        let mut was_held = match &released {
            Ok(released) => {
                self.slots.expired(released.expired);
                released.was_held
            }
            Err(_) => false,
        };
        if self.counts_shares(rule.on_store_failure) && rule.sharing != Sharing::Local {
            // It may have been acquired while the store did not answer, and renewed since, or before.
            let share = place.share();
            let of_share = self.store.release(local(&share), &slots, holder, now).await;
            was_held |= of_share.is_ok_and(|released| released.was_held);
        }
        if let (false, Err(error)) = (was_held, released) {
            self.count_store_error(&error, now);
            return Err(SlotError::Store(error));
        }
        self.slots.released(was_held);
        Ok(was_held)
    }

    fn only_descriptor<'r>(&self, request: &Request<'r>) -> Result<&'r [Entry<'r>], SlotError> {
        request.check()?;
        let [descriptor] = request.descriptors else {
            return Err(SlotError::ManyDescriptors(request.descriptors.len()));
        };
        match descriptor.hits.unwrap_or(request.hits) {
            1 => Ok(descriptor.entries),
            hits => Err(SlotError::ManyHits(hits)),
        }
    }

    async fn take_slot(&self, place: &RuleSlots<'_>, id: SlotId, now: Timestamp) -> Taken {
        let slots = place.slots;
        let holder = Holder(id.0);
        self.observer.store_called(1);
        let error = match self.store.acquire(place.key(), &slots, holder, now).await {
            Ok(acquired) => {
                self.note_store_answers(&vec![Ok(acquired.decision)]);
                self.slots.acquired(&acquired);
                return Taken::Decided { slots, acquired, degraded: None };
            }
            Err(error) => error,
        };
        self.count_store_error(&error, now);
        let way = place.rule.on_store_failure;
        if self.counts_shares(way) {
            let slots = slots.share_of(self.store.live_nodes());
            let share = place.share();
            if let Ok(acquired) = self.store.acquire(local(&share), &slots, holder, now).await {
                self.slots.acquired(&acquired);
                return Taken::Decided { slots, acquired, degraded: Some(Degraded::Local) };
            }
        }
        Taken::Unanswered(way)
    }
}

impl<'a> RuleSlots<'a> {
    /// `None` for a rule without slots.
    fn of(rule: &'a Rule, domain: &str, entries: &[Entry<'_>]) -> Option<Self> {
        let slots = rule.slots?;
        let mut key = Vec::new();
        rule.write_slot_key(domain, entries, &mut key);
        Some(Self { rule, slots, key })
    }

    fn key(&self) -> SlotKey<'_> {
        SlotKey::new(Key(&self.key)).shared(self.rule.sharing)
    }

    /// The key of this node's share.
    fn share(&self) -> Vec<u8> {
        let mut share = Vec::new();
        write_slot_share(&self.key, &mut share);
        share
    }
}

const fn local(key: &[u8]) -> SlotKey<'_> {
    SlotKey::new(Key(key)).shared(Sharing::Local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_it_is_shown_and_nothing_else_does() {
        for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef << 64] {
            assert_eq!(SlotId(id).to_string().parse(), Ok(SlotId(id)));
        }
        for text in ["", "1", "+0000000000000000000000000000001", &"0".repeat(33), &"g".repeat(32)] {
            assert_eq!(text.parse::<SlotId>(), Err(BadSlotId), "{text:?}");
        }
        assert_eq!(format!("{:?}", SlotId(u128::MAX)), "SlotId(ffffffff…)");
    }
}
