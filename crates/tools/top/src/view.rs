//! Contents of the screen: rates from two readings, sorted, with a rule chosen. Draws nothing and reads
//! nothing from the server.

use std::collections::{HashMap, VecDeque};

use crate::exposition::Exposition;
use crate::reading::{Reading, Store, TopKey};

/// Readings that the history line shows.
const HISTORY: usize = 240;

/// The column that rows are sorted by, the largest first (names from A on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Denied,
    Decisions,
    Share,
    Rule,
}

impl Sort {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Denied => Self::Decisions,
            Self::Decisions => Self::Share,
            Self::Share => Self::Rule,
            Self::Rule => Self::Denied,
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) domain: String,
    pub(crate) rule: String,
    pub(crate) limits: String,
    /// Decisions a second.
    pub(crate) decisions: f64,
    /// Denials a second, those that a shadow mode let pass included.
    pub(crate) denied: f64,
    pub(crate) degraded: f64,
    /// Denied since the server's start.
    pub(crate) denied_total: u64,
    pub(crate) top: Vec<TopKey>,
}

impl Row {
    /// Denied of all decisions, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        share(self.denied, self.decisions)
    }
}

/// Everything on the screen.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) server: String,
    pub(crate) sort: Sort,
    pub(crate) is_paused: bool,
    /// Why the last reading could not be had; the numbers before it stay.
    pub(crate) fault: Option<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) chosen: usize,
    pub(crate) totals: Totals,
    /// Decisions and denials a second, the newest last.
    pub(crate) history: VecDeque<(u64, u64)>,
    last: Option<Reading>,
}

/// The server as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) state: &'static str,
    pub(crate) version: String,
    pub(crate) rule_fault: Option<String>,
    pub(crate) rule_count: usize,
    pub(crate) decisions: f64,
    pub(crate) denied: f64,
    pub(crate) degraded: f64,
    /// Requests a second that were not read, by every surface.
    pub(crate) rejected: f64,
    /// The rule that denied most requests with hits that may be the cost of finished work: domain, rule, and
    /// how many since the server's start.
    pub(crate) forgets: Option<(String, String, f64)>,
    pub(crate) store_errors: f64,
    pub(crate) store: Store,
    /// Calls a second to a shared store, and the nodes that share it.
    pub(crate) store_calls: f64,
    pub(crate) live_nodes: f64,
    /// Upper bounds in seconds below which half and 99 of 100 decisions of the last interval stayed.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) tracked_keys: f64,
    pub(crate) table_bytes: f64,
    pub(crate) capacity_bytes: f64,
    pub(crate) evictions: f64,
    pub(crate) connections: Vec<(String, f64)>,
    /// Whether rates are known: from the second reading on.
    pub(crate) has_rates: bool,
}

impl View {
    pub(crate) fn new(server: &str, sort: Sort) -> Self {
        Self {
            server: server.to_owned(),
            sort,
            is_paused: false,
            fault: None,
            rows: Vec::new(),
            chosen: 0,
            totals: Totals::default(),
            history: VecDeque::new(),
            last: None,
        }
    }

    /// Adds a reading. The chosen rule stays chosen wherever it is sorted to.
    pub(crate) fn read(&mut self, reading: Reading) {
        self.fault = None;
        if self.is_paused {
            self.last = Some(reading);
            return;
        }
        let before = self.last.as_ref();
        let seconds = before.map_or(0.0, |before| reading.at.since(before.at).as_secs_f64());
        let has_rates = seconds > 0.0;
        let mut counts: HashMap<(&str, &str), [u64; 3]> = HashMap::new();
        for domain in before.iter().flat_map(|before| &before.rules.domains) {
            for rule in &domain.rules {
                let denied = rule.denied + rule.shadow_denied;
                counts.insert((&domain.name, &rule.rule), [rule.admitted + denied, denied, rule.degraded]);
            }
        }
        let rate = |now: u64, before: u64| rate(now as f64, before as f64, seconds);
        let mut rows = Vec::new();
        for domain in &reading.rules.domains {
            for rule in &domain.rules {
                let denied = rule.denied + rule.shadow_denied;
                let all = rule.admitted + denied;
                let old =
                    counts.get(&(domain.name.as_str(), rule.rule.as_str())).copied().unwrap_or_default();
                rows.push(Row {
                    domain: domain.name.clone(),
                    rule: rule.rule.clone(),
                    limits: rule.limits.join("; "),
                    decisions: rate(all, old[0]),
                    denied: rate(denied, old[1]),
                    degraded: rate(rule.degraded, old[2]),
                    denied_total: denied,
                    top: by_least(&rule.top_limited),
                });
            }
        }
        self.totals = totals(&reading, before.map(|before| &before.metrics), seconds, &rows);
        if has_rates {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back((self.totals.decisions as u64, self.totals.denied as u64));
        }
        let chosen = self.rows.get(self.chosen).map(|row| (row.domain.clone(), row.rule.clone()));
        self.rows = rows;
        self.put_in_order(chosen);
        self.last = Some(reading);
    }

    /// The reading could not be had.
    pub(crate) fn fail(&mut self, fault: String) {
        self.fault = Some(fault);
    }

    pub(crate) fn sort_by_next(&mut self) {
        self.sort = self.sort.next();
        let chosen = self.rows.get(self.chosen).map(|row| (row.domain.clone(), row.rule.clone()));
        self.put_in_order(chosen);
    }

    pub(crate) fn choose(&mut self, step: isize) {
        self.chosen = self.chosen.saturating_add_signed(step).min(self.rows.len().saturating_sub(1));
    }

    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.rows.get(self.chosen)
    }

    fn put_in_order(&mut self, chosen: Option<(String, String)>) {
        let name = |row: &Row| (row.domain.clone(), row.rule.clone());
        let by = self.sort;
        self.rows.sort_by(|a, b| {
            let numbers = |row: &Row| match by {
                Sort::Denied => [row.denied, row.denied_total as f64, row.decisions],
                Sort::Decisions => [row.decisions, row.denied, 0.0],
                Sort::Share => [row.share(), row.denied, row.decisions],
                Sort::Rule => [0.0; 3],
            };
            let a_numbers = numbers(a);
            let b_numbers = numbers(b);
            let order = b_numbers.iter().zip(&a_numbers).map(|(b, a)| b.total_cmp(a)).find(|it| it.is_ne());
            order.unwrap_or_else(|| name(a).cmp(&name(b)))
        });
        let place = chosen.and_then(|chosen| self.rows.iter().position(|row| name(row) == chosen));
        self.chosen = place.unwrap_or(0);
    }
}

/// The keys with the most denials that are certain first.
fn by_least(keys: &[TopKey]) -> Vec<TopKey> {
    let mut keys = keys.to_vec();
    keys.sort_by_key(|key| std::cmp::Reverse(key.bounds()));
    keys
}

/// Per second; a counter that went back began anew, at zero.
fn rate(now: f64, before: f64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    (if now < before { now } else { now - before }) / seconds
}

/// Part of a whole, 0 to 1.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn totals(reading: &Reading, before: Option<&Exposition>, seconds: f64, rows: &[Row]) -> Totals {
    // The sum of no numbers would be -0.
    let sum = |of: fn(&Row) -> f64| rows.iter().fold(0.0, |sum, row| sum + of(row));
    let metrics = &reading.metrics;
    let per_second = |name: &str| {
        let was = before.map_or(0.0, |before| before.sum(name, &[]));
        rate(metrics.sum(name, &[]), was, seconds)
    };
    let state = match (reading.readiness.draining, reading.readiness.ready) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "not ready",
    };
    Totals {
        state,
        version: reading.rules.version.clone(),
        rule_fault: reading.rules.last_error.clone(),
        rule_count: rows.len(),
        decisions: sum(|row| row.decisions),
        denied: sum(|row| row.denied),
        degraded: sum(|row| row.degraded),
        rejected: per_second("tollgate_bad_requests_total"),
        forgets: metrics
            .largest("tollgate_forgotten_charges_total", ["domain", "rule"])
            .map(|([domain, rule], count)| (domain.to_owned(), rule.to_owned(), count)),
        store_errors: per_second("tollgate_store_errors_total"),
        store: reading.readiness.store.clone(),
        store_calls: per_second("tollgate_store_calls_total"),
        live_nodes: metrics.sum("tollgate_store_live_nodes", &[]),
        p50: quantile(metrics, before, 0.5),
        p99: quantile(metrics, before, 0.99),
        tracked_keys: metrics.sum("tollgate_tracked_keys", &[]),
        table_bytes: metrics.sum("tollgate_table_bytes", &[]),
        capacity_bytes: metrics.sum("tollgate_table_capacity_bytes", &[]),
        evictions: per_second("tollgate_evictions_total"),
        connections: metrics
            .by("tollgate_connections", "surface")
            .map(|(surface, open)| (surface.to_owned(), open))
            .collect(),
        has_rates: seconds > 0.0,
    }
}

/// The bound of the first latency bucket that holds `q` of the decisions since `before`.
fn quantile(now: &Exposition, before: Option<&Exposition>, q: f64) -> Option<f64> {
    const BUCKETS: &str = "tollgate_decision_latency_seconds_bucket";
    // Over all surfaces: each has the same bounds.
    let counts = |of: &Exposition| {
        let mut counts: Vec<(f64, f64)> = Vec::new();
        for (le, count) in of.by(BUCKETS, "le").filter_map(|(le, count)| Some((le.parse().ok()?, count))) {
            match counts.iter_mut().find(|(known, _)| *known == le) {
                Some((_, all)) => *all += count,
                None => counts.push((le, count)),
            }
        }
        counts
    };
    let now = counts(now);
    let before = before.map(counts).unwrap_or_default();
    let since: Vec<(f64, f64)> = now
        .iter()
        .enumerate()
        .map(|(at, (le, count))| (*le, (count - before.get(at).map_or(0.0, |(_, was)| *was)).max(0.0)))
        .collect();
    let all = since.last()?.1;
    if all <= 0.0 {
        return None;
    }
    since.iter().find(|(_, count)| *count >= q * all).map(|(le, _)| *le)
}

#[cfg(test)]
pub(crate) mod tests {
    use tollgate_core::Timestamp;

    use super::*;
    use crate::reading::{Domain, Readiness, Rule, Rules};

    pub(crate) fn rule(rule: &str, admitted: u64, denied: u64, top: &[(&str, u64)]) -> Rule {
        Rule {
            rule: rule.into(),
            limits: vec!["5 per minute, fixed_window".into()],
            admitted,
            denied,
            top_limited: top
                .iter()
                .map(|(key, denied)| TopKey { key: (*key).into(), denied: *denied, ..TopKey::default() })
                .collect(),
            ..Rule::default()
        }
    }

    pub(crate) fn reading(at_s: u64, rules: Vec<Rule>, metrics: &str) -> Reading {
        Reading {
            at: Timestamp::from_unix_seconds(at_s),
            rules: Rules {
                version: "0123456789ab".into(),
                last_error: None,
                domains: vec![Domain { name: "shop".into(), rules }],
            },
            readiness: Readiness { ready: true, ..Readiness::default() },
            metrics: Exposition::parse(metrics),
        }
    }

    #[test]
    fn rates_are_what_came_between_two_readings() {
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(100, vec![rule("a", 10, 0, &[]), rule("b", 5, 5, &[])], ""));
        assert!(!view.totals.has_rates);
        view.read(reading(102, vec![rule("a", 110, 2, &[]), rule("b", 5, 25, &[("ann", 25)])], ""));
        let rows: Vec<_> =
            view.rows.iter().map(|row| (row.rule.as_str(), row.decisions, row.denied)).collect();
        assert_eq!(rows, [("b", 10.0, 10.0), ("a", 51.0, 1.0)]);
        assert_eq!((view.totals.decisions, view.totals.denied), (61.0, 11.0));
        assert_eq!(view.history, [(61, 11)]);
    }

    #[test]
    fn a_server_that_began_anew_counts_from_zero() {
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(100, vec![rule("a", 1_000, 0, &[])], ""));
        view.read(reading(101, vec![rule("a", 30, 0, &[])], ""));
        assert_eq!(view.rows[0].decisions, 30.0);
    }

    #[test]
    fn the_chosen_rule_stays_chosen_when_the_order_changes() {
        let mut view = View::new("server", Sort::Rule);
        view.read(reading(100, vec![rule("a", 0, 0, &[]), rule("b", 0, 0, &[]), rule("c", 0, 0, &[])], ""));
        view.choose(2);
        assert_eq!(view.chosen().map(|row| row.rule.as_str()), Some("c"));
        view.sort = Sort::Denied;
        view.read(reading(101, vec![rule("a", 0, 1, &[]), rule("b", 0, 9, &[]), rule("c", 0, 5, &[])], ""));
        assert_eq!(view.chosen().map(|row| row.rule.as_str()), Some("c"));
        assert_eq!(view.chosen, 1);
        view.choose(99);
        assert_eq!(view.chosen, 2);
        view.choose(-99);
        assert_eq!(view.chosen, 0);
    }

    #[test]
    fn a_pause_keeps_the_figures_and_a_fault_keeps_them_too() {
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(100, vec![rule("a", 0, 0, &[])], ""));
        view.read(reading(101, vec![rule("a", 7, 0, &[])], ""));
        view.is_paused = true;
        view.read(reading(102, vec![rule("a", 700, 0, &[])], ""));
        assert_eq!(view.totals.decisions, 7.0);
        view.is_paused = false;
        view.fail("gone".into());
        assert_eq!(view.totals.decisions, 7.0);
        view.read(reading(103, vec![rule("a", 701, 0, &[])], ""));
        assert_eq!(view.totals.decisions, 1.0);
        assert_eq!(view.fault, None);
    }

    #[test]
    fn latency_is_that_of_the_last_interval() {
        let text = |a: u32, b: u32, c: u32| {
            format!(
                "tollgate_decision_latency_seconds_bucket{{le=\"0.000001\"}} {a}
tollgate_decision_latency_seconds_bucket{{le=\"0.001\"}} {b}
tollgate_decision_latency_seconds_bucket{{le=\"+Inf\"}} {c}"
            )
        };
        let mut view = View::new("server", Sort::Denied);
        view.read(reading(100, vec![], &text(1_000, 1_000, 1_000)));
        view.read(reading(101, vec![], &text(1_060, 1_100, 1_100)));
        assert_eq!((view.totals.p50, view.totals.p99), (Some(0.000_001), Some(0.001)));
        view.read(reading(102, vec![], &text(1_060, 1_100, 1_100)));
        assert_eq!((view.totals.p50, view.totals.p99), (None, None));
    }
}
