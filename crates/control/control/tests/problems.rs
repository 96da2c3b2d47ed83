//! Every problem is a metric, has an alert, and is described.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::{BTreeMap, BTreeSet};

use tollgate_control::history::Counts;
use tollgate_control::problems::{ProblemInputs, ProblemKind, find, metrics};
use tollgate_control::rollouts::FailedRollout;
use tollgate_control::{Figures, ForgottenRule, NodeApp, NodeState, Surroundings};
use tollgate_fleet_proto::RejectedRequests;
use tollgate_harness::{NOW_MS as NOW, held, live_node};

#[test]
fn every_problem_is_a_metric_has_an_alert_and_is_described() {
    let alerts = include_str!("../../../../deploy/alerts.yml");
    let page = include_str!("../../../../docs/control.md");
    let text = metrics(&[]);
    for kind in ProblemKind::ALL {
        let name = kind.name();
        let alert = format!("expr: tollgate_control_problems{{kind=\"{name}\"}} > 0\n");
        assert_eq!(
            alerts.matches(&alert).count(),
            1,
            "deploy/alerts.yml has no alert for {name}, or several"
        );
        assert!(
            page.contains(&format!("\n| `{name}` |")),
            "docs/control.md does not say when there is {name}"
        );
        assert!(text.contains(&format!("tollgate_control_problems{{kind=\"{name}\"}} 0\n")), "{name}");
    }
    let named: BTreeSet<&str> = ProblemKind::ALL.iter().map(|it| it.name()).collect();
    let asked = alerts.split("tollgate_control_problems{kind=\"").skip(1);
    let asked: Vec<&str> = asked.filter_map(|it| it.split('"').next()).collect();
    assert_eq!(asked.len(), named.len());
    assert_eq!(asked.into_iter().collect::<BTreeSet<_>>(), named, "no alert for what is no problem");
}

fn node(change: impl FnOnce(&mut NodeState)) -> NodeState {
    let mut node = live_node("a", NOW);
    change(&mut node);
    node
}

fn app(wanted: u64, acked: u64, fault: Option<&str>, is_ahead: bool) -> Vec<NodeApp> {
    let fault = fault.map(str::to_owned);
    vec![NodeApp { fault, is_ahead, ..held("shop", wanted, acked) }]
}

fn counts(admitted: i64, denied: i64, degraded: i64) -> Counts {
    Counts { admitted, denied, degraded, ..Counts::default() }
}

/// The problems of a state that differs from a healthy one.
fn kinds(change: impl FnOnce(&mut ProblemInputs)) -> Vec<ProblemKind> {
    let versions = BTreeMap::from([("shop".to_owned(), NOW - 30_001)]);
    let mut state =
        ProblemInputs { now_ms: NOW, nodes: vec![node(|_| ())], versions, ..ProblemInputs::default() };
    change(&mut state);
    find(&state).into_iter().map(|it| it.kind).collect()
}

fn with_node(change: impl Fn(&mut NodeState)) -> Vec<ProblemKind> {
    kinds(|state| state.nodes = vec![node(change)])
}

fn with_figures(figures: Figures) -> Vec<ProblemKind> {
    kinds(|state| drop(state.figures.insert("a".to_owned(), figures)))
}

/// The kinds that were found so far.
#[derive(Default)]
struct Met(BTreeSet<ProblemKind>);

impl Met {
    fn is(&mut self, found: Vec<ProblemKind>, want: &[ProblemKind], what: &str) {
        assert_eq!(found, want, "{what}");
        self.0.extend(found);
    }
}

#[test]
fn each_problem_is_there_from_its_bound_on_and_not_before() {
    let mut met = Met::default();
    met.is(kinds(|_| ()), &[], "healthy");
    of_nodes(&mut met);
    of_figures(&mut met);
    of_requests(&mut met);
    of_shares_and_rollouts(&mut met);
    of_the_control_plane(&mut met);
    assert_eq!(met.0.len(), ProblemKind::ALL.len(), "every kind is met: {:?}", met.0);
}

fn of_nodes(met: &mut Met) {
    for (silent_ms, want) in
        [(14_999, &[][..]), (15_000, &[ProblemKind::UnresponsiveNode]), (24 * 3_600_000 + 1, &[])]
    {
        met.is(with_node(|it| it.last_seen_ms = NOW - silent_ms), want, "silent");
    }
    for (apps, want) in [
        (app(3, 3, None, false), &[][..]),
        (app(3, 2, Some("faulty"), false), &[ProblemKind::RejectedVersion]),
        (app(3, 2, None, false), &[ProblemKind::VersionLag]),
        (app(3, 4, Some("newer"), true), &[ProblemKind::FrozenApp]),
    ] {
        met.is(with_node(|it| it.apps.clone_from(&apps)), want, "an app");
    }
    let young = kinds(|state| {
        state.nodes = vec![node(|it| it.apps = app(3, 2, None, false))];
        state.versions.insert("shop".to_owned(), NOW - 30_000);
    });
    met.is(young, &[], "a version of 30 s may be on its way");
    for (skew_ms, want) in
        [(2_000, &[][..]), (2_001, &[ProblemKind::ClockSkew]), (-2_001, &[ProblemKind::ClockSkew])]
    {
        met.is(with_node(|it| it.skew_ms = skew_ms), want, "clock");
    }
    for hour in [3_600_000, -3_600_000, i64::MAX, i64::MIN] {
        met.is(with_node(|it| it.skew_ms = hour), &[ProblemKind::ClockSkew], "an hour off");
    }
    for (ago, want) in [(3_599_999, &[ProblemKind::ClaimedNode][..]), (3_600_000, &[])] {
        met.is(with_node(|it| it.claim = Some(("192.0.2.1:9".to_owned(), NOW - ago))), want, "a claim");
    }
}

/// Reports about the store, the state folder and the rule files of a node.
fn of_figures(met: &mut Met) {
    let store = |up| Figures { store: Some(("redis".to_owned(), up)), ..Figures::default() };
    met.is(with_figures(store(true)), &[], "store");
    met.is(with_figures(store(false)), &[ProblemKind::StoreDown], "store");
    let fault = Figures { state_error: "disk".to_owned(), ..Figures::default() };
    met.is(with_figures(fault), &[ProblemKind::NodeFault], "state folder");
    let fault = Figures { rules_error: "line 3".to_owned(), ..Figures::default() };
    met.is(with_figures(fault), &[ProblemKind::NodeFault], "rule files");
}

/// Rejected requests, and rules whose charges were forgotten.
fn of_requests(met: &mut Met) {
    let bad = |count, decided| {
        let surface = "http".to_owned();
        let status = "404".to_owned();
        let reason = "unknown".to_owned();
        let rejected = vec![RejectedRequests { surface, status, reason, count }];
        with_figures(Figures { rejected, decided, ..Figures::default() })
    };
    let forgets = |rules: &[u64]| {
        let rule = |count: &u64| ForgottenRule {
            domain: "llm".to_owned(),
            rule: format!("team{count}"),
            requests: *count,
        };
        with_figures(Figures { forgotten: rules.iter().map(rule).collect(), ..Figures::default() })
    };
    met.is(forgets(&[]), &[], "nothing is forgotten");
    met.is(forgets(&[1]), &[ProblemKind::ForgottenCharges], "one");
    met.is(forgets(&[u64::MAX, 1]), &[ProblemKind::ForgottenCharges], "as many as there can be");
    met.is(bad(9, 0), &[], "fewer than ten rejected requests");
    met.is(bad(10, 0), &[ProblemKind::BadRequests], "ten, and nothing else");
    met.is(bad(10, 989), &[ProblemKind::BadRequests], "more than one of a hundred");
    met.is(bad(10, 990), &[], "one of a hundred");
    met.is(bad(u64::MAX, u64::MAX), &[ProblemKind::BadRequests], "as many as there can be");
}

fn of_shares_and_rollouts(met: &mut Met) {
    let shares =
        |now, before| kinds(|state| state.shares = BTreeMap::from([("shop".to_owned(), (now, before))]));
    met.is(shares(counts(400, 100, 0), counts(500, 0, 0)), &[ProblemKind::DeniedShare], "20 points more");
    met.is(shares(counts(401, 99, 0), counts(500, 0, 0)), &[], "less than 20 points");
    met.is(shares(counts(400, 100, 0), counts(499, 0, 0)), &[], "too few to compare");
    met.is(shares(counts(60, 40, 1), counts(0, 0, 0)), &[ProblemKind::Degraded], "degraded: 1 %");
    met.is(shares(counts(60, 41, 1), counts(0, 0, 0)), &[], "less than 1 %: one late reply of a store");
    met.is(shares(counts(3_000_000, 0, 29_999), counts(0, 0, 0)), &[], "less than 1 %");
    let failed = || FailedRollout { app: "shop".to_owned(), version: 3, at_ms: NOW };
    let withdrawn = kinds(|state| state.withdrawn = vec![failed()]);
    met.is(withdrawn, &[ProblemKind::WithdrawnRollout], "withdrawn");
    let halted = kinds(|state| state.halted = vec![failed()]);
    met.is(halted, &[ProblemKind::HaltedRollout], "halted");
    met.is(
        kinds(|state| state.frozen = BTreeMap::from([("shop".to_owned(), 9)])),
        &[ProblemKind::FrozenApp],
        "frozen",
    );
}

/// Its database, its disk and its certificate.
fn of_the_control_plane(met: &mut Met) {
    let awaited = |left_ms| {
        kinds(|state| state.awaited = Some(tollgate_control::Awaited { missing: 1, of: 2, left_ms }))
    };
    met.is(awaited(1), &[ProblemKind::AwaitedNodes], "a node is missing");
    met.is(kinds(|state| state.gone = Some("deleted".to_owned())), &[ProblemKind::DatabaseGone], "gone");
    let lost = tollgate_control::Lost { seq: 67, hash: "d".to_owned(), found: 37 };
    met.is(kinds(|state| state.lost = Some(lost.clone())), &[ProblemKind::AuditCut], "cut");
    let edited = tollgate_control::EditedRows { rows: 1, detail: "car 'x'".to_owned(), since_ms: NOW };
    met.is(kinds(|state| state.edited = Some(edited.clone())), &[ProblemKind::EditedRows], "edited");
    let disk = |free, size| {
        kinds(|state| {
            state.surroundings = Surroundings { disk: Some((free, size)), ..Surroundings::default() }
        })
    };
    let mib = 1024 * 1024;
    met.is(disk(200 * mib, 300 * mib), &[], "room");
    met.is(disk(200 * mib - 1, 300 * mib), &[ProblemKind::DiskLow], "less than 200 MiB");
    met.is(disk(499 * mib, 10_000 * mib), &[ProblemKind::DiskLow], "less than 5 %");
    let week = 7 * 24 * 3_600_000;
    let certificate = |ends: i64| {
        let certificate_ends_ms = Some(ends);
        kinds(|state| state.surroundings = Surroundings { certificate_ends_ms, ..Surroundings::default() })
    };
    met.is(certificate(NOW + week), &[], "a week");
    met.is(certificate(NOW + week - 1), &[ProblemKind::CertificateExpiring], "less than a week");
}
