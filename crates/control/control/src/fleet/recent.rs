//! Counts of a node in the last minutes: requests that its rules did not answer, beside decisions.

use std::collections::{BTreeMap, VecDeque};

use tollgate_fleet_proto::{RejectedRequests, Report};

use crate::fleet::figures::ForgottenRule;

const MINUTE_MS: i64 = 60_000;
/// Minutes whose counts are kept, the current one among them.
const MINUTES: i64 = 5;
/// Most kinds of rejected requests that are named in a minute; the rest is summed without names.
const MOST: usize = 16;
/// Bytes of each text that are kept.
const LONGEST: usize = 64;

/// A kind of rejected requests; empty texts for all that have no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RejectionKind {
    surface: String,
    status: String,
    reason: String,
}

/// The counts of one node.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Incarnation and number of the last report. One that is not above it is repeated.
    last: (u64, u64),
    minutes: VecDeque<Minute>,
}

#[derive(Debug, Default)]
struct Minute {
    /// When it began, in ms UTC.
    at_ms: i64,
    decided: u64,
    rejected: BTreeMap<RejectionKind, u64>,
    /// By domain and rule.
    forgotten: BTreeMap<(String, String), u64>,
}

impl Recent {
    /// Adds a report that came at `at_ms`, once.
    pub(crate) fn add(&mut self, incarnation: u64, report: &Report, at_ms: i64) {
        if (incarnation, report.sequence) <= self.last {
            return;
        }
        self.last = (incarnation, report.sequence);
        let at_ms = at_ms.saturating_sub(at_ms.rem_euclid(MINUTE_MS));
        if self.minutes.back().is_none_or(|it| it.at_ms < at_ms) {
            self.minutes.push_back(Minute { at_ms, ..Minute::default() });
        }
        let oldest = at_ms.saturating_sub(MINUTE_MS * (MINUTES - 1));
        while self.minutes.front().is_some_and(|it| it.at_ms < oldest) {
            self.minutes.pop_front();
        }
        let Some(minute) = self.minutes.back_mut() else { return };
        for rule in &report.rules {
            minute.decided = minute.decided.saturating_add(rule.admitted).saturating_add(rule.denied);
            if rule.forgotten > 0 {
                minute.forget(&rule.domain, &rule.rule, rule.forgotten);
            }
        }
        for it in &report.rejected {
            minute.reject([&it.surface, &it.status, &it.reason], it.count);
        }
    }

    /// Decisions, and what was rejected, the most frequent kind first.
    pub(crate) fn sums(&self) -> (u64, Vec<RejectedRequests>) {
        let mut decided = 0_u64;
        let mut sums = BTreeMap::<&RejectionKind, u64>::new();
        for minute in &self.minutes {
            decided = decided.saturating_add(minute.decided);
            for (key, count) in &minute.rejected {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        let rejected = |(key, count): (&RejectionKind, u64)| RejectedRequests {
            surface: key.surface.clone(),
            status: key.status.clone(),
            reason: key.reason.clone(),
            count,
        };
        let mut rejected: Vec<_> = sums.into_iter().map(rejected).collect();
        rejected.sort_by_key(|it| std::cmp::Reverse(it.count));
        (decided, rejected)
    }
}

impl Recent {
    /// Rules whose requests may be finished work that they did not count, the most requests first.
    pub(crate) fn forgotten(&self) -> Vec<ForgottenRule> {
        let mut sums = BTreeMap::<_, u64>::new();
        for (rule, count) in self.minutes.iter().flat_map(|minute| &minute.forgotten) {
            let sum = sums.entry(rule).or_default();
            *sum = sum.saturating_add(*count);
        }
        let named = |((domain, rule), requests): (&(String, String), u64)| ForgottenRule {
            domain: domain.clone(),
            rule: rule.clone(),
            requests,
        };
        let mut sums: Vec<_> = sums.into_iter().map(named).collect();
        sums.sort_by_key(|it| std::cmp::Reverse(it.requests));
        sums
    }
}

impl Minute {
    /// Rules above the cap are left out: the first ones say enough.
    fn forget(&mut self, domain: &str, rule: &str, count: u64) {
        let [domain, rule] = [domain, rule].map(|text| text[..text.floor_char_boundary(LONGEST)].to_owned());
        let key = (domain, rule);
        if self.forgotten.len() < MOST || self.forgotten.contains_key(&key) {
            let sum = self.forgotten.entry(key).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    fn reject(&mut self, key: [&String; 3], count: u64) {
        let [surface, status, reason] = key.map(|text| text[..text.floor_char_boundary(LONGEST)].to_owned());
        let key = RejectionKind { surface, status, reason };
        let is_room = self.rejected.len() < MOST - 1 || self.rejected.contains_key(&key);
        let key = if is_room { key } else { RejectionKind::default() };
        let sum = self.rejected.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_fleet_proto::RuleCounts;

    use super::*;

    fn rejected(reason: &str, count: u64) -> RejectedRequests {
        let surface = "http".to_owned();
        let status = "403".to_owned();
        RejectedRequests { surface, status, reason: reason.to_owned(), count }
    }

    fn report(sequence: u64, rejected: Vec<RejectedRequests>) -> Report {
        let rules = vec![RuleCounts { admitted: 2, denied: 1, ..RuleCounts::default() }];
        Report { sequence, rules, rejected, ..Report::default() }
    }

    #[test]
    fn a_report_counts_once_and_for_five_minutes() {
        let mut recent = Recent::default();
        let start = 1_700_000_040_000; // a whole minute
        for (incarnation, sequence, seconds, want) in [
            (1, 1, 0, (3, 4)),
            (1, 1, 1, (3, 4)), // repeated
            (1, 2, 59, (6, 8)),
            (2, 1, 60, (9, 12)), // after a restart
            (1, 3, 61, (9, 12)), // from before it
            (2, 2, 299, (12, 16)),
            (2, 3, 300, (9, 12)),      // without the first minute
            (2, 4, 3_600, (3, 4)),     // after a pause
            (2, 5, 3_000, (6, 8)),     // a clock that was set back
            (2, 6, 7_200_000, (3, 4)), // and forth
        ] {
            let report = report(sequence, vec![rejected("malformed", 4)]);
            recent.add(incarnation, &report, start + seconds * 1_000);
            let (decided, sums) = recent.sums();
            let counts: Vec<_> = sums.iter().map(|it| it.count).collect();
            assert_eq!((decided, counts), (want.0, vec![want.1]), "{incarnation}/{sequence}");
            assert!(recent.minutes.len() <= 5);
        }
    }

    #[test]
    fn rules_that_forget_are_summed_by_name_for_five_minutes() {
        let mut recent = Recent::default();
        let of = |rule: &str, forgotten| RuleCounts {
            domain: "llm".to_owned(),
            rule: rule.to_owned(),
            forgotten,
            ..RuleCounts::default()
        };
        for (sequence, minute, rules) in [
            (1, 0, vec![of("team", 2), of("none", 0)]),
            (2, 4, vec![of("model", 5), of("team", 2)]),
            (3, 5, vec![of("team", 2)]),
        ] {
            let report = Report { sequence, rules, ..Report::default() };
            recent.add(1, &report, 1_700_000_040_000 + minute * MINUTE_MS);
        }
        let shown = |recent: &Recent| {
            recent.forgotten().into_iter().map(|it| (it.rule, it.requests)).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&recent),
            [("model".to_owned(), 5), ("team".to_owned(), 4)],
            "without the first minute"
        );
        let rules = (0..1_000).map(|rule| of(&format!("{rule} {}", "é".repeat(999)), u64::MAX)).collect();
        recent.add(1, &Report { sequence: 4, rules, ..Report::default() }, 1_700_000_040_000 + 9 * MINUTE_MS);
        let many = shown(&recent);
        assert_eq!(many.len(), MOST + 1, "of two minutes");
        assert!(many.iter().all(|it| it.0.len() <= LONGEST));
    }

    #[test]
    fn the_most_frequent_kinds_come_first_and_those_above_the_cap_are_summed() {
        let mut recent = Recent::default();
        recent.add(1, &report(1, vec![rejected("few", 1), rejected("many", 9), rejected("some", 5)]), 0);
        let reasons: Vec<_> = recent.sums().1.into_iter().map(|it| it.reason).collect();
        assert_eq!(reasons, ["many", "some", "few"]);
        let many = (0..1_000).map(|number| rejected(&format!("{number} {}", "é".repeat(999)), 7));
        recent.add(1, &report(2, many.collect()), 0);
        let (_, sums) = recent.sums();
        assert_eq!((sums.len(), sums.iter().map(|it| it.count).sum()), (MOST, 7_015_u64));
        assert!(sums.iter().all(|it| it.reason.len() <= LONGEST));
    }
}
