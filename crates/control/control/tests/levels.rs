//! Nodes that are too old for a publication: it is rejected with their names, unless the author leaves them.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_control::changes::OpInput;
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, ControlError, NodeState, OldNodes, rules, versions};
use tollgate_harness::ControlPlane;
use tollgate_harness::rules::{limit, publish, put_file};

fn node(name: &str, language: u32, last_seen_ms: i64) -> NodeState {
    NodeState { id: name.to_owned(), name: name.to_owned(), language, last_seen_ms, ..NodeState::default() }
}

fn row(key: &str, need_permits: &str, bucket: &str) -> TableRuleInput {
    let need_permits = need_permits.to_owned();
    TableRuleInput { need_permits, bucket: bucket.to_owned(), ..limit(key, 1) }
}

fn file(domain: &str, limit: &str) -> [OpInput; 1] {
    let text = format!("domain: {domain}\ndescriptors:\n  - {{key: a, {limit}}}\n");
    [put_file(domain, None, &text).expect("a file")]
}

/// The level that it needs, and the nodes that cannot read it.
fn old<T>(result: Result<T, ControlError>) -> Option<(u32, Vec<String>)> {
    match result {
        Ok(_) => None,
        Err(ControlError::OldNodes { level, nodes }) => Some((level, nodes)),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_publication_that_a_live_node_cannot_read_is_rejected_with_its_name() {
    let control = ControlPlane::start().await;
    let now = control.now_ms();
    for node in
        [node("new", 2, now), node("old-1", 1, now), node("old-2", 1, now), node("gone", 1, now - 60_000)]
    {
        assert!(control.nodes.report(node));
    }
    let add = |input: TableRuleInput, old_nodes| {
        control.commit_beside(old_nodes, move |tx| rules::create(tx, &Actor::system(), "shop", &input))
    };
    let put = async |file: [OpInput; 1]| publish(&control, "shop", &file).await;
    let both = || Some((2, vec!["old-1".to_owned(), "old-2".to_owned()]));
    assert_eq!(old(add(row("plain", "1", ""), OldNodes::Reject).await), None, "every node reads level 1");
    assert_eq!(old(add(row("costly", "2", ""), OldNodes::Reject).await), both());
    assert_eq!(old(add(row("shared", "1", "all"), OldNodes::Reject).await), both());
    let trial_rate = "5".to_owned();
    let trial_max_permits = "20".to_owned();
    let tried = TableRuleInput { trial_rate, trial_max_permits, ..row("tried", "1", "") };
    assert_eq!(old(add(tried, OldNodes::Reject).await), both());
    assert_eq!(old(put(file("cost", "rate_limit: {rate: 1/s}")).await), None, "the word alone is no key");
    let shadow = "limits: [{name: a, rate: 1/s}, {name: b, rate: 2/s, shadow: true}]";
    assert_eq!(old(put(file("other", shadow)).await), both());
    // Nothing of what was rejected is there.
    let keys = control.read(|tx| rules::keys(tx, &Actor::system(), "shop")).await.expect("an app");
    assert_eq!(keys, ["plain"]);
    let version = control.published().borrow().apps[0].version;

    // The author leaves them.
    assert_eq!(old(add(row("costly", "2", ""), OldNodes::Leave).await), None);
    assert!(control.published().borrow().apps[0].version > version);
    // A later publication of the same app asks again, and so does a rollback to these rules.
    assert_eq!(old(add(row("later", "1", ""), OldNodes::Reject).await), both());
    let roll = |to: i64, old_nodes| {
        control.commit_beside(old_nodes, move |tx| {
            let app =
                tollgate_control::apps::get(tx, &Actor::system(), tollgate_control::Role::Viewer, "shop")?;
            versions::rollback(tx, &Actor::system(), "shop", app.version, to, "back")
        })
    };
    let with_cost = control.published().borrow().apps[0].version.cast_signed();
    assert_eq!(old(roll(1, OldNodes::Reject).await), None, "what they can read");
    assert_eq!(old(roll(with_cost, OldNodes::Reject).await), both());
    // As soon as they are gone or upgraded, nothing is asked.
    control.nodes.report(node("old-1", 2, now));
    control.nodes.report(node("old-2", 1, now - 60_000));
    assert_eq!(old(roll(with_cost, OldNodes::Reject).await), None);
}

/// The level in a node's `Hello` and the level of this release's parser are one number.
#[test]
fn the_level_in_a_hello_is_that_of_the_parser() {
    assert_eq!(tollgate_fleet_proto::LANGUAGE, tollgate_rule_files::LANGUAGE);
}
