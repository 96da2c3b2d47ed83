//! Every kind of server and login is reached; a fault is reported with its remedy.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use tollgate_store::StoreError;
use tollgate_store_redis::{
    Finding, HostPort, RedisConfig, RedisStore, Secret, Servers, Severity, StoreState, TlsClientFiles,
};
use tollgate_testkit::redis::{Cluster, Options, Redis, Sentinel, free_port};

use crate::common::{patient, run, store, take, total, until, until_down, until_up};
use crate::fake::{fake, usual};

const PASSWORD: &str = "p@ss w0rd";
const ENCODED: &str = "p%40ss%20w0rd";

fn worst(findings: &[Finding]) -> Option<&Finding> {
    findings
        .iter()
        .filter(|finding| finding.severity != Severity::Warn)
        .max_by_key(|finding| finding.severity)
}

/// Asserts that the server is fit, and that the store becomes up once it is watched.
fn works(what: &str, config: RedisConfig) {
    run(async {
        let store = store(config);
        let findings = store.check().await;
        assert_eq!(worst(&findings), None, "{what}");
        store.start();
        until_up(&store).await;
    });
}

/// Asserts that the server is not fit: `check` reports these words, and so does the state once it is watched.
fn fails(what: &str, config: RedisConfig, severity: Severity, words: &[&str]) {
    run(async {
        let store = store(config);
        let findings = store.check().await;
        let found = worst(&findings).unwrap_or_else(|| panic!("{what}: {findings:?}"));
        assert_eq!(found.severity, severity, "{what}: {found}");
        store.start();
        let why = until_down(&store).await;
        for word in words {
            assert!(found.message.contains(word), "{what}: {word:?} in {found}");
            assert!(why.contains(word), "{what}: {word:?} in {why}");
        }
        assert!(!format!("{findings:?} {why} {store:?}").contains(PASSWORD), "{what} tells the password");
    });
}

#[test]
fn every_way_to_one_server_works() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    works("TCP", patient(&redis.url()));
    works("a database", patient(&format!("{}/7", redis.url())));
    works("a unix socket", patient(&format!("unix://{}", redis.socket().display())));
    works("a name", patient(&redis.url().replace("127.0.0.1", "localhost")));
}

#[test]
fn every_login_works() {
    let acl = "tollgate on >secret ~tollgate:* resetchannels -@all +@connection +@scripting +@read +@write +info +time +config|get +command|info";
    let options = Options::new().set("requirepass", &format!("\"{PASSWORD}\"")).user(acl);
    let Some(redis) = Redis::start(&options) else { return };
    works("a password", patient(&redis.url_as(&format!(":{ENCODED}"))));
    works("an ACL user", patient(&redis.url_as("tollgate:secret")));
    let folder = tempfile::tempdir().expect("a folder");
    let user = folder.path().join("user");
    let password = folder.path().join("password");
    std::fs::write(&user, "tollgate\n").expect("written");
    std::fs::write(&password, "secret\n").expect("written");
    let mut config = patient(&redis.url_as(""));
    config.link.login.username_file = Some(user);
    config.link.login.password_file = Some(password);
    works("files", config);
}

#[test]
fn a_password_that_is_changed_is_read_again_for_the_next_connection() {
    let Some(redis) = Redis::start(&Options::new().set("requirepass", "first")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").expect("written");
    let mut config = patient(&redis.url());
    config.link.login.password_file = Some(file.clone());
    config.node_timeout = std::time::Duration::from_millis(300);
    run(async {
        let store = store(config);
        store.start();
        until_up(&store).await;
        redis.command(&["CONFIG", "SET", "requirepass", "second"]);
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        let why = until_down(&store).await;
        assert!(why.contains("rejects the login") && why.contains("WRONGPASS"), "{why}");
        std::fs::write(&file, "second\n").expect("written");
        until_up(&store).await;
    });
}

#[test]
fn tls_works_with_and_without_a_certificate_of_ours() {
    let Some(redis) = Redis::start(&Options::new().tls()) else { return };
    let tls = TlsClientFiles { ca_file: Some(redis.authority_file()), ..TlsClientFiles::default() };
    let with = |tls: &TlsClientFiles| {
        let mut config = patient(&redis.url());
        config.link.tls = Some(tls.clone());
        config
    };
    works("TLS", with(&tls));
    works("any certificate", with(&TlsClientFiles { insecure: true, ..TlsClientFiles::default() }));
    let Some(strict) = Redis::start(&Options::new().client_certificates()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let issued = strict.client_certificate().expect("with TLS");
    let (certificate, key) = issued.write(folder.path());
    let mut config = patient(&strict.url());
    config.link.tls = Some(TlsClientFiles {
        ca_file: Some(strict.authority_file()),
        certificate_file: Some(certificate),
        key_file: Some(key),
        insecure: false,
    });
    let mut without = config.clone();
    let strict_tls = without.link.tls.as_mut().expect("with TLS");
    (strict_tls.certificate_file, strict_tls.key_file) = (None, None);
    fails("no certificate of ours", without, Severity::Reject, &["TLS: it asks clients", "--store-tls-cert"]);
    works("our certificate", config);
    let mut other = patient(&strict.url());
    other.link.tls = Some(tls);
    let plainly = patient(&redis.url().replace("rediss", "redis"));
    fails("TLS asked plainly", plainly, Severity::Unknown, &["speaks only TLS", "rediss"]);
}

#[test]
fn a_plain_server_asked_by_tls_is_reported() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let mut config = patient(&redis.url());
    config.link.tls = Some(TlsClientFiles { insecure: true, ..TlsClientFiles::default() });
    config.link.connect_timeout = std::time::Duration::from_millis(100);
    config.link.deadline = std::time::Duration::from_millis(10);
    fails("plain asked by TLS", config.clone(), Severity::Unknown, &["does it speak TLS there?"]);
    // A proxy before a server that is down takes the connection and ends it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("rediss://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    config.link.servers = patient(&url).link.servers;
    config.link.connect_timeout = std::time::Duration::from_secs(5);
    fails("ended in the handshake", config, Severity::Unknown, &["TLS: "]);
}

#[test]
fn the_sentinels_master_is_found_and_a_sentinel_is_no_server() {
    let Some(sentinel) = Sentinel::start(&Options::new().password("secret"), 1) else { return };
    works("sentinel", patient(&sentinel.url()));
    let mut config = patient(&sentinel.url());
    let Servers::Sentinel { sentinels, master } = &mut config.link.servers else { panic!("{config:?}") };
    sentinels.insert(0, HostPort::new("127.0.0.1", free_port()));
    let port = sentinels[1].port;
    "nobody".clone_into(master);
    fails(
        "an unknown master",
        config,
        Severity::Unknown,
        &["where `nobody` is", "refused", "does not know a master"],
    );
    fails(
        "a sentinel as a server",
        patient(&format!("redis://127.0.0.1:{port}")),
        Severity::Reject,
        &["is a sentinel", "redis+sentinel"],
    );
    fails("a replica", patient(&sentinel.servers[1].url()), Severity::Unknown, &["is a replica", "READONLY"]);
    let Some(server) = Redis::start(&Options::new()) else { return };
    fails(
        "a server as a sentinel",
        patient(&format!("redis+sentinel://{}/master", server.address())),
        Severity::Reject,
        &["is not a sentinel", "redis://"],
    );
}

#[test]
fn a_cluster_is_found_by_any_node_and_is_no_single_server() {
    let Some(cluster) = Cluster::start() else { return };
    works("cluster", patient(&cluster.url()));
    let node = cluster.nodes[1].address();
    works("one node of it", patient(&format!("redis+cluster://127.0.0.1:{},{node}", free_port())));
    fails(
        "as a single server",
        patient(&format!("redis://{node}")),
        Severity::Reject,
        &["is a node of a Redis Cluster", "redis+cluster"],
    );
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let url = format!("redis+cluster://{}", redis.address());
    fails(
        "a single server as a cluster",
        patient(&url),
        Severity::Reject,
        &["is not a node of a Redis Cluster"],
    );
}

#[test]
fn wrong_logins_and_databases_are_reported() {
    let Some(redis) = Redis::start(&Options::new().set("requirepass", "right").set("databases", "4")) else {
        return;
    };
    let address = redis.address();
    let url = |who: &str, database: &str| patient(&format!("redis://{who}{address}/{database}"));
    for (what, config, words) in [
        ("no password", url("", ""), ["requires a password", "NOAUTH"]),
        (
            "a wrong password",
            url(&format!(":{ENCODED}@"), ""),
            ["rejects the login of user `default`", "WRONGPASS"],
        ),
        ("a wrong user", url("ann:right@", ""), ["rejects the login of user `ann`", "WRONGPASS"]),
        ("no such database", url(":right@", "4"), ["does not have that database", "out of range"]),
    ] {
        fails(what, config, Severity::Reject, &words);
    }
    let mut config = url("", "");
    config.link.login.password_file = Some("/nowhere/password".into());
    config.link.login.password = Some(Secret::new(PASSWORD));
    fails("no file", config, Severity::Reject, &["/nowhere/password", "No such file"]);
}

#[test]
fn a_server_that_may_forget_counters_is_rejected_unless_allowed() {
    let Some(redis) = Redis::start(&Options::new().memory("100mb", "allkeys-lru")) else { return };
    let words = ["maxmemory-policy is allkeys-lru", "noeviction", "--store-allow-eviction"];
    fails("eviction", patient(&redis.url()), Severity::Reject, &words);
    let mut config = patient(&redis.url());
    config.allow_eviction = true;
    works("eviction allowed", config);
    // The fault is corrected while the store runs.
    run(async {
        let mut config = patient(&redis.url());
        config.node_timeout = std::time::Duration::from_millis(300);
        let store = store(config);
        store.start();
        until_down(&store).await;
        // Its own connections would carry a call; only the barred store keeps it back.
        for _ in 0..20 {
            match take(&store, "k", &total(100)).await {
                Err(StoreError::Unreachable { source, .. }) => {
                    let why = source.to_string();
                    assert!(words.iter().all(|word| why.contains(word)), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(store.stats().conn.calls, 0);
        redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        until_up(&store).await;
        assert_eq!(take(&store, "k", &total(100)).await.expect("an answer").remaining(), 99);
        redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]); // each new connection's server is looked at
        let barred = |state: &StoreState| matches!(state, StoreState::Down { why, .. } if why.contains("is allkeys-lfu"));
        until(&store, "the store to be barred", barred).await;
        take(&store, "k", &total(100)).await.expect_err("it may not be used any more");
        redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        until_up(&store).await;
        let warned: Vec<_> = store.check().await.iter().map(|finding| finding.severity).collect();
        assert_eq!(warned, [Severity::Warn, Severity::Warn], "no replica, nothing on disk");
    });
}

#[test]
fn a_server_too_old_names_its_version_the_command_it_lacks_and_the_way_out() {
    // The replies of Redis 6.2.14.
    let url = fake(|command, client| match command {
        "INFO" => client.write_all(b"$35\r\nredis_version:6.2.14\r\nrole:master\r\n\r\n"),
        "COMMAND" => client.write_all(b"*2\r\n_\r\n*1\r\n$7\r\nevalsha\r\n"),
        _ => usual(command, client),
    });
    fails(
        "older than 7.0",
        patient(&url),
        Severity::Reject,
        &["Redis 6.2.14 is too old", "lacks the command PEXPIRETIME", "Redis 7.0 or later, or Valkey"],
    );
    let Some(redis) = Redis::start(&Options::new().set("rename-command", "HELLO \"\"")) else { return };
    let words = &["lacks the command HELLO", "7.0", "rename-command"];
    fails("renamed", patient(&redis.url()), Severity::Reject, words);
    let options = Options::new().set("rename-command", "PEXPIRETIME \"\"");
    let Some(redis) = Redis::start(&options) else { return };
    let words = ["the command PEXPIRETIME is disabled", "rename-command"];
    fails("switched off", patient(&redis.url()), Severity::Reject, &words);
}

#[test]
fn a_server_that_is_loading_is_waited_for() {
    let options = Options::new().set("enable-debug-command", "yes");
    let Some(redis) = Redis::start(&options) else { return };
    for (name, value) in [("key-load-delay", "3000"), ("loading-process-events-interval-bytes", "1024")] {
        assert_eq!(redis.command(&["CONFIG", "SET", name, value]).error(), None);
    }
    redis.command(&["DEBUG", "POPULATE", "1000"]);
    std::thread::scope(|scope| {
        scope.spawn(|| redis.command(&["DEBUG", "RELOAD"]));
        run(async {
            let store = store(patient(&redis.url()));
            let mut told = String::new();
            for _ in 0..1000 {
                told = worst(&store.check().await).map(ToString::to_string).unwrap_or_default();
                if told.contains("loading its data") {
                    break;
                }
            }
            assert!(told.contains("LOADING"), "{told}");
            store.start();
            until_up(&store).await;
        });
    });
}

#[test]
fn a_server_that_is_not_redis_or_not_there_is_reported() {
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    fails("nobody listens", patient(&nowhere), Severity::Unknown, &["Connection refused"]);
    fails("no socket", patient("unix:///nowhere/redis.sock"), Severity::Unknown, &["/nowhere/redis.sock"]);

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { return };
            let _ = client.read(&mut [0; 1000]).map(|read| assert_ne!(read, 0));
            client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").ok();
        }
    });
    fails(
        "HTTP",
        patient(&url),
        Severity::Reject,
        &["does not speak the Redis protocol", "HTTP/1.1 400", "right port"],
    );

    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut config = patient(&format!("redis://{}", silent.local_addr().expect("bound")));
    config.link.deadline = std::time::Duration::from_millis(10);
    config.link.connect_timeout = std::time::Duration::from_millis(50);
    fails("silence", config, Severity::Unknown, &["no connection within 50ms"]);
}

#[test]
fn nodes_that_share_counters_count_each_other() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let all: Vec<RedisStore> = (0..3)
            .map(|_| {
                let mut config = patient(&redis.url());
                config.node_timeout = std::time::Duration::from_secs(1);
                store(config)
            })
            .collect();
        all.iter().for_each(RedisStore::start);
        let sees = |store: &RedisStore, nodes: u32| store.live_nodes() == nodes;
        wait(|| all.iter().all(|store| sees(store, 3))).await;
        let mut all = all;
        all.truncate(2);
        wait(|| all.iter().all(|store| sees(store, 2))).await;
    });
}

#[test]
fn a_node_that_ends_says_so_and_is_not_waited_for() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run(async {
        let mut config = patient(&redis.url());
        config.node_timeout = std::time::Duration::from_secs(3600);
        let store = store(config);
        store.start();
        let nodes = || redis.command(&["ZCARD", "tollgate:nodes"]).int();
        wait(|| nodes() == 1).await;
        drop(store);
        wait(|| nodes() == 0).await;
    });
}

/// Waits for a condition.
async fn wait(so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("waited too long");
}
