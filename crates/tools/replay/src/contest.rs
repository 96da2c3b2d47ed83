//! Decisions of other algorithms on the requests of a rule, all with its limit and its window.
//!
//! Keys that were idle for two windows are as new in every algorithm, so they are forgotten without loss
//! where the memory is full. Requests of keys that then still find no room are not compared, and are counted.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_core::{Algorithm, Align, Cost, Quota, Refill, State, Timestamp};
use tollgate_policy::Rule;

use crate::track::{Window, is_compared};
use tollgate_exact::ExactLog;

/// One algorithm in the contest of a rule.
#[derive(Debug)]
pub(crate) struct Entrant {
    pub(crate) quota: Quota,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    pub(crate) wrongly_admitted: u64,
    pub(crate) wrongly_denied: u64,
    /// The window in which one key got most.
    pub(crate) worst: Option<Window>,
}

/// The contest of one rule.
#[derive(Debug)]
pub(crate) struct RuleContest {
    pub(crate) limit: u64,
    window_ns: u64,
    /// Permits that each hit takes.
    permits: u64,
    pub(crate) entrants: Vec<Entrant>,
    pub(crate) left_out: u64,
}

#[derive(Debug)]
struct ContestKey {
    rule: usize,
    last_ns: u64,
    exact: ExactLog,
    /// State of each entrant, and its admissions in the last window.
    states: Box<[(State, ExactLog)]>,
}

/// The contests of all rules.
pub(crate) struct Contest {
    /// `None` of rules that have no window, several limits, or classes of priority.
    pub(crate) rules: Vec<Option<RuleContest>>,
    keys: HashMap<Box<[u8]>, ContestKey, RandomState>,
    bytes: usize,
    max_bytes: usize,
    sweep_from_ns: u64,
}

impl RuleContest {
    fn of(rule: &Rule) -> Option<Self> {
        let [limit] = rule.limits.as_slice() else { return None };
        if !is_compared(rule, limit) {
            return None;
        }
        let window_ns = u64::try_from(limit.period.as_nanos()).ok().filter(|ns| *ns > 0)?;
        let permits = limit.quota.limit();
        let period = limit.quota.period();
        let entrant = |algorithm| {
            let quota = Quota::new(permits, period.clone(), algorithm).ok()?;
            let admitted = 0;
            let denied = 0;
            let wrongly_admitted = 0;
            let wrongly_denied = 0;
            Some(Entrant { quota, admitted, denied, wrongly_admitted, wrongly_denied, worst: None })
        };
        let entrants: Vec<Entrant> = algorithms().into_iter().filter_map(entrant).collect();
        Some(Self { limit: permits, window_ns, permits: limit.cost, entrants, left_out: 0 })
    }
}

/// Those that count requests by key and deny at once.
fn algorithms() -> [Algorithm; 5] {
    let burst = None;
    let initial = None;
    let overdraft = 0;
    let refill = Refill::Continuous;
    [
        Algorithm::FixedWindow { align: Align::Calendar },
        Algorithm::TokenBucket { burst, initial, overdraft, refill },
        Algorithm::SlidingWindowCounter,
        Algorithm::sliding_window(10),
        Algorithm::SlidingWindowLog { log_denied: false },
    ]
}

impl Contest {
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule>, max_bytes: usize) -> Self {
        let rules = rules.map(RuleContest::of).collect();
        Self { rules, keys: HashMap::default(), bytes: 0, max_bytes, sweep_from_ns: 0 }
    }

    /// A request of `key`, which comes under `rule`, at `now` of the trace, which never goes back; `clock` is
    /// that time as rules see it.
    pub(crate) fn offered(&mut self, key: &[u8], rule: usize, cost: u64, now: u64, clock: Timestamp) {
        if self.bytes > self.max_bytes {
            self.sweep(now);
        }
        let Some(Some(contest)) = self.rules.get_mut(rule) else { return };
        let RuleContest { limit, window_ns, permits, .. } = *contest;
        let cost = cost.saturating_mul(permits);
        // A known key may grow a little beyond, a new one may not begin.
        let state = match self.keys.get_mut(key) {
            Some(state) if self.bytes <= self.max_bytes.saturating_add(self.max_bytes / 8) => state,
            None if self.bytes <= self.max_bytes => {
                let fresh = |entrant: &Entrant| (entrant.quota.fresh(), ExactLog::default());
                let states: Box<[_]> = contest.entrants.iter().map(fresh).collect();
                self.bytes += size_of::<ContestKey>() + size_of_val(&*states) + key.len() + 64;
                let new = ContestKey { rule, last_ns: now, exact: ExactLog::default(), states };
                self.keys.entry(key.into()).or_insert(new)
            }
            _ => {
                contest.left_out += 1;
                return;
            }
        };
        state.last_ns = now;
        let before = state.bytes();
        let is_right = state.exact.take(now, cost, window_ns, limit);
        for (entrant, (state, log)) in contest.entrants.iter_mut().zip(&mut state.states) {
            let decision = entrant.quota.take(state, Cost(cost), clock);
            let is_admitted = decision.is_admitted();
            entrant.admitted += u64::from(is_admitted);
            entrant.denied += u64::from(!is_admitted);
            entrant.wrongly_admitted += u64::from(is_admitted && !is_right);
            entrant.wrongly_denied += u64::from(!is_admitted && is_right);
            if is_admitted {
                log.forget(now, window_ns);
                log.push(now, cost);
                if entrant.worst.as_ref().is_none_or(|worst| worst.admitted < log.sum()) {
                    let from_ns = log.oldest().unwrap_or(now);
                    entrant.worst =
                        Some(Window { key: key.into(), from_ns, to_ns: now, admitted: log.sum() });
                }
            }
        }
        self.bytes += state.bytes().saturating_sub(before);
    }

    #[cold]
    fn sweep(&mut self, now: u64) {
        if now < self.sweep_from_ns {
            return;
        }
        let rules = &self.rules;
        let mut bytes = 0;
        let mut shortest = u64::MAX;
        self.keys.retain(|text, key| {
            let window_ns = rules.get(key.rule).and_then(Option::as_ref).map_or(0, |rule| rule.window_ns);
            shortest = shortest.min(window_ns);
            let is_kept = key.last_ns.saturating_add(window_ns.saturating_mul(2)) > now;
            if is_kept {
                key.shrink();
                bytes += key.bytes() + size_of::<ContestKey>() + size_of_val(&*key.states) + text.len() + 64;
            }
            is_kept
        });
        self.bytes = bytes;
        // Looking through all keys is worth it again when some time has passed.
        self.sweep_from_ns = now.saturating_add((shortest / 8).max(1));
    }
}

impl ContestKey {
    /// Bytes of its logs; the state of a log algorithm has as many entries as its admissions.
    fn bytes(&self) -> usize {
        self.exact.bytes() + self.states.iter().map(|(_, log)| log.bytes() * 3 / 2).sum::<usize>()
    }

    fn shrink(&mut self) {
        self.exact.shrink();
        self.states.iter_mut().for_each(|(_, log)| log.shrink());
    }
}
