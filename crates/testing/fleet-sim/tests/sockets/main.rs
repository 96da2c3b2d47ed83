//! A control plane and three nodes with real limiters, over real sockets.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate_clock::MonotonicClock;
use tollgate_core::Clock as _;
use tollgate_fleet_agent::{Parser, rule_files_parser};
use tollgate_fleet_hub::{CommandError, TokenDigests, Tokens};
use tollgate_fleet_proto::published::{AppDocuments, Document, Published};
use tollgate_fleet_sim::real::{Control, NodeOptions, PATIENCE, RealNode, ReportsInMemory};
use tollgate_rule_files::{Options, RuleFile};
use tollgate_testkit::certificates::Authority;
use tollgate_tls::{TlsClient, TlsClientFiles};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Rules of one domain that admit `limit` requests per hour and key.
fn rules(domain: &str, limit: &str) -> Document {
    let yaml = format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: hour, requests_per_unit: {limit}}}\n"
    );
    Document::new(domain, yaml)
}

fn app(app: &str, version: u64, document: Document) -> AppDocuments {
    AppDocuments::new(app, version, vec![document])
}

fn publish(control: &Control, apps: &[AppDocuments]) {
    control.published.send_replace(Arc::new(Published { apps: apps.to_vec() }));
}

/// A control plane that admits every node.
fn start_control() -> Control {
    Control::start(LOOPBACK, &Arc::new(ReportsInMemory::default()))
}

/// A node with its state folder.
fn start_node(folder: &tempfile::TempDir, name: &str, control: &Control) -> RealNode {
    RealNode::start(&folder.path().join(name), name, NodeOptions::at(control.address))
}

/// Three of them.
fn nodes(folder: &tempfile::TempDir, control: &Control) -> Vec<RealNode> {
    ["a", "b", "c"].map(|name| start_node(folder, name, control)).into()
}

#[test]
fn a_publication_is_in_force_on_all_nodes_at_once_and_a_restarted_node_has_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let clock = MonotonicClock::new();
    let control = start_control();
    let mut nodes = nodes(&folder, &control);
    control.wait("three nodes", |nodes| nodes.iter().filter(|node| node.connected).count() == 3);
    let mut took = Vec::new();
    for version in 1..=20 {
        let clicked = clock.now();
        publish(&control, &[app("shop", version, rules("shop", if version % 2 == 0 { "0" } else { "500" }))]);
        control.wait_in_force(3);
        took.push(clock.now().since(clicked));
        for node in &nodes {
            assert_eq!(node.admits("shop", "user", "ann"), version % 2 == 1, "version {version}");
        }
    }
    took.sort();
    println!("from click to in force on three nodes: median {:?}, longest {:?}", took[10], took[19]);

    drop(nodes.remove(0));
    control.wait("one is gone", |nodes| nodes.iter().filter(|node| node.connected).count() == 2);
    publish(&control, &[app("shop", 21, rules("shop", "500"))]);
    control.wait("two hold it", |nodes| {
        nodes.iter().filter(|node| node.apps.iter().all(|app| app.acked == Some(21))).count() == 2
    });
    nodes.insert(0, start_node(&folder, "a", &control));
    control.wait_in_force(3);
    assert!(nodes[0].admits("shop", "user", "ann"));
}

#[test]
fn a_bad_app_is_rejected_by_name_and_place_while_the_others_move() {
    let folder = tempfile::tempdir().unwrap();
    let control = start_control();
    let nodes = nodes(&folder, &control);
    publish(&control, &[app("hotel", 1, rules("hotel", "5")), app("shop", 1, rules("shop", "5"))]);
    control.wait_in_force(3);
    publish(&control, &[app("hotel", 2, rules("hotel", "many")), app("shop", 2, rules("shop", "0"))]);
    control.wait("shop moves, hotel stays", |nodes| {
        let versions =
            |node: &tollgate_fleet_hub::NodeState| node.apps.iter().map(|app| app.acked).collect::<Vec<_>>();
        nodes.len() == 3 && nodes.iter().all(|node| versions(node) == [Some(1), Some(2)])
    });
    for node in control.fleet.nodes() {
        let fault = node.apps[0].fault.clone().expect("hotel has a fault");
        assert_eq!((fault.app.as_str(), fault.version, fault.domain.as_str()), ("hotel", 2, "hotel"));
        assert_eq!((fault.line, fault.path.as_str()), (4, "descriptors[0].rate_limit.requests_per_unit"));
        assert!(fault.message.contains("many"), "{}", fault.message);
    }
    for node in &nodes {
        assert!(node.admits("hotel", "user", "ann"), "the previous rules stay");
        assert!(!node.admits("shop", "user", "ann"));
    }
    publish(&control, &[app("hotel", 3, rules("hotel", "0")), app("shop", 2, rules("shop", "0"))]);
    control.wait_in_force(3);
    assert!(nodes.iter().all(|node| !node.admits("hotel", "user", "ann")));
}

#[test]
fn nodes_go_on_without_the_control_plane_and_their_reports_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let reports = Arc::new(ReportsInMemory::default());
    let control = Control::start(LOOPBACK, &reports);
    let address = control.address;
    let mut nodes = nodes(&folder, &control);
    publish(&control, &[app("shop", 1, rules("shop", "1"))]);
    control.wait_in_force(3);
    drop(control);
    for node in &mut nodes {
        node.wait("the control plane is away", |status| !status.connected && status.away_since.is_some());
    }
    drop(nodes.remove(2));
    let c = RealNode::start(&folder.path().join("c"), "c", NodeOptions::at(address));
    nodes.push(c);
    nodes[2].wait("the saved rules are in force", |status| status.started);
    for node in &nodes {
        assert!(node.admits("shop", "user", "ann"));
        for _ in 0..10 {
            assert!(!node.admits("shop", "user", "ann"), "the saved rules limit");
        }
    }
    let control = Control::start_again(address, &reports);
    publish(&control, &[app("shop", 1, rules("shop", "1"))]);
    control.wait_in_force(3);
    let stored = || reports.denied();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let arrived = runtime.block_on(async {
        let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
        let look = async {
            while stored() < 30 {
                looks.tick().await;
            }
        };
        tokio::time::timeout(tollgate_fleet_sim::real::PATIENCE, look).await
    });
    assert!(arrived.is_ok(), "{} of 30 denials arrived", stored());
    assert_eq!(stored(), 30);
}

#[test]
fn a_token_is_needed_and_a_wrong_one_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = |token: &str| {
        let path = folder.path().join(format!("token-{token}"));
        std::fs::write(&path, format!("{token}\n")).unwrap();
        path
    };
    let tokens = Arc::new(TokenDigests::of(["right"]));
    let control = Control::with_tokens(LOOPBACK, &Arc::new(ReportsInMemory::default()), tokens);
    publish(&control, &[app("shop", 1, rules("shop", "5"))]);
    let start = |name: &str, token_file| {
        let mut options = NodeOptions::at(control.address);
        options.endpoint.token_file = token_file;
        RealNode::start(&folder.path().join(name), name, options)
    };
    for (name, token) in [("none", None), ("wrong", Some(file("wrong")))] {
        let mut node = start(name, token);
        node.wait("rejected", |status| {
            status.error.as_ref().is_some_and(|error| error.contains("missing or invalid token"))
        });
    }
    let mut lost = start("lost", Some(folder.path().join("nothing")));
    lost.wait("no file", |status| {
        status.error.as_ref().is_some_and(|error| error.contains("cannot read the token"))
    });
    assert!(control.fleet.nodes().is_empty());
    let _node = start("right", Some(file("right")));
    control.wait_in_force(1);
}

/// Tokens that all are in force, until none is.
#[derive(Default)]
struct Revocable(AtomicBool);

impl Tokens for Revocable {
    fn admits(&self, _: Option<&str>) -> bool {
        !self.0.load(Relaxed)
    }
}

#[test]
fn an_open_stream_is_closed_when_its_token_is_revoked_and_the_node_keeps_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Arc::new(Revocable::default());
    let shared: Arc<dyn Tokens> = Arc::<Revocable>::clone(&tokens);
    let control = Control::with_tokens(LOOPBACK, &Arc::new(ReportsInMemory::default()), shared);
    publish(&control, &[app("shop", 1, rules("shop", "5"))]);
    let mut node = start_node(&folder, "a", &control);
    control.wait_in_force(1);
    tokens.0.store(true, Relaxed);
    node.wait("rejected", |status| {
        status.error.as_ref().is_some_and(|error| error.contains("missing or invalid token"))
    });
    assert!(control.fleet.nodes().iter().all(|node| !node.connected));
    publish(&control, &[app("shop", 2, rules("shop", "0"))]);
    assert!(node.admits("shop", "user", "ann"), "the rules of before");
    tokens.0.store(false, Relaxed);
    control.wait_in_force(1);
}

/// A token for joining, until joining ends.
#[derive(Default)]
struct ForJoining(AtomicBool);

impl Tokens for ForJoining {
    fn admits(&self, _: Option<&str>) -> bool {
        !self.0.load(Relaxed)
    }

    fn admits_known(&self, _: Option<&str>) -> bool {
        true
    }
}

#[test]
fn after_the_end_of_its_token_for_joining_a_node_goes_on_and_comes_back_and_no_other_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Arc::new(ForJoining::default());
    let shared: Arc<dyn Tokens> = Arc::<ForJoining>::clone(&tokens);
    let control = Control::with_tokens(LOOPBACK, &Arc::new(ReportsInMemory::default()), shared);
    publish(&control, &[app("shop", 1, rules("shop", "0"))]);
    let start = |name: &str| start_node(&folder, name, &control);
    let node = start("a");
    control.wait("it has reported", |nodes| nodes.iter().any(|node| !node.is_new));
    tokens.0.store(true, Relaxed);
    let mut late = start("b");
    late.wait("not known", |status| {
        status.error.as_ref().is_some_and(|error| error.contains("the time for joining"))
    });
    publish(&control, &[app("shop", 2, rules("shop", "5"))]);
    control.wait_in_force(1);
    assert!(node.admits("shop", "user", "ann"), "the stream stayed open");
    drop(node);
    control.wait("it has left", |nodes| nodes.iter().all(|node| !node.connected));
    publish(&control, &[app("shop", 3, rules("shop", "0"))]);
    let node = start("a");
    control.wait_in_force(1);
    assert!(!node.admits("shop", "user", "ann"), "it has come back");
    assert_eq!(control.fleet.nodes().len(), 1, "of the other nothing is left");
}

#[test]
fn the_stream_is_encrypted_and_the_server_must_be_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let stranger = Authority::new();
    let issued = authority.issue("control", 2100);
    let control = start_control();
    let encrypted = control.encrypted(issued.cert.as_bytes(), issued.key.as_bytes());
    publish(&control, &[app("shop", 1, rules("shop", "5"))]);
    let start = |name: &str, pem: String| {
        let ca_file = folder.path().join(format!("{name}.pem"));
        std::fs::write(&ca_file, pem).unwrap();
        let files = TlsClientFiles { ca_file: Some(ca_file), ..TlsClientFiles::default() };
        let mut options = NodeOptions::at(encrypted);
        options.endpoint.uri = format!("https://localhost:{}", encrypted.port()).parse().unwrap();
        options.endpoint.tls = Some(Arc::new(TlsClient::load(files).unwrap()));
        RealNode::start(&folder.path().join(name), name, options)
    };
    let mut other = start("other", stranger.pem());
    other.wait("not trusted", |status| status.error.is_some());
    assert!(control.fleet.nodes().is_empty());
    let _node = start("one", authority.pem());
    control.wait_in_force(1);
}

#[test]
fn a_domain_of_the_nodes_own_files_is_not_taken_over_until_the_files_give_it_up() {
    let folder = tempfile::tempdir().unwrap();
    let control = start_control();
    let local = |domain: &str| RuleFile { name: "own.yaml".into(), text: rules(domain, "0").into_yaml() };
    let options = NodeOptions { local: vec![local("shop")], ..NodeOptions::at(control.address) };
    let node = RealNode::start(&folder.path().join("a"), "a", options);
    publish(&control, &[app("hotel", 1, rules("hotel", "5")), app("shop", 1, rules("shop", "5"))]);
    control.wait("hotel is in force, shop is not", |nodes| {
        nodes.iter().any(|node| node.apps[0].acked == Some(1) && node.apps[1].fault.is_some())
    });
    let shown = control.fleet.nodes().remove(0);
    assert_eq!(shown.local_domains, ["shop"]);
    let message = shown.apps[1].fault.clone().expect("a fault").message;
    assert!(message.contains("shop") && message.contains("own.yaml"), "both owners: {message}");
    assert!(!node.admits("shop", "user", "ann"), "the node's own rules stay");
    node.local.blocking_send(vec![local("mine")]).unwrap();
    control.wait_in_force(1);
    assert!(node.admits("shop", "user", "ann"));
    assert_eq!(control.fleet.nodes()[0].local_domains, ["mine"]);
}

#[test]
fn rules_that_crash_the_parser_hold_up_no_other_app() {
    let folder = tempfile::tempdir().unwrap();
    let control = start_control();
    let parser = rule_files_parser(Options::default());
    let parser: Arc<Parser> = Arc::new(move |files| {
        if files.iter().any(|file| file.text.contains("poison")) {
            std::panic::resume_unwind(Box::new("cannot read this"));
        }
        parser(files)
    });
    let options = NodeOptions { parser, ..NodeOptions::at(control.address) };
    let _node = RealNode::start(&folder.path().join("a"), "a", options);
    publish(&control, &[app("hotel", 1, rules("poison", "5")), app("shop", 1, rules("shop", "5"))]);
    control.wait("shop is in force, hotel is not", |nodes| {
        nodes.iter().any(|node| node.apps[1].acked == Some(1) && node.apps[0].fault.is_some())
    });
    let fault = control.fleet.nodes()[0].apps[0].fault.clone().expect("a fault");
    assert_eq!(fault.message, "crashes the parser: cannot read this");
}

#[test]
fn a_command_reaches_its_node_and_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let control = start_control();
    let _node = start_node(&folder, "a", &control);
    control.wait("a node", |nodes| nodes.iter().any(|node| node.connected));
    let id = control.fleet.nodes().remove(0).id;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ask = |node: &str| {
        let asked = control.fleet.command(node, "inspect", "{\"key\":1}".into(), PATIENCE);
        runtime.block_on(asked).map(|reply| reply.body)
    };
    assert_eq!(ask(&id), Ok("{\"key\":1}".to_owned()));
    assert_eq!(ask("unknown"), Err(CommandError::Away));
}
