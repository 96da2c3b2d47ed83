//! Counts on their way to the control plane: each is reported until it is seen, and counts once.
//!
//! A report that was sent may have arrived, so it is repeated unchanged, with its number. Counts that were
//! never sent are summed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{MAX_REPORT_ROWS, RejectedRequests, Report, RuleCounts, Store, TopKey};
use tollgate_mistakes::Mistakes;

use crate::mistake::Mistake;

/// Most reports that were sent and not seen.
const MOST_IN_DOUBT: usize = 8;
/// The longest span of one sum.
const LONGEST_SUM: Duration = Duration::from_secs(600);
/// Most sums that are kept while the control plane is away; then the two oldest become one.
const MOST_SUMS: usize = 6;
/// Most keys of one report.
const MOST_TOP: usize = 1_000;
/// Most kinds of rejected requests in one report; the rest is summed without names.
const MOST_REJECTED: usize = 300;
/// The name of all rules above the cap together.
const OTHERS: &str = "(others)";

/// Totals of a node since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Totals of rules since the start of the process.
    pub rules: Vec<RuleTotals>,
    /// Keys that were limited most, with the counts of sketches, which are halved now and then.
    pub top: Vec<TopKey>,
    /// Health of the store.
    pub store: Option<Store>,
    /// Memory of the table of counters.
    pub table_bytes: u64,
    /// The wall clock, in ms since the Unix epoch.
    pub wall_ms: u64,
    /// Why the current rule files of the node are not in force; empty if they are.
    pub rules_error: String,
    /// Domains that were asked for and have no rules.
    pub unknown_domains: Vec<String>,
    /// Totals of requests that were not answered by the rules, since the start of the process.
    pub rejected: Vec<RejectedRequests>,
}

/// Totals of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTotals {
    pub domain: String,
    pub rule: String,
    /// Totals since the start of the process.
    pub counts: Counts,
}

/// Decisions by their outcome, and hits near a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub admitted: u64,
    pub denied: u64,
    pub shadow_denied: u64,
    pub degraded: u64,
    pub near: u64,
    pub both_denied: u64,
    pub forgotten: u64,
    pub alone_denied: u64,
}

impl Counts {
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            admitted: with(self.admitted, other.admitted),
            denied: with(self.denied, other.denied),
            shadow_denied: with(self.shadow_denied, other.shadow_denied),
            degraded: with(self.degraded, other.degraded),
            near: with(self.near, other.near),
            both_denied: with(self.both_denied, other.both_denied),
            forgotten: with(self.forgotten, other.forgotten),
            alone_denied: with(self.alone_denied, other.alone_denied),
        }
    }

    /// Increase since `before`; the whole count if the counters began anew.
    fn since(self, before: Self) -> Self {
        self.zip(before, |now, before| now.checked_sub(before).unwrap_or(now))
    }
}

type DomainAndRule = (String, String);
/// Domain, rule and key.
type TopKeyName = (String, String, String);
/// Surface, status and reason.
type RejectedKey = (String, String, String);

#[derive(Debug, Default)]
struct Sum {
    rules: BTreeMap<DomainAndRule, Counts>,
    /// Denials per key, only of keys that a sample names.
    top: BTreeMap<TopKeyName, u64>,
    rejected: BTreeMap<RejectedKey, u64>,
    from: Timestamp,
    to: Timestamp,
}

impl Sum {
    fn add(&mut self, key: DomainAndRule, counts: Counts) {
        let is_room = self.rules.len() < MAX_REPORT_ROWS - 1 || self.rules.contains_key(&key);
        let key = if is_room { key } else { (String::new(), OTHERS.to_owned()) };
        let sum = self.rules.entry(key).or_default();
        *sum = sum.zip(counts, u64::saturating_add);
    }

    /// The keys with the fewest denials are dropped once there are twice as many as fit.
    fn add_top(&mut self, key: TopKeyName, denied: u64) {
        *self.top.entry(key).or_default() += denied;
        if self.top.len() > 2 * MOST_TOP {
            self.top = most_denied(std::mem::take(&mut self.top)).collect();
        }
    }

    fn add_rejected(&mut self, key: RejectedKey, count: u64) {
        let is_room = self.rejected.len() < MOST_REJECTED - 1 || self.rejected.contains_key(&key);
        let key = if is_room { key } else { Default::default() };
        let sum = self.rejected.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }

    fn join(&mut self, later: Self) {
        self.to = later.to;
        for (key, count) in later.rejected {
            self.add_rejected(key, count);
        }
        for (key, denied) in later.top {
            self.add_top(key, denied);
        }
        for (key, counts) in later.rules {
            self.add(key, counts);
        }
    }
}

fn most_denied(top: BTreeMap<TopKeyName, u64>) -> impl Iterator<Item = (TopKeyName, u64)> {
    let mut top: Vec<_> = top.into_iter().collect();
    top.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    top.into_iter().take(MOST_TOP)
}

/// Counts that the control plane has not seen.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    mistakes: Mistakes<Mistake>,
    totals: BTreeMap<DomainAndRule, Counts>,
    top: BTreeMap<TopKeyName, u64>,
    rejected: BTreeMap<RejectedKey, u64>,
    open: Sum,
    /// Sums that were never sent, oldest first.
    closed: VecDeque<Sum>,
    /// Sent and not seen, with the end of each span.
    in_doubt: VecDeque<(Timestamp, Report)>,
    /// Number of the last report.
    last: u64,
    latest: Sample,
    pub(crate) state_error: String,
}

impl Outbox {
    pub(crate) fn new(now: Timestamp, mistakes: Mistakes<Mistake>) -> Self {
        let open = Sum { from: now, to: now, ..Sum::default() };
        Self { mistakes, open, ..Self::default() }
    }

    /// Adds the increase since the last sample.
    pub(crate) fn sampled(&mut self, mut sample: Sample, now: Timestamp) {
        // A rule that is gone is forgotten: its counters begin anew if it comes back.
        let before = std::mem::take(&mut self.totals);
        for RuleTotals { domain, rule, counts } in sample.rules.drain(..) {
            let key = (domain, rule);
            let since = counts.since(before.get(&key).copied().unwrap_or_default());
            if since != Counts::default() {
                self.open.add(key.clone(), since);
            }
            self.totals.insert(key, counts);
        }
        let before = std::mem::take(&mut self.top);
        for TopKey { domain, rule, key, denied } in sample.top.drain(..) {
            let name = (domain, rule, key);
            let then = before.get(&name).copied().unwrap_or_default();
            // A count that is lower than before was halved in between.
            let since = denied.checked_sub(then).unwrap_or(denied.saturating_sub(then / 2));
            if since > 0 {
                self.open.add_top(name.clone(), since);
            }
            self.top.insert(name, denied);
        }
        let before = std::mem::take(&mut self.rejected);
        for RejectedRequests { surface, status, reason, count } in sample.rejected.drain(..) {
            let key = (surface, status, reason);
            let then = before.get(&key).copied().unwrap_or_default();
            let since = count.checked_sub(then).unwrap_or(count);
            if since > 0 {
                self.open.add_rejected(key.clone(), since);
            }
            self.rejected.insert(key, count);
        }
        self.latest = sample;
        self.open.to = now;
        if now.since(self.open.from) >= LONGEST_SUM {
            self.close(now);
        }
    }

    fn close(&mut self, now: Timestamp) {
        let open = Sum { from: now, to: now, ..Sum::default() };
        self.closed.push_back(std::mem::replace(&mut self.open, open));
        if self.closed.len() > MOST_SUMS
            && let (Some(mut oldest), Some(next)) = (self.closed.pop_front(), self.closed.pop_front())
        {
            oldest.join(next);
            self.closed.push_front(oldest);
        }
    }

    /// The reports to send now: the sums, oldest first, as far as there is room for reports in doubt.
    pub(crate) fn next(&mut self, now: Timestamp) -> Vec<Report> {
        if self.in_doubt.len() + self.closed.len() < MOST_IN_DOUBT {
            self.close(now);
        }
        let mut reports = Vec::new();
        while self.in_doubt.len() < MOST_IN_DOUBT
            && let Some(sum) = self.closed.pop_front()
        {
            self.last += 1;
            let report = self.report(sum);
            reports.push(aged(&report, now));
            self.in_doubt.push_back(report);
        }
        reports
    }

    fn report(&self, sum: Sum) -> (Timestamp, Report) {
        let counts = |((domain, rule), counts): (DomainAndRule, Counts)| {
            // Without `..`, so that a new count cannot be forgotten here.
            let Counts {
                admitted,
                denied,
                shadow_denied,
                degraded,
                near,
                both_denied,
                forgotten,
                alone_denied,
            } = counts;
            RuleCounts {
                domain,
                rule,
                admitted,
                denied,
                shadow_denied,
                degraded,
                near,
                both_denied,
                forgotten,
                alone_denied,
            }
        };
        let top_key = |((domain, rule, key), denied): (TopKeyName, u64)| TopKey { domain, rule, key, denied };
        let rejected = |((surface, status, reason), count): (RejectedKey, u64)| RejectedRequests {
            surface,
            status,
            reason,
            count,
        };
        let report = Report {
            rejected: sum.rejected.into_iter().map(rejected).collect(),
            sequence: self.last,
            span_ms: millis(sum.to.since(sum.from)),
            rules: sum.rules.into_iter().map(counts).collect(),
            top: most_denied(sum.top).map(top_key).collect(),
            store: self.latest.store.clone(),
            table_bytes: self.latest.table_bytes,
            wall_ms: self.latest.wall_ms,
            state_error: self.state_error.clone(),
            rules_error: self.latest.rules_error.clone(),
            unknown_domains: self.latest.unknown_domains.clone(),
            ..Report::default()
        };
        (sum.to, report)
    }

    /// The reports to repeat on a new stream, in order.
    pub(crate) fn again(&mut self, now: Timestamp) -> Vec<Report> {
        self.err_before_repeating();
        self.in_doubt.iter().map(|report| aged(report, now)).collect()
    }

    fn err_before_repeating(&mut self) {
        if self.mistakes.has(Mistake::UnseenReportsDropped) {
            self.in_doubt.clear();
        }
        if self.mistakes.has(Mistake::RepeatedReportsRenumbered) {
            for (_, report) in &mut self.in_doubt {
                self.last += 1;
                report.sequence = self.last;
            }
        }
    }

    /// The control plane has these reports.
    pub(crate) fn seen(&mut self, sequence: u64) {
        while self.in_doubt.front().is_some_and(|(_, report)| report.sequence <= sequence) {
            self.in_doubt.pop_front();
        }
    }
}

fn aged((end, report): &(Timestamp, Report), now: Timestamp) -> Report {
    Report { age_ms: millis(now.since(*end)), ..report.clone() }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    fn sample(rule: &str, admitted: u64) -> Sample {
        let counts = Counts { admitted, ..Counts::default() };
        Sample {
            rules: vec![RuleTotals { domain: "d".into(), rule: rule.into(), counts }],
            ..Sample::default()
        }
    }

    fn admitted(reports: &[Report]) -> Vec<(u64, u64, u64)> {
        let sum = |report: &Report| report.rules.iter().map(|rule| rule.admitted).sum();
        reports.iter().map(|report| (report.sequence, sum(report), report.age_ms / 1_000)).collect()
    }

    #[test]
    fn a_report_is_repeated_unchanged_until_it_is_seen() {
        let mut outbox = Outbox::new(at(0), Mistakes::none());
        outbox.sampled(sample("r", 3), at(5));
        assert_eq!(admitted(&outbox.next(at(5))), [(1, 3, 0)]);
        outbox.sampled(sample("r", 10), at(10));
        assert_eq!(admitted(&outbox.next(at(10))), [(2, 7, 0)]);
        assert_eq!(admitted(&outbox.again(at(15))), [(1, 3, 10), (2, 7, 5)]);
        outbox.seen(1);
        assert_eq!(admitted(&outbox.again(at(15))), [(2, 7, 5)]);
        outbox.seen(2);
        assert_eq!(admitted(&outbox.again(at(15))), []);
        outbox.sampled(sample("r", 4), at(20)); // the counters began anew
        assert_eq!(admitted(&outbox.next(at(20))), [(3, 4, 0)]);
    }

    #[test]
    fn counts_are_summed_until_they_are_seen_and_all_arrive() {
        let mut outbox = Outbox::new(at(0), Mistakes::none());
        for tick in 1..=10_000 {
            outbox.sampled(sample("r", tick), at(5 * tick)); // 14 hours
            assert!(outbox.closed.len() <= MOST_SUMS);
        }
        let reports = outbox.next(at(50_000));
        assert!(reports.len() <= MOST_IN_DOUBT);
        assert_eq!(admitted(&reports).iter().map(|it| it.1).sum::<u64>(), 10_000);
        let spans: Vec<_> = reports.iter().skip(1).map(|report| report.span_ms).collect();
        assert!(spans.iter().all(|span| *span <= 600_000), "{spans:?}");
        for tick in 0..100 {
            outbox.sampled(sample("r", 10_001 + tick), at(50_005 + 5 * tick));
            outbox.next(at(50_005 + 5 * tick));
            assert!(outbox.in_doubt.len() <= MOST_IN_DOUBT, "the control plane sees nothing");
        }
    }

    #[test]
    fn top_keys_are_reported_as_what_came_since_the_last_sample() {
        let mut outbox = Outbox::new(at(0), Mistakes::none());
        let mut reported = |denied: &[(&str, u64)], seconds| {
            let key = |(key, denied): &(&str, u64)| TopKey {
                domain: "d".into(),
                rule: "r".into(),
                key: (*key).into(),
                denied: *denied,
            };
            outbox
                .sampled(Sample { top: denied.iter().map(key).collect(), ..Sample::default() }, at(seconds));
            let mut reports = outbox.next(at(seconds));
            outbox.seen(u64::MAX);
            let top = reports.pop().expect("a report").top;
            top.into_iter().map(|it| (it.key, it.denied)).collect::<Vec<_>>()
        };
        let named = |keys: &[(&str, u64)]| -> Vec<(String, u64)> {
            keys.iter().map(|(key, denied)| ((*key).to_owned(), *denied)).collect()
        };
        assert_eq!(reported(&[("ann", 4), ("bob", 9)], 5), named(&[("bob", 9), ("ann", 4)]));
        assert_eq!(reported(&[("ann", 10), ("bob", 9)], 10), named(&[("ann", 6)]));
        assert_eq!(reported(&[("ann", 6), ("bob", 4)], 15), named(&[("ann", 1)]), "halved meanwhile");
        assert_eq!(reported(&[], 20), []);
        assert_eq!(reported(&[("ann", 2)], 25), named(&[("ann", 2)]));
    }

    #[test]
    fn rejected_requests_are_reported_once_and_kinds_above_the_cap_together() {
        let mut outbox = Outbox::new(at(0), Mistakes::none());
        let rejected = |reason: usize, count| RejectedRequests {
            surface: "http".to_owned(),
            status: "400".to_owned(),
            reason: reason.to_string(),
            count,
        };
        let sample = |rejected: Vec<_>| Sample { rejected, ..Sample::default() };
        outbox.sampled(sample(vec![rejected(1, 3)]), at(5));
        assert_eq!(outbox.next(at(5))[0].rejected, [rejected(1, 3)]);
        outbox.sampled(sample(vec![rejected(1, 3), rejected(2, 4)]), at(10));
        assert_eq!(outbox.next(at(10))[0].rejected, [rejected(2, 4)]);
        assert_eq!(outbox.again(at(10))[0].rejected, [rejected(1, 3)], "not seen yet");
        for kind in 0..2 * MOST_REJECTED {
            outbox.sampled(sample(vec![rejected(kind, 5)]), at(15));
        }
        let last = outbox.next(at(15)).remove(0).rejected;
        assert_eq!(last.len(), MOST_REJECTED);
        assert_eq!(last.iter().map(|it| it.count).sum::<u64>(), 10 * MOST_REJECTED as u64);
    }

    #[test]
    fn rules_above_the_cap_are_counted_together() {
        let mut outbox = Outbox::new(at(0), Mistakes::none());
        for rule in 0..MAX_REPORT_ROWS + 5 {
            outbox.sampled(sample(&rule.to_string(), 1), at(5));
        }
        let reports = outbox.next(at(5));
        assert_eq!(reports[0].rules.len(), MAX_REPORT_ROWS);
        assert_eq!(admitted(&reports)[0].1, MAX_REPORT_ROWS as u64 + 5);
    }
}
