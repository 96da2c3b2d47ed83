//! Law C5: the history contains what nodes counted, once, whatever becomes of the reports on their way.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use proptest::prelude::*;
use tempfile::TempDir;
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::file_rules::FileInput;
use tollgate_control::history::{
    self, Counts, HistoryQuery, IngestError, Resolution, Scope, Sweep, TopQuery, history, top_keys,
};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{
    Actor, Claim, Committed, Content, Control, ControlError, Kind, KnownNodes, Role, Who, problems, rules,
};
use tollgate_db::{TimeSource, Tx};
use tollgate_fleet_proto::{Report, RuleCounts, TopKey};

const HOUR: i64 = 3_600_000;
const START: i64 = 500_000 * HOUR;

/// A control plane on a clock that the test sets.
struct World {
    control: Arc<Control>,
    now: Arc<AtomicI64>,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let now = Arc::new(AtomicI64::new(START));
        let control = open(&folder, &now).await;
        Self { control, now, folder }
    }

    /// Kills the control plane and starts it again: what waited is lost.
    async fn crash(&mut self) {
        self.control = open(&self.folder, &self.now).await;
    }

    fn now(&self) -> i64 {
        self.now.load(Relaxed)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> T {
        self.control.read(work).await.expect("a result")
    }

    /// The sum of a scope in rows of this resolution, over all of its time.
    async fn sum(&self, scope: Scope, resolution: Resolution) -> Counts {
        let now = self.now();
        let step_ms = resolution.ms();
        let mut sum = Counts::default();
        // Windows of at most 1,000 points.
        let mut to_ms = resolution.row_of(now) + step_ms;
        let oldest = now - resolution.kept_ms().min(30 * 24 * HOUR);
        while to_ms > oldest {
            let from_ms = (to_ms - 1_000 * step_ms).max(resolution.row_of(oldest));
            let query = HistoryQuery { scope: scope.clone(), from_ms, to_ms, step_ms };
            sum.add(self.read(move |tx| history(tx, &Actor::system(), &query)).await.sum());
            to_ms = from_ms;
        }
        sum
    }

    async fn store(&self, node: &str, incarnation: u64, report: Report) -> Result<(), IngestError> {
        let control = Arc::clone(&self.control);
        let node = node.to_owned();
        let at = self.now();
        let stored = tokio::spawn(async move { control.store_report(&node, incarnation, report, at).await });
        while !stored.is_finished() {
            self.control.write_reports().await.expect("written");
            tokio::task::yield_now().await;
        }
        stored.await.expect("no panic")
    }
}

async fn open(folder: &TempDir, now: &Arc<AtomicI64>) -> Arc<Control> {
    let time = TimeSource::Manual(Arc::clone(now));
    let control = Control::open(folder.path(), time, Arc::new(KnownNodes::default())).await;
    Arc::new(control.expect("a database"))
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

async fn with_app(world: &World) {
    let input = TableRuleInput {
        key: "a".to_owned(),
        rate: "5".to_owned(),
        max_permits: "10".to_owned(),
        ..TableRuleInput::default()
    };
    let created = world.control.change(move |tx| rules::create(tx, &Actor::system(), "shop", &input));
    created.await.expect("a rule");
}

/// The five minutes before now are compared with the hour before them, for each app by itself.
#[tokio::test]
async fn a_jump_of_the_denied_share_is_a_problem_of_its_app_alone() {
    let world = World::new().await;
    with_app(&world).await;
    let input = TableRuleInput {
        key: "a".into(),
        rate: "5".into(),
        max_permits: "10".into(),
        ..TableRuleInput::default()
    };
    let other = world.control.change(move |tx| rules::create(tx, &Actor::system(), "quiet", &input));
    other.await.expect("a rule");
    let of = |app: &str, admitted, denied| RuleCounts {
        domain: app.to_owned(),
        degraded: 0,
        ..counts("key=a", admitted, denied)
    };
    for minute in 0..50_u64 {
        // The second minute of denials makes 24 % of five minutes.
        let denied = if minute < 46 { 0 } else { 600 };
        let rules = vec![of("shop", 1_000 - denied, denied), of("quiet", 600, 400)];
        world.store("n1", 1, report(minute + 1, rules)).await.expect("stored");
        let found = world.control.problems(&Claim::program("tollgate")).await.expect("problems");
        let found: Vec<_> = found.into_iter().map(|it| (it.kind, it.app)).collect();
        let want = if minute < 47 { vec![] } else { vec![(problems::Kind::DeniedShare, "shop".to_owned())] };
        assert_eq!(found, want, "minute {minute}");
        world.now.fetch_add(60_000, Relaxed);
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
struct Node {
    incarnation: u64,
    last: u64,
    /// Not confirmed: when the span ended, and the report.
    in_doubt: VecDeque<(i64, Report)>,
}

fn aged(now: i64, (end, report): &(i64, Report)) -> Report {
    Report { age_ms: (now - end).unsigned_abs(), ..report.clone() }
}

/// Runs `steps`, delivers what is left, and compares.
async fn play(steps: Vec<Step>) {
    let mut world = World::new().await;
    with_app(&world).await;
    let mut nodes: [Node; 3] = Default::default();
    // What nodes counted and did not lose themselves, by rule.
    let mut counted: BTreeMap<u8, Counts> = BTreeMap::new();
    let add = |of: &mut BTreeMap<u8, Counts>, rule: u8, it: &RuleCounts, sign: i64| {
        let sum = of.entry(rule).or_default();
        sum.admitted += sign * it.admitted as i64;
        sum.denied += sign * it.denied as i64;
        sum.shadow_denied += sign * it.shadow_denied as i64;
        sum.degraded += sign * it.degraded as i64;
        sum.near += sign * it.near as i64;
        sum.both_denied += sign * it.both_denied as i64;
    };
    let rule_of =
        |report: &Report| report.rules[0].rule.trim_start_matches("key=").parse::<u8>().expect("a number");
    // Sequence numbers that the database contains, by node and incarnation: what a restart does not lose.
    let mut stored: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    let finish = [
        Step::Sends { node: 0, seen: 99 },
        Step::Sends { node: 1, seen: 99 },
        Step::Sends { node: 2, seen: 99 },
    ];
    for step in steps.into_iter().chain(finish) {
        match step {
            Step::Counts { node: index, rule, admitted, denied, span_s } => {
                let node = &mut nodes[index];
                node.last += 1;
                let rules = vec![counts(&format!("key={rule}"), admitted, denied)];
                let report = Report { span_ms: span_s * 1_000, ..report(node.last, rules) };
                add(&mut counted, rule, &report.rules[0], 1);
                node.in_doubt.push_back((world.now(), report));
            }
            Step::Sends { node: index, seen } => {
                let now = world.now();
                let node = &mut nodes[index];
                let name = format!("n{index}");
                for (number, sent) in node.in_doubt.iter().map(|it| aged(now, it)).enumerate() {
                    let sequence = sent.sequence;
                    // A copy that the network made arrives too.
                    if number % 3 == 1 {
                        world.store(&name, node.incarnation, sent.clone()).await.expect("stored");
                    }
                    world.store(&name, node.incarnation, sent).await.expect("stored");
                    stored.insert((index, node.incarnation), sequence);
                }
                for _ in 0..seen {
                    node.in_doubt.pop_front();
                }
            }
            Step::Lost { node: index } => {
                let now = world.now();
                let node = &nodes[index];
                for sent in node.in_doubt.iter().map(|it| aged(now, it)) {
                    let control = Arc::clone(&world.control);
                    let name = format!("n{index}");
                    let incarnation = node.incarnation;
                    let waits =
                        tokio::spawn(
                            async move { control.store_report(&name, incarnation, sent, now).await },
                        );
                    tokio::task::yield_now().await;
                    waits.abort();
                }
                world.crash().await;
            }
            Step::Killed { node: index } => {
                let now = world.now();
                let node = &nodes[index];
                for sent in node.in_doubt.iter().map(|it| aged(now, it)) {
                    let sequence = sent.sequence;
                    world.store(&format!("n{index}"), node.incarnation, sent).await.expect("stored");
                    stored.insert((index, node.incarnation), sequence);
                }
                world.crash().await;
            }
            Step::Restarts { node: index } => {
                let node = &mut nodes[index];
                let done = stored.get(&(index, node.incarnation)).copied().unwrap_or_default();
                for (_, lost) in node.in_doubt.drain(..).filter(|(_, it)| it.sequence > done) {
                    add(&mut counted, rule_of(&lost), &lost.rules[0], -1);
                }
                (node.incarnation, node.last) = (node.incarnation + 1, 0);
            }
            Step::Passes { seconds } => {
                world.now.fetch_add(seconds * 1_000, Relaxed);
            }
        }
    }
    let mut total = Counts::default();
    for (rule, want) in &counted {
        total.add(*want);
        let path = format!("key={rule}");
        let of_rule = Scope::Rule("shop".to_owned(), path.clone());
        // The finest rows may be older than the query reaches.
        for resolution in [Resolution::TenMinutes, Resolution::Hour] {
            assert_eq!(world.sum(of_rule.clone(), resolution).await, *want, "{path} {resolution:?}");
        }
    }
    let rows = rows_by_resolution(&world);
    for resolution in Resolution::ALL {
        assert_eq!(rows.get(&resolution.ms()).copied().unwrap_or_default(), total, "{resolution:?}");
    }
    for scope in [Scope::All, Scope::App("shop".to_owned())] {
        assert_eq!(world.sum(scope, Resolution::Hour).await, total);
    }
}

/// The sums of the rows of all rules, read from the file itself.
fn rows_by_resolution(world: &World) -> BTreeMap<i64, Counts> {
    let file = rusqlite::Connection::open(world.folder.path().join("control.db")).expect("the database");
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(play(steps));
    }
}

#[tokio::test]
async fn a_late_report_of_an_earlier_start_counts_beside_the_new_ones() {
    let world = World::new().await;
    with_app(&world).await;
    let of = |sequence, admitted| report(sequence, vec![counts("key=a", admitted, 0)]);
    for (incarnation, sequence, admitted, want) in [
        (1, 1, 10, 10),
        (2, 1, 100, 110),
        (1, 2, 1, 111),
        (1, 2, 1, 111),
        (1, 1, 10, 111),
        (2, 3, 1_000, 1_111),
    ] {
        world.store("n", incarnation, of(sequence, admitted)).await.expect("stored");
        let sum = world.sum(Scope::All, Resolution::TenSeconds).await;
        assert_eq!(sum.admitted, want, "{incarnation} {sequence}");
    }
}

/// An app with a file of `count` rules, each of one entry, in the domain `many`.
async fn with_rules(world: &World, count: u32) {
    let rows: String =
        (0..count).map(|it| format!("  - {{key: k{it}, rate_limit: {{rate: 1/s}}}}\n")).collect();
    let text = format!("domain: many\ndescriptors:\n{rows}");
    let file = FileInput { text, ..FileInput::default() }.check().expect("a file");
    let op =
        OpInput { kind: Kind::File, key: "many".to_owned(), base: None, after: Some(Content::File(file)) };
    let input = ChangeInput { ops: vec![op], ..ChangeInput::default() };
    let put =
        move |tx: &mut dyn Tx| publishing::propose(tx, &Actor::system(), "shop", &input, Intent::Publish);
    world.control.change(put).await.expect("published");
}

fn of_domain(domain: &str, rule: &str, admitted: u64) -> RuleCounts {
    RuleCounts { domain: domain.to_owned(), ..counts(rule, admitted, 0) }
}

#[tokio::test]
async fn rules_above_the_cap_of_an_hour_are_counted_together() {
    let world = World::new().await;
    with_app(&world).await;
    with_rules(&world, 2_005).await;
    let rules =
        |numbers: std::ops::Range<u32>| numbers.map(|it| of_domain("many", &format!("k{it}"), 1)).collect();
    world.store("n", 1, report(1, rules(0..1_999))).await.expect("stored");
    world.store("n", 1, report(2, rules(1_990..2_005))).await.expect("stored");
    let of = |rule: &str| Scope::Domain("many".to_owned(), rule.to_owned());
    let hour = Resolution::Hour;
    assert_eq!(world.sum(of("k1999"), hour).await.admitted, 1, "the last that has room");
    assert_eq!(world.sum(of("k2000"), hour).await.admitted, 0);
    let others = Scope::Domain(String::new(), history::OTHERS.to_owned());
    assert_eq!(world.sum(others.clone(), hour).await.admitted, 5);
    assert_eq!(world.sum(of(""), hour).await.admitted, 2_014, "totals stay exact");
    // In the next hour others have room.
    world.now.fetch_add(HOUR, Relaxed);
    world.store("n", 1, report(3, rules(2_000..2_001))).await.expect("stored");
    assert_eq!(world.sum(of("k2000"), hour).await.admitted, 1);
}

#[tokio::test]
async fn names_that_a_node_makes_up_take_no_room_of_rules_that_are_published() {
    let world = World::new().await;
    with_app(&world).await;
    with_rules(&world, 100).await;
    // At the hour's begin, before anybody else: domains that nobody has, and rules in those that there are.
    let made_up = (0..4_000).map(|it| of_domain(&format!("d{}", it % 1_200), &format!("r{it}"), 1));
    world.store("liar", 1, report(1, made_up.collect())).await.expect("stored");
    let made_up = (0..4_000).map(|it| of_domain("many", &format!("r{it}"), 1));
    world.store("liar", 1, report(2, made_up.collect())).await.expect("stored");
    let real = (0..100).map(|it| of_domain("many", &format!("k{it}"), 2)).chain([counts("key=a", 3, 0)]);
    world.store("n", 1, report(1, real.collect())).await.expect("stored");
    let hour = Resolution::Hour;
    let rule = |it: u32| Scope::Domain("many".to_owned(), format!("k{it}"));
    for it in [0, 50, 99] {
        assert_eq!(world.sum(rule(it), hour).await.admitted, 2, "k{it}");
    }
    assert_eq!(world.sum(Scope::Rule("shop".to_owned(), "key=a".to_owned()), hour).await.admitted, 3);
    // What nodes have from files of their own has rows too, as far as there is room for it.
    assert_eq!(world.sum(Scope::Domain("d0".to_owned(), "r0".to_owned()), hour).await.admitted, 1);
    let file = rusqlite::Connection::open(world.folder.path().join("control.db")).expect("the database");
    let series: i64 = file.query_row("SELECT COUNT(*) FROM series", [], |row| row.get(0)).expect("a count");
    assert!(series < 200 + 100 + 110, "{series} series");
}

#[tokio::test]
async fn the_sum_of_a_key_stays_a_whole_number_however_often_it_is_reported() {
    let world = World::new().await;
    with_app(&world).await;
    let top =
        |denied| TopKey { domain: "shop".to_owned(), rule: "key=a".to_owned(), key: "k".to_owned(), denied };
    for sequence in 1..=40 {
        let top = vec![top(1 << 40); 10_000];
        let report = Report { top, ..report(sequence, vec![counts("key=a", 0, 1)]) };
        world.store("n", 1, report).await.expect("stored");
    }
    let read = || {
        let query = TopQuery { span_ms: HOUR, limit: 10, ..TopQuery::default() };
        world.read(move |tx| top_keys(tx, &Actor::system(), &query))
    };
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
    // A row that a release without this bound has left behind.
    let file = rusqlite::Connection::open(world.folder.path().join("control.db")).expect("the database");
    file.execute("UPDATE top_keys SET denied = 1.5e19", []).expect("a sum that is no whole number any more");
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
    world
        .store("n", 1, Report { top: vec![top(1)], ..report(41, vec![counts("key=a", 0, 1)]) })
        .await
        .expect("stored");
    assert_eq!(read().await.first().map(|it| it.denied), Some(500_000_000_000_000));
}

#[tokio::test]
async fn what_a_rude_node_reports_stays_within_bounds() {
    let world = World::new().await;
    with_app(&world).await;
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
        world.store("n", u64::MAX, rude(sequence)).await.expect("stored");
        world.store("m", u64::MAX, Report { age_ms: 0, ..rude(sequence) }).await.expect("stored");
    }
    let of_rule = Scope::Rule("shop".to_owned(), "key=a".to_owned());
    let query =
        HistoryQuery { scope: of_rule, from_ms: START - 390 * 24 * HOUR, to_ms: START + HOUR, step_ms: 0 };
    let found = world.read(move |tx| history(tx, &Actor::system(), &query)).await;
    assert!(found.sum().admitted > 0 && found.points.len() <= 2_000);
}

#[tokio::test]
async fn old_rows_go_and_the_coarser_ones_stay() {
    let world = World::new().await;
    with_app(&world).await;
    for sequence in 1..=30 {
        world.store("n", 1, report(sequence, vec![counts("key=a", 1, 0)])).await.expect("stored");
        world.now.fetch_add(10_000, Relaxed);
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
        world.now.store(START + 300_000 + after, Relaxed);
        world.control.change(sweep).await.expect("swept");
        let rows = rows_by_resolution(&world);
        let left = Resolution::ALL.map(|it| rows.get(&it.ms()).map_or(0, |it| it.admitted));
        assert!(left.iter().zip(kept).all(|(left, kept)| (left - kept).abs() <= 1), "{after}: {left:?}");
    }
    // A node that comes back long after does not count again what was stored.
    assert_eq!(world.control.change(sweep).await.expect("swept"), None);
}

#[tokio::test]
async fn the_most_denied_keys_are_summed_over_nodes_and_shown_to_those_who_may_see_them() {
    let world = World::new().await;
    with_app(&world).await;
    let key = |key: &str, denied| TopKey {
        domain: "shop".to_owned(),
        rule: "key=a".to_owned(),
        key: key.to_owned(),
        denied,
    };
    let with = |sequence, top| Report { top, ..report(sequence, vec![counts("key=a", 1, 1)]) };
    for node in ["n1", "n2"] {
        let sent = with(1, vec![key("ann", 5), key("bob", 3)]);
        world.store(node, 1, sent.clone()).await.expect("stored");
        world.store(node, 1, sent).await.expect("stored");
    }
    let many = (0..80).map(|it| key(&format!("k{it:02}"), 10 + it)).collect();
    let reader = |app: &str| Who { roles: vec![(app.to_owned(), Role::Viewer)], ..Who::system() };
    let ask = |by: Who, scope: Scope, search: &str| {
        let query = TopQuery { scope, search: search.to_owned(), span_ms: HOUR, limit: 500 };
        let found = world.control.read(move |tx| top_keys(tx, &by.assumed(), &query));
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
    world.store("n1", 1, with(2, many)).await.expect("stored");
    let found = ask(Who::system(), Scope::All, "").await.expect("keys");
    assert_eq!((found.len(), &found[0]), (50, &("k79".to_owned(), 89)), "the least denied make room");
}

/// A steady rate reads the same at every moment of a step that has just begun, and over every span.
#[tokio::test]
async fn a_steady_rate_reads_the_same_in_a_step_that_is_not_over() {
    let world = World::new().await;
    with_app(&world).await;
    let steady = || RuleCounts { shadow_denied: 0, ..counts("key=a", 100, 50) };
    for number in 0..500_u64 {
        world.now.fetch_add(5_000, Relaxed);
        world.store("n1", 1, report(number + 1, vec![steady()])).await.expect("stored");
        if number < 250 || number % 7 != 0 {
            continue;
        }
        // Between two reports.
        world.now.fetch_add(2_000, Relaxed);
        for span_ms in [HOUR / 4, HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR] {
            let to_ms = world.now();
            let query = HistoryQuery {
                scope: Scope::App("shop".into()),
                from_ms: to_ms - span_ms,
                to_ms,
                step_ms: 0,
            };
            let found = world.read(move |tx| history(tx, &Actor::system(), &query)).await;
            let last = found.points.iter().rev().find(|it| it.span_ms >= found.step_ms.min(30_000));
            let last = last.expect("a point");
            let tenths = last.counts.admitted * 10_000 / last.span_ms;
            // Reports of five seconds go whole to the row of their middle.
            assert!((160..=240).contains(&tenths), "{tenths} tenths/s in {span_ms} ms: {last:?}");
            let later = found.points.iter().filter(|it| it.at_ms >= to_ms);
            assert!(later.into_iter().all(|it| it.span_ms == 0), "what is to come has no rate");
        }
        world.now.fetch_sub(2_000, Relaxed);
    }
}
