//! Each field of the table of committed rates, from the form through the database and the compiled rule to
//! the decision of a node, and back into the form.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, Content, ControlError, Document, FieldFault, rules, transfer};
use tollgate_harness::rules::{create_rule, limit};
use tollgate_harness::{ControlPlane, LimitingNode};
use tollgate_limiter::{Descriptor, Entry, Request, Scratch};
use tollgate_store::block_on;

const KEY: &str = "pushGeoHotelList";

fn form() -> TableRuleInput {
    TableRuleInput { max_permits: "10".to_owned(), ..limit(KEY, 5) }
}

/// A node with the rules that the control plane published of one form, and the form as it is read back.
struct NodeOfForm {
    node: LimitingNode,
    form: TableRuleInput,
    yaml: String,
}

async fn node(form: TableRuleInput) -> NodeOfForm {
    let control = with_rows(vec![form]).await.restart().await; // what follows is read from the disk
    let rule = control.read(|tx| rules::get(tx, &Actor::system(), "SIP_HOTEL", KEY)).await.expect("a rule");
    // What is exported says the same as the form.
    let export = control.read(|tx| transfer::export(tx, &Actor::system(), "SIP_HOTEL")).await;
    let exported = transfer::read(&export.expect("a document")).expect("valid").rules;
    assert!(
        matches!(&*exported, [Content::TableRule(table_rule)] if **table_rule == rule.row),
        "{exported:?}"
    );
    NodeOfForm::new(rule.row.to_input(), control.published().borrow().apps[0].documents[0].clone())
}

impl NodeOfForm {
    fn new(form: TableRuleInput, document: Document) -> Self {
        Self { node: LimitingNode::new(&document), form, yaml: document.into_yaml() }
    }

    /// Whether `hits` at `ms` are admitted, how many permits remain, and how long a denied caller waits in
    /// ms.
    fn hits_of(&self, domain: &str, key: &str, hits: u64, ms: u64) -> (bool, u64, u64) {
        let it = self.node.decide(domain, &[("key", key)], hits, ms);
        (it.is_admitted, it.remaining, it.wait_ms)
    }

    fn hit_of(&self, domain: &str, key: &str, ms: u64) -> (bool, u64, u64) {
        self.hits_of(domain, key, 1, ms)
    }

    fn hit(&self, ms: u64) -> (bool, u64, u64) {
        self.hit_of("SIP_HOTEL", KEY, ms)
    }

    /// Number of hits at `ms` that are admitted one after another.
    fn admitted(&self, ms: u64) -> usize {
        (0..1_000).take_while(|_| self.hit(ms).0).count()
    }
}

#[tokio::test]
async fn app_is_the_domain() {
    let node = node(form()).await;
    assert_eq!(node.admitted(0), 10);
    assert!(node.hit_of("SIP_FLIGHT", KEY, 0).0, "another app is not limited by it");
}

#[tokio::test]
async fn key_is_the_request_class_and_unique_in_its_app() {
    let node = node(form()).await;
    assert_eq!((node.form.key.as_str(), node.admitted(0)), (KEY, 10));
    assert!(node.hit_of("SIP_HOTEL", "deleteHotel", 0).0, "another class is not limited by it");
    let control = ControlPlane::start().await;
    let add = |app| create_rule(&control, app, form());
    add("SIP_HOTEL").await.expect("the first");
    add("SIP_FLIGHT").await.expect("of another app");
    assert!(matches!(add("SIP_HOTEL").await, Err(ControlError::Invalid(_))));
}

#[tokio::test]
async fn rate_is_permits_per_second() {
    let node = node(TableRuleInput { rate: "4".to_owned(), ..form() }).await;
    assert_eq!((node.form.rate.as_str(), node.admitted(0)), ("4", 10));
    assert_eq!(node.hit(249), (false, 0, 1));
    assert_eq!(node.hit(250), (true, 0, 0));
    assert_eq!(node.admitted(1_250), 4);
}

#[tokio::test]
async fn max_permits_is_the_burst() {
    let node = node(TableRuleInput { max_permits: "7".to_owned(), ..form() }).await;
    assert_eq!((node.form.max_permits.as_str(), node.admitted(0)), ("7", 7));
    assert_eq!(node.admitted(3_600_000), 7, "it never holds more");
}

#[tokio::test]
async fn need_permits_is_what_one_request_takes() {
    let node = node(TableRuleInput { need_permits: "3".to_owned(), ..form() }).await;
    assert_eq!(node.form.need_permits, "3");
    assert_eq!((node.hit(0), node.hit(0), node.hit(0)), ((true, 7, 0), (true, 4, 0), (true, 1, 0)));
    assert_eq!(node.hit(0), (false, 0, 400), "two permits are missing, at five a second");
    assert_eq!(node.hit(399), (false, 0, 1));
    assert_eq!(node.hit(400), (true, 0, 0));
}

#[tokio::test]
async fn pre_permits_are_taken_in_advance_and_repaid_first() {
    let form = TableRuleInput { need_permits: "4".to_owned(), pre_permits: "6".to_owned(), ..form() };
    let node = node(form).await;
    assert_eq!(node.form.pre_permits, "6");
    assert_eq!(node.admitted(0), 3, "2 of the third request's 4 permits are taken in advance");
    // While permits are owed nothing is granted, though 4 more would be within the overdraft.
    assert_eq!(node.hit(399), (false, 0, 1));
    assert!(node.hit(400).0, "the debt is repaid, and 4 are taken in advance");
    assert_eq!(node.hit(1_199), (false, 0, 1));
    assert!(node.hit(1_200).0);
    assert_eq!(node.admitted(3_600_000), 3, "the overdraft raises no burst");
}

#[tokio::test]
async fn a_post_paid_row_counts_what_was_used_and_is_repaid_before_anything_passes() {
    let row = |post_paid: &str| {
        node(TableRuleInput { post_paid: post_paid.to_owned(), need_permits: "2".to_owned(), ..form() })
    };
    let paid = row("true").await;
    assert_eq!(paid.form.post_paid, "true");
    let hits = |node: &NodeOfForm, hits, ms| node.hits_of("SIP_HOTEL", KEY, hits, ms);
    assert_eq!(hits(&paid, 0, 0), (true, 10, 0));
    assert_eq!(hits(&paid, 8, 0), (true, 0, 0), "16 permits are used, 6 of which are owed");
    assert_eq!(hits(&paid, 0, 0), (false, 0, 1_400), "6 are repaid at five a second, and one is left");
    assert_eq!(hits(&paid, 0, 1_399), (false, 0, 1));
    assert_eq!(hits(&paid, 0, 1_400), (true, 1, 0));
    for value in ["", "false"] {
        let ahead = row(value).await;
        assert_eq!((ahead.form.post_paid.as_str(), ahead.yaml.contains("post_paid")), ("", false));
        assert_eq!(hits(&ahead, 8, 0), (false, 0, u64::MAX), "more than the burst never fits");
        assert_eq!(hits(&ahead, 0, 0), (true, 10, 0), "and takes nothing");
    }
}

#[tokio::test]
async fn priority_and_factor_are_kept_and_change_no_decision() {
    let plain = node(form()).await;
    let g = "0.25".to_owned();
    let u = "12.000001".to_owned();
    let tuned = node(TableRuleInput { g, u, ..form() }).await;
    assert_eq!((tuned.form.g.as_str(), tuned.form.u.as_str()), ("0.25", "12.000001"));
    assert_eq!(tuned.yaml, plain.yaml, "only the task reads them");
}

#[tokio::test]
async fn extras_come_back_byte_for_byte_and_change_no_decision() {
    let extras = r#"{"b": 1,   "a": [2, "酒店"], "c": "{{x}}"}"#;
    let node = node(TableRuleInput { extras: extras.to_owned(), ..form() }).await;
    assert_eq!((node.form.extras.as_str(), node.admitted(0)), (extras, 10));
}

#[tokio::test]
async fn state_shadow_counts_and_never_denies() {
    let node = node(TableRuleInput { state: "shadow".to_owned(), ..form() }).await;
    assert_eq!(node.form.state, "shadow");
    let entries = [Entry::new("key", KEY)];
    let request = Request { domain: "SIP_HOTEL", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    for hit in 0..12 {
        let mut scratch = Scratch::new();
        let answer = block_on(node.node.limiter.decide(&request, LimitingNode::BEGIN, &mut scratch))
            .expect("a decision");
        let shown = answer.descriptor(0).expect("one");
        assert_eq!((answer.is_admitted(), shown.is_shadowed), (true, hit >= 10), "hit {hit}");
    }
}

fn class(key: &str, need_permits: &str, pre_permits: &str) -> TableRuleInput {
    let key = key.to_owned();
    let bucket = "backend".to_owned();
    let need_permits = need_permits.to_owned();
    let pre_permits = pre_permits.to_owned();
    TableRuleInput { key, bucket, need_permits, pre_permits, ..form() }
}

/// A control plane with these rules of an app.
async fn with_rows(rows: Vec<TableRuleInput>) -> ControlPlane {
    let control = ControlPlane::start().await;
    for row in rows {
        assert_eq!(create_rule(&control, "SIP_HOTEL", row).await.expect("a rule").app, "SIP_HOTEL");
    }
    control
}

#[tokio::test]
async fn bucket_is_shared_by_request_classes_of_different_costs() {
    let node = node(TableRuleInput { bucket: "backend".to_owned(), ..form() }).await;
    assert_eq!((node.form.bucket.as_str(), node.admitted(0)), ("backend", 10), "alone it is a bucket");

    let control =
        with_rows(vec![class("search", "1", "0"), class("book", "4", "0"), class("report", "6", "5")]).await;
    let node = NodeOfForm::new(form(), control.published().borrow().apps[0].documents[0].clone());
    let hit = |key, ms| node.hit_of("SIP_HOTEL", key, ms);
    assert_eq!(hit("book", 0), (true, 6, 0));
    assert_eq!(hit("search", 0), (true, 5, 0));
    assert_eq!(hit("book", 0), (true, 1, 0));
    assert_eq!(hit("book", 0), (false, 0, 600), "three permits are missing, at five a second");
    assert_eq!(hit("report", 0), (true, 0, 0), "five permits are taken in advance");
    assert_eq!(hit("search", 1_199), (false, 0, 1), "they are repaid by all classes");
    assert_eq!(hit("search", 1_200), (true, 0, 0));
    let export = control.read(|tx| transfer::export(tx, &Actor::system(), "SIP_HOTEL")).await;
    let exported = transfer::read(&export.expect("a document")).expect("valid");
    let buckets: Vec<_> = exported.rules.iter().map(|it| it.yaml().contains("bucket: \"backend\"")).collect();
    assert_eq!(buckets, [true; 3]);
}

/// The field at fault, and the rule that the fault names.
fn differs(result: Result<impl Sized, ControlError>) -> Vec<(&'static str, String)> {
    let Err(ControlError::Invalid(faults)) = result else { return Vec::new() };
    let named = |it: FieldFault| match it.fault {
        tollgate_control::Fault::BucketDiffers { other, .. } => (it.field, other),
        fault => panic!("{fault}"),
    };
    faults.into_iter().map(named).collect()
}

#[tokio::test]
async fn rules_of_one_bucket_have_one_rate_and_one_burst_and_the_fault_names_the_other_rule() {
    let control = with_rows(vec![class("search", "1", "0"), class("book", "4", "6")]).await;
    let add = |input: TableRuleInput| create_rule(&control, "SIP_HOTEL", input);
    let text = str::to_owned;
    for (input, field) in [
        (TableRuleInput { rate: text("6"), ..class("a", "1", "0") }, "rate"),
        (TableRuleInput { max_permits: text("11"), ..class("a", "1", "0") }, "max_permits"),
        (TableRuleInput { per: text("provider"), ..class("a", "1", "0") }, "per"),
        (TableRuleInput { sharing: text("local"), ..class("a", "1", "0") }, "sharing"),
        // A rule that is tried will be in the bucket one day.
        (TableRuleInput { rate: text("6"), state: text("shadow"), ..class("a", "1", "0") }, "rate"),
    ] {
        assert_eq!(differs(add(input).await), [(field, text("book"))]);
    }
    for input in [
        TableRuleInput { rate: text("6"), state: text("off"), ..class("off", "1", "0") },
        TableRuleInput { rate: text("6"), bucket: text("other"), ..class("other", "1", "0") },
        TableRuleInput { rate: text("6"), bucket: String::new(), ..class("alone", "1", "0") },
        TableRuleInput { on_store_failure: text("deny"), ..class("strict", "10", "10") },
    ] {
        let key = input.key.clone();
        assert!(add(input).await.is_ok(), "{key}");
    }
    // A change of one of them, by whichever way, meets the others.
    let edit = |key: &'static str, change: fn(&mut TableRuleInput)| {
        control.commit(move |tx| {
            let rule = rules::get(tx, &Actor::system(), "SIP_HOTEL", key)?;
            let mut input = rule.row.to_input();
            change(&mut input);
            rules::update(tx, &Actor::system(), "SIP_HOTEL", rule.etag, &input)
        })
    };
    assert_eq!(differs(edit("search", |it| it.rate = "7".to_owned()).await), [("rate", text("book"))]);
    assert_eq!(differs(edit("off", |it| it.state = "on".to_owned()).await), [("rate", text("book"))]);
    assert_eq!(differs(edit("other", |it| it.bucket = "backend".to_owned()).await), [("rate", text("book"))]);
    edit("search", |it| it.need_permits = "2".to_owned()).await.expect("costs may differ");
}
