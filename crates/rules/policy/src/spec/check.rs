//! Errors in one descriptor, looked at alone.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::{Algorithm, LeakyForm};
use tollgate_store::Sharing;

use super::value::Kind;
use super::{DescriptorSpec, Limits, Part, RuleSpec, ValueSpec};
use crate::countable::{Countable, is_leasable};
use crate::error::RuleError;
use crate::limit::Limit;
use crate::reading::MOST_FORWARDED;
use crate::wait::{LONGEST_WAIT, SHORTEST_WAIT};

impl DescriptorSpec {
    /// Everything that is wrong with this descriptor itself and its rule; not with those below it or beside
    /// it.
    ///
    /// [`PolicyBuilder::build`](crate::PolicyBuilder::build) checks the same. This is for readers that attach
    /// a place to each error.
    #[must_use]
    pub fn check(&self, countable: Countable) -> Vec<(Part, RuleError)> {
        let mut errors = Vec::new();
        if self.key.is_empty() {
            errors.push((Part::Key, RuleError::EmptyKey));
        }
        let is_pattern_key = self.key.contains('*');
        if is_pattern_key && matches!(self.value.0, Kind::Network(_) | Kind::Regex(_) | Kind::List(_)) {
            errors.push((Part::Value, RuleError::PatternKey));
        }
        if let Some(bits) = self.ipv6_prefix
            && let Err(error) = check_ipv6_prefix(bits, &self.value, is_pattern_key)
        {
            errors.push((Part::Ipv6Prefix, error));
        }
        match self.forwarded {
            Some(nth) if !(1..=MOST_FORWARDED).contains(&nth) => {
                errors.push((Part::Forwarded, RuleError::ForwardedRange(nth)));
            }
            Some(_) if is_pattern_key => errors.push((Part::Forwarded, RuleError::ForwardedOfPattern)),
            _ => {}
        }
        let has_pattern = match &self.value.0 {
            Kind::Any => is_pattern_key,
            Kind::Text(text) => is_pattern_key || text.contains('*'),
            Kind::Network(_) | Kind::Regex(_) | Kind::List(_) => true,
        };
        if self.share_threshold && !has_pattern {
            errors.push((Part::ShareThreshold, RuleError::NothingToShare));
        }
        if let Some(rule) = &self.rule {
            rule.check(countable, &mut errors);
        }
        errors
    }

    /// This descriptor without the errors that [`check`](Self::check) finds, except those of its key. A
    /// reader that has reported those errors passes it on, so that the errors of its children and neighbours
    /// are found too.
    #[must_use]
    pub fn without_errors(mut self) -> Self {
        (self.ipv6_prefix, self.forwarded, self.share_threshold, self.rule) = (None, None, false, None);
        self
    }
}

/// Why requests cannot wait for permits of `limit`; `None` if they can.
fn no_queue(limit: &Limit) -> Option<&'static str> {
    match limit.quota.algorithm() {
        _ if limit.post_paid => {
            Some("the hits of a post_paid limit are used already, so none can wait; remove one of the two")
        }
        Algorithm::Total => Some("a total has no permits again, however long a request waits; remove it"),
        Algorithm::LeakyBucket { form: LeakyForm::Queue { .. }, .. } => Some(
            "form: queue already admits with a delay, which the caller waits; remove it, or write form: meter",
        ),
        Algorithm::SlidingWindowLog { log_denied: true } => Some(
            "log_denied counts each attempt, so waiting requests would keep each other out; remove one of them",
        ),
        _ => None,
    }
}

fn check_ipv6_prefix(bits: u8, value: &ValueSpec, is_pattern_key: bool) -> Result<(), RuleError> {
    match &value.0 {
        _ if !(1..=128).contains(&bits) => Err(RuleError::Ipv6PrefixRange(bits)),
        Kind::Network(ipnet::IpNet::V4(_)) => Err(RuleError::Ipv6PrefixOfIpv4),
        Kind::Network(network) if network.prefix_len() > bits => {
            Err(RuleError::Ipv6PrefixTooWide { bits, least: network.prefix_len() })
        }
        Kind::Network(_) => Ok(()),
        Kind::Any if !is_pattern_key => Ok(()),
        Kind::Any | Kind::Text(_) | Kind::Regex(_) | Kind::List(_) => Err(RuleError::Ipv6PrefixOfText),
    }
}

impl RuleSpec {
    fn check(&self, countable: Countable, errors: &mut Vec<(Part, RuleError)>) {
        if let Some(max_wait) = self.max_wait {
            self.check_queue(max_wait, errors);
        }
        match &self.limits {
            Limits::Unlimited | Limits::Denied => self.check_replaces(errors),
            Limits::Slots(_) => {
                self.check_replaces(errors);
                let algorithm = "concurrency";
                if self.sharing == Sharing::Leased {
                    errors.push((Part::Limit, RuleError::NotLeasable { algorithm }));
                } else if self.sharing != Sharing::Local
                    && let Err(reason) = countable.check_slots()
                {
                    errors.push((Part::Limit, RuleError::NotCountable { algorithm, reason }));
                }
            }
            Limits::One(limit) => {
                self.check_replaces(errors);
                if limit.shadow {
                    errors.push((Part::Limit, RuleError::OnlyShadow));
                }
                self.check_limit(limit, Part::Limit, countable, errors);
            }
            Limits::Named(limits) if limits.is_empty() => errors.push((Part::Limits, RuleError::NoLimits)),
            Limits::Named(limits) => {
                if limits.iter().all(|limit| limit.shadow) {
                    errors.push((Part::Limits, RuleError::OnlyShadow));
                }
                let mut names = HashMap::new();
                let mut buckets = HashMap::new();
                // Beside limits in shadow only, it counts as if it were alone.
                let is_alone = limits.len() > 1 && limits.iter().filter(|limit| !limit.shadow).count() == 1;
                for (index, limit) in limits.iter().enumerate() {
                    if limit.name.is_empty() {
                        if limit.shadow || !is_alone {
                            errors.push((Part::NameOfLimit(index), RuleError::MissingLimitName));
                        }
                    } else if let Some(first) = names.insert(limit.name.as_str(), index) {
                        let error = RuleError::DuplicateLimitName { name: limit.name.clone(), first };
                        errors.push((Part::NameOfLimit(index), error));
                    }
                    if let Some(name) = &limit.bucket
                        && let Some(first) = buckets.insert((name.as_str(), limit.shadow), index)
                    {
                        let error = RuleError::BucketTwice { name: name.clone(), first };
                        errors.push((Part::LimitOfList(index), error));
                    }
                    self.check_limit(limit, Part::LimitOfList(index), countable, errors);
                }
                for (index, name) in self.replaces.iter().enumerate() {
                    if name.is_empty() {
                        errors.push((Part::Replaces(index), RuleError::EmptyReplaces));
                    } else if names.contains_key(name.as_str()) {
                        errors.push((Part::Replaces(index), RuleError::ReplacesOwnLimit));
                    }
                }
            }
        }
    }

    /// Whether waiting helps with every limit, and for a sensible time.
    fn check_queue(&self, max_wait: Duration, errors: &mut Vec<(Part, RuleError)>) {
        if !(SHORTEST_WAIT..=LONGEST_WAIT).contains(&max_wait) {
            errors.push((Part::MaxWait, RuleError::WaitRange(max_wait)));
        }
        let reason = match &self.limits {
            Limits::Unlimited => Some("a rule without a limit never denies; remove it"),
            Limits::Denied => Some("a rule that denies everything has nothing to wait for; remove it"),
            Limits::Slots(_) => Some("slots are free when holders release them, not after a time; remove it"),
            Limits::One(limit) => no_queue(limit),
            Limits::Named(limits) => limits.iter().filter(|limit| !limit.shadow).find_map(no_queue),
        };
        if let Some(reason) = reason {
            errors.push((Part::OnLimit, RuleError::NoQueue { reason }));
        }
    }

    fn check_replaces(&self, errors: &mut Vec<(Part, RuleError)>) {
        for (index, name) in self.replaces.iter().enumerate() {
            if name.is_empty() {
                errors.push((Part::Replaces(index), RuleError::EmptyReplaces));
            } else if *name == self.name {
                errors.push((Part::Replaces(index), RuleError::ReplacesItself));
            }
        }
    }

    fn check_limit(
        &self,
        limit: &Limit,
        part: Part,
        countable: Countable,
        errors: &mut Vec<(Part, RuleError)>,
    ) {
        let algorithm = limit.quota.algorithm().name();
        match limit.bucket.as_deref() {
            Some("") => errors.push((part, RuleError::EmptyBucket)),
            Some(_) if matches!(limit.quota.algorithm(), Algorithm::PriorityBuckets { .. }) => {
                errors.push((part, RuleError::BucketOfClasses));
            }
            _ => {}
        }
        if self.sharing == Sharing::Leased && !is_leasable(&limit.quota) {
            errors.push((part, RuleError::NotLeasable { algorithm }));
        } else if self.sharing != Sharing::Local
            && let Err(reason) = countable.check(&limit.quota, self.sharing)
        {
            errors.push((part, RuleError::NotCountable { algorithm, reason }));
        }
    }
}
