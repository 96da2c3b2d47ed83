//! Counters of each rule and domain, with handles that are resolved when rules are loaded.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use tollgate_core::{Algorithm, Decision, Outcome};
use tollgate_policy::{Charge, Domain, PATH_SEPARATOR, Policy, Rule};

use crate::sharded_counters::{ShardedCounters, ThreadSlot};
use crate::status::{Kind, Status};
use crate::top_keys::LazyTopKeys;

/// Counts of a rule: decisions by outcome, and hits by where they fell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleMetric {
    Admitted,
    Denied,
    ShadowDenied,
    Degraded,
    WithinHits,
    NearHits,
    /// Hits of denied requests, without those that found room: see [`RuleCounts::denied_hits`].
    OverHits,
    ShadowHits,
}

/// Counters of one rule.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters {
    counts: ShardedCounters<8>,
    /// Hits of denied requests that found room below the limit. Few rules have any, so they are apart from
    /// the others, which fill a cache line.
    found: OnceLock<ShardedCounters<1>>,
    /// Admitted requests that the counters of a version in a rollout would have denied.
    alone: OnceLock<ShardedCounters<1>>,
}

impl RuleCounters {
    #[inline(always)]
    pub(crate) fn add(&self, thread: ThreadSlot, of: RuleMetric, more: u64) {
        self.counts.add(thread, of as usize, more);
    }

    pub(crate) fn sum(&self, of: RuleMetric) -> u64 {
        self.counts.sum(of as usize)
    }

    /// All counts at this moment.
    pub(crate) fn counts(&self) -> RuleCounts {
        RuleCounts {
            admitted: self.sum(RuleMetric::Admitted),
            denied: self.sum(RuleMetric::Denied),
            shadow_denied: self.sum(RuleMetric::ShadowDenied),
            degraded: self.sum(RuleMetric::Degraded),
            within_hits: self.sum(RuleMetric::WithinHits),
            near_hits: self.sum(RuleMetric::NearHits),
            over_hits: self.sum(RuleMetric::OverHits),
            found_hits: self.found.get().map_or(0, |found| found.sum(0)),
            shadow_hits: self.sum(RuleMetric::ShadowHits),
        }
    }

    #[cold]
    fn count_alone(&self, thread: ThreadSlot) {
        self.alone.get_or_init(ShardedCounters::default).add(thread, 0, 1);
    }

    /// Number of admitted requests that the counters of a version alone denied.
    pub(crate) fn alone_denied(&self) -> u64 {
        self.alone.get().map_or(0, |alone| alone.sum(0))
    }

    /// Counts the hits of a denied request, as envoyproxy/ratelimit does: hits that found room are not over
    /// the limit, and the last of these are near it.
    #[inline(always)]
    fn count_denied(&self, thread: ThreadSlot, status: &Status, near_ratio: f32) {
        let found = match &status.decision {
            // A single hit that is denied has found no room.
            Some(decision) if status.hits > 1 => self.count_found(thread, decision, status, near_ratio),
            _ => 0,
        };
        self.add(thread, RuleMetric::OverHits, status.hits - found);
    }

    /// Counts the hits that found room, and returns how many.
    #[cold]
    fn count_found(&self, thread: ThreadSlot, decision: &Decision, status: &Status, near_ratio: f32) -> u64 {
        let found = decision.found().min(status.hits);
        if found > 0 {
            let limit = limit_of(decision, status);
            let near = found.min(limit.saturating_sub(near_from(limit, near_ratio)));
            self.add(thread, RuleMetric::NearHits, near);
            self.found.get_or_init(ShardedCounters::default).add(thread, 0, found);
        }
        found
    }
}

/// Counts of a rule at one moment. Each number only ever grows, and so does every sum of them that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCounts {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
    pub(crate) degraded: u64,
    pub(crate) within_hits: u64,
    pub(crate) near_hits: u64,
    pub(crate) over_hits: u64,
    /// Hits of denied requests that found room.
    found_hits: u64,
    pub(crate) shadow_hits: u64,
}

impl RuleCounts {
    /// Whether anything was counted.
    pub(crate) fn are_any(&self) -> bool {
        *self != Self::default()
    }

    /// Hits of denied requests.
    pub(crate) const fn denied_hits(&self) -> u64 {
        self.over_hits.wrapping_add(self.found_hits)
    }

    /// All hits: within the limit and denied.
    pub(crate) const fn hits(&self) -> u64 {
        self.within_hits.wrapping_add(self.denied_hits())
    }

    pub(crate) fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.admitted, more.admitted),
            (&mut self.denied, more.denied),
            (&mut self.shadow_denied, more.shadow_denied),
            (&mut self.degraded, more.degraded),
            (&mut self.within_hits, more.within_hits),
            (&mut self.near_hits, more.near_hits),
            (&mut self.over_hits, more.over_hits),
            (&mut self.found_hits, more.found_hits),
            (&mut self.shadow_hits, more.shadow_hits),
        ] {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// The limit of the decision, without the excess.
fn limit_of(decision: &Decision, status: &Status) -> u64 {
    decision.limit().saturating_sub(status.excess)
}

/// Number of hits of a limit that are not near it.
fn near_from(limit: u64, near_ratio: f32) -> u64 {
    (limit as f32 * near_ratio) as u64
}

/// Counters of one domain: descriptors that no rule limits, limits that came with a request where no rule
/// matches, and requests of which no rule limits any descriptor, by their outcome.
pub(crate) type DomainCounters = ShardedCounters<4>;

/// A counter of a single number.
type Single = Arc<ShardedCounters<1>>;

/// One rule's counters and labels.
#[derive(Debug)]
pub(crate) struct RuleMeter {
    pub(crate) domain: String,
    /// Its path, as labels have it.
    pub(crate) rule: String,
    /// The first level of its path, and the rest of it, as dashboards of envoyproxy/ratelimit label them.
    pub(crate) keys: [String; 2],
    /// Its hits are shown by values of requests instead.
    pub(crate) is_detailed: bool,
    pub(crate) counters: Arc<RuleCounters>,
    /// Requests admitted above a limit; of rules that have a limit with an excess.
    pub(crate) excess: Option<Single>,
    /// Denied requests that a limit in shadow would have denied too; of rules that have such a limit.
    pub(crate) both_denied: Option<Single>,
    /// Hits that are denied and not counted; only of rules that forget them.
    pub(crate) forgets: Option<Arc<Forgets>>,
    /// The keys that are denied most; made at the first denial.
    pub(crate) top: LazyTopKeys,
    /// Domain by which the rule is found again after a reload.
    domain_name: Arc<str>,
    identity: u64,
}

/// Hits that a rule denies and does not count. Where the rule is also asked with 0 hits, they may be the cost
/// of work that is done: then the work is never counted, and the next check passes.
#[derive(Debug, Default)]
pub(crate) struct Forgets {
    /// Requests with 0 hits, counted up to 1.
    checks: AtomicU64,
    /// Requests with several hits that were denied and not counted, after such a check.
    pub(crate) forgotten: AtomicU64,
}

impl Forgets {
    /// Notes a request whose number of hits is not 1; true at the first request that may be lost work.
    #[cold]
    fn note(&self, status: &Status) -> bool {
        let is_checked = self.checks.load(Relaxed) > 0;
        if status.hits == 0 {
            if !is_checked {
                self.checks.store(1, Relaxed);
            }
            return false;
        }
        let is_lost = is_checked
            && status.outcome == Outcome::Deny
            && status.kind == Kind::Limited
            && !status.is_charged
            && status.degraded.is_none();
        is_lost && self.forgotten.fetch_add(1, Relaxed) == 0
    }
}

impl RuleMeter {
    #[cold]
    fn warn_of_forgotten(&self) {
        tracing::warn!(
            domain = self.domain,
            rule = self.rule,
            "hits of a rule that is asked with 0 hits first were denied and not counted; if they are the cost of \
             finished work, add post_paid: true to its limit (docs/token-quotas.md)"
        );
    }
}

/// Whether a limit of `rule` denies hits without counting them.
fn forgets(domain: &Domain, rule: &Rule) -> bool {
    rule.limits.iter().any(|limit| {
        let counts = match limit.quota.algorithm() {
            Algorithm::FixedWindow { .. } => domain.charge() != Charge::Together,
            Algorithm::SlidingWindowLog { log_denied } => *log_denied && domain.charge() == Charge::Each,
            _ => false,
        };
        !limit.post_paid && !limit.shadow && !counts
    })
}

/// One domain's counters.
#[derive(Debug)]
pub(crate) struct DomainMeter {
    pub(crate) name: String,
    /// Position of its first rule among all rules.
    first_rule: usize,
    pub(crate) counters: Arc<DomainCounters>,
}

/// The counters of all rules in force.
#[derive(Debug, Default)]
pub struct RuleMeters {
    pub(crate) domains: Vec<DomainMeter>,
    /// By rule index; the rules from `distinct` on share the counters of the last one.
    pub(crate) rules: Vec<RuleMeter>,
    pub(crate) distinct: usize,
    /// Whether any rule is shown by values of requests.
    pub(crate) has_details: bool,
}

pub(crate) const UNMATCHED: usize = 0;
pub(crate) const OVERRIDDEN: usize = 1;
pub(crate) const UNMATCHED_ADMITTED: usize = 2;
pub(crate) const UNMATCHED_DENIED: usize = 3;
/// Common name of all rules above the cap.
pub(crate) const OTHERS: &str = "(others)";

impl RuleMeters {
    /// Meters for `policy`, which keep the counters of `old` for rules that are in both. At most `most` rules
    /// get series of their own.
    pub(crate) fn new(policy: &Policy, old: &Self, most: usize) -> Self {
        let old_rules: HashMap<(&str, &str), &Arc<RuleCounters>> = old.rules[..old.distinct]
            .iter()
            .map(|meter| ((meter.domain.as_str(), meter.rule.as_str()), &meter.counters))
            .collect();
        let old_domains: HashMap<&str, &Arc<DomainCounters>> =
            old.domains.iter().map(|meter| (meter.name.as_str(), &meter.counters)).collect();
        let go_on = |domain: &str, rule: &str| {
            old_rules.get(&(domain, rule)).map_or_else(Arc::default, |counters| Arc::clone(counters))
        };
        // Rules above the cap also have top keys: they share their counters only.
        let old_tops: HashMap<(&str, u64), &LazyTopKeys> = old
            .rules
            .iter()
            .filter(|it| it.top.get().is_some())
            .map(|it| ((&*it.domain_name, it.identity), &it.top))
            .collect();
        let old_forgets: HashMap<(&str, &str), &Arc<Forgets>> = old.rules[..old.distinct]
            .iter()
            .filter_map(|it| Some(((it.domain.as_str(), it.rule.as_str()), it.forgets.as_ref()?)))
            .collect();
        let old_excess = old.single(|meter| meter.excess.as_ref());
        let old_both = old.single(|meter| meter.both_denied.as_ref());
        let mut meters = Self::default();
        for domain in policy.domains() {
            meters.domains.push(DomainMeter {
                name: domain.name().to_owned(),
                first_rule: meters.rules.len(),
                counters: old_domains
                    .get(domain.name())
                    .map_or_else(Arc::default, |counters| Arc::clone(counters)),
            });
            let domain_name: Arc<str> = domain.name().into();
            for rule in domain.rules() {
                let path = label_of(&rule.path);
                let (name, path, counters) = if meters.rules.len() < most {
                    (domain.name(), &*path, go_on(domain.name(), &path))
                } else if meters.rules.len() == most {
                    ("", OTHERS, go_on("", OTHERS))
                } else {
                    ("", OTHERS, Arc::clone(&meters.rules[most].counters))
                };
                // Rules above the cap share these counters.
                let others = meters.rules.get(most);
                let single =
                    |has: bool, old: &HashMap<(&str, &str), &Single>, shared: Option<Option<Single>>| {
                        let own = || old.get(&(name, path)).map_or_else(Arc::default, |it| Arc::clone(it));
                        shared.unwrap_or_else(|| (has || name.is_empty()).then(own))
                    };
                let has_excess = rule.limits.iter().any(|limit| limit.excess > 0);
                let excess = single(has_excess, &old_excess, others.map(|it| it.excess.clone()));
                let forgets = (!name.is_empty() && forgets(domain, rule))
                    .then(|| old_forgets.get(&(name, path)).map_or_else(Arc::default, |it| Arc::clone(it)));
                let has_trial = rule.limits.iter().any(|limit| limit.shadow);
                let both_denied = single(has_trial, &old_both, others.map(|it| it.both_denied.clone()));
                let mut stat = String::new();
                rule.write_stat(&[], &mut stat);
                meters.has_details |= rule.stat_varies();
                meters.rules.push(RuleMeter {
                    domain: name.to_owned(),
                    rule: path.to_owned(),
                    keys: if path == OTHERS { [OTHERS.to_owned(), String::new()] } else { stat_keys(&stat) },
                    is_detailed: rule.stat_varies(),
                    counters,
                    excess,
                    both_denied,
                    forgets,
                    top: old_tops
                        .get(&(domain.name(), rule.identity()))
                        .map_or_else(LazyTopKeys::default, |slot| (*slot).clone()),
                    domain_name: Arc::clone(&domain_name),
                    identity: rule.identity(),
                });
            }
        }
        meters.distinct = meters.rules.len().min(most + 1);
        meters
    }

    /// The meter of the rule at `place` in its domain.
    #[inline]
    pub(crate) fn rule(&self, domain: usize, place: u32) -> &RuleMeter {
        &self.rules[self.domains[domain].first_rule + place as usize]
    }

    /// The counters of one number that `of` picks, by domain and path.
    fn single<'a>(
        &'a self,
        of: impl Fn(&'a RuleMeter) -> Option<&'a Single>,
    ) -> HashMap<(&'a str, &'a str), &'a Single> {
        let named = |meter: &'a RuleMeter| Some(((meter.domain.as_str(), meter.rule.as_str()), of(meter)?));
        self.rules[..self.distinct].iter().filter_map(named).collect()
    }

    #[cold]
    fn count_both_denied(&self, thread: ThreadSlot, first_rule: usize, place: Option<u32>) {
        let both = place.and_then(|place| self.rules[first_rule + place as usize].both_denied.as_ref());
        if let Some(both) = both {
            both.add(thread, 0, 1);
        }
    }

    #[cold]
    fn count_unusual(&self, thread: ThreadSlot, first_rule: usize, status: &Status) {
        if status.in_excess {
            self.count_excess(thread, first_rule, status.rule);
        }
        if status.is_denied_alone
            && status.outcome == Outcome::Admit
            && let Some(place) = status.rule
        {
            self.rules[first_rule + place as usize].counters.count_alone(thread);
        }
    }

    fn count_excess(&self, thread: ThreadSlot, first_rule: usize, place: Option<u32>) {
        if let Some(excess) = place.and_then(|place| self.rules[first_rule + place as usize].excess.as_ref())
        {
            excess.add(thread, 0, 1);
        }
    }

    /// Counts the descriptors of a request; true when a rule denied one, or would have denied one.
    #[inline(always)]
    pub(crate) fn count(
        &self,
        thread: ThreadSlot,
        domain: usize,
        statuses: &[Status],
        near_ratio: f32,
    ) -> bool {
        let domain = &self.domains[domain];
        let mut any_denied = false;
        let mut free = 0;
        for status in statuses {
            let counters = match (status.kind, status.rule) {
                (Kind::Replaced, _) => continue,
                (Kind::Free, _) | (_, None) => {
                    any_denied |= status.outcome == Outcome::Deny;
                    let index = match status.kind {
                        Kind::Blocked | Kind::Allowed => continue, // counted as such
                        Kind::Overridden => OVERRIDDEN,
                        _ => UNMATCHED,
                    };
                    domain.counters.add(thread, index, 1);
                    free += usize::from(index == UNMATCHED);
                    continue;
                }
                (_, Some(place)) => &*self.rules[domain.first_rule + place as usize].counters,
            };
            if count(counters, thread, status, near_ratio) {
                any_denied = true;
                if status.is_denied_in_trial && status.outcome == Outcome::Deny {
                    self.count_both_denied(thread, domain.first_rule, status.rule);
                }
            }
            if status.hits != 1
                && let Some(place) = status.rule
                && let meter = &self.rules[domain.first_rule + place as usize]
                && meter.forgets.as_ref().is_some_and(|forgets| forgets.note(status))
            {
                meter.warn_of_forgotten();
            }
            if status.in_excess | status.is_denied_alone {
                self.count_unusual(thread, domain.first_rule, status);
            }
        }
        if free > 0 && free == statuses.len() {
            let index = if any_denied { UNMATCHED_DENIED } else { UNMATCHED_ADMITTED };
            domain.counters.add(thread, index, 1);
        }
        any_denied
    }
}

/// A rule's path as a label: `api_key > plan=gold`, without an arrow that queries would have to spell.
fn label_of(path: &str) -> String {
    path.replace(PATH_SEPARATOR, " > ")
}

/// The first level of a statistics path, and the rest of it.
pub(crate) fn stat_keys(stat: &str) -> [String; 2] {
    let (first, rest) = stat.split_once('.').unwrap_or((stat, ""));
    [first.to_owned(), rest.to_owned()]
}

/// Counts one descriptor; true when it is denied, or would be without shadow mode.
#[inline(always)]
pub(crate) fn count(counters: &RuleCounters, thread: ThreadSlot, status: &Status, near_ratio: f32) -> bool {
    let add = |of: RuleMetric, more| counters.add(thread, of, more);
    if status.degraded.is_some() {
        add(RuleMetric::Degraded, 1);
    }
    if status.is_shadowed || status.outcome == Outcome::Deny {
        counters.count_denied(thread, status, near_ratio);
        if status.is_shadowed {
            add(RuleMetric::ShadowDenied, 1);
            add(RuleMetric::ShadowHits, status.hits);
        } else {
            add(RuleMetric::Denied, 1);
        }
        return true;
    }
    add(RuleMetric::Admitted, 1);
    add(RuleMetric::WithinHits, status.hits);
    if let Some(decision) = &status.decision {
        let limit = limit_of(decision, status);
        let after = limit.saturating_sub(status.remaining);
        let near_from = near_from(limit, near_ratio);
        if after > near_from {
            add(RuleMetric::NearHits, status.hits.min(after - near_from));
        }
    }
    false
}
