//! Limits that share one counter, because they name the same bucket: one bucket for several classes of
//! requests, each with a cost of its own.
//!
//! The counter of a bucket is that of its domain and name, and of the values that its rules leave open: those
//! of entries without a value, or with a pattern, a network or a list. An exact value, or a pattern with
//! `share_threshold`, names a class, and all classes share. So the rules of one bucket must leave the same
//! entries open. Limits in shadow, and those of rules in shadow mode, share a separate bucket, so that they
//! take nothing from the limits in force.
//!
//! Not here: the text of the key ([`counter_key`](crate::counter_key)), the arithmetic (`core`).

use tollgate_core::{Algorithm, Quota};
use tollgate_store::Sharing;

use crate::error::RuleError;
use crate::limit::Limit;
use crate::limit_text::{algorithm_in_words, rate_in_words};
use crate::place::Place;
use crate::rule::{Counted, Rule};

/// An entry whose value is part of the counter key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) key: String,
    pub(crate) counted: Counted,
}

/// A limit of a bucket, and where it was written.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) rule: usize,
    pub(crate) limit: usize,
    pub(crate) open: Vec<Open>,
    pub(crate) place: Option<Place>,
    /// Path of the limit, such as `descriptors[2].rate_limit`.
    pub(crate) path: String,
}

/// The limits of one bucket, in their order; never empty.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) members: Vec<Member>,
}

impl Bucket {
    /// Gives all limits of the bucket quotas that read each other's states.
    ///
    /// # Errors
    /// By member: the setting in which it differs from the first, or why the bucket cannot be counted.
    pub(crate) fn join(&self, rules: &mut [Rule]) -> Result<(), Vec<(&Member, RuleError)>> {
        let Some((first, others)) = self.members.split_first() else { return Ok(()) };
        let differs = |other| Some((other, self.difference(first, other, rules)?));
        let errors: Vec<_> = others.iter().filter_map(differs).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let overdraft = |it: &Member| limit_of(it, rules).map_or(0, |limit| overdraft(&limit.quota));
        let most = self.members.iter().map(overdraft).max().unwrap_or_default();
        let Some(shared) = limit_of(first, rules).map(|limit| limit.quota.clone()) else { return Ok(()) };
        for member in &self.members {
            let Some(limit) = rules.get_mut(member.rule).and_then(|rule| rule.limits.get_mut(member.limit))
            else {
                continue;
            };
            // The same numbers in the same form, so that stores recognise at once that the limits count
            // alike.
            let algorithm = with_overdraft(shared.algorithm(), self::overdraft(&limit.quota));
            let quota = Quota::new(shared.limit(), shared.period().clone(), algorithm);
            match quota.and_then(|quota| quota.with_room_for_overdraft(most)) {
                Ok(quota) => limit.quota = quota,
                Err(error) => return Err(vec![(member, RuleError::BucketQuota(error))]),
            }
        }
        Ok(())
    }

    /// The setting in which a member differs from the first.
    fn difference(&self, first: &Member, other: &Member, rules: &[Rule]) -> Option<RuleError> {
        let theirs = limit_of(first, rules)?;
        let ours = limit_of(other, rules)?;
        let [a, b] = [first, other].map(|member| rules.get(member.rule).map(|rule| rule.sharing));
        let (what, theirs, ours) = if theirs.requests_per_unit != ours.requests_per_unit
            || theirs.quota.period() != ours.quota.period()
        {
            ("the rate", rate_in_words(theirs), rate_in_words(ours))
        } else if theirs.burst() != ours.burst() {
            ("the burst", theirs.burst().to_string(), ours.burst().to_string())
        } else if plain(&theirs.quota) != plain(&ours.quota) {
            let words = |limit: &Limit| algorithm_in_words(&plain(&limit.quota));
            ("the algorithm", words(theirs), words(ours))
        } else if theirs.excess != ours.excess {
            ("the excess", theirs.excess.to_string(), ours.excess.to_string())
        } else if a != b {
            let name = |sharing: Option<Sharing>| sharing.unwrap_or_default().name().to_owned();
            ("the sharing", name(a), name(b))
        } else if first.open != other.open {
            ("the open entries", entries_in_words(&first.open), entries_in_words(&other.open))
        } else {
            return None;
        };
        let first = match &first.place {
            Some(place) => format!("{} at {place}", first.path),
            None => first.path.clone(),
        };
        let name = limit_of(other, rules).and_then(|limit| limit.bucket.clone()).unwrap_or_default();
        Some(RuleError::BucketDiffers { name, first, what, theirs, ours })
    }
}

fn limit_of<'a>(member: &Member, rules: &'a [Rule]) -> Option<&'a Limit> {
    rules.get(member.rule)?.limits.get(member.limit)
}

const fn overdraft(quota: &Quota) -> u64 {
    match quota.algorithm() {
        Algorithm::TokenBucket { overdraft, .. } => *overdraft,
        _ => 0,
    }
}

fn with_overdraft(algorithm: &Algorithm, overdraft: u64) -> Algorithm {
    match *algorithm {
        Algorithm::TokenBucket { burst, initial, refill, .. } => {
            Algorithm::TokenBucket { burst, initial, overdraft, refill }
        }
        ref other => other.clone(),
    }
}

/// The algorithm without the settings that may differ, and without an initial fill that equals the burst.
fn plain(quota: &Quota) -> Algorithm {
    let burst = quota.burst();
    match quota.algorithm().clone() {
        Algorithm::TokenBucket { initial, refill, .. } => Algorithm::TokenBucket {
            burst: None,
            initial: initial.filter(|initial| *initial != burst),
            overdraft: 0,
            refill,
        },
        Algorithm::LeakyBucket { form, .. } => Algorithm::LeakyBucket { capacity: None, form },
        other => other,
    }
}

fn entries_in_words(open: &[Open]) -> String {
    let one = |it: &Open| match &it.counted {
        Counted::Address(Some(bits)) => format!("{} (addresses, ipv6_prefix {bits})", it.key),
        Counted::Address(None) => format!("{} (addresses)", it.key),
        _ => it.key.clone(),
    };
    if open.is_empty() { "(none)".to_owned() } else { open.iter().map(one).collect::<Vec<_>>().join(", ") }
}
