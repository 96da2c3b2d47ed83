//! Trials: what a node counts for the numbers that are tried, what stays when a trial begins and ends, and
//! what the control plane makes of the reports.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::ops::Deref;

use proptest::prelude::*;
use tollgate_control::change_set::State;
use tollgate_control::table_rule::{TableRule, TableRuleInput, Trial};
use tollgate_control::trials::{self, TrialStep};
use tollgate_control::{
    Actor, Claim, Committed, Content, ControlError, Document, Fault, FieldFault, ModelError, Role, Who,
    app_settings, compile, reviews, rules, table_rule_yaml, transfer,
};
use tollgate_fleet_agent::sample;
use tollgate_fleet_proto::{Report, RuleCounts};
use tollgate_harness::people::user;
use tollgate_harness::rules::{create_rule, limit, set_app};
use tollgate_harness::{ControlPlane, LimitingNode};

fn form() -> TableRuleInput {
    TableRuleInput { max_permits: "10".to_owned(), ..limit("a", 1) }
}

fn start(rate: &str, max_permits: &str) -> TrialStep {
    TrialStep::Start { rate: rate.to_owned(), max_permits: max_permits.to_owned() }
}

/// A control plane with the rule `a` of the app `shop`.
struct OneRule(ControlPlane);

impl Deref for OneRule {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.0
    }
}

impl OneRule {
    async fn new(form: TableRuleInput) -> Self {
        let plane = ControlPlane::start().await;
        create_rule(&plane, "shop", form).await.expect("a rule");
        Self(plane)
    }

    async fn table_rule(&self) -> (TableRule, i64) {
        let rule = self.read(|tx| rules::get(tx, &Actor::system(), "shop", "a")).await;
        let rule = rule.expect("a rule");
        (rule.row, rule.etag)
    }

    async fn step(&self, by: Who, step: TrialStep) -> Result<Option<State>, ControlError> {
        let etag = self.table_rule().await.1;
        let done = self.commit(move |tx| trials::change(tx, &by.assumed(), ("shop", "a"), etag, &step)).await;
        Ok(done?.map(|it| it.state))
    }

    async fn must(&self, step: TrialStep) {
        let done = self.step(Who::system(), step).await.expect("a change");
        assert_eq!(done, Some(State::Published));
    }

    fn document(&self) -> Document {
        self.published_app("shop").documents[0].clone()
    }
}

/// A node that gets what the control plane publishes.
struct NodeOfShop(LimitingNode);

impl NodeOfShop {
    fn new(document: &Document) -> Self {
        Self(LimitingNode::new(document))
    }

    /// Whether `hits` at `ms` are admitted, and what remains in force.
    fn hit(&self, hits: u64, ms: u64) -> (bool, u64) {
        let entries = [("key", "a"), ("user", "ann")];
        let own = if self.rules().any(|it| it.contains("user")) { &entries[..] } else { &entries[..1] };
        let it = self.0.decide("shop", own, hits, ms);
        (it.is_admitted, it.remaining)
    }

    fn rules(&self) -> impl Iterator<Item = String> {
        let mut report = self.0.limiter.report(LimitingNode::BEGIN);
        report.domains.swap_remove(0).rules.into_iter().map(|it| it.rule)
    }

    /// Denied in force, denied by the trial alone, denied by both, as reports have them.
    fn denied(&self) -> (u64, u64, u64) {
        let sample = sample(&self.0.limiter, LimitingNode::BEGIN);
        let rule = sample.rules.iter().find(|it| it.rule.starts_with("key=a")).expect("the rule");
        (rule.counts.denied, rule.counts.shadow_denied, rule.counts.both_denied)
    }
}

#[tokio::test]
async fn no_count_is_lost_when_a_trial_begins_is_dropped_or_is_adopted() {
    for input in [
        form(),
        TableRuleInput { per: "user".to_owned(), ..form() },
        TableRuleInput { sharing: "local".to_owned(), on_store_failure: "deny".to_owned(), ..form() },
        TableRuleInput { pre_permits: "2".to_owned(), need_permits: "1".to_owned(), ..form() },
    ] {
        let shop = OneRule::new(input.clone()).await;
        let node = NodeOfShop::new(&shop.document());
        let identity = |node: &NodeOfShop| node.rules().next().expect("a rule");
        let before = identity(&node);
        assert_eq!(node.hit(7, 0), (true, 3));
        shop.must(start("5", "20")).await;
        node.0.update(&shop.document());
        assert_eq!((node.hit(1, 0), identity(&node)), ((true, 2), before.clone()), "{input:?}");
        shop.must(start("6", "5")).await; // other numbers; the trial was full, and begins again
        node.0.update(&shop.document());
        assert_eq!(node.hit(1, 0), (true, 1));
        shop.must(TrialStep::End).await;
        node.0.update(&shop.document());
        assert!(!shop.document().yaml().contains("trial"), "{:?}", shop.document());
        assert_eq!((node.hit(1, 0), node.hit(3, 0).0), ((true, 0), false), "{input:?}");
        shop.must(start("2", "30")).await;
        node.0.update(&shop.document());
        assert!(!node.hit(3, 0).0, "the numbers in force decide");
        shop.must(TrialStep::Adopt).await;
        node.0.update(&shop.document());
        // What was taken of the ten is taken of the thirty.
        assert_eq!(node.hit(0, 0), (true, 20), "{input:?}");
        let in_advance = usize::from(!input.pre_permits.is_empty()); // while permits are owed none is granted
        assert_eq!((0..100).take_while(|_| node.hit(1, 0).0).count(), 20 + in_advance, "{input:?}");
        assert_eq!(identity(&node), before);
        let (table_rule, _) = shop.table_rule().await;
        assert_eq!((table_rule.rate, table_rule.max_permits, table_rule.trial), (2, 30, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The law of a trial: both limits count as each would alone.
    #[test]
    fn a_trial_denies_what_its_numbers_alone_would_deny_and_changes_nothing_in_force(
        (rate, burst) in (1..20_i64, 1..30_i64),
        (trial_rate, trial_burst) in (1..20_i64, 1..30_i64),
        (need, pre) in (1..4_i64, 0..4_i64),
        gaps in prop::collection::vec(0..400_u64, 1..200),
    ) {
        let least = need.max(pre);
        let burst = burst.max(least);
        let trial_burst = trial_burst.max(least);
        let row = |rate: i64, burst: i64, trial: Option<Trial>| {
            let input = TableRuleInput {
                rate: rate.to_string(),
                max_permits: burst.to_string(),
                need_permits: need.to_string(),
                pre_permits: pre.to_string(),
                ..form()
            };
            let table_rule = TableRule { trial, ..input.check().expect("valid") };
            NodeOfShop::new(&compile::documents("shop", &[table_rule]).expect("compiled")[0])
        };
        let trial = Trial { rate: trial_rate, max_permits: trial_burst };
        let both = row(rate, burst, Some(trial));
        let old = row(rate, burst, None);
        let new = row(trial_rate, trial_burst, None);
        let mut ms = 0;
        let mut denied = (0, 0, 0);
        for gap in gaps {
            ms += gap;
            let in_force = old.hit(1, ms);
            let tried = new.hit(1, ms);
            prop_assert_eq!(both.hit(1, ms), in_force, "as without a trial");
            denied.0 += u64::from(!in_force.0);
            denied.1 += u64::from(in_force.0 && !tried.0);
            denied.2 += u64::from(!in_force.0 && !tried.0);
        }
        prop_assert_eq!(both.denied(), denied);
    }
}

fn faults(result: Result<Option<State>, ControlError>) -> Vec<FieldFault> {
    match result {
        Err(ControlError::Invalid(faults)) => faults,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn numbers_that_a_rule_could_not_have_are_rejected_beside_their_field() {
    let input = TableRuleInput { need_permits: "4".to_owned(), pre_permits: "6".to_owned(), ..form() };
    let shop = OneRule::new(input).await;
    for (rate, burst, fields) in [
        ("", "6", vec!["trial_rate"]),
        ("1", " ", vec!["trial_max_permits"]),
        ("0", "6", vec!["trial_rate"]),
        ("-1", "1e3", vec!["trial_rate", "trial_max_permits"]),
        ("1000000001", "1000000001", vec!["trial_rate", "trial_max_permits"]),
        ("1", "5", vec!["trial_max_permits"]),
    ] {
        let found = faults(shop.step(Who::system(), start(rate, burst)).await);
        assert_eq!(found.iter().map(|it| it.field).collect::<Vec<_>>(), fields, "{rate:?} {burst:?}");
    }
    let found = faults(shop.step(Who::system(), start("1", "5")).await);
    assert_eq!(found[0].fault, Fault::TrialTooSmall { min: 6 }, "the overdraft must fit");
    for (rate, burst) in [("1", "6"), ("1000000000", "1000000000")] {
        shop.must(start(rate, burst)).await;
    }
    // Both or none, by whichever way.
    for (rate, burst, field) in [("5", "", "trial_max_permits"), ("", "50", "trial_rate")] {
        let input =
            TableRuleInput { trial_rate: rate.to_owned(), trial_max_permits: burst.to_owned(), ..form() };
        let Err(ModelError::Invalid(found)) = input.check() else { panic!("valid: {input:?}") };
        assert_eq!(found, [FieldFault { field, fault: Fault::TrialHalf }]);
    }
    let shared = TableRuleInput {
        trial_rate: "5".to_owned(),
        trial_max_permits: "50".to_owned(),
        bucket: "backend".to_owned(),
        ..form()
    };
    let Err(ModelError::Invalid(found)) = shared.check() else { panic!("valid") };
    assert_eq!(found, [FieldFault { field: "trial_rate", fault: Fault::TrialInBucket }]);
    // Nothing to adopt, and nothing to drop.
    shop.must(TrialStep::End).await;
    assert_eq!(faults(shop.step(Who::system(), TrialStep::Adopt).await)[0].fault, Fault::Required);
    assert_eq!(shop.step(Who::system(), TrialStep::End).await.expect("nothing to do"), None);
}

#[tokio::test]
async fn a_trial_is_a_change_like_any_other_with_rights_etags_audit_and_approvals() {
    let shop = OneRule::new(form()).await;
    let with = |name: &str, role| user(name, role, "shop");
    let seen = shop.step(with("vic", Role::Viewer), start("5", "20")).await;
    assert!(matches!(seen, Err(ControlError::NoRight { .. })), "{seen:?}");
    let stale = shop.commit(|tx| trials::change(tx, &Actor::system(), ("shop", "a"), 9, &TrialStep::End));
    assert!(matches!(stale.await, Err(ControlError::Stale { .. })));
    shop.must(start("5", "20")).await;
    let entries = shop.read(|tx| tollgate_control::audit::list(tx, &Actor::system(), "shop", "", 0, 10));
    let entry = entries.await.expect("the audit").into_iter().next().expect("an entry");
    let shown = format!("{entry:?}");
    assert!(shown.contains("rule.update") && shown.contains("trial"), "{shown}");

    let settings = app_settings::AppInput { approvals: "1".to_owned(), ..app_settings::AppInput::default() };
    set_app(&shop, "shop", settings).await;
    let before = shop.document();
    let waits = shop.step(with("eve", Role::Editor), TrialStep::Adopt).await.expect("a change set");
    assert_eq!((waits, shop.document()), (Some(State::Submitted), before), "nothing is in force yet");
    let query =
        tollgate_control::change_set::Query { state: "open".to_owned(), limit: 1, ..Default::default() };
    let list = shop
        .read(move |tx| tollgate_control::change_set::list(tx, &Actor::system(), &query))
        .await
        .expect("change sets");
    let id = list[0].id.clone();
    let etag = list[0].etag;
    let bea = with("bea", Role::Approver);
    shop.invite(&Claim::program("tollgate"), "bea", "shop", "approver").await.expect("a user");
    let approved = shop.commit(move |tx| -> Result<Committed<_>, _> {
        let approved = reviews::approve(tx, &bea.assumed(), &id, etag, "")?.value;
        tollgate_control::publishing::publish(tx, &bea.assumed(), &approved.id, approved.etag)
    });
    approved.await.expect("published");
    assert_eq!((shop.table_rule().await.0.rate, shop.table_rule().await.0.trial), (5, None));
}

#[tokio::test]
async fn a_trial_comes_back_from_yaml_export_and_a_paused_rule_unchanged() {
    let shop = OneRule::new(TableRuleInput { sharing: "leased".to_owned(), ..form() }).await;
    let plain = shop.read(|tx| transfer::export(tx, &Actor::system(), "shop")).await.expect("yaml");
    assert!(!plain.contains("trial"), "a rule without a trial is exported as before: {plain}");
    shop.must(start("5", "20")).await;
    let (table_rule, _) = shop.table_rule().await;
    let yaml = table_rule_yaml::write(&table_rule.to_input());
    assert!(yaml.contains("trial_rate: 5\ntrial_max_permits: 20\n"), "{yaml}");
    assert_eq!(table_rule_yaml::read(&yaml).expect("read").check().expect("valid"), table_rule);
    let export = shop.read(|tx| transfer::export(tx, &Actor::system(), "shop")).await.expect("yaml");
    let read = transfer::read(&export).expect("valid");
    assert_eq!(transfer::write(&read), export, "byte for byte");
    assert!(matches!(&*read.rules, [Content::TableRule(it)] if **it == table_rule));
    // Nodes compare with what is in force, so nothing is tried while the rule is not on.
    for (state, is_tried) in [("shadow", false), ("off", false), ("on", true)] {
        let (before, etag) = shop.table_rule().await;
        let input = TableRuleInput { state: state.to_owned(), ..before.to_input() };
        shop.commit(move |tx| rules::update(tx, &Actor::system(), "shop", etag, &input))
            .await
            .expect("a state");
        let published = shop.published().borrow().apps[0].documents.clone();
        let has_trial = published.iter().any(|it| it.yaml().contains("name: trial, shadow: true"));
        assert_eq!((has_trial, shop.table_rule().await.0.trial), (is_tried, table_rule.trial), "{state}");
    }
}

#[tokio::test]
async fn a_trial_is_compared_over_the_time_since_its_numbers_began() {
    let shop = OneRule::new(form()).await;
    let report = async |sequence: u64, denied, shadow_denied, both_denied| {
        let domain = "shop".to_owned();
        let rule = "key=a".to_owned();
        let counts = RuleCounts {
            domain,
            rule,
            admitted: 50,
            denied,
            shadow_denied,
            both_denied,
            ..Default::default()
        };
        let report = Report { sequence, span_ms: 5_000, rules: vec![counts], ..Report::default() };
        shop.store("n", 1, report).await.expect("stored");
    };
    let compared = async || {
        let found = shop.read(|tx| trials::compared(tx, &Actor::system(), "shop", "a")).await;
        found.expect("read")
    };
    assert_eq!(compared().await, None);
    report(1, 1_000, 0, 0).await;
    shop.pass(10_000);
    shop.must(start("5", "20")).await;
    let began = shop.now_ms();
    let found = compared().await.expect("a trial");
    assert_eq!((found.since_ms, found.history.sum().offered()), (began, 0), "nothing is known yet");
    for sequence in 2..62 {
        shop.pass(5_000);
        report(sequence, 10, 3, 7).await;
    }
    shop.pass(20_000);
    let found = compared().await.expect("a trial");
    let sum = found.history.sum();
    assert!((100..=600).contains(&sum.denied), "not the 1,000 before: {sum:?}");
    assert_eq!((sum.denied * 7, sum.trial_denied()), (sum.both_denied * 10, sum.denied), "{sum:?}");
    assert!(found.is_running && found.trial == Trial { rate: 5, max_permits: 20 });
    // A description is no other number; the rate in force is.
    for (change, since) in [
        (TableRuleInput { description: "x".to_owned(), ..form() }, began),
        (TableRuleInput { rate: "2".to_owned(), ..form() }, shop.now_ms()),
    ] {
        let (before, etag) = shop.table_rule().await;
        let of_trial = before.to_input();
        let input = TableRuleInput {
            trial_rate: of_trial.trial_rate,
            trial_max_permits: of_trial.trial_max_permits,
            ..change
        };
        let done = shop.commit(move |tx| rules::update(tx, &Actor::system(), "shop", etag, &input));
        done.await.expect("a change");
        assert_eq!(compared().await.expect("a trial").since_ms, since);
    }
}
