//! One holder of the token of all nodes attaches as many nodes: the effect on the others.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_hub::{Action, Event, Hub, HubSettings, NodeState, Prepared, SessionId};
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};
use tollgate_fleet_proto::{
    Ack, Fault, FromControl, FromNode, Held, Hello, Label, Nack, Reply, Report, app_digest, text_digest,
};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

fn at(ms: u64) -> Timestamp {
    NOON + Duration::from_millis(ms)
}

struct FloodedHub {
    hub: Hub,
    last: u64,
    published: u64,
}

impl FloodedHub {
    fn new(settings: HubSettings) -> Self {
        let mut world = Self { hub: Hub::new(settings), last: 0, published: 0 };
        world.publish();
        world
    }

    fn publish(&mut self) {
        self.published += 1;
        let documents = vec![Document::new("shop", format!("shop {}", self.published))];
        let apps = vec![AppDocuments::new("shop", self.published, documents)];
        let prepared = Prepared::new(&Published { apps }, &self.hub.published());
        self.hub.on(Event::Published(Arc::new(prepared)), NOON);
    }

    /// Opens a stream and says hello. The stream, unless the hello was answered by anything but a welcome.
    fn attach(&mut self, address: &str, hello: Hello, now: Timestamp) -> Option<SessionId> {
        self.last += 1;
        let session = SessionId(self.last);
        self.hub.on(Event::Opened(session, address.into()), now);
        let actions = self.hub.on(Event::Said(session, FromNode::Hello(hello)), now);
        let is_welcome = actions.iter().any(|action| match action {
            Action::Send(_, outgoing) => {
                outgoing.clone().messages().take(1).any(|it| matches!(it, FromControl::Welcome(_)))
            }
            _ => false,
        });
        is_welcome.then_some(session)
    }

    fn says(&mut self, session: SessionId, says: FromNode, now: Timestamp) -> Vec<Action> {
        self.hub.on(Event::Said(session, says), now)
    }

    /// A node that attaches, takes its rules, and reports.
    fn proven(&mut self, address: &str, id: &str, now: Timestamp) -> SessionId {
        let session = self.attach(address, hello(id), now).expect("it is welcome");
        let bundle = self.bundles();
        self.says(session, FromNode::Ack(Ack { bundle, held: vec![held("shop", self.published)] }), now);
        self.reports(session, 1, now).expect("its first report");
        session
    }

    /// The number of the last bundle.
    fn bundles(&self) -> u64 {
        self.last
    }

    /// Whether the report is stored; else what became of it.
    fn reports(&mut self, session: SessionId, sequence: u64, now: Timestamp) -> Result<(), String> {
        let report = Report { sequence, ..Report::default() };
        let actions = self.says(session, FromNode::Report(report), now);
        match actions.iter().any(|it| matches!(it, Action::Store { .. })) {
            true => {
                self.hub.on(Event::Stored(session, sequence), now);
                Ok(())
            }
            false => Err(format!("{actions:?}")),
        }
    }

    fn node(&self, id: &str) -> Option<NodeState> {
        self.hub.nodes(NOON).into_iter().find(|it| it.id == id)
    }
}

fn settings() -> HubSettings {
    HubSettings::new("e", "r")
}

fn hello(id: &str) -> Hello {
    let secret = id.as_bytes().to_vec();
    Hello { node: id.into(), name: id.into(), incarnation: 1, epoch: "e".into(), secret, ..Hello::default() }
}

fn held(app: &str, version: u64) -> Held {
    let digest = app_digest([(app, text_digest(&format!("{app} {version}")))]);
    Held { app: app.into(), version, sha256: digest.into() }
}

#[test]
fn a_known_node_comes_in_while_others_say_hello_as_fast_as_they_can() {
    let known = HashMap::from([("known".to_owned(), {
        use sha2::Digest as _;
        sha2::Sha256::digest(b"known").into()
    })]);
    let mut world = FloodedHub::new(HubSettings { bindings: known, ..settings() });
    let mut strangers = 0;
    for ms in 0..2_000 {
        for nth in 0..5 {
            strangers +=
                u32::from(world.attach("10.0.0.9:1", hello(&format!("{ms} {nth}")), at(ms)).is_some());
        }
        if ms % 800 == 250 {
            assert!(world.attach("10.0.0.9:2", hello("known"), at(ms)).is_some(), "at {ms} ms");
            let other = world.attach("10.0.0.1:2", hello(&format!("new {ms}")), at(ms));
            assert!(other.is_some(), "a new node of another machine at {ms} ms");
        }
    }
    assert!((160..=361).contains(&strangers), "{strangers} hellos in two seconds");
    // A client that knows an id but not its secret takes no place of known nodes.
    let stolen = Hello { secret: b"other".to_vec(), ..hello("known") };
    assert!(world.attach("10.0.0.3:2", stolen, at(2_000)).is_none());
}

#[test]
fn of_nodes_that_have_not_reported_nothing_is_left_when_their_streams_end() {
    let mut world = FloodedHub::new(settings());
    for nth in 0..100 {
        let session = world.attach("10.0.0.9:1", hello(&nth.to_string()), at(nth * 100)).expect("in time");
        world.hub.on(Event::Closed(session), at(nth * 100));
    }
    assert_eq!((world.hub.nodes_known(), world.hub.nodes_bound()), (0, 0));
    let session = world.proven("10.0.0.1:1", "real", at(20_000));
    world.hub.on(Event::Closed(session), at(20_001));
    assert_eq!((world.hub.nodes_known(), world.hub.nodes_bound()), (1, 1));
}

#[test]
fn when_joining_ends_nodes_that_have_reported_stay_and_all_others_go() {
    let mut world = FloodedHub::new(settings());
    let real = world.proven("10.0.0.1:1", "real", NOON);
    let late = world.attach("10.0.0.2:1", hello("late"), NOON).expect("in time");
    let ends = |world: &mut FloodedHub, session| world.hub.on(Event::JoiningEnded(session), at(1_000)).len();
    assert_eq!(ends(&mut world, real), 0, "it has joined");
    assert_eq!(ends(&mut world, late), 2, "sent away, and closed");
    let names = |world: &FloodedHub| world.hub.nodes(NOON).into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(names(&world), ["real"], "nothing is left of the other");
    // Streams that say hello after the end.
    for (address, hello, is_in) in [
        ("10.0.0.1:2", hello("real"), true),
        ("10.0.0.2:2", hello("late"), false),
        ("10.0.0.3:2", hello("new"), false),
        ("10.0.0.3:2", Hello { secret: b"other".to_vec(), ..hello("real") }, false),
        ("10.0.0.3:2", Hello { secret: Vec::new(), ..hello("old") }, false),
    ] {
        world.last += 1;
        let session = SessionId(world.last);
        world.hub.on(Event::Opened(session, address.into()), at(2_000));
        world.hub.on(Event::JoiningEnded(session), at(2_000));
        let said = hello.node.clone();
        let actions = world.hub.on(Event::Said(session, FromNode::Hello(hello)), at(2_000));
        let is_closed = actions.iter().any(|it| matches!(it, Action::Close(closed, _) if *closed == session));
        assert_eq!(!is_closed, is_in, "{said}: {actions:?}");
    }
    assert_eq!(names(&world), ["real"]);
}

#[test]
fn a_node_has_joined_once_it_has_reported_also_before_there_are_rules_and_does_not_count_yet() {
    let mut world = FloodedHub { hub: Hub::new(settings()), last: 0, published: 0 };
    // It has no rules of this database yet.
    let early = || Hello { epoch: String::new(), ..hello("early") };
    let session = world.attach("10.0.0.1:1", early(), NOON).expect("it is welcome");
    assert_eq!((world.reports(session, 1, NOON), world.hub.nodes_bound()), (Ok(()), 1));
    assert!(world.hub.on(Event::JoiningEnded(session), NOON).is_empty(), "it stays");
    world.hub.on(Event::Closed(session), NOON);
    let again = world.attach("10.0.0.1:1", early(), NOON).expect("it is known");
    assert!(world.node("early").is_some_and(|it| it.is_new), "it has shown nothing yet");
    world.publish();
    let bundle = 1;
    world.says(again, FromNode::Ack(Ack { bundle, held: vec![held("shop", 1)] }), NOON);
    world.reports(again, 2, at(6_000)).expect("its report");
    assert!(world.node("early").is_some_and(|it| !it.is_new), "it takes rules");
}

#[test]
fn a_known_node_takes_the_place_of_one_that_has_shown_nothing_and_strangers_leave_a_reserve() {
    let mut world = FloodedHub::new(HubSettings { max_nodes: 20, ..settings() });
    let first = world.proven("10.0.0.1:1", "real", NOON);
    world.hub.on(Event::Closed(first), NOON);
    let from_one = (0..30).filter(|nth| {
        let at = at(1_000 + nth * 10);
        world.attach("10.0.0.9:1", hello(&format!("fake {nth}")), at).is_some()
    });
    assert_eq!(from_one.count(), 14, "four fifths of the 17 that are free and not in reserve");
    let others = (0..30).filter(|nth| {
        let at = at(2_000 + nth * 10);
        let from = format!("10.0.1.{nth}:1");
        world.attach(&from, hello(&format!("other {nth}")), at).is_some()
    });
    assert_eq!(others.count(), 3, "what is left but the reserve of two");
    assert!(world.attach("10.0.0.1:1", hello("real"), at(3_000)).is_some());
    assert!(world.attach("10.0.0.2:1", hello("new"), at(3_000)).is_none());
}

#[test]
fn reports_are_taken_as_often_as_they_are_asked_for() {
    let mut world = FloodedHub::new(settings());
    let session = world.proven("10.0.0.1:1", "real", NOON);
    // A node that was away repeats unconfirmed reports.
    let mut sequence = 1;
    let mut at_once = 0;
    while world.reports(session, sequence + 1, at(1_000)).is_ok() {
        (sequence, at_once) = (sequence + 1, at_once + 1);
        assert!(at_once < 100, "as many as it wants");
    }
    assert_eq!(at_once, 15);
    // Sent away, it may not report sooner on a new stream.
    let session = world.attach("10.0.0.1:1", hello("real"), at(2_000)).expect("it is known");
    assert!(world.reports(session, sequence + 1, at(2_000)).is_err());
    let session = world.attach("10.0.0.1:1", hello("real"), at(100_000)).expect("it is known");
    for nth in 0..1_000 {
        let jitter = nth * 7_919 % 900;
        let stored = world.reports(session, sequence + 1 + nth, at(100_000 + nth * 5_000 + jitter));
        stored.unwrap_or_else(|why| panic!("a report every 5 s, number {nth}: {why}"));
    }
}

#[test]
fn what_a_node_says_of_itself_is_cut_and_nobody_shows_megabytes() {
    let long = "x".repeat(1 << 20);
    let mut world = FloodedHub::new(settings());
    let fault = |app: &str, version| Fault {
        app: app.into(),
        version,
        message: long.clone(),
        path: long.clone(),
        ..Fault::default()
    };
    let crashed = vec![fault("shop", 1), fault("a", 1), fault("b", 1)];
    let session = world.attach("10.0.0.9:1", Hello { crashed, ..hello("n") }, NOON).expect("it is read");
    let bundle = world.bundles();
    world.says(
        session,
        FromNode::Nack(Nack { bundle, faults: vec![fault("shop", 1); 300], held: vec![] }),
        NOON,
    );
    let report = Report { sequence: 1, state_error: "y".repeat(8 << 10), ..Report::default() };
    world.says(session, FromNode::Report(report), NOON);
    let shown = format!("{:?}", world.node("n").expect("it is shown"));
    assert!(shown.len() < 8 << 10, "{} bytes", shown.len());
    for (hello, why) in [
        (Hello { local_domains: vec!["d".repeat(257)], ..hello("m") }, "a long name of a domain"),
        (Hello { held: vec![Held { app: "a".repeat(257), ..held("a", 1) }], ..hello("m") }, "of an app"),
        (Hello { local_domains: vec!["d".repeat(200); 6_000], ..hello("m") }, "many long names"),
        (Hello { labels: vec![Label::default(); 65], ..hello("m") }, "many labels"),
    ] {
        assert!(world.attach("10.0.0.9:1", hello, NOON).is_none(), "{why}");
    }
}

#[test]
fn a_node_that_acknowledges_what_it_was_not_sent_counts_for_nothing_and_is_kept_in_bounds() {
    let mut world = FloodedHub::new(settings());
    let session = world.attach("10.0.0.9:1", hello("n"), NOON).expect("it is welcome");
    let bundle = world.bundles();
    let strange = (0..5_000).map(|nth| held(&format!("app {nth}"), 7));
    let lies = strange.chain([held("shop", 900)]).collect();
    world.says(session, FromNode::Ack(Ack { bundle, held: lies }), NOON);
    world.reports(session, 1, NOON).expect("stored");
    let node = world.node("n").expect("it is shown");
    assert!(node.is_new && node.apps.len() == 101, "{} apps", node.apps.len());
}

#[test]
fn only_nodes_that_take_rules_and_report_count_and_those_ahead_only_if_they_were_known_before() {
    let is_new = |world: &FloodedHub, id: &str| world.node(id).expect("it is shown").is_new;
    let mut world = FloodedHub::new(settings());
    world.proven("10.0.0.1:1", "real", NOON);
    world.attach("10.0.0.9:1", hello("silent"), NOON);
    let ahead = Hello { held: vec![held("shop", 9)], ..hello("ahead") };
    let session = world.attach("10.0.0.9:1", ahead, NOON).expect("it is welcome");
    world.reports(session, 1, NOON).expect("stored");
    assert_eq!(["real", "silent", "ahead"].map(|id| is_new(&world, id)), [false, true, true]);
    // A node that did take rules, and comes back with a version that was never published.
    let turned = Hello { held: vec![held("shop", 9)], ..hello("real") };
    world.attach("10.0.0.1:1", turned, at(1_000)).expect("it is welcome");
    assert!(is_new(&world, "real"));
    assert!(world.node("real").is_some_and(|it| it.is_bound));
}

#[test]
fn a_node_that_reads_an_old_language_and_takes_no_rules_is_not_asked() {
    let mut world = FloodedHub::new(settings());
    let old = |id: &str| Hello { language: 1, ..hello(id) };
    world.attach("10.0.0.9:1", old("fake"), NOON);
    assert_eq!(world.hub.nodes_below(2, NOON).len(), 1, "there is no other node");
    world.last = 2;
    let session = world.attach("10.0.0.1:1", Hello { language: 2, ..hello("real") }, NOON).expect("welcome");
    let ack = Ack { bundle: 2, held: vec![held("shop", 1)] };
    world.says(session, FromNode::Ack(ack), NOON);
    world.reports(session, 1, NOON).expect("stored");
    assert_eq!(world.hub.nodes_below(2, NOON), []);
}

#[test]
fn answers_that_nobody_has_asked_for_end_the_stream() {
    let says: [fn(u64) -> FromNode; 2] = [
        |nth| FromNode::Ack(Ack { bundle: 1_000 + nth, held: Vec::new() }),
        |nth| FromNode::Nack(Nack { bundle: 1_000 + nth, faults: Vec::new(), held: Vec::new() }),
    ];
    for says in says {
        let mut world = FloodedHub::new(settings());
        let session = world.attach("10.0.0.9:1", hello("n"), NOON).expect("it is welcome");
        let closed = (1..).find(|nth| !world.says(session, says(*nth), NOON).is_empty());
        assert_eq!(closed, Some(101));
    }
    let mut world = FloodedHub::new(settings());
    let session = world.attach("10.0.0.9:1", hello("n"), NOON).expect("it is welcome");
    let replied = world.says(session, FromNode::Reply(Reply { command: 7, ..Reply::default() }), NOON);
    assert!(matches!(&replied[..], [Action::Replied { session: of, .. }] if *of == session), "{replied:?}");
}
