//! Counters over several servers.

use tollgate_core::Cost;
use tollgate_store::suite::{Executor, Options, run};
use tollgate_store::{Charge, Counter, Key, Store, StoreError};
use tollgate_store_memcache::StoreState;
use tollgate_testkit::redis::Memcached;

use crate::conformance::UNSUPPORTED;
use crate::helpers::{NOON, Nodes, config, hourly, store, take, until};

fn three() -> Option<[Memcached; 3]> {
    Some([Memcached::start()?, Memcached::start()?, Memcached::start()?])
}

fn url(servers: &[Memcached]) -> String {
    let servers: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("memcache://{}", servers.join(","))
}

fn items(server: &Memcached) -> u64 {
    // `stats` answers many lines; this one is asked for by its slab's own command.
    let line = server.command("stats items");
    if line == "END" { 0 } else { line.rsplit_once(' ').and_then(|(_, n)| n.parse().ok()).unwrap_or(0) }
}

#[test]
fn three_servers_answer_as_one_does() {
    let Some(servers) = three() else { return };
    let make = || store(config(&url(&servers)));
    run(
        &Nodes::new(2),
        make,
        &Options { cases: 32, takes: 100, unsupported: UNSUPPORTED, ..Options::default() },
    );
}

#[test]
fn counters_are_spread_and_a_dead_server_takes_only_its_own_along() {
    let Some(mut servers) = three() else { return };
    let nodes = Nodes::new(1);
    let mut config = config(&url(&servers));
    config.deadline = std::time::Duration::from_secs(1);
    let store = store(config);
    let quota = hourly(10);
    let keys: Vec<_> = (0..60).map(|n| format!("user={n}")).collect();
    nodes.block_on(async {
        for key in &keys {
            assert_eq!(take(&store, key, &quota).await.expect("an answer").remaining(), 9);
        }
        assert!(servers.iter().all(|server| items(server) > 5), "each has a share");
        assert!(store.state().is_up());
        servers[1].kill();
        let address = servers[1].address().to_string();
        until(&store, |state| matches!(state, StoreState::Down { why, .. } if why.contains(&address))).await;
        let mut dead = 0;
        let mut alive = 0;
        for key in &keys {
            match take(&store, key, &quota).await {
                Ok(decision) => {
                    assert_eq!(decision.remaining(), 8);
                    alive += 1;
                }
                Err(StoreError::Unreachable { .. }) => dead += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(dead > 5 && alive > 20, "{dead} dead, {alive} alive");
        // Keys of live servers are charged together; the caller decides about keys of dead ones.
        let batch: Vec<_> =
            keys.iter().map(|key| Counter::new(Key(key.as_bytes()), &quota).take(Cost::ONE)).collect();
        let mut verdicts = Vec::new();
        store.take(&batch, Charge::Together, NOON, &mut verdicts).await;
        assert_eq!(verdicts.len(), keys.len());
        assert_eq!(verdicts.iter().flatten().filter(|it| it.remaining() == 7).count(), alive);
        servers[1].start_again();
        until(&store, StoreState::is_up).await;
        let mut left = Vec::new();
        for key in &keys {
            left.push(take(&store, key, &quota).await.expect("an answer").remaining());
        }
        assert_eq!(left.iter().filter(|left| **left == 6).count(), alive, "each was charged by the batch");
        assert_eq!(
            left.iter().filter(|left| **left == 9).count(),
            dead,
            "a server that starts anew is empty"
        );
    });
}
