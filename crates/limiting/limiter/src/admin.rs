//! Inspects or resets the counters of one descriptor, by its domain and entries.

use tollgate_core::{Algorithm, Decision, Refill, Timestamp};
use tollgate_human_text::show_bytes;
use tollgate_observe::{Degraded, Observer};
use tollgate_policy::{Entry, KeyParts, Limit, Rule};
use tollgate_store::{Counter, Key, ScanError, Scanned, Sharing, Store, StoreError};

use crate::limiter::Limiter;

/// The stored state of one limit of the rule that a descriptor falls under.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyReport {
    /// The rule's path, such as `api_key → plan=gold`.
    pub rule: String,
    /// The limit in words: `5 per minute, fixed_window`.
    pub limit: String,
    /// The counter's key, in the spelling of `tollgate_human_text::show_bytes`.
    pub key: String,
    /// Decision of a peek. It includes [`excess`](Self::excess).
    pub decision: Decision,
    /// Permits that the limit admits beyond its number.
    pub excess: u64,
    /// Whether a state is kept; without one the decision is that of a fresh quota. After a reset: whether
    /// there was a state to forget.
    pub is_tracked: bool,
    /// Most permits that can be available at once.
    pub burst: u64,
    /// Permits available now, for a bucket that refills steadily; negative when it is overdrawn. For all
    /// other algorithms the remaining permits.
    pub tokens: i64,
    /// Kept in this node's memory: other nodes have their own.
    pub is_local: bool,
    /// Set if the store did not answer: the decision is then by this node's share of the limit.
    pub degraded: Option<Degraded>,
}

/// Why there is no counter to report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No file is about the domain.
    #[error("there is no domain {0:?}, so nothing is counted for it")]
    UnknownDomain(String),
    /// No rule limits the descriptor.
    #[error("no rule of domain {domain:?} limits {asked}")]
    NoRule {
        /// Name of the domain.
        domain: String,
        /// The entries, as `key=value`.
        asked: String,
    },
    /// The rule says `unlimited`: nothing is counted.
    #[error("rule {0} is unlimited, so nothing is counted for it")]
    Unlimited(String),
    /// The rule denies everything: nothing is counted.
    #[error("rule {0} denies every request, so nothing is counted for it")]
    Denies(String),
    /// The rule has slots, whose holders are not listed.
    #[error("rule {0} has slots and counts no permits; the answers to acquire say how many are free")]
    Slots(String),
    /// The store did not answer, and this node has no count of its own. After a reset some counters may have
    /// been forgotten.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Returns one report for each limit of the rule that applies to `entries`. Changes nothing. While the
    /// store does not answer, a rule with `on_store_failure: local` reports this node's share.
    ///
    /// # Errors
    /// [`KeyError`]: nothing is counted for it, or the store did not answer.
    pub async fn inspect(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
        now: Timestamp,
    ) -> Result<Vec<KeyReport>, KeyError> {
        self.each_counter(domain, entries, false, now).await
    }

    /// Forgets the counters of the rule that applies to `entries`, so that its next request finds fresh
    /// quotas. Returns one report for each limit, as it is afterwards.
    ///
    /// # Errors
    /// [`KeyError`]: nothing is counted for it, or the store did not answer.
    pub async fn reset(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
        now: Timestamp,
    ) -> Result<Vec<KeyReport>, KeyError> {
        self.each_counter(domain, entries, true, now).await
    }

    /// Lists the counters of requests of `domain` whose first entries are these, a page per call, as
    /// [`Store::scan`] does.
    ///
    /// # Errors
    /// [`ScanError`]: the store keeps no names, did not answer, or the cursor is invalid.
    pub async fn scan(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
        cursor: &str,
    ) -> Result<Scanned, ScanError> {
        let mut start = Vec::new();
        KeyParts::write_start(domain, entries, &mut start);
        self.store.scan(&start, cursor).await
    }

    async fn each_counter(
        &self,
        domain: &str,
        entries: &[Entry<'_>],
        forget: bool,
        now: Timestamp,
    ) -> Result<Vec<KeyReport>, KeyError> {
        let rules = self.rules.load_full();
        let rule = find(rules.policy(), domain, entries)?;
        let mut reports = Vec::with_capacity(rule.limits.len());
        for (index, limit) in rule.limits.iter().enumerate() {
            let mut bytes = Vec::new();
            rule.write_key(index, domain, entries, &mut bytes);
            let counter = Counter::new(Key(&bytes), &limit.quota).shared(rule.sharing);
            let was_tracked = forget && self.store.reset(counter, now).await?;
            let (inspection, degraded) = match self.store.inspect(counter, now).await {
                Ok(inspection) => (inspection, None),
                Err(error) if forget => return Err(error.into()),
                Err(error) => {
                    let share = self.inspect_share(rule.on_store_failure, counter, now).await;
                    (share.unwrap_or(Err(error))?, Some(Degraded::Local))
                }
            };
            if forget {
                self.reset_share(counter, now).await?;
            }
            reports.push(KeyReport {
                rule: rule.path.clone(),
                limit: limit.to_string(),
                key: show_bytes(&bytes).into_owned(),
                decision: inspection.decision,
                excess: limit.excess,
                burst: limit.quota.burst(),
                tokens: tokens(limit, &inspection.decision),
                is_local: rule.sharing == Sharing::Local || !self.store.is_remote(),
                is_tracked: if forget { was_tracked } else { inspection.is_tracked },
                degraded,
            });
        }
        Ok(reports)
    }
}

/// Permits that a counter has: a decision's `remaining` also counts those that may be taken in advance.
fn tokens(limit: &Limit, decision: &Decision) -> i64 {
    let remaining = i64::try_from(decision.remaining()).unwrap_or(i64::MAX);
    match limit.quota.algorithm() {
        Algorithm::TokenBucket { refill: Refill::Continuous, .. } if !limit.period.is_zero() => {
            let missing =
                decision.reset_after().as_nanos().saturating_mul(u128::from(limit.requests_per_unit));
            let missing = missing.div_ceil(limit.period.as_nanos());
            i64::try_from(i128::from(limit.quota.burst()) - missing.cast_signed()).unwrap_or(remaining)
        }
        _ => remaining,
    }
}

fn find<'a>(
    policy: &'a tollgate_policy::Policy,
    domain: &str,
    entries: &[Entry<'_>],
) -> Result<&'a Rule, KeyError> {
    let rules = policy.domain(domain).ok_or_else(|| KeyError::UnknownDomain(domain.to_owned()))?;
    let rule = rules.find(entries);
    let rule = rule.ok_or_else(|| KeyError::NoRule {
        domain: domain.to_owned(),
        asked: entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    })?;
    match (rule.unlimited, rule.denies) {
        (true, _) => Err(KeyError::Unlimited(rule.path.clone())),
        (_, true) => Err(KeyError::Denies(rule.path.clone())),
        _ if rule.slots.is_some() => Err(KeyError::Slots(rule.path.clone())),
        _ => Ok(rule),
    }
}
