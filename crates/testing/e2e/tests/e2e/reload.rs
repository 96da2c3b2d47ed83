//! Rules that change under a running server: at once, whole, and without a lost count or a failed request.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::calendar;
use crate::fleet::until;
use crate::http;
use crate::rls::{self, Client};
use crate::start::rules;
use crate::tollgate::Tollgate;

const SECOND: Duration = Duration::from_secs(1);

fn limit(requests: u32) -> String {
    format!(
        "domain: d\ndescriptors:\n  - {{key: k, rate_limit: {{unit: year, requests_per_unit: {requests}}}}}\n"
    )
}

/// The limit in force for `k`, asked without taking anything.
async fn in_force(client: &mut Client) -> Option<u32> {
    let answer = client.ask(rls::hit("d", "k", "probe").peek()).await.expect("no request fails");
    answer.statuses.first()?.current_limit.as_ref().map(|l| l.requests_per_unit)
}

/// Time until a change was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Took {
    /// The same less the longest pause between two answers, during which a busy machine ran neither the test
    /// nor the server.
    awake: Duration,
    whole: Duration,
}

/// Asks until `want` is in force.
async fn until_in_force(client: &mut Client, want: u32) -> Took {
    let began = calendar::now();
    let mut last = began;
    let mut longest = Duration::ZERO;
    loop {
        let seen = in_force(client).await;
        let now = calendar::now();
        longest = longest.max(now.saturating_sub(last));
        last = now;
        let whole = now.saturating_sub(began);
        if seen == Some(want) {
            return Took { awake: whole - longest, whole };
        }
        assert!(whole < 20 * SECOND, "{want} never came into force; still {seen:?}");
    }
}

/// Why the current files are not in force, as `/readyz` says; the server stays ready.
async fn last_error(server: &Tollgate) -> serde_json::Value {
    let ready = http::get(server.http, "/readyz", &[]).await.expect("an answer");
    assert_eq!(ready.status, 200, "the old rules serve: {ready:?}");
    let body: serde_json::Value = serde_json::from_str(&ready.body).expect("JSON");
    body["rules"]["last_error"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_changed_file_is_in_force_on_every_node_within_a_second_and_keeps_the_counts() {
    let folder = rules(&limit(1_000));
    let file = folder.path().join("rules.yaml");
    let nodes = [(); 3].map(|()| Tollgate::start(folder.path()));
    let mut clients = Vec::new();
    for node in &nodes {
        let mut client = Client::connect(node.grpc).await.expect("it listens");
        assert!(client.admits(rls::hit("d", "k", "counted")).await);
        clients.push(client);
    }

    let mut all = Vec::new();
    for (round, want) in (2_000_u32..2_010).enumerate() {
        if round % 2 == 0 {
            std::fs::write(&file, limit(want)).expect("written in place");
        } else {
            let beside = folder.path().join(".rules.yaml.new");
            std::fs::write(&beside, limit(want)).expect("written beside");
            std::fs::rename(&beside, &file).expect("and moved over it");
        }
        let [first, second, third] = &mut clients[..] else { panic!("a client for each node") };
        let waits = (until_in_force(first, want), until_in_force(second, want), until_in_force(third, want));
        all.extend(<[Took; 3]>::from(tokio::join!(waits.0, waits.1, waits.2)));
    }
    println!("a change was in force after {all:?}");
    for took in all {
        assert!(took.awake <= SECOND, "{took:?}");
    }
    for client in &mut clients {
        let answer = client.ask(rls::hit("d", "k", "counted")).await.expect("an answer");
        assert_eq!(answer.statuses[0].limit_remaining, 2_009 - 2, "both hits are counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_config_map_is_read_once_and_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let publish = |version: u32| {
        // As the kubelet does: a new dated folder, a new link beside, one rename.
        let dated = root.join(format!("..2026_11_{version}"));
        std::fs::create_dir(&dated).expect("a folder");
        std::fs::write(dated.join("rules.yaml"), limit(version)).expect("written");
        symlink(dated.file_name().expect("a name"), root.join("..data_tmp")).expect("linked");
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).expect("swapped");
    };
    publish(10);
    symlink("..data/rules.yaml", root.join("rules.yaml")).expect("linked");
    let server = Tollgate::start(root);
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    assert_eq!(in_force(&mut client).await, Some(10));
    for version in 11..16 {
        publish(version);
        until_in_force(&mut client, version).await;
        std::fs::remove_dir_all(root.join(format!("..2026_11_{}", version - 1))).expect("removed");
    }
    assert_eq!(in_force(&mut client).await, Some(15), "the old folder's end changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_or_half_written_file_changes_nothing_and_is_reported() {
    let folder = rules(&limit(5));
    let file = folder.path().join("rules.yaml");
    let server = Tollgate::start(folder.path());
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    for (what, text) in [
        ("unknown key", limit(6).replace("requests_per_unit", "request_per_unit")),
        ("cut in the middle", limit(6)[..40].to_owned()),
        ("no YAML", "domain: [".to_owned()),
        ("empty", String::new()),
    ] {
        std::fs::write(&file, text).expect("written");
        // The old rules hold before it has looked, and after it has reported the error.
        while last_error(&server).await.is_null() {
            assert_eq!(in_force(&mut client).await, Some(5), "{what}");
        }
        let told = last_error(&server).await;
        assert!(told.as_str().is_some_and(|text| text.contains("rules.yaml")), "{what}: {told}");
        let first = told.as_str().and_then(|text| text.lines().next()).unwrap_or_default();
        until(&format!("the log to say {first}"), async || server.printed().contains(first).then_some(()))
            .await;
        assert_eq!(in_force(&mut client).await, Some(5), "{what}");
        std::fs::write(&file, limit(5)).expect("written");
        while !last_error(&server).await.is_null() {
            assert_eq!(in_force(&mut client).await, Some(5), "{what}");
        }
    }
    std::fs::write(&file, limit(7)).expect("written");
    until_in_force(&mut client, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chatty_neighbour_in_the_folder_delays_no_change() {
    let folder = rules(&limit(5));
    let server = Tollgate::start(folder.path());
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    let stop = Arc::new(AtomicBool::new(false));
    let neighbour = folder.path().join("access.log");
    let chatter = {
        let stop = stop.clone();
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                std::fs::write(&neighbour, "one more line").expect("written");
                tokio::task::yield_now().await;
            }
        })
    };
    for want in 6..9 {
        replace(&folder.path().join("rules.yaml"), &limit(want));
        until_in_force(&mut client, want).await;
    }
    stop.store(true, Ordering::Relaxed);
    chatter.await.expect("it wrote on");
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_rules_again() {
    let folder = rules(&limit(5));
    let server = Tollgate::start(folder.path());
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    for round in 6..9 {
        std::fs::write(folder.path().join("rules.yaml"), limit(round)).expect("written");
        server.signal("HUP");
        until_in_force(&mut client, round).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_and_no_hit_is_lost_in_a_hundred_reloads_under_load() {
    const CONNECTIONS: u64 = 4;
    let folder = rules(&limit(1_000_000));
    let server = Tollgate::start(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let stop = stop.clone();
        let sent = sent.clone();
        let mut client = Client::connect(server.grpc).await.expect("it listens");
        load.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                assert!(client.admits(rls::hit("d", "k", "everyone")).await);
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    for round in 1_000_001..1_000_101 {
        replace(&folder.path().join("rules.yaml"), &limit(round));
        server.signal("HUP");
        until_in_force(&mut client, round).await;
    }
    stop.store(true, Ordering::Relaxed);
    load.join_all().await;
    let sent = sent.load(Ordering::Relaxed);
    println!("{sent} requests during 100 reloads");
    let answer = client.ask(rls::hit("d", "k", "everyone").peek()).await.expect("an answer");
    assert_eq!(u64::from(answer.statuses[0].limit_remaining), 1_000_100 - sent, "every hit is counted once");
}

fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).expect("written beside");
    std::fs::rename(&beside, file).expect("and moved over it");
}
