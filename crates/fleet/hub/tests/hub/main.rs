//! The hub's side of the protocol, message by message.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod rollouts;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_hub::{
    Action, Event, Hub, HubSettings, KnownNode, Liveness, MissingApps, NodeState, Outgoing, Past, Prepared,
    SessionId,
};
use tollgate_fleet_proto::published::{AppDocuments, Candidate, Document, Published};
use tollgate_fleet_proto::reach::{Reach, Selector, WHOLE};
use tollgate_fleet_proto::{
    Ack, Fault, FromControl, FromNode, Held, Hello, LANGUAGE, Label, MAX_DOCUMENT_BYTES, MAX_LABELS,
    MAX_REPORT_ROWS, MAX_TEXT_BYTES, Nack, RejectedRequests, Report, RuleCounts, app_digest, text_digest,
};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const FIRST: SessionId = SessionId(1);

fn at(ms: u64) -> Timestamp {
    NOON + Duration::from_millis(ms)
}

fn app(app: &str, version: u64) -> AppDocuments {
    let documents = vec![Document::new(app, format!("{app} {version}"))];
    AppDocuments::new(app, version, documents)
}

fn held(app: &str, version: u64) -> Held {
    let digest = app_digest([(app, text_digest(&format!("{app} {version}")))]);
    Held { app: app.into(), version, sha256: digest.into() }
}

fn hello(node: &str) -> Hello {
    Hello { node: node.into(), incarnation: 1, epoch: "e".into(), ..Hello::default() }
}

fn in_zone(node: &str, zone: &str, versions: &[u64]) -> Hello {
    let labels = vec![Label { key: "zone".into(), value: zone.into() }];
    let held = versions.iter().map(|version| held("shop", *version)).collect();
    Hello { labels, held, ..hello(node) }
}

fn hub() -> Hub {
    Hub::new(HubSettings::new("e", "r"))
}

fn publish(hub: &mut Hub, apps: Vec<AppDocuments>) -> Vec<String> {
    let prepared = Prepared::new(&Published { apps }, &hub.published());
    let actions = hub.on(Event::Published(Arc::new(prepared)), NOON);
    sums_are_those_of_the_nodes(hub);
    shown(actions)
}

fn open(hub: &mut Hub, session: SessionId, hello: Hello) -> Vec<String> {
    assert!(hub.on(Event::Opened(session, "10.0.0.1:5".into()), NOON).is_empty());
    said(hub, session, FromNode::Hello(hello))
}

fn said(hub: &mut Hub, session: SessionId, says: FromNode) -> Vec<String> {
    let actions = hub.on(Event::Said(session, says), NOON);
    sums_are_those_of_the_nodes(hub);
    shown(actions)
}

/// Sums that are made without a copy of each node's state agree with the copies.
fn sums_are_those_of_the_nodes(hub: &Hub) {
    let nodes = hub.nodes(NOON);
    let number = |of: &dyn Fn(&NodeState) -> bool| nodes.iter().filter(|it| of(it)).count() as u64;
    let of = |liveness: Liveness| number(&|node| node.liveness == liveness);
    let counts = hub.node_counts(NOON);
    let [live, unresponsive, lost] = [Liveness::Live, Liveness::Unresponsive, Liveness::Lost].map(of);
    assert_eq!([counts.live, counts.unresponsive, counts.lost], [live, unresponsive, lost]);
    assert_eq!(counts.streams, number(&|node| node.connected));
    assert_eq!(counts.rejecting, number(&|node| node.apps.iter().any(|app| app.fault.is_some())));
    assert_eq!(counts.behind, number(&|node| node.apps.iter().any(|app| app.acked != app.wanted)));
    for name in nodes.iter().flat_map(|node| &node.apps).map(|app| &app.app) {
        let live = nodes.iter().filter(|node| node.connected && node.liveness == Liveness::Live);
        let ahead = live.flat_map(|node| &node.apps).filter(|app| app.app == *name && app.is_ahead);
        let ahead: Vec<_> = ahead.filter_map(|app| app.acked).collect();
        assert_eq!(hub.nodes_ahead(name, NOON), ahead, "{name}");
    }
}

/// The actions in short words, without what is being rolled out.
fn shown(actions: Vec<Action>) -> Vec<String> {
    let mut all = all_shown(actions);
    all.retain(|it| !it.starts_with("rolled out"));
    all
}

fn all_shown(actions: Vec<Action>) -> Vec<String> {
    let message = |says: FromControl| match says {
        FromControl::Welcome(_) => "welcome".to_owned(),
        FromControl::Begin(begin) => {
            let apps = begin.apps.iter().map(|app| format!("{} {}", app.app, app.version));
            let removed = begin.removed.iter().map(|app| format!("-{app}"));
            let full = if begin.full { "full" } else { "delta" };
            let what: Vec<_> = apps.chain(removed).collect();
            format!("{full} {}: {}", begin.bundle, what.join(", "))
        }
        FromControl::GoAway(_) => "go away".to_owned(),
        FromControl::Seen(seen) => format!("seen {}", seen.sequence),
        FromControl::Candidates(all) => {
            let apps: Vec<_> = all.apps.iter().map(|it| format!("{} {}", it.app, it.version)).collect();
            format!("rolled out: {}", apps.join(", "))
        }
        other => format!("{other:?}"),
    };
    let begins = |outgoing: Outgoing| outgoing.messages().take(1);
    let mut shown = Vec::new();
    for action in actions {
        match action {
            Action::Send(_, outgoing) => shown.extend(begins(outgoing).map(message)),
            Action::Close(session, why) => shown.push(format!("close {}: {why}", session.0)),
            Action::Store { incarnation, report, .. } => {
                shown.push(format!("store {incarnation}/{}", report.sequence));
            }
            Action::Replied { node, reply, .. } => shown.push(format!("{node} answers {}", reply.command)),
            Action::Bind { node, .. } => shown.push(format!("bind {node}")),
            Action::Claimed { node, address } => shown.push(format!("{node} claimed from {address}")),
        }
    }
    shown
}

#[test]
fn a_domain_of_a_nodes_own_files_is_known_until_the_node_is_removed() {
    let mut hub = hub();
    assert!(!hub.has_local("own"));
    open(&mut hub, FIRST, Hello { local_domains: vec!["other".into(), "own".into()], ..hello("n") });
    open(&mut hub, SessionId(2), hello("m"));
    assert!(hub.has_local("own") && hub.has_local("other") && !hub.has_local("ow"));
    hub.on(Event::Closed(FIRST), at(1));
    assert!(hub.has_local("own"), "it is down, and still known");
    hub.remove("n");
    assert!(!hub.has_local("own"));
}

#[test]
fn a_node_gets_what_it_lacks_and_nothing_that_it_has() {
    let mut hub = hub();
    publish(&mut hub, vec![app("hotel", 3), app("shop", 7)]);
    let has = Hello { held: vec![held("hotel", 3), held("old", 2)], ..hello("n") };
    assert_eq!(open(&mut hub, FIRST, has), ["welcome", "delta 1: shop 7, -old"]);
    assert_eq!(publish(&mut hub, vec![app("hotel", 4), app("shop", 7)]), [""; 0], "one bundle at a time");
    let ack = Ack { bundle: 1, held: vec![held("hotel", 3), held("shop", 7)] };
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(ack)), ["delta 2: hotel 4"]);
    let ack = Ack { bundle: 2, held: vec![held("hotel", 4), held("shop", 7)] };
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(ack.clone())), [""; 0]);
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(ack)), [""; 0], "an answer to nothing");
    let node = &hub.nodes(NOON)[0];
    assert!(node.apps.iter().all(|app| app.wanted == app.acked && app.fault.is_none()), "{node:?}");
}

#[test]
fn a_rejected_version_is_not_sent_again_until_there_is_a_newer_one_or_its_domain_is_free() {
    let mut hub = hub();
    publish(&mut hub, vec![app("hotel", 1), app("shop", 1)]);
    open(&mut hub, FIRST, hello("n"));
    let fault = Fault { app: "hotel".into(), version: 1, message: "is bad".into(), ..Fault::default() };
    let nack = Nack { bundle: 1, faults: vec![fault], held: vec![held("shop", 1)] };
    assert_eq!(said(&mut hub, FIRST, FromNode::Nack(nack)), [""; 0]);
    let shown = hub.nodes(NOON)[0].apps[0].fault.clone().expect("a fault");
    assert_eq!((shown.app.as_str(), shown.message.as_str()), ("hotel", "is bad"));
    assert_eq!(publish(&mut hub, vec![app("hotel", 1), app("shop", 2)]), ["delta 2: shop 2"]);
    let ack = Ack { bundle: 2, held: vec![held("shop", 2)] };
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(ack)), [""; 0]);
    assert_eq!(publish(&mut hub, vec![app("hotel", 2), app("shop", 2)]), ["delta 3: hotel 2"]);
    let fault = Fault { app: "hotel".into(), version: 2, message: "clashes".into(), ..Fault::default() };
    let nack = Nack { bundle: 3, faults: vec![fault], held: vec![held("shop", 2)] };
    said(&mut hub, FIRST, FromNode::Nack(nack));
    let freed = publish(&mut hub, vec![app("hotel", 2)]);
    assert_eq!(freed, ["delta 4: hotel 2, -shop"], "the domain of shop is free");
}

#[test]
fn a_database_older_than_the_node_changes_nothing_and_is_shown() {
    let mut hub = hub();
    publish(&mut hub, vec![app("shop", 3)]);
    let ahead = Hello { held: vec![held("shop", 5)], ..hello("n") };
    assert_eq!(open(&mut hub, FIRST, ahead), ["welcome"]);
    let fault = hub.nodes(NOON)[0].apps[0].fault.clone().expect("a fault");
    assert_eq!(fault.message, "the node holds version 5, newer than version 3 of this database");
    let mut other = held("shop", 4);
    other.sha256 = vec![9; 32];
    publish(&mut hub, vec![app("shop", 4)]);
    let forked = Hello { held: vec![other], ..hello("m") };
    assert_eq!(open(&mut hub, SessionId(2), forked), ["welcome"], "the same version with other content");
    assert_eq!(publish(&mut hub, vec![app("shop", 6)]), [""; 0], "its versions overtake those of the nodes");
    let forced = publish(&mut hub, vec![AppDocuments { forced: 7, ..app("shop", 7) }]);
    assert_eq!(forced, ["delta 1: shop 7", "delta 2: shop 7"], "an admin says so");
}

#[test]
fn another_database_replaces_everything_unless_it_is_empty() {
    let mut hub = hub();
    let other = Hello { epoch: "before".into(), held: vec![held("shop", 9)], ..hello("n") };
    assert_eq!(open(&mut hub, FIRST, other), ["welcome"], "an empty database takes nothing away");
    assert_eq!(publish(&mut hub, vec![app("hotel", 1)]), ["full 1: hotel 1"]);
}

/// A hub whose apps are never removed, as those of the control plane.
fn keeping(past: Past) -> Hub {
    Hub::new(HubSettings { missing_apps: MissingApps::Kept, past, ..HubSettings::new("e", "r") })
}

#[test]
fn another_database_takes_no_app_away_until_an_admin_says_so() {
    let mut hub = keeping(Past::default());
    let other = Hello { epoch: "before".into(), held: vec![held("hotel", 3), held("shop", 9)], ..hello("n") };
    assert_eq!(open(&mut hub, FIRST, other), ["welcome"]);
    let ahead = |hub: &Hub, name: &str| hub.nodes_ahead(name, NOON);
    assert_eq!((ahead(&hub, "shop"), ahead(&hub, "hotel")), (vec![9], vec![3]));
    // A further app is added, and an app of the same name does not replace the one on the node.
    assert_eq!(publish(&mut hub, vec![app("fresh", 1), app("hotel", 1)]), ["delta 1: fresh 1"]);
    // The node moves to this database: the versions of its own count as 0.
    let kept = |name: &str| Held { version: 0, ..held(name, 0) };
    let ack = Ack { bundle: 1, held: vec![held("fresh", 1), kept("hotel"), kept("shop")] };
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(ack)), [""; 0]);
    assert_eq!(publish(&mut hub, vec![app("fresh", 1), app("hotel", 50)]), [""; 0]);
    assert_eq!((ahead(&hub, "shop"), ahead(&hub, "hotel")), (vec![0], vec![0]));
    assert_eq!(ahead(&hub, "fresh"), []);
    let forced = AppDocuments { forced: 51, ..app("hotel", 51) };
    let sent = publish(&mut hub, vec![app("fresh", 1), forced]);
    assert_eq!(sent, ["delta 2: hotel 51"]);
    assert_eq!(ahead(&hub, "hotel"), [], "it is about to be replaced");
}

#[test]
fn what_the_database_never_published_is_not_replaced_when_its_versions_overtake() {
    let digest = |version| app_digest([("shop", text_digest(&format!("shop {version}")))]);
    for (version, is_ours, forced, is_sent) in [
        (2, true, 0, true),
        (2, false, 0, false),
        (3, true, 0, true),
        (3, false, 0, false),
        (3, false, 3, false), // the admin's word was for versions below 3
        (3, false, 4, true),
        (2, false, 5, true),
    ] {
        let mut past = Past::of_database();
        (1..=4).for_each(|version| past.add("shop", version, &digest(version)));
        let mut hub = keeping(past);
        let sha256 = if is_ours { digest(version).to_vec() } else { vec![9; 32] };
        let held = Held { sha256, ..held("shop", version) };
        open(&mut hub, FIRST, Hello { held: vec![held], ..hello("n") });
        let sent = publish(&mut hub, vec![AppDocuments { forced, ..app("shop", 5) }]);
        let want: &[&str] = if is_sent { &["delta 1: shop 5"] } else { &[] };
        assert_eq!(sent, want, "{version} {is_ours} {forced}");
        let ahead = hub.nodes_ahead("shop", NOON);
        assert_eq!(ahead.len(), usize::from(!is_sent), "{version} {is_ours} {forced}");
        assert_eq!(hub.nodes_in_force(NOON).0, 0, "the node does not have version 5 yet");
    }
}

/// The apps of an acknowledgement are read in one walk where they are in order.
#[test]
fn an_acknowledgement_counts_alike_in_every_order_and_with_apps_that_are_named_twice() {
    let orders: [&[&str]; 6] = [
        &["a", "b", "c", "d"],
        &["d", "c", "b", "a"],
        &["b", "a", "d", "c"],
        &["c", "c", "a", "b", "d", "a"],
        &["b", "z", "a", "c", "0", "d"], // two that it was not sent
        &["d", "d", "d", "a", "b", "c", "c"],
    ];
    for order in orders {
        let mut past = Past::of_database();
        for name in ["a", "b", "c", "d"] {
            let digest = |version| app_digest([(name, text_digest(&format!("{name} {version}")))]);
            [1, 2].into_iter().for_each(|version| past.add(name, version, &digest(version)));
        }
        let mut hub = keeping(past);
        publish(&mut hub, ["a", "b", "c", "d"].map(|it| app(it, 1)).into());
        open(&mut hub, FIRST, hello("n"));
        for version in [1, 2] {
            // The node holds version 2 of `c` with other content, which was never published.
            let of = |name: &&str| match (*name, version) {
                ("c", 2) => Held { sha256: held("b", 2).sha256, ..held("c", 2) },
                _ => held(name, version),
            };
            let all = order.iter().map(of).collect();
            said(&mut hub, FIRST, FromNode::Ack(Ack { bundle: version, held: all }));
            if version == 1 {
                publish(&mut hub, ["a", "b", "c", "d"].map(|it| app(it, 2)).into());
            }
        }
        let nodes = hub.nodes(NOON);
        let of =
            |name: &str| nodes[0].apps.iter().find(|it| &*it.app == name).map(|it| (it.acked, it.is_ahead));
        let seen = ["a", "b", "c", "d"].map(of);
        let fine = Some((Some(2), false));
        assert_eq!(seen, [fine, fine, Some((Some(2), true)), fine], "{order:?}");
        let sent = publish(&mut hub, ["a", "b", "c", "d"].map(|it| app(it, 3)).into());
        assert_eq!(sent, ["delta 3: a 3, b 3, d 3"], "{order:?}");
    }
}

#[test]
fn hellos_are_metered_and_another_stream_of_a_node_replaces_the_first() {
    let mut hub = hub();
    let mut sent_away = 0;
    for node in 0..250_u64 {
        hub.on(Event::Opened(SessionId(node), format!("10.0.1.{node}:5").into()), NOON);
        let done = said(&mut hub, SessionId(node), FromNode::Hello(hello(&node.to_string())));
        sent_away += u32::from(done[0] == "go away");
    }
    assert_eq!(sent_away, 70, "nodes with one token have nine tenths of 200");
    hub.on(Event::Opened(SessionId(500), "".into()), at(1_000));
    let again = hub.on(Event::Said(SessionId(500), FromNode::Hello(hello("7"))), at(1_000));
    assert_eq!(shown(again), ["close 7: the node has opened another stream", "welcome"]);
    assert!(hub.on(Event::Closed(SessionId(7)), at(1_001)).is_empty());
    assert!(hub.nodes(at(1_001)).iter().all(|node| node.connected), "the late end of the first is ignored");
    hub.on(Event::Opened(SessionId(501), "".into()), at(2_000));
    let older = Hello { incarnation: 0, ..hello("7") };
    let older = shown(hub.on(Event::Said(SessionId(501), FromNode::Hello(older)), at(2_000)));
    assert_eq!(older[0], "go away", "an older process of that node");
}

#[test]
fn silence_is_shown_after_15_s_and_ends_the_stream_after_60_s() {
    let mut hub = hub();
    open(&mut hub, FIRST, hello("n"));
    hub.on(Event::Opened(SessionId(2), "".into()), NOON);
    for (ms, want, closed) in [
        (10_000, Liveness::Live, 0),
        (10_001, Liveness::Live, 1), // no Hello
        (15_000, Liveness::Live, 0),
        (15_001, Liveness::Unresponsive, 0),
        (60_000, Liveness::Unresponsive, 0),
        (60_001, Liveness::Lost, 1),
    ] {
        assert_eq!(hub.on(Event::Tick, at(ms)).len(), closed, "{ms} ms");
        assert_eq!(hub.nodes(at(ms))[0].liveness, want, "{ms} ms");
    }
    assert!(!hub.nodes(at(60_001))[0].connected);
}

#[test]
fn a_report_is_confirmed_once_it_is_stored() {
    let mut hub = hub();
    open(&mut hub, FIRST, hello("n"));
    let report = Report { sequence: 4, wall_ms: 1_700_003_600_000, ..Report::default() };
    assert_eq!(said(&mut hub, FIRST, FromNode::Report(report)), ["store 1/4"]);
    assert_eq!(hub.nodes(NOON)[0].skew_ms, 3_600_000);
    assert_eq!(shown(hub.on(Event::Stored(FIRST, 4), NOON)), ["seen 4"]);
    let failed = shown(hub.on(Event::NotStored(FIRST), NOON));
    assert_eq!(failed, ["go away", "close 1: reports are not stored"]);
    assert!(hub.on(Event::Stored(FIRST, 5), NOON).is_empty(), "the stream is closed");
}

#[test]
fn a_full_fleet_takes_a_new_node_only_in_the_place_of_a_lost_one() {
    let mut hub = Hub::new(HubSettings { max_nodes: 1, ..HubSettings::new("e", "r") });
    open(&mut hub, FIRST, hello("n"));
    assert_eq!(open(&mut hub, SessionId(2), hello("m"))[0], "go away");
    hub.on(Event::Tick, at(61_000));
    hub.on(Event::Opened(SessionId(3), "".into()), at(61_000));
    let taken = hub.on(Event::Said(SessionId(3), FromNode::Hello(hello("m"))), at(61_000));
    assert_eq!(shown(taken), ["welcome"]);
    assert_eq!(hub.nodes(NOON).iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["m"]);
}

#[test]
fn each_bound_holds_from_both_sides() {
    let text = |bytes| "x".repeat(bytes);
    let label = || Label { key: "k".into(), value: "v".into() };
    let hellos = [
        (Hello { name: text(MAX_TEXT_BYTES), ..hello("n") }, true),
        (Hello { name: text(MAX_TEXT_BYTES + 1), ..hello("n") }, false),
        (Hello { labels: vec![label(); MAX_LABELS], ..hello("n") }, true),
        (Hello { labels: vec![label(); MAX_LABELS + 1], ..hello("n") }, false),
        (Hello { held: vec![held("a", 1); 10_001], ..hello("n") }, false),
        (hello(""), false),
    ];
    for (hello, is_good) in hellos {
        assert_eq!(open(&mut hub(), FIRST, hello)[0] == "welcome", is_good);
    }
    let rows = |count| Report { sequence: 1, rules: vec![RuleCounts::default(); count], ..Report::default() };
    let name = |bytes| Report { sequence: 1, state_error: text(bytes), ..Report::default() };
    let rejected = |count, bytes| {
        let row = RejectedRequests { reason: text(bytes), ..RejectedRequests::default() };
        Report { sequence: 1, rejected: vec![row; count], ..Report::default() }
    };
    let reports = [
        (rows(MAX_REPORT_ROWS), true),
        (rows(MAX_REPORT_ROWS + 1), false),
        (name(8 << 10), true),
        (name((8 << 10) + 1), false),
        (rejected(MAX_REPORT_ROWS, 1), true),
        (rejected(MAX_REPORT_ROWS + 1, 1), false),
        (rejected(1, 8 << 10), true),
        (rejected(1, (8 << 10) + 1), false),
        (Report::default(), false),
    ];
    for (report, is_good) in reports {
        let mut hub = hub();
        open(&mut hub, FIRST, hello("n"));
        assert_eq!(said(&mut hub, FIRST, FromNode::Report(report))[0].starts_with("store"), is_good);
    }
    for (bytes, is_good) in [(MAX_DOCUMENT_BYTES, true), (MAX_DOCUMENT_BYTES + 1, false)] {
        let mut hub = hub();
        open(&mut hub, FIRST, hello("n"));
        let documents = vec![Document::new("d", text(bytes))];
        let sent = publish(&mut hub, vec![AppDocuments::new("a", 1, documents)]);
        assert_eq!(sent.len(), usize::from(is_good), "{bytes} bytes");
    }
    let mut hub = hub();
    assert_eq!(open(&mut hub, FIRST, hello("n")), ["welcome"]);
    assert_eq!(said(&mut hub, FIRST, FromNode::Hello(hello("n"))), ["close 1: a second Hello"]);
    hub.on(Event::Opened(SessionId(2), "".into()), NOON);
    let early = said(&mut hub, SessionId(2), FromNode::Report(Report::default()));
    assert_eq!(early, ["close 2: a message before Hello"]);
}

#[test]
fn a_node_that_acknowledges_without_holding_gets_nothing_twice() {
    let mut hub = hub();
    publish(&mut hub, vec![app("shop", 1)]);
    assert_eq!(open(&mut hub, FIRST, hello("n")), ["welcome", "delta 1: shop 1"]);
    assert_eq!(said(&mut hub, FIRST, FromNode::Ack(Ack { bundle: 1, held: Vec::new() })), [""; 0]);
    let fault = hub.nodes(NOON)[0].apps[0].fault.clone().expect("a fault");
    assert_eq!(fault.message, "the node acknowledged this version and does not hold it");
}

#[test]
fn an_id_belongs_to_the_node_that_has_its_secret_also_after_a_restart_of_the_control_plane() {
    let with = |secret: &[u8]| Hello { secret: secret.to_vec(), ..hello("n") };
    let mut hub = hub();
    // A node of an older release works, and so does the same node once it has a secret.
    assert_eq!(open(&mut hub, FIRST, with(b"")), ["welcome"]);
    open(&mut hub, SessionId(2), with(b"own"));
    said(&mut hub, SessionId(2), FromNode::Report(Report { sequence: 1, ..Report::default() }));
    // Kept for good once a report of it is stored.
    let actions = hub.on(Event::Stored(SessionId(2), 1), NOON);
    let bound: Vec<_> = actions
        .iter()
        .filter_map(|it| match it {
            Action::Bind { node, sha256 } => Some((node.clone(), *sha256)),
            _ => None,
        })
        .collect();
    assert_eq!(bound.len(), 1, "{actions:?}");
    assert_eq!(hub.nodes_bound(), 1);
    // A client with the token and the id, but without the secret, is sent away, and the node's stream stays.
    for (session, secret) in [(3, &b"other"[..]), (4, b"")] {
        let said = open(&mut hub, SessionId(session), with(secret));
        assert_eq!(said[..2], ["n claimed from 10.0.0.1:5", "go away"], "{said:?}");
        assert!(said[2].contains("another node has this id and another secret"), "{said:?}");
    }
    let node = &hub.nodes(NOON)[0];
    assert!(node.connected && node.claim.as_ref().is_some_and(|it| it.address == "10.0.0.1:5"), "{node:?}");
    let report = FromNode::Report(Report { sequence: 2, ..Report::default() });
    assert_eq!(said(&mut hub, SessionId(2), report), ["store 1/2"]);

    let settings = HubSettings { bindings: bound.into_iter().collect(), ..HubSettings::new("e", "r") };
    let mut hub = Hub::new(settings);
    assert_eq!(open(&mut hub, FIRST, with(b"other"))[1], "go away");
    assert_eq!(open(&mut hub, SessionId(2), with(b"own")), ["welcome"]);
}

#[test]
fn a_node_is_not_sent_what_it_cannot_read_and_gets_it_once_it_is_upgraded() {
    let level = |text: &str| if text.contains("new") { LANGUAGE } else { 1 };
    let mut hub = Hub::new(HubSettings { level, ..HubSettings::new("e", "r") });
    let app_of = |version, text: &str| AppDocuments::new("shop", version, vec![Document::new("shop", text)]);
    let held_of = |version, text: &str| Held {
        app: "shop".into(),
        version,
        sha256: app_digest([("shop", text_digest(text))]).into(),
    };
    publish(&mut hub, vec![app_of(1, "old")]);
    let old = Hello { language: LANGUAGE - 1, held: vec![held_of(1, "old")], ..hello("old") };
    let new = Hello { language: LANGUAGE, held: vec![held_of(1, "old")], ..hello("new") };
    assert_eq!(open(&mut hub, FIRST, old.clone()), ["welcome"]);
    assert_eq!(open(&mut hub, SessionId(2), new), ["welcome"]);
    assert_eq!(hub.nodes_below(LANGUAGE, NOON).len(), 1);
    assert_eq!(publish(&mut hub, vec![app_of(2, "new")]), ["delta 1: shop 2"], "one node gets it");
    let state = |hub: &Hub| hub.nodes(NOON).into_iter().find(|it| it.id == "old").expect("known");
    let of_old = state(&hub);
    let fault = of_old.apps[0].fault.as_ref().expect("it is listed");
    assert_eq!((fault.version, of_old.apps[0].acked), (2, Some(1)));
    assert!(fault.message.contains("keeps the version that it has"), "{fault:?}");
    // The node gets a version that it can read again, and its fault is gone.
    assert_eq!(publish(&mut hub, vec![app_of(3, "old 3")]), ["delta 2: shop 3"]);
    let ack = Ack { bundle: 2, held: vec![held_of(3, "old 3")] };
    said(&mut hub, FIRST, FromNode::Ack(ack));
    assert_eq!(state(&hub).apps[0].fault, None);
    // Also a node without anything is not sent it.
    publish(&mut hub, vec![app_of(4, "new 4")]);
    let fresh = Hello { epoch: String::new(), language: LANGUAGE - 1, ..hello("fresh") };
    assert_eq!(open(&mut hub, SessionId(3), fresh), ["welcome", "full 3: "]);
    // Upgraded, it comes with another Hello.
    let upgraded = Hello { language: LANGUAGE, held: vec![held_of(3, "old 3")], ..old };
    let said = open(&mut hub, SessionId(4), upgraded);
    assert_eq!(said.last().map(String::as_str), Some("delta 4: shop 4"), "{said:?}");
}

#[test]
fn a_known_node_is_shown_before_it_attaches_and_is_gone_when_it_is_forgotten() {
    let known =
        |id: &str| KnownNode { id: id.into(), name: id.into(), last_seen: NOON, ..KnownNode::default() };
    let mut settings = HubSettings::new("e", "r");
    settings.known = vec![known("a"), known("b")];
    let mut hub = Hub::new(settings);
    publish(&mut hub, vec![app("shop", 1)]);
    let later = NOON + Duration::from_secs(60);
    assert_eq!(hub.nodes_in_force(NOON), (0, 2, 0), "what they hold is not known");
    assert_eq!(hub.nodes_in_force(later), (0, 0, 2));
    open(&mut hub, FIRST, in_zone("a", "a", &[1]));
    assert_eq!(hub.nodes_in_force(NOON), (1, 2, 0));
    assert_eq!(all_shown(hub.remove("b")), [""; 0]);
    assert_eq!(hub.nodes_in_force(NOON), (1, 1, 0));
    let closed = all_shown(hub.remove("a"));
    assert_eq!(closed, ["close 1: an operator has removed this node"]);
    assert_eq!((hub.nodes_in_force(NOON), hub.nodes_known()), ((0, 0, 0), 0));
}
