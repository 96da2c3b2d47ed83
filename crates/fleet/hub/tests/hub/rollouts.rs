//! Versions that are rolled out: who gets the candidate, and who the version before.

use super::*;

/// Version `stable` of an app, and the next one for the nodes in zone a.
fn rolling(name: &str, stable: u64) -> AppDocuments {
    let documents = app(name, stable + 1).documents;
    let selectors = vec![Selector { key: "zone".into(), values: vec!["a".into()] }];
    let reach = Reach { rollout: "r".into(), share: 0, selectors };
    let candidate = Some(Box::new(Candidate { version: stable + 1, documents, step: 0, reach }));
    let before = if stable == 0 { Vec::new() } else { app(name, stable).documents };
    AppDocuments { candidate, ..AppDocuments::new(name, stable, before) }
}

fn to_all(mut documents: AppDocuments) -> AppDocuments {
    if let Some(candidate) = &mut documents.candidate {
        (candidate.step, candidate.reach.share) = (1, WHOLE);
    }
    documents
}

#[test]
fn a_candidate_reaches_the_chosen_nodes_and_the_others_keep_the_version_before() {
    let mut hub = hub();
    publish(&mut hub, vec![rolling("shop", 1)]);
    assert_eq!(open(&mut hub, FIRST, in_zone("a", "a", &[1])), ["welcome", "delta 1: shop 2"]);
    assert_eq!(open(&mut hub, SessionId(2), in_zone("b", "b", &[1])), ["welcome"]);
    assert_eq!(open(&mut hub, SessionId(3), in_zone("new", "b", &[])), ["welcome", "delta 2: shop 1"]);
    let wanted: Vec<_> = hub.nodes(NOON).iter().map(|node| node.apps[0].wanted).collect();
    assert_eq!(wanted, [Some(2), Some(1), Some(1)]);
    let grown = publish(&mut hub, vec![to_all(rolling("shop", 1))]);
    assert_eq!(grown, ["delta 3: shop 2"], "the others have yet to answer");
    let ack = Ack { bundle: 2, held: vec![held("shop", 1)] };
    assert_eq!(said(&mut hub, SessionId(3), FromNode::Ack(ack)), ["delta 4: shop 2"]);
}

#[test]
fn nodes_are_told_what_is_rolled_out_when_they_attach_and_when_it_changes() {
    let publish = |hub: &mut Hub, apps| {
        let prepared = Prepared::new(&Published { apps }, &hub.published());
        all_shown(hub.on(Event::Published(Arc::new(prepared)), NOON))
    };
    let open = |hub: &mut Hub, session, hello| {
        hub.on(Event::Opened(session, "10.0.0.1:5".into()), NOON);
        all_shown(hub.on(Event::Said(session, FromNode::Hello(hello)), NOON))
    };
    let mut hub = hub();
    publish(&mut hub, vec![app("shop", 1)]);
    assert_eq!(open(&mut hub, FIRST, in_zone("b", "b", &[1])), ["welcome"], "nothing is rolled out");
    assert_eq!(publish(&mut hub, vec![rolling("shop", 1)]), ["rolled out: shop 2"]);
    let second = open(&mut hub, SessionId(2), in_zone("c", "b", &[1]));
    assert_eq!(second, ["welcome", "rolled out: shop 2"]);
    assert_eq!(publish(&mut hub, vec![rolling("shop", 1)]), [""; 0], "nothing has changed");
    let ended = publish(&mut hub, vec![app("shop", 2)]);
    assert_eq!(&ended[..2], ["rolled out: ", "rolled out: "], "{ended:?}");
}

#[test]
fn the_first_version_of_an_app_reaches_the_chosen_nodes_alone() {
    let mut hub = hub();
    publish(&mut hub, vec![rolling("shop", 0)]);
    assert_eq!(open(&mut hub, FIRST, in_zone("a", "a", &[])), ["welcome", "delta 1: shop 1"]);
    assert_eq!(open(&mut hub, SessionId(2), in_zone("b", "b", &[])), ["welcome"]);
    assert_eq!(hub.nodes(NOON)[1].apps[0].wanted, None);
}

#[test]
fn a_node_that_holds_the_candidate_keeps_it_when_its_labels_change() {
    let mut hub = hub();
    publish(&mut hub, vec![rolling("shop", 1)]);
    let moved = Hello { incarnation: 2, ..in_zone("a", "b", &[2]) };
    assert_eq!(open(&mut hub, FIRST, moved), ["welcome"]);
    let shown = &hub.nodes(NOON)[0].apps[0];
    assert_eq!((shown.wanted, shown.is_ahead, &shown.fault), (Some(2), false, &None));
    let withdrawn = publish(&mut hub, vec![app("shop", 3)]);
    assert_eq!(withdrawn, ["delta 1: shop 3"], "the outcome is a new version, never an older one");
}

#[test]
fn a_node_that_rejects_the_candidate_has_the_version_before() {
    for held_before in [&[1][..], &[]] {
        let mut hub = hub();
        publish(&mut hub, vec![rolling("shop", 1)]);
        assert_eq!(open(&mut hub, FIRST, in_zone("a", "a", held_before)), ["welcome", "delta 1: shop 2"]);
        let reject = |bundle, version, is_held: &[u64]| {
            let fault = Fault { app: "shop".into(), version, message: "is bad".into(), ..Fault::default() };
            let held = is_held.iter().map(|version| held("shop", *version)).collect();
            FromNode::Nack(Nack { bundle, faults: vec![fault], held })
        };
        let sent = said(&mut hub, FIRST, reject(1, 2, held_before));
        if held_before.is_empty() {
            assert_eq!(sent, ["delta 2: shop 1"], "a node without the app gets the version before");
            assert_eq!(said(&mut hub, FIRST, reject(2, 1, &[])), [""; 0], "nothing is sent twice");
        } else {
            assert_eq!(sent, [""; 0]);
        }
        let shown = hub.nodes(NOON)[0].apps[0].clone();
        assert_eq!((shown.wanted, shown.fault.expect("a fault").version), (Some(2), 2));
        let next = publish(&mut hub, vec![to_all(rolling("shop", 1))]);
        assert_eq!(next, [""; 0], "the next step sends nothing that was rejected");
        assert!(publish(&mut hub, vec![app("shop", 3)])[0].ends_with("shop 3"));
    }
}

#[test]
fn a_rollout_of_one_app_does_not_hold_up_another() {
    let mut hub = hub();
    publish(&mut hub, vec![app("hotel", 1), rolling("shop", 1)]);
    let has = Hello { held: vec![held("hotel", 1), held("shop", 1)], ..in_zone("b", "b", &[]) };
    open(&mut hub, FIRST, has);
    assert_eq!(publish(&mut hub, vec![app("hotel", 2), rolling("shop", 1)]), ["delta 1: hotel 2"]);
}

#[test]
fn a_candidate_that_is_not_newer_is_not_sent() {
    let mut hub = hub();
    publish(&mut hub, vec![app("shop", 2)]);
    let mut wrong = rolling("shop", 1);
    wrong.version = 3;
    let prepared = Prepared::new(&Published { apps: vec![wrong] }, &hub.published());
    hub.on(Event::Published(Arc::new(prepared)), NOON);
    assert_eq!(open(&mut hub, FIRST, in_zone("a", "a", &[])), ["welcome", "delta 1: shop 2"]);
}

#[test]
fn a_node_that_cannot_read_a_candidate_has_the_version_before() {
    let level = |text: &str| if text.contains('2') { LANGUAGE } else { 1 };
    for held_before in [&[1][..], &[]] {
        let mut hub = Hub::new(HubSettings { level, ..HubSettings::new("e", "r") });
        publish(&mut hub, vec![rolling("shop", 1)]);
        let old = Hello { language: LANGUAGE - 1, ..in_zone("a", "a", held_before) };
        let sent = open(&mut hub, FIRST, old);
        match held_before {
            [] => assert_eq!(sent, ["welcome", "delta 1: shop 1"]),
            _ => assert_eq!(sent, ["welcome"]),
        }
        let shown = hub.nodes(NOON)[0].apps[0].clone();
        assert_eq!((shown.wanted, shown.fault.expect("a fault").version), (Some(2), 2));
    }
}

#[test]
fn a_chosen_node_that_holds_the_rules_of_another_database_is_ahead_although_they_are_those_of_all_nodes() {
    let mut hub = keeping(Past::default());
    publish(&mut hub, vec![rolling("shop", 1)]);
    let other = Hello { epoch: "before".into(), ..in_zone("n", "a", &[1]) };
    assert_eq!(open(&mut hub, FIRST, other), ["welcome"], "it keeps them, so it does not get the candidate");
    assert_eq!(hub.nodes_ahead("shop", NOON), [1]);
}
