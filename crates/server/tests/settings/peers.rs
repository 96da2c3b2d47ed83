//! What the environment of envoyproxy/ratelimit means here, and what of it is only told.

use super::*;

#[test]
fn the_peers_environment_is_understood() {
    let env = [
        ("GRPC_HOST", "127.0.0.1"),
        ("GRPC_PORT", "9081"),
        ("HOST", "::1"),
        ("PORT", "9080"),
        ("RUNTIME_ROOT", "/data/ratelimit"),
        ("RUNTIME_SUBDIRECTORY", "current"),
        ("RUNTIME_APPDIRECTORY", "limits"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("MERGE_DOMAIN_CONFIG", "1"),
        ("SHADOW_MODE", "TRUE"),
        ("QUOTA_MODE", "t"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
        ("LIMIT_RESET_HEADER", "X-Reset"),
        ("RESPONSE_DYNAMIC_METADATA", "true"),
        ("NEAR_LIMIT_RATIO", "0.9"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("GRPC_MAX_CONNECTION_AGE", "1h0m0s"),
        ("LOG_LEVEL", "WARN"),
        ("LOG_FORMAT", "json"),
        ("USE_STATSD", "false"),
    ];
    let settings = read(&[], &env, None).expect("no fault");
    assert_eq!(settings.grpc, at("127.0.0.1:9081"));
    assert_eq!(settings.http, at("[::1]:9080"));
    assert_eq!(settings.rules, [PathBuf::from("/data/ratelimit/current/limits")]);
    assert!(settings.merge_domains && settings.start_anyway);
    assert!(settings.limiter.shadow_mode && settings.limiter.quota_mode && settings.replies.dynamic_metadata);
    let headers = settings.replies.headers.expect("wanted");
    assert_eq!((headers.limit.as_str(), headers.reset.as_str()), ("RateLimit-Limit", "X-Reset"));
    assert!((settings.limiter.near_limit_ratio - 0.9).abs() < 1e-9);
    assert_eq!(settings.max_connection_age, Some(Duration::from_secs(3600)));
    assert_eq!(settings.log_level, tracing::level_filters::LevelFilter::WARN);
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
    assert!(settings.peer_names.contains(&"GRPC_HOST, GRPC_PORT".to_owned()), "{:?}", settings.peer_names);
}

#[test]
fn addresses_of_the_peers_names_are_what_the_peer_would_listen_on() {
    for (env, want) in [
        (&[("PORT", "80")][..], "0.0.0.0:80"),
        (&[("HOST", "127.0.0.1")], "127.0.0.1:8080"),
        (&[("HOST", "my-laptop")], "127.0.0.1:8080"), // a shell's name for the machine, not an address
        (&[("HOST", "localhost"), ("PORT", "80")], "localhost:80"),
        (&[("HOST", ""), ("PORT", "")], "127.0.0.1:8080"),
        (&[], "127.0.0.1:8080"),
    ] {
        assert_eq!(read_with_rules(&[], env, None).http, at(want), "{env:?}");
    }
}

/// The settings of a shared store as a test compares them: servers, login, encryption.
fn redis(settings: &Settings) -> String {
    let StoreSettings::Redis(config) = &settings.store else { return format!("{:?}", settings.store) };
    let tls = if config.link.tls.is_some() { ", TLS" } else { "" };
    let user = config.link.login.username.as_deref().unwrap_or("-");
    let password = if config.link.login.password.is_some() { "***" } else { "-" };
    format!("{}, {user}:{password}{tls}, {}", config.link.servers, config.prefix)
}

#[test]
fn the_peers_store_is_ours() {
    for (env, want) in [
        (&[][..], "Memory"),
        (&[("BACKEND_TYPE", "memory"), ("REDIS_URL", "redis:6379")], "Memory"),
        (&[("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "redis:6379")], "redis:6379, -:-, tollgate:"),
        (&[("REDIS_URL", "/run/redis.sock")], "/run/redis.sock, -:-, tollgate:"),
        (
            &[("REDIS_URL", "r:1"), ("REDIS_AUTH", "s3cret"), ("REDIS_TLS", "true")],
            "r:1, -:***, TLS, tollgate:",
        ),
        (
            &[("REDIS_URL", "r:1"), ("REDIS_AUTH", "ann:s3cret"), ("CACHE_KEY_PREFIX", "p_")],
            "r:1, ann:***, p_",
        ),
        (
            &[("REDIS_TYPE", "SENTINEL"), ("REDIS_URL", "mymaster,a:26379,b:26379")],
            "mymaster of the sentinels a:26379,b:26379, -:-, tollgate:",
        ),
        (
            &[("BACKEND_TYPE", "redis"), ("REDIS_TYPE", "cluster"), ("REDIS_URL", "a:7000,b:7000")],
            "cluster a:7000,b:7000, -:-, tollgate:",
        ),
        (&[("REDIS_URL", "r:1"), ("TOLLGATE_STORE", "memory")], "Memory"),
    ] {
        let settings = read_with_rules(&[], env, None);
        assert_eq!(redis(&settings), want, "{env:?}");
        assert!(!format!("{settings:?}").contains("s3cret"), "{env:?}");
    }
    assert_eq!(
        told(read(&[("rules", "rules")], &[("BACKEND_TYPE", "redis")], None)),
        ["environment: BACKEND_TYPE: wants REDIS_URL, such as 10.0.0.5:6379 or /run/redis.sock"]
    );
}

#[test]
fn a_password_on_the_command_line_is_warned_of_and_one_beside_the_url_counts() {
    let settings = read_with_rules(&[("store", "redis://:s3cret@r:1")], &[], None);
    assert!(settings.notes[0].starts_with("store: the password stands on the command line"), "{settings:?}");
    let env = [("TOLLGATE_STORE", "redis://old:secret@r:1"), ("TOLLGATE_STORE_PASSWORD", "s3cret")];
    let settings = read_with_rules(&[("store-username", "new")], &env, None);
    assert_eq!(redis(&settings), "r:1, new:***, tollgate:");
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}

#[test]
fn what_the_peer_would_do_and_we_do_not_is_said() {
    let env = [
        ("REDIS_URL", "redis:6379"),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_POOL_SIZE", "20"),
        ("REDIS_PIPELINE_WINDOW", "75us"),
    ];
    assert_eq!(
        read_with_rules(&[], &env, None).notes,
        [
            "REDIS_PERSECOND: no effect: all counters are kept in the store of REDIS_URL",
            "REDIS_POOL_SIZE, REDIS_PIPELINE_WINDOW: no effect: calls that come together share a round trip, on one \
             connection a worker",
        ]
    );
    let unsafe_to_ignore = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "cert.pem"),
        ("GRPC_SERVER_TLS_KEY", "key.pem"),
        ("GRPC_CLIENT_TLS_SAN", "envoy.internal"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
    ];
    assert_eq!(
        told(read(&[("rules", "rules")], &unsafe_to_ignore, None)),
        [
            "environment: CONFIG_TYPE: this release reads rules from files only; write FILE",
            "environment: GRPC_CLIENT_TLS_SAN: this release checks who signed a client's certificate, not its names; \
             unset it",
        ]
    );
}

#[test]
fn tls_by_the_peers_names_is_for_grpc_only_and_only_when_its_switch_is_on() {
    let files = [
        ("GRPC_SERVER_TLS_CERT", "cert.pem"),
        ("GRPC_SERVER_TLS_KEY", "key.pem"),
        ("GRPC_CLIENT_TLS_CACERT", "ca.pem"),
    ];
    assert_eq!(read_with_rules(&[], &files, None).tls, TlsSettings::default());
    let on = [("GRPC_SERVER_USE_TLS", "true")];
    let tls = read_with_rules(&[], &files.into_iter().chain(on).collect::<Vec<_>>(), None).tls;
    let want = TlsSettings {
        files: Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() }),
        surfaces: vec![Surface::Grpc],
        grpc_client_ca: Some("ca.pem".into()),
    };
    assert_eq!(tls, want);
}

#[test]
fn the_peers_traces_go_to_a_collector_that_speaks_grpc() {
    let on = ("TRACING_ENABLED", "true");
    let grpc = ("TRACING_EXPORTER_PROTOCOL", "grpc");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    for (env, want) in [
        (&[endpoint][..], None),
        (&[on, endpoint], None), // over HTTP, which is noted
        (&[on, grpc], Some("http://localhost:4317")),
        (&[on, grpc, endpoint], Some("http://collector:4317")),
    ] {
        let settings = read_with_rules(&[], env, None);
        assert_eq!(settings.otlp.as_deref(), want, "{env:?}");
        assert_eq!(settings.notes.len(), usize::from(env == [on, endpoint]), "{:?}", settings.notes);
    }
    let settings = read_with_rules(&[], &[on, grpc, ("TRACING_SAMPLING_RATE", "0.25")], None);
    assert!((settings.limiter.trace_ratio - 0.25).abs() < 1e-9);
}
