//! Law C5: the history contains what nodes counted, once, whatever becomes of the reports on their way.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_control::history::{
    self, Counts, HistoryQuery, Resolution, Scope, Sweep, TopQuery, history, top_keys,
};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, Claim, Committed, ControlError, Role, Who, problems};
use tollgate_db::Tx;
use tollgate_fleet_proto::{Report, RuleCounts, TopKey};
use tollgate_harness::rules::{create_rule, limit, publish, put_file};
use tollgate_harness::{ControlPlane, block_on};

const HOUR: i64 = 3_600_000;
const START: i64 = 500_000 * HOUR;

/// A control plane with the rule `a` of the app `shop`, and what its nodes have counted.
struct ShopHistory(ControlPlane);

impl Deref for ShopHistory {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.0
    }
}

impl ShopHistory {
    async fn start() -> Self {
        let plane = ControlPlane::start_at(START).await;
        create_rule(&plane, "shop", rule_a()).await.expect("a rule");
        Self(plane)
    }

    /// Kills the control plane and starts it again: what waited is lost.
    async fn crash(&mut self) {
        self.0 = self.beside().await;
    }

    async fn found<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> T {
        self.read(work).await.expect("a result")
    }

    /// The sum of a scope in rows of this resolution, over all of its time.
    async fn sum(&self, scope: Scope, resolution: Resolution) -> Counts {
        let now = self.now_ms();
        let step_ms = resolution.ms();
        let mut sum = Counts::default();
        // Windows of at most 1,000 points.
        let mut to_ms = resolution.row_of(now) + step_ms;
        let oldest = now - resolution.kept_ms().min(30 * 24 * HOUR);
        while to_ms > oldest {
            let from_ms = (to_ms - 1_000 * step_ms).max(resolution.row_of(oldest));
            let query = HistoryQuery { scope: scope.clone(), from_ms, to_ms, step_ms };
            sum.add(self.found(move |tx| history(tx, &Actor::system(), &query)).await.sum());
            to_ms = from_ms;
        }
        sum
    }
}

fn counts(rule: &str, admitted: u64, denied: u64) -> RuleCounts {
    let domain = "shop".to_owned();
    let rule = rule.to_owned();
    RuleCounts {
        domain,
        rule,
        admitted,
        denied,
        shadow_denied: 1,
        degraded: 2,
        near: 3,
        both_denied: denied / 2,
        forgotten: 0,
        alone_denied: 0,
    }
}

fn report(sequence: u64, rules: Vec<RuleCounts>) -> Report {
    Report { sequence, span_ms: 5_000, rules, ..Report::default() }
}

fn rule_a() -> TableRuleInput {
    TableRuleInput { max_permits: "10".to_owned(), ..limit("a", 5) }
}

/// The five minutes before now are compared with the hour before them, for each app by itself.
#[tokio::test]
async fn a_jump_of_the_denied_share_is_a_problem_of_its_app_alone() {
    let shop = ShopHistory::start().await;
    create_rule(&shop, "quiet", rule_a()).await.expect("a rule");
    let of = |app: &str, admitted, denied| RuleCounts {
        domain: app.to_owned(),
        degraded: 0,
        ..counts("key=a", admitted, denied)
    };
    for minute in 0..50_u64 {
        // The second minute of denials makes 24 % of five minutes.
        let denied = if minute < 46 { 0 } else { 600 };
        let rules = vec![of("shop", 1_000 - denied, denied), of("quiet", 600, 400)];
        shop.store("n1", 1, report(minute + 1, rules)).await.expect("stored");
        let found = shop.problems(&Claim::program("tollgate")).await.expect("problems");
        let found: Vec<_> = found.into_iter().map(|it| (it.kind, it.app)).collect();
        let want =
            if minute < 47 { vec![] } else { vec![(problems::ProblemKind::DeniedShare, "shop".to_owned())] };
        assert_eq!(found, want, "minute {minute}");
        shop.pass(60_000);
    }
}

/// An event of a fleet.
#[derive(Clone, Debug)]
enum Step {
    /// A node counts and reports.
    Counts {
        node: usize,
        rule: u8,
        admitted: u64,
        denied: u64,
        span_s: u64,
    },
    /// Everything that a node has not seen confirmed is sent, and this many of the replies arrive.
    Sends {
        node: usize,
        seen: usize,
    },
    /// The first reports of a node arrive at the control plane, which is killed before they are written.
    Lost {
        node: usize,
    },
    /// The control plane is killed after writing, and before any reply.
    Killed {
        node: usize,
    },
    /// A node starts anew: what it had not reported is gone.
    Restarts {
        node: usize,
    },
    Passes {
        seconds: i64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0_usize..3;
    let step = prop_oneof![
        6 => (node.clone(), 0_u8..4, 0_u64..1_000, 0_u64..50, 1_u64..2_000)
            .prop_map(|(node, rule, admitted, denied, span_s)| Step::Counts { node, rule, admitted, denied, span_s }),
        4 => (node.clone(), 0_usize..6).prop_map(|(node, seen)| Step::Sends { node, seen }),
        1 => node.clone().prop_map(|node| Step::Lost { node }),
        1 => node.clone().prop_map(|node| Step::Killed { node }),
        1 => node.prop_map(|node| Step::Restarts { node }),
        2 => (0_i64..900).prop_map(|seconds| Step::Passes { seconds }),
    ];
    proptest::collection::vec(step, 1..60)
}

#[derive(Default)]
struct ReportingNode {
    incarnation: u64,
    last: u64,
    /// Not confirmed: when the span ended, and the report.
    in_doubt: VecDeque<(i64, Report)>,
}

impl ReportingNode {
    /// The reports that it sends now.
    fn in_doubt(&self, now: i64) -> Vec<Report> {
        let aged =
            |(end, report): &(i64, Report)| Report { age_ms: (now - end).unsigned_abs(), ..report.clone() };
        self.in_doubt.iter().map(aged).collect()
    }
}

/// Three nodes and their control plane, while the steps happen.
struct Fleet {
    plane: ShopHistory,
    nodes: [ReportingNode; 3],
    /// Counts by rule, without those that nodes lost themselves.
    counted: BTreeMap<u8, Counts>,
    /// Sequence numbers that the database contains, by node and incarnation: what a restart does not lose.
    stored: BTreeMap<(usize, u64), u64>,
}

impl Fleet {
    async fn start() -> Self {
        let plane = ShopHistory::start().await;
        Self { plane, nodes: Default::default(), counted: BTreeMap::new(), stored: BTreeMap::new() }
    }

    async fn happens(&mut self, step: Step) {
        match step {
            Step::Counts { node, rule, admitted, denied, span_s } => {
                self.counts(node, rule, admitted, denied, span_s);
            }
            Step::Sends { node, seen } => {
                self.send(node, true).await;
                for _ in 0..seen {
                    self.nodes[node].in_doubt.pop_front();
                }
            }
            Step::Lost { node } => self.lose(node).await,
            Step::Killed { node } => {
                self.send(node, false).await;
                self.plane.crash().await;
            }
            Step::Restarts { node } => self.restart(node),
            Step::Passes { seconds } => self.plane.pass(seconds * 1_000),
        }
    }

    fn add(&mut self, rule: u8, it: &RuleCounts, sign: i64) {
        let sum = self.counted.entry(rule).or_default();
        sum.admitted += sign * it.admitted as i64;
        sum.denied += sign * it.denied as i64;
        sum.shadow_denied += sign * it.shadow_denied as i64;
        sum.degraded += sign * it.degraded as i64;
        sum.near += sign * it.near as i64;
        sum.both_denied += sign * it.both_denied as i64;
    }

    fn counts(&mut self, index: usize, rule: u8, admitted: u64, denied: u64, span_s: u64) {
        let counted = counts(&format!("key={rule}"), admitted, denied);
        self.add(rule, &counted, 1);
        let node = &mut self.nodes[index];
        node.last += 1;
        let report = Report { span_ms: span_s * 1_000, ..report(node.last, vec![counted]) };
        node.in_doubt.push_back((self.plane.now_ms(), report));
    }

    /// A node sends what is in doubt, with copies that the network makes.
    async fn send(&mut self, index: usize, has_copies: bool) {
        let node = &self.nodes[index];
        let name = format!("n{index}");
        for (number, sent) in node.in_doubt(self.plane.now_ms()).into_iter().enumerate() {
            self.stored.insert((index, node.incarnation), sent.sequence);
            if has_copies && number % 3 == 1 {
                self.plane.store(&name, node.incarnation, sent.clone()).await.expect("stored");
            }
            self.plane.store(&name, node.incarnation, sent).await.expect("stored");
        }
    }

    /// The reports in doubt arrive, and the control plane is killed before it writes them.
    async fn lose(&mut self, index: usize) {
        let now = self.plane.now_ms();
        let incarnation = self.nodes[index].incarnation;
        for sent in self.nodes[index].in_doubt(now) {
            let control = Arc::clone(&self.plane.control);
            let name = format!("n{index}");
            let waits = async move { control.store_report(&name, incarnation, sent, now).await };
            let waits = tokio::spawn(waits);
            tokio::task::yield_now().await;
            waits.abort();
        }
        self.plane.crash().await;
    }

    fn restart(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let done = self.stored.get(&(index, node.incarnation)).copied().unwrap_or_default();
        let lost: Vec<_> = node.in_doubt.drain(..).filter(|(_, it)| it.sequence > done).collect();
        (node.incarnation, node.last) = (node.incarnation + 1, 0);
        for (_, report) in lost {
            let counts = &report.rules[0];
            let rule = counts.rule.trim_start_matches("key=").parse().expect("a number");
            self.add(rule, counts, -1);
        }
    }
}

/// Runs `steps`, delivers what is left, and compares.
async fn play(steps: Vec<Step>) {
    let mut fleet = Fleet::start().await;
    let rest = [0, 1, 2].map(|node| Step::Sends { node, seen: 99 });
    for step in steps.into_iter().chain(rest) {
        fleet.happens(step).await;
    }
    let Fleet { plane, counted, .. } = fleet;
    let mut total = Counts::default();
    for (rule, want) in &counted {
        total.add(*want);
        let path = format!("key={rule}");
        let of_rule = Scope::Rule("shop".to_owned(), path.clone());
        // The finest rows may be older than the query reaches.
        for resolution in [Resolution::TenMinutes, Resolution::Hour] {
            assert_eq!(plane.sum(of_rule.clone(), resolution).await, *want, "{path} {resolution:?}");
        }
    }
    let rows = rows_by_resolution(&plane);
    for resolution in Resolution::ALL {
        assert_eq!(rows.get(&resolution.ms()).copied().unwrap_or_default(), total, "{resolution:?}");
    }
    for scope in [Scope::All, Scope::App("shop".to_owned())] {
        assert_eq!(plane.sum(scope, Resolution::Hour).await, total);
    }
}

/// The sums of the rows of all rules, read from the file itself.
fn rows_by_resolution(shop: &ShopHistory) -> BTreeMap<i64, Counts> {
    let file = shop.file();
    let mut rows = file
        .prepare(
            "SELECT res, SUM(admitted), SUM(denied), SUM(shadow_denied), SUM(degraded), SUM(near), SUM(both_denied) \
             FROM history \
             JOIN series ON series.id = series WHERE rule <> '' GROUP BY res",
        )
        .expect("a statement");
    let read = |row: &rusqlite::Row<'_>| {
        let counts = Counts {
            admitted: row.get(1)?,
            denied: row.get(2)?,
            shadow_denied: row.get(3)?,
            degraded: row.get(4)?,
            near: row.get(5)?,
            both_denied: row.get(6)?,
        };
        Ok((row.get(0)?, counts))
    };
    rows.query_map([], read).expect("rows").collect::<Result<_, _>>().expect("rows")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn c5_history_contains_what_nodes_counted_once_in_each_resolution(steps in steps()) {
        block_on(play(steps));
    }
}

#[tokio::test]
async fn a_late_report_of_an_earlier_start_counts_beside_the_new_ones() {
    let shop = ShopHistory::start().await;
    let of = |sequence, admitted| report(sequence, vec![counts("key=a", admitted, 0)]);
    for (incarnation, sequence, admitted, want) in [
        (1, 1, 10, 10),
        (2, 1, 100, 110),
        (1, 2, 1, 111),
        (1, 2, 1, 111),
        (1, 1, 10, 111),
        (2, 3, 1_000, 1_111),
    ] {
        shop.store("n", incarnation, of(sequence, admitted)).await.expect("stored");
        let sum = shop.sum(Scope::All, Resolution::TenSeconds).await;
        assert_eq!(sum.admitted, want, "{incarnation} {sequence}");
    }
}

/// Gives the app a file of `count` rules, each of one entry, in the domain `many`.
async fn with_rules(shop: &ShopHistory, count: u32) {
    let rows: String =
        (0..count).map(|it| format!("  - {{key: k{it}, rate_limit: {{rate: 1/s}}}}\n")).collect();
    let file = put_file("many", None, &format!("domain: many\ndescriptors:\n{rows}")).expect("a file");
    publish(shop, "shop", &[file]).await.expect("published");
}

fn of_domain(domain: &str, rule: &str, admitted: u64) -> RuleCounts {
    RuleCounts { domain: domain.to_owned(), ..counts(rule, admitted, 0) }
}

#[tokio::test]
async fn rules_above_the_cap_of_an_hour_are_counted_together() {
    let shop = ShopHistory::start().await;
    with_rules(&shop, 2_005).await;
    let rules =
        |numbers: std::ops::Range<u32>| numbers.map(|it| of_domain("many", &format!("k{it}"), 1)).collect();
    shop.store("n", 1, report(1, rules(0..1_999))).await.expect("stored");
    shop.store("n", 1, report(2, rules(1_990..2_005))).await.expect("stored");
    let of = |rule: &str| Scope::Domain("many".to_owned(), rule.to_owned());
    let hour = Resolution::Hour;
    assert_eq!(shop.sum(of("k1999"), hour).await.admitted, 1, "the last that has room");
    assert_eq!(shop.sum(of("k2000"), hour).await.admitted, 0);
    let others = Scope::Domain(String::new(), history::OTHERS.to_owned());
    assert_eq!(shop.sum(others.clone(), hour).await.admitted, 5);
    assert_eq!(shop.sum(of(""), hour).await.admitted, 2_014, "totals stay exact");
    // In the next hour others have room.
    shop.pass(HOUR);
    shop.store("n", 1, report(3, rules(2_000..2_001))).await.expect("stored");
    assert_eq!(shop.sum(of("k2000"), hour).await.admitted, 1);
}

#[tokio::test]
async fn names_that_a_node_makes_up_take_no_room_of_rules_that_are_published() {
    let shop = ShopHistory::start().await;
    with_rules(&shop, 100).await;
    // At the hour's begin, before anybody else: domains that nobody has, and rules in those that there are.
    let made_up = (0..4_000).map(|it| of_domain(&format!("d{}", it % 1_200), &format!("r{it}"), 1));
    shop.store("liar", 1, report(1, made_up.collect())).await.expect("stored");
    let made_up = (0..4_000).map(|it| of_domain("many", &format!("r{it}"), 1));
    shop.store("liar", 1, report(2, made_up.collect())).await.expect("stored");
    let real = (0..100).map(|it| of_domain("many", &format!("k{it}"), 2)).chain([counts("key=a", 3, 0)]);
    shop.store("n", 1, report(1, real.collect())).await.expect("stored");
    let hour = Resolution::Hour;
    let rule = |it: u32| Scope::Domain("many".to_owned(), format!("k{it}"));
    for it in [0, 50, 99] {
        assert_eq!(shop.sum(rule(it), hour).await.admitted, 2, "k{it}");
    }
    assert_eq!(shop.sum(Scope::Rule("shop".to_owned(), "key=a".to_owned()), hour).await.admitted, 3);
    // What nodes have from files of their own has rows too, as far as there is room for it.
    assert_eq!(shop.sum(Scope::Domain("d0".to_owned(), "r0".to_owned()), hour).await.admitted, 1);
    let file = shop.file();
    let series: i64 = file.query_row("SELECT COUNT(*) FROM series", [], |row| row.get(0)).expect("a count");
    assert!(series < 200 + 100 + 110, "{series} series");
}

#[tokio::test]
async fn the_sum_of_a_key_stays_a_whole_number_however_often_it_is_reported() {
    let shop = ShopHistory::start().await;
    let top =
        |denied| TopKey { domain: "shop".to_owned(), rule: "key=a".to_owned(), key: "k".to_owned(), denied };
    for sequence in 1..=40 {
        let top = vec![top(1 << 40); 10_000];
        let report = Report { top, ..report(sequence, vec![counts("key=a", 0, 1)]) };
        shop.store("n", 1, report).await.expect("stored");
    }
    let read = || {
        let query = TopQuery { span_ms: HOUR, limit: 10, ..TopQuery::default() };
        shop.found(move |tx| top_keys(tx, &Actor::system(), &query))
    };
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
    // A row that a release without this bound has left behind.
    let file = shop.file();
    file.execute("UPDATE top_keys SET denied = 1.5e19", []).expect("a sum that is no whole number any more");
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
    shop.store("n", 1, Report { top: vec![top(1)], ..report(41, vec![counts("key=a", 0, 1)]) })
        .await
        .expect("stored");
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
}

#[tokio::test]
async fn what_a_rude_node_reports_stays_within_bounds() {
    let shop = ShopHistory::start().await;
    let rude = |sequence| {
        let long = "x".repeat(5_000);
        let all = |domain: &str, rule: &str| RuleCounts {
            domain: domain.to_owned(),
            rule: rule.to_owned(),
            admitted: u64::MAX,
            denied: u64::MAX,
            shadow_denied: u64::MAX,
            degraded: u64::MAX,
            near: u64::MAX,
            both_denied: u64::MAX,
            forgotten: u64::MAX,
            alone_denied: u64::MAX,
        };
        let rules =
            vec![all("shop", "key=a"), all("", ""), all("shop", ""), all(&long, "a"), all("a", &long)];
        let key = |key: &str| TopKey {
            domain: "shop".to_owned(),
            rule: "key=a".to_owned(),
            key: key.to_owned(),
            denied: u64::MAX,
        };
        let top = vec![key("a\0<b>'"), key(&long)];
        let age_ms = u64::MAX;
        let span_ms = u64::MAX;
        Report { sequence, age_ms, span_ms, rules, top, ..Report::default() }
    };
    for sequence in [1, 2, u64::MAX] {
        shop.store("n", u64::MAX, rude(sequence)).await.expect("stored");
        shop.store("m", u64::MAX, Report { age_ms: 0, ..rude(sequence) }).await.expect("stored");
    }
    let of_rule = Scope::Rule("shop".to_owned(), "key=a".to_owned());
    let query =
        HistoryQuery { scope: of_rule, from_ms: START - 390 * 24 * HOUR, to_ms: START + HOUR, step_ms: 0 };
    let found = shop.found(move |tx| history(tx, &Actor::system(), &query)).await;
    assert!(found.sum().admitted > 0 && found.points.len() <= 2_000);
}

#[tokio::test]
async fn old_rows_go_and_the_coarser_ones_stay() {
    let shop = ShopHistory::start().await;
    for sequence in 1..=30 {
        shop.store("n", 1, report(sequence, vec![counts("key=a", 1, 0)])).await.expect("stored");
        shop.pass(10_000);
    }
    let sweep = |tx: &mut dyn Tx| -> Result<Committed<Option<Sweep>>, ControlError> {
        Ok(Committed { value: history::sweep(tx, Sweep::default())?, documents: None })
    };
    let want = |kept: [i64; 4]| kept;
    for (after, kept) in [
        (0, want([30, 30, 30, 30])),
        (HOUR - 200_000, want([20, 30, 30, 30])),
        (HOUR + 20_000, want([0, 30, 30, 30])),
        (25 * HOUR, want([0, 0, 30, 30])),
        (15 * 24 * HOUR, want([0, 0, 0, 30])),
        (401 * 24 * HOUR, want([0, 0, 0, 0])),
    ] {
        shop.set_time(START + 300_000 + after);
        shop.commit(sweep).await.expect("swept");
        let rows = rows_by_resolution(&shop);
        let left = Resolution::ALL.map(|it| rows.get(&it.ms()).map_or(0, |it| it.admitted));
        assert!(left.iter().zip(kept).all(|(left, kept)| (left - kept).abs() <= 1), "{after}: {left:?}");
    }
    // A node that comes back long after does not count again what was stored.
    assert_eq!(shop.commit(sweep).await.expect("swept"), None);
}

#[tokio::test]
async fn the_most_denied_keys_are_summed_over_nodes_and_shown_to_those_who_may_see_them() {
    let shop = ShopHistory::start().await;
    let key = |key: &str, denied| TopKey {
        domain: "shop".to_owned(),
        rule: "key=a".to_owned(),
        key: key.to_owned(),
        denied,
    };
    let with = |sequence, top| Report { top, ..report(sequence, vec![counts("key=a", 1, 1)]) };
    for node in ["n1", "n2"] {
        let sent = with(1, vec![key("ann", 5), key("bob", 3)]);
        shop.store(node, 1, sent.clone()).await.expect("stored");
        shop.store(node, 1, sent).await.expect("stored");
    }
    let many = (0..80).map(|it| key(&format!("k{it:02}"), 10 + it)).collect();
    let reader = |app: &str| Who { roles: vec![(app.to_owned(), Role::Viewer)], ..Who::system() };
    let ask = |by: Who, scope: Scope, search: &str| {
        let query = TopQuery { scope, search: search.to_owned(), span_ms: HOUR, limit: 500 };
        let found = shop.read(move |tx| top_keys(tx, &by.assumed(), &query));
        async move { found.await.map(|keys| keys.into_iter().map(|it| (it.key, it.denied)).collect::<Vec<_>>()) }
    };
    let want = vec![("ann".to_owned(), 10), ("bob".to_owned(), 6)];
    let of_rule = Scope::Rule("shop".to_owned(), "key=a".to_owned());
    for scope in [Scope::All, Scope::App("shop".to_owned()), of_rule] {
        assert_eq!(ask(reader("shop"), scope.clone(), "").await.expect("keys"), want);
        assert_eq!(ask(Who::system(), scope, "AN").await.expect("keys"), want[..1]);
    }
    assert_eq!(ask(reader("bank"), Scope::All, "").await.expect("keys"), []);
    assert!(matches!(
        ask(reader("bank"), Scope::App("shop".to_owned()), "").await,
        Err(ControlError::NoRight { .. })
    ));
    shop.store("n1", 1, with(2, many)).await.expect("stored");
    let found = ask(Who::system(), Scope::All, "").await.expect("keys");
    assert_eq!((found.len(), &found[0]), (50, &("k79".to_owned(), 89)), "the least denied make room");
}

/// A steady rate reads the same at every moment of a step that has just begun, and over every span.
#[tokio::test]
async fn a_steady_rate_reads_the_same_in_a_step_that_is_not_over() {
    let shop = ShopHistory::start().await;
    let steady = || RuleCounts { shadow_denied: 0, ..counts("key=a", 100, 50) };
    for number in 0..500_u64 {
        shop.pass(5_000);
        shop.store("n1", 1, report(number + 1, vec![steady()])).await.expect("stored");
        if number < 250 || number % 7 != 0 {
            continue;
        }
        // Between two reports.
        shop.pass(2_000);
        for span_ms in [HOUR / 4, HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR] {
            let to_ms = shop.now_ms();
            let query = HistoryQuery {
                scope: Scope::App("shop".into()),
                from_ms: to_ms - span_ms,
                to_ms,
                step_ms: 0,
            };
            let found = shop.found(move |tx| history(tx, &Actor::system(), &query)).await;
            let last = found.points.iter().rev().find(|it| it.span_ms >= found.step_ms.min(30_000));
            let last = last.expect("a point");
            let tenths = last.counts.admitted * 10_000 / last.span_ms;
            // Reports of five seconds go whole to the row of their middle.
            assert!((160..=240).contains(&tenths), "{tenths} tenths/s in {span_ms} ms: {last:?}");
            let later = found.points.iter().filter(|it| it.at_ms >= to_ms);
            assert!(later.into_iter().all(|it| it.span_ms == 0), "what is to come has no rate");
        }
        shop.pass(-2_000);
    }
}
