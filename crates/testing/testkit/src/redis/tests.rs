//! The helpers do what their tests will take for granted.

use std::io::ErrorKind;
use std::time::Duration;

use super::*;

fn set_and_get(redis: &Redis) {
    assert_eq!(redis.command(&["SET", "key", "1"]).text(), "OK");
    assert_eq!(redis.command(&["GET", "key"]), RedisReply::Bulk(b"1".to_vec()));
}

#[test]
fn a_killed_redis_forgets_and_one_that_appends_does_not() {
    let (Some(mut forgets), Some(mut keeps)) =
        (Redis::start(&Options::new()), Redis::start(&Options::new().append_only()))
    else {
        return;
    };
    for redis in [&mut forgets, &mut keeps] {
        set_and_get(redis);
        redis.kill();
        assert!(RedisConnection::connect(redis.address()).is_err());
        redis.start_again();
    }
    assert_eq!(forgets.command(&["GET", "key"]), RedisReply::Nil);
    assert_eq!(keeps.command(&["GET", "key"]).text(), "1");
    keeps.restart_empty();
    assert_eq!(keeps.command(&["DBSIZE"]).int(), 0);
    keeps.stop();
    keeps.resume();
    set_and_get(&keeps);
}

#[test]
fn passwords_users_limits_and_certificates_are_asked_for() {
    let options = Options::new()
        .password("secret")
        .user("limited on >word ~tollgate:* +get")
        .memory("3mb", "allkeys-lru");
    let Some(redis) = Redis::start(&options) else { return };
    let mut stranger = RedisConnection::connect(redis.address()).expect("it runs");
    assert!(
        stranger
            .command(&["GET", "key"])
            .expect("an answer")
            .error()
            .is_some_and(|it| it.starts_with("NOAUTH"))
    );
    assert_eq!(stranger.command(&["AUTH", "limited", "word"]).expect("an answer").text(), "OK");
    assert!(
        stranger
            .command(&["GET", "key"])
            .expect("an answer")
            .error()
            .is_some_and(|it| it.starts_with("NOPERM"))
    );
    assert_eq!(redis.info("maxmemory_policy").as_deref(), Some("allkeys-lru"));
    assert_eq!(redis.url(), format!("redis://:secret@{}", redis.address()));

    let Some(tls) = Redis::start(&Options::new().client_certificates()) else { return };
    set_and_get(&tls);
    assert!(
        tls.url().starts_with("rediss://") && tls.authority().is_some() && tls.client_certificate().is_some()
    );
}

#[test]
fn sentinels_make_the_replica_the_master() {
    let Some(mut sentinel) = Sentinel::start(&Options::new().password("secret"), 1) else { return };
    assert_eq!(sentinel.master(), Some(0));
    sentinel.servers[0].command(&["SET", "key", "1"]);
    poll("the copy", || (sentinel.servers[1].command(&["GET", "key"]).text() == "1").then_some(()));
    assert_eq!(sentinel.kill_master(), 1);
    set_and_get(&sentinel.servers[1]);
}

#[test]
fn slots_move_between_the_nodes_of_a_cluster_and_its_replicas_take_over() {
    let Some(mut cluster) = Cluster::start_with_replicas() else { return };
    let slot = cluster.slot("key");
    let from = cluster.owner(slot);
    let to = (cluster.owner(slot) + 1) % 3;
    set_and_get(&cluster.nodes[from]);
    cluster.begin_move(slot, to);
    assert!(cluster.nodes[from].command(&["GET", "{key}2"]).error().is_some_and(|it| it.starts_with("ASK")));
    cluster.finish_move(slot, to);
    assert_eq!(cluster.owner(slot), to);
    assert_eq!(cluster.nodes[to].command(&["GET", "key"]).text(), "1");
    assert!(cluster.nodes[from].command(&["GET", "key"]).error().is_some_and(|it| it.starts_with("MOVED")));
    cluster.nodes[0].kill();
    cluster.fail_over(0);
    cluster.wait();
}

#[test]
fn a_proxy_spoils_what_it_is_told_to_and_nothing_else() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let proxy = Proxy::before(redis.address());
    let connect = || RedisConnection::connect(proxy.address()).expect("it listens");
    let set = |value: &str| connect().command(&["SET", "key", value]);
    assert!(set("1").is_ok());
    proxy.set(NetworkFault::Latency(Duration::from_millis(30)));
    assert!(set("2").is_ok());
    proxy.set(NetworkFault::CutReplies);
    assert_eq!(set("3").expect_err("cut").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(redis.command(&["GET", "key"]).text(), "3", "done, though nobody heard");
    proxy.set(NetworkFault::Refuse);
    assert_eq!(
        RedisConnection::connect(proxy.address()).expect_err("refused").kind(),
        ErrorKind::ConnectionRefused
    );
    proxy.set(NetworkFault::None);
    let mut client = connect();
    assert!(client.command(&["PING"]).is_ok());
    proxy.cut();
    assert!(client.command(&["PING"]).is_err());

    proxy.set(NetworkFault::Stall);
    let mut client = connect();
    let waiting = std::thread::spawn(move || client.command(&["PING"]));
    poll("the command to arrive", || (proxy.accepted() >= 5).then_some(()));
    assert!(!waiting.is_finished());
    proxy.set(NetworkFault::None);
    assert!(waiting.join().expect("no panic").is_ok());
}

#[test]
fn memcached_comes_back_on_its_port() {
    let Some(mut memcached) = Memcached::start() else { return };
    memcached.stop();
    memcached.resume();
    assert!(memcached.command("version").starts_with("VERSION"));
    memcached.kill();
    memcached.start_again();
    assert_eq!(memcached.command("incr nothing 1"), "NOT_FOUND");
}
