//! Login of a node at its store: TLS, users and their rights, and its messages when it is rejected.

use std::path::Path;

use tollgate_testkit::redis::{Options, Redis};

use crate::fleet::{Demand, Fleet, Traffic, What, store_state, until};
use crate::start::rules;
use crate::tollgate::Start;

const RULES: &str = "domain: fleet
descriptors:
  - {key: window, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: sliding, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: sliding_window}}
  - {key: counter, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: sliding_window_counter}}
  - {key: log, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: sliding_window_log}}
  - {key: total, rate_limit: {requests_per_unit: 9, algorithm: total}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 9, algorithm: token_bucket}}
  - {key: leaky, rate_limit: {unit: second, requests_per_unit: 9, algorithm: leaky_bucket}}
  - {key: leased, rate_limit: {unit: second, requests_per_unit: 900, algorithm: token_bucket, sharing: leased}}
";

/// A store with an error ends the start only if it answers within the deadline of a call, which is 10 ms by
/// default.
const PATIENT: [&str; 2] = ["--store-deadline", "5s"];

const KEYS: &[&str] = &["window", "sliding", "counter", "log", "total", "bucket", "leaky", "leased"];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The line of the documentation with the rights of Tollgate's user.
fn user() -> String {
    let page = std::fs::read_to_string(root().join("docs/running-with-redis.md")).expect("a page");
    let line =
        page.lines().find_map(|line| line.strip_prefix("user tollgate on >change-me ")).expect("a user");
    let shipped = std::fs::read_to_string(root().join("deploy/users.acl")).expect("a file");
    assert!(shipped.contains(line), "deploy/users.acl and docs/running-with-redis.md name the same rights");
    format!("tollgate on >change-me {line}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_needs_no_more_rights_than_the_documented_user_has() {
    let Some(store) =
        Redis::start(&Options::new().client_certificates().user(&user()).set("user", "default off"))
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = store.client_certificate().expect("with TLS").write(folder.path());
    let password = folder.path().join("password");
    std::fs::write(&password, "change-me\n").expect("written");
    let path = |path: &Path| path.display().to_string();
    let ca = path(&store.authority_file());
    let cert = path(&cert);
    let key = path(&key);
    let password = path(&password);
    let args = [
        "--store-tls-ca",
        &ca,
        "--store-tls-cert",
        &cert,
        "--store-tls-key",
        &key,
        "--store-password-file",
        &password,
    ];
    let fleet = Fleet::start(2, RULES, &store.url_as("tollgate"), &args);
    fleet.wait_for_store("up").await;
    let demand = Demand { keys: KEYS, clients: 2, ..Demand::default() };
    let seen = Traffic::run(&fleet, &demand, 600).await;
    let log = store.command(&["ACL", "LOG"]);
    let refused: Vec<_> = log.array().iter().map(|entry| entry.array()[7].text()).collect();
    assert!(refused.is_empty(), "these are needed too: {refused:?}");
    let odd = seen.iter().find(|it| !matches!(it.what, What::Admitted | What::Denied));
    assert!(odd.is_none(), "{odd:?}");
    assert!(store.info("connected_clients").is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n >= 4)));
}

#[test]
fn a_store_that_lets_nobody_in_ends_the_start_and_no_password_is_shown() {
    let options = Options::new().password("hunter2").user("reader on >hunter2 ~tollgate:* +get +ping +hello");
    let Some(store) = Redis::start(&options) else { return };
    let folder = rules(RULES);
    let at = store.address();
    for (url, told) in [
        (format!("redis://{at}"), "password"),
        (format!("redis://:hunter3@{at}"), "wrong user or password"),
        (format!("redis://reader:hunter2@{at}"), "lacks permissions"),
        (format!("redis+cluster://:hunter2@{at}"), "is not a node of a Redis Cluster"),
        ("redis://:hunter2@".to_owned(), "host is missing"),
    ] {
        let start = Start::new(folder.path()).args(["--store", &url]).args(PATIENT);
        let ended = start.try_go().map(|_| ()).expect_err(told);
        assert!(!ended.status.success() && ended.printed.contains(told), "{told:?}: {ended:?}");
        assert!(!ended.printed.contains("hunter"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicting_store_ends_the_start_unless_it_is_accepted() {
    let Some(store) = Redis::start(&Options::new().memory("100mb", "allkeys-lru")) else { return };
    let folder = rules(RULES);
    let start = || Start::new(folder.path()).args(["--store", &store.url()]).args(PATIENT);
    let ended = start().try_go().map(|_| ()).expect_err("refused");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    for part in ["maxmemory-policy is allkeys-lru", "noeviction", "--store-allow-eviction"] {
        assert!(ended.printed.contains(part), "{part} in {}", ended.printed);
    }
    let node = start().args(["--store-allow-eviction"]).go();
    until("the store to be up", async || (store_state(&node).await? == "up").then_some(())).await;
}

#[test]
fn the_messages_that_the_documentation_explains_are_those_of_the_code() {
    let page = std::fs::read_to_string(root().join("docs/running-with-redis.md")).expect("a page");
    let (_, table) = page.split_once("| message | remedy |").expect("a table of messages");
    let mut source = String::new();
    for part in
        ["stores/redis-link/src", "stores/store-redis/src", "stores/store/src/remote", "kernel/tls/src"]
    {
        for file in std::fs::read_dir(root().join("crates").join(part)).expect(part).flatten() {
            if file.path().is_file() {
                source += &std::fs::read_to_string(file.path()).expect("a source file");
            }
        }
    }
    // Messages that run over a line in the source are written with `\` there.
    let source = source.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
    let rows: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows.iter().filter(|row| !row.starts_with("Connection refused")) {
        for part in row.split('…').map(str::trim).filter(|part| part.len() > 3) {
            assert!(source.contains(part), "{row}: no message says {part:?}");
        }
    }
}
