//! Effects of the rows about a shared store; they have no others.

use tollgate_store_redis::{HashTag, RedisConfig, Secret as Password};

use super::*;

fn redis(flags: &[(&str, &str)], env: &[(&str, &str)]) -> RedisConfig {
    let flags: Vec<_> = flags.iter().copied().chain([("store", "redis+sentinel://s/m")]).collect();
    match read_with_rules(&flags, env, None).store.kind {
        StoreKind::Redis(config) => *config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sentinels_have_a_login_of_their_own() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "theirs\n").expect("written");
    let path = file.path().display().to_string();
    let who = |name: &str, password: &str| (Some(name.to_owned()), Some(Password::new(password)));
    let env = [
        ("TOLLGATE_STORE_USERNAME", "ann"),
        ("TOLLGATE_STORE_PASSWORD", "hers"),
        ("TOLLGATE_STORE_SENTINEL_USERNAME", "bob"),
        ("TOLLGATE_STORE_SENTINEL_PASSWORD", "his"),
    ];
    for (flags, env, server, sentinels, has_file) in [
        (&[][..], &[][..], (None, None), (None, None), false),
        (&[], &env[..2], who("ann", "hers"), (None, None), false),
        (&[], &env[2..], (None, None), who("bob", "his"), false),
        (&[], &env, who("ann", "hers"), who("bob", "his"), false),
        (
            &[("store-sentinel-password-file", path.as_str())],
            &env[..3],
            who("ann", "hers"),
            (Some("bob".into()), None),
            true,
        ),
        (
            &[],
            &[
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", "ignored"),
                ("REDIS_AUTH", "ann:hers"),
                ("REDIS_SENTINEL_AUTH", "bob:his"),
            ],
            who("ann", "hers"),
            who("bob", "his"),
            false,
        ),
    ] {
        let config = redis(flags, env);
        assert_eq!((config.link.login.username, config.link.login.password), server, "{flags:?} {env:?}");
        let theirs = config.link.sentinel_login;
        assert_eq!((theirs.username, theirs.password), sentinels, "{flags:?} {env:?}");
        assert_eq!(theirs.password_file, has_file.then(|| file.path().to_owned()));
        assert_eq!(config.link.login.password_file, None);
    }
}

#[test]
fn each_hash_tag_is_its_own() {
    assert_eq!(redis(&[], &[]).hash_tag, HashTag::Counter);
    for (text, tag) in
        [("counter", HashTag::Counter), ("domain", HashTag::Domain), ("first-entry", HashTag::FirstEntry)]
    {
        assert_eq!(redis(&[("store-hash-tag", text)], &[]).hash_tag, tag);
    }
}

#[test]
fn memcached_has_the_settings_of_every_shared_store() {
    let url = ("store", "memcache://10.0.0.5,h:7");
    let memcache = |flags: &[(&str, &str)]| {
        let flags: Vec<_> = flags.iter().copied().chain([url]).collect();
        match read_with_rules(&flags, &[], None).store.kind {
            StoreKind::Memcache(config) => *config,
            other => panic!("{other:?}"),
        }
    };
    let plain = memcache(&[]);
    assert_eq!((plain.prefix.as_str(), plain.deadline), ("tollgate:", Duration::from_millis(10)));
    assert_eq!((plain.connect_timeout, plain.max_queued), (Duration::from_millis(500), 8192));
    let given = memcache(&[
        ("store-prefix", "shop_"),
        ("store-deadline", "7ms"),
        ("store-connect-timeout", "70ms"),
        ("store-max-queued", "77"),
    ]);
    assert_eq!((given.prefix.as_str(), given.deadline), ("shop_", Duration::from_millis(7)));
    assert_eq!((given.connect_timeout, given.max_queued), (Duration::from_millis(70), 77));
    assert_eq!(given.servers, plain.servers);
}
