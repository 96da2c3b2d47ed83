//! Encrypted all the way: Cluster and Sentinel, and certificates that are exchanged while the program runs.

use std::path::Path;

use tollgate_store_redis::{RedisConfig, Secret, StoreState, TlsClientFiles};
use tollgate_testkit::certificates::Authority;
use tollgate_testkit::redis::{Cluster, Options, Redis, Sentinel};

use crate::common::{patient, run_beside, store, take, total, until, until_up, used, wait};
use crate::faults::all_is_well;

const LIMIT: u64 = 10_000_000;

/// Settings that trust the authority in this file.
fn trusting(url: &str, authority: &Path) -> RedisConfig {
    let mut config = patient(url);
    assert!(config.link.tls.is_some(), "{url}");
    config.link.tls =
        Some(TlsClientFiles { ca_file: Some(authority.to_owned()), ..TlsClientFiles::default() });
    config
}

#[test]
fn a_cluster_that_speaks_tls_is_followed_from_node_to_node() {
    let Some(cluster) = Cluster::start_with(&Options::new().tls().password("secret"), false) else { return };
    run_beside(async {
        let store = store(trusting(&cluster.url(), &cluster.nodes[0].authority_file()));
        let quota = total(LIMIT);
        for key in ["a", "b", "c"] {
            all_is_well(&store, key, &quota).await;
        }
        let slot = cluster.slot("tollgate:{a}");
        cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3);
        all_is_well(&store, "a", &quota).await;
        assert_eq!(used(&store, "a", &quota, LIMIT).await, 100);
        assert!(store.stats().flights.redirects > 0);
    });
}

#[test]
fn sentinels_and_servers_have_passwords_of_their_own_and_tls() {
    let options = Options::new().tls().password("servers");
    let Some(sentinel) = Sentinel::start_with(&options, 1, "requirepass watchers") else { return };
    let authority = sentinel.servers[0].authority_file();
    let with = |password: Option<&str>| {
        let mut config = trusting(&sentinel.url(), &authority);
        config.link.sentinel_login.password = password.map(Secret::new);
        store(config)
    };
    run_beside(async {
        for (password, words) in [(None, "requires a password"), (Some("servers"), "rejects the login")] {
            let findings = with(password).check().await;
            let told = findings.iter().map(ToString::to_string).collect::<String>();
            assert!(told.contains("the sentinel 127.0.0.1:") && told.contains(words), "{told}");
        }
        let store = with(Some("watchers"));
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;
        let master = sentinel.fail_over();
        wait("the new master to count", async || {
            take(&store, "k", &quota).await.is_ok()
                && sentinel.servers[master].command(&["EXISTS", "tollgate:{k}"]).int() == 1
        })
        .await;
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;
    });
}

#[test]
fn files_that_are_exchanged_are_read_again_for_the_next_connection() {
    let Some(mut redis) = Redis::start(&Options::new().client_certificates()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("authority.crt");
    let write = |file: &Path, text: &str| std::fs::write(file, text).expect("written");
    write(&authority, redis.authority().expect("with TLS"));
    let ours = redis.client_certificate().expect("with TLS").write(folder.path());
    let mut config = trusting(&redis.url(), &authority);
    config.link.tls.as_mut().expect("TLS").certificate_file = Some(ours.0);
    config.link.tls.as_mut().expect("TLS").key_file = Some(ours.1);
    run_beside(async {
        let store = store(config);
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;

        // The server comes back with certificates of another authority.
        let next = Authority::new();
        next.issue("redis", 2100).write(redis.folder());
        write(&redis.authority_file(), &next.pem());
        redis.start_again();
        until(&store, "the old files to be rejected", |state| {
            matches!(state, StoreState::Down { why, .. } if why.contains("TLS: invalid peer certificate"))
        })
        .await;
        write(&authority, &next.pem());
        next.issue("a client", 2100).write(folder.path());
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;

        // A file that cannot be used leaves the previous contents in use.
        write(&authority, "no certificate");
        let connects = store.stats().conn.connects;
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        wait("a new connection", async || store.stats().conn.connects > connects).await;
        all_is_well(&store, "k", &quota).await;
    });
}
