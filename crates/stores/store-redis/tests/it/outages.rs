//! Servers that die, stall, come back empty, fail over and move their slots while in use.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Cost;
use tollgate_store::{Charge, Counter, Key, Store as _, StoreError};
use tollgate_store_redis::{HashTag, RedisConfig, StoreState};
use tollgate_testkit::redis::{Cluster, NetworkFault, Options, Redis, Sentinel};

use crate::common::{
    NOW, Told, patient, run_beside, store, take, take_many, total, until_down, until_up, used, wait,
};
use crate::faults::{Callers, all_is_well};

const LIMIT: u64 = 10_000_000;

/// Settings that look after servers often. A call waits as long as a busy machine may need: a server that
/// ends says so.
fn quick(url: &str) -> RedisConfig {
    let mut config = patient(url);
    config.link.connect_timeout = Duration::from_secs(1);
    config.node_timeout = Duration::from_millis(900);
    config
}

/// The same with a short deadline, for servers that send nothing.
fn impatient(url: &str) -> RedisConfig {
    let mut config = quick(url);
    config.link.deadline = Duration::from_millis(400);
    config
}

#[test]
fn a_server_that_is_not_there_yet_is_used_as_soon_as_it_is() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    redis.kill();
    run_beside(async {
        let store = store(quick(&redis.url()));
        let quota = total(LIMIT);
        let error = take(&store, "k", &quota).await.expect_err("nobody is there");
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        let why = until_down(&store).await;
        assert!(why.contains("refused"), "{why}");
        redis.start_again();
        let back = Instant::now();
        until_up(&store).await;
        println!("normal {:?} after the server's return", back.elapsed());
        all_is_well(&store, "k", &quota).await;
    });
}

#[test]
fn killed_with_its_counts_on_disk_it_comes_back_with_every_count() {
    let Some(mut redis) = Redis::start(&Options::new().append_only()) else { return };
    run_beside(async {
        let store = store(quick(&redis.url()));
        let quota = total(LIMIT);
        let callers = Callers::begin(&store, &["k"], &quota, 8).await;
        wait("some flights", async || store.stats().conn.flights > 50).await;
        redis.kill();
        until_down(&store).await;
        redis.start_again();
        until_up(&store).await;
        let mut told = all_is_well(&store, "k", &quota).await;
        told.add(callers.end().await);
        told.explains(used(&store, "k", &quota, LIMIT).await);
    });
}

#[test]
fn restarted_empty_it_counts_from_nothing_and_nothing_fails() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let store = store(quick(&redis.url()));
        let quota = total(LIMIT);
        all_is_well(&store, "k", &quota).await;
        redis.restart_empty();
        wait("the store to be seen", async || take(&store, "other", &quota).await.is_ok()).await;
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;
        assert_eq!(used(&store, "k", &quota, LIMIT).await, 50);
    });
}

#[test]
fn stalled_it_is_left_alone_and_resumed_no_count_is_lost() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    run_beside(async {
        let store = store(impatient(&redis.url()));
        let quota = total(LIMIT);
        let callers = Callers::begin(&store, &["k"], &quota, 8).await;
        wait("some flights", async || store.stats().conn.flights > 50).await;
        redis.stop();
        until_down(&store).await;
        wait("the breaker to open", async || store.stats().conn.breakers_open > 0).await;
        let asked = Instant::now();
        for _ in 0..1000 {
            take(&store, "k", &quota).await.expect_err("the breaker is open");
        }
        println!("{:?} an answer while the breaker is open", asked.elapsed() / 1000);
        redis.resume();
        let back = Instant::now();
        until_up(&store).await;
        println!("normal {:?} after the server went on", back.elapsed());
        let mut told = all_is_well(&store, "k", &quota).await;
        told.add(callers.end().await);
        told.explains(used(&store, "k", &quota, LIMIT).await);
    });
}

#[test]
fn the_sentinels_next_master_is_followed() {
    let Some(mut sentinel) = Sentinel::start(&Options::new(), 1) else { return };
    run_beside(async {
        let store = store(quick(&sentinel.url()));
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
        // The old one has become its replica; now the new one dies.
        let other = 1 - master;
        wait("the old master to follow", async || {
            sentinel.servers[other]
                .ask(&["INFO", "replication"])
                .is_ok_and(|info| info.text().contains("master_link_status:up"))
        })
        .await;
        let callers = Callers::begin(&store, &["k"], &quota, 4).await;
        sentinel.kill_master();
        wait("the old master to count", async || take(&store, "k", &quota).await.is_ok()).await;
        until_up(&store).await;
        all_is_well(&store, "k", &quota).await;
        assert_eq!(callers.end().await.denied, 0);
    });
}

/// The sentinels report the proxy's address; the node on the master's side of the cut knows the master by its
/// own port.
#[test]
fn a_master_that_is_cut_off_is_left_for_the_next_and_admits_at_most_the_limit_once_more() {
    const FEW: u64 = 200;
    let Some((sentinel, proxy)) = Sentinel::start_apart(&Options::new(), 1) else { return };
    let [old, new] = &sentinel.servers;
    run_beside(async {
        let near = store(impatient(&sentinel.url()));
        let far = store(quick(&old.url()));
        let quota = total(FEW);
        let other = total(LIMIT);
        wait("the first answer", async || take(&near, "warm", &other).await.is_ok()).await;
        let mut told = take_many(&near, "k", &quota, 50).await;
        told.add(take_many(&far, "k", &quota, 50).await);
        assert_eq!(told.admitted, 100, "{told:?}");
        let kept = |redis: &Redis| redis.command(&["GET", "tollgate:{k}"]);
        wait("the replica to have heard of it", async || kept(old) == kept(new)).await;

        let callers = Callers::begin(&near, &["other"], &other, 4).await;
        proxy.set(NetworkFault::Swallow);
        until_down(&near).await;
        assert_eq!(take_many(&far, "k", &quota, FEW).await.admitted, 100, "it counts on alone");
        let ask = async || {
            let answer = tokio::time::timeout(Duration::from_secs(5), take(&near, "warm", &other)).await;
            answer.expect("no call hangs").is_ok()
        };
        wait("the next master to count", ask).await;
        assert_eq!(sentinel.master(), Some(1));
        until_up(&near).await;
        assert_eq!(
            take_many(&near, "k", &quota, FEW).await.admitted,
            100,
            "what the replica had heard of is kept"
        );

        // Where the server has the setting, the lag that it allows has passed by now.
        for (name, value) in [("min-replicas-max-lag", "1"), ("min-replicas-to-write", "1")] {
            old.command(&["CONFIG", "SET", name, value]);
        }
        let error = take(&far, "another", &other).await.expect_err("it has no replica");
        assert!(error.to_string().contains("NOREPLICAS"), "{error}");

        proxy.set(NetworkFault::None);
        wait("the old master to follow", async || old.info("role").as_deref() == Some("slave")).await;
        // The master was down before, for want of a replica of its own.
        let is_replica =
            async || matches!(far.state(), StoreState::Down { why, .. } if why.contains("is a replica"));
        wait("it to be told for a replica", is_replica).await;
        drop(far);
        wait("the old master to be left", async || {
            old.ask(&["CLIENT", "LIST"]).is_ok_and(|clients| !clients.text().contains("name=tollgate"))
        })
        .await;
        all_is_well(&near, "after", &other).await;
        assert_eq!(take_many(&near, "k", &quota, 10).await.denied, 10, "nothing is admitted a second time");
        let told = callers.end().await;
        told.explains(used(&near, "other", &other, LIMIT).await.max(told.admitted));
        assert!(told.denied == 0 && told.silent > 0, "{told:?}");
    });
}

/// The number of times that the nodes have returned this error.
fn told(cluster: &Cluster, error: &str) -> u64 {
    let said = |node: &Redis| {
        let stats = node.command(&["INFO", "errorstats"]).text();
        let count = stats.split_once(&format!("errorstat_{error}:count="))?.1;
        count.lines().next()?.trim().parse::<u64>().ok()
    };
    cluster.nodes.iter().filter_map(said).sum()
}

#[test]
fn slots_that_move_in_use_lose_no_count_and_fail_no_call() {
    let Some(cluster) = Cluster::start() else { return };
    run_beside(async {
        let mut config = patient(&cluster.url());
        config.hash_tag = HashTag::Domain;
        config.link.deadline = Duration::from_secs(20); // for those that wait until the slot has moved
        let store = store(config);
        let quota = total(LIMIT);
        let keys = ["a|", "b|", "c|"];
        for key in keys {
            all_is_well(&store, key, &quota).await;
        }
        let callers = Callers::begin(&store, &keys, &quota, 2).await;
        let slot = cluster.slot("tollgate:{a}");
        let mut both = 0;
        for to in [1, 2, 0, 1] {
            if cluster.owner(slot) == to {
                continue;
            }
            cluster.begin_move(slot, to);
            let flights = store.stats().conn.flights;
            wait("calls while it moves", async || store.stats().conn.flights > flights + 20).await;
            // A key that does not exist yet belongs to the new owner (ASK).
            let asked = told(&cluster, "ASK");
            let fresh = format!("a|fresh{both}");
            all_is_well(&store, &fresh, &quota).await;
            assert!(told(&cluster, "ASK") > asked);
            // Neither node has both keys, until the slot has moved (TRYAGAIN).
            let tried = told(&cluster, "TRYAGAIN");
            let together = tokio::spawn({
                let store = store.clone();
                let quota = quota.clone();
                async move {
                    let on = |key| Counter::new(Key(key), &quota).take(Cost::ONE);
                    let batch = [on(b"a|"), on(fresh.as_bytes())];
                    let mut verdicts = Vec::new();
                    store.take(&batch, Charge::Together, NOW, &mut verdicts).await;
                    verdicts.into_iter().map(|it| it.map(|decision| decision.is_admitted())).collect()
                }
            });
            wait("the call to be tried again", async || told(&cluster, "TRYAGAIN") > tried + 20).await;
            cluster.finish_move(slot, to);
            let admitted: Result<Vec<_>, _> = together.await.expect("no panic");
            assert_eq!(admitted.expect("it is sent again until it can be answered"), [true, true]);
            both += 1;
        }
        let told = callers.end().await;
        assert_eq!(told, Told { admitted: told.admitted, ..Told::default() });
        let mut gone = 0;
        for key in keys {
            gone += used(&store, key, &quota, LIMIT).await - 50;
        }
        assert_eq!(gone, told.admitted + both);
        assert!(store.stats().flights.redirects > 0);
    });
}

#[test]
fn nodes_that_send_each_other_a_slot_without_end_are_not_followed_without_end() {
    let Some(cluster) = Cluster::start() else { return };
    run_beside(async {
        let store = store(patient(&cluster.url()));
        let quota = total(LIMIT);
        all_is_well(&store, "elsewhere", &quota).await;
        let slot = cluster.slot("tollgate:{lost}");
        let owner = cluster.owner(slot);
        let number = slot.to_string();
        let id = |node: usize| cluster.nodes[node].command(&["CLUSTER", "MYID"]).text();
        // The owner redirects to the next node, and that one back to the owner.
        let says = |of: &str| {
            let reply = cluster.nodes[owner].command(&["CLUSTER", "SETSLOT", &number, "NODE", of]);
            assert_eq!(reply.text(), "OK");
        };
        says(&id((owner + 1) % 3));
        let error = take(&store, "lost", &quota).await.expect_err("nobody keeps it");
        let told = error.to_string();
        assert!(told.contains("MOVED") && told.contains("no permit was taken"), "{told}");
        says(&id(owner));
        wait("the slot to be found again", async || take(&store, "lost", &quota).await.is_ok()).await;
        assert_eq!(
            used(&store, "lost", &quota, LIMIT).await,
            1,
            "what was answered with an error took nothing"
        );
    });
}

#[test]
fn a_clusters_dead_master_is_replaced_and_the_others_serve_throughout() {
    // Without this a Cluster that lacks one node answers for no slot, and a dead master is replaced before
    // the test looks.
    let options =
        Options::new().set("cluster-require-full-coverage", "no").set("cluster-replica-no-failover", "yes");
    let Some(mut cluster) = Cluster::start_with(&options, true) else { return };
    run_beside(async {
        let store = store(quick(&cluster.url()));
        let quota = total(LIMIT);
        let keys: Vec<String> = (0..6).map(|nth| format!("k{nth}")).collect();
        for key in &keys {
            all_is_well(&store, key, &quota).await;
        }
        let owner = |key: &String| cluster.owner(cluster.slot(&format!("tollgate:{{{key}}}")));
        let (dead, alive): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| owner(key) == 0);
        assert!(!dead.is_empty() && !alive.is_empty());
        let living: Vec<&str> = alive.iter().map(String::as_str).collect();
        let callers = Callers::begin(&store, &living, &quota, 2).await;
        cluster.nodes[0].kill();
        wait("the loss to be noticed", async || take(&store, &dead[0], &quota).await.is_err()).await;
        let others = || {
            cluster.nodes[1..].iter().all(|node| node.command(&["CLUSTER", "NODES"]).text().contains("fail"))
        };
        wait("the others to hold it for dead", async || others()).await;
        for key in &alive {
            all_is_well(&store, key, &quota).await;
            take(&store, &dead[0], &quota).await.expect_err("nobody has taken over");
        }
        cluster.fail_over(0);
        for key in &dead {
            wait("the replica to count", async || take(&store, key, &quota).await.is_ok()).await;
            for key in &alive {
                all_is_well(&store, key, &quota).await;
            }
        }
        wait("the state to be up", async || store.state() == StoreState::Up).await;
        for key in &keys {
            all_is_well(&store, key, &quota).await;
        }
        let told = callers.end().await;
        assert_eq!(
            told,
            Told { admitted: told.admitted, ..Told::default() },
            "no call for a living master failed"
        );
    });
}
