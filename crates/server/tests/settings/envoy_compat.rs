//! Effects of envoyproxy/ratelimit's environment, and names that only produce a note.

use super::*;

/// All names count, also those that other programs have too.
const ALWAYS: (&str, &str) = ("compat", "ratelimit");

#[test]
fn the_environment_of_envoyproxy_ratelimit_is_read() {
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
        ("DEBUG_HOST", "127.0.0.1"),
        ("DEBUG_PORT", "6071"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
        ("PROMETHEUS_PATH", "/stats/prometheus"),
    ];
    let settings = read(&[], &env, None).expect("no fault");
    assert_eq!(listen(&settings, "debug-pages"), &at("127.0.0.1:6071"));
    assert_eq!(listen(&settings, "metrics"), &at("0.0.0.0:19001"));
    assert_eq!(of::<MetricsSettings>(&settings, "metrics").path, "/stats/prometheus");
    assert_eq!(listen(&settings, "grpc"), &at("127.0.0.1:9081"));
    assert_eq!(listen(&settings, "http"), &at("[::1]:9080"));
    assert_eq!(settings.rules.paths, [PathBuf::from("/data/ratelimit/current/limits")]);
    assert!(settings.rules.merge_domains && settings.rules.start_anyway);
    assert!(
        settings.decisions.limiter.shadow_mode
            && settings.decisions.limiter.quota_mode
            && settings.decisions.replies.dynamic_metadata
    );
    let headers = settings.decisions.replies.headers.as_ref().expect("wanted");
    assert_eq!((headers.limit.as_str(), headers.reset.as_str()), ("RateLimit-Limit", "X-Reset"));
    assert!((settings.decisions.limiter.observe.near_limit_ratio - 0.9).abs() < 1e-9);
    assert_eq!(of::<GrpcSettings>(&settings, "grpc").max_connection_age, Some(Duration::from_secs(3600)));
    assert_eq!(settings.telemetry.log_level, tracing::level_filters::LevelFilter::WARN);
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
    // All but those whose every value means what happens anyway, sorted.
    let silent = ["RUNTIME_WATCH_ROOT", "RUNTIME_IGNOREDOTFILES", "USE_STATSD"];
    let mut names: Vec<_> = env.iter().map(|(name, _)| *name).filter(|name| !silent.contains(name)).collect();
    names.sort_unstable();
    assert_eq!(settings.envoy_compat_names, names);
}

#[test]
fn rule_files_with_a_dot_are_read_as_envoyproxy_ratelimit_does() {
    for (env, want) in [
        (&[("RUNTIME_ROOT", "/data")][..], true),
        (&[("RUNTIME_SUBDIRECTORY", "current")], true),
        (&[("RUNTIME_ROOT", "/data"), ("RUNTIME_IGNOREDOTFILES", "true")], false),
        (&[("RUNTIME_ROOT", "/data"), ("RUNTIME_IGNOREDOTFILES", "false")], true),
        (&[("RUNTIME_ROOT", "/data"), ("TOLLGATE_DOT_FILES", "false")], false),
        (&[("TOLLGATE_RULES", "/data"), ("RUNTIME_IGNOREDOTFILES", "0")], true),
        (&[("TOLLGATE_RULES", "/data")], false),
        (&[("TOLLGATE_RULES", "/data"), ("TOLLGATE_DOT_FILES", "true")], true),
        (&[("TOLLGATE_RULES", "/data"), ("RUNTIME_ROOT", "/data"), ("TOLLGATE_COMPAT", "off")], false),
    ] {
        let settings = read(&[], env, None).expect("no fault");
        assert_eq!(settings.rules.dot_files, want, "{env:?}");
        let mut names = settings.envoy_compat_names.clone();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), settings.envoy_compat_names.len(), "{env:?}: each is named once");
    }
}

#[test]
fn addresses_are_what_envoyproxy_ratelimit_would_listen_on() {
    for (env, want) in [
        (&[("PORT", "80")][..], "0.0.0.0:80"),
        (&[("HOST", "127.0.0.1")], "127.0.0.1:8080"),
        (&[("HOST", "::")], "[::]:8080"),
        (&[("HOST", "[::1]"), ("PORT", "80")], "[::1]:80"),
        (&[("HOST", "my-laptop")], "my-laptop:8080"),
        (&[("HOST", "localhost"), ("PORT", "80")], "localhost:80"),
        (&[("HOST", ""), ("PORT", "")], "0.0.0.0:8080"),
        (&[("PORT", "tcp://10.0.0.11:8080")], "0.0.0.0:8080"), // set by Kubernetes, and not a port
        (&[], "0.0.0.0:8080"),
    ] {
        assert_eq!(listen(&read_with_rules(&[ALWAYS], env, None), "http"), &at(want), "{env:?}");
    }
    // The value that Kubernetes sets for a Service called `grpc` is not a port.
    let env = [("GRPC_PORT", "tcp://10.0.0.11:8081")];
    for (flags, want) in [(&[][..], "127.0.0.1:8081"), (&[ALWAYS], "0.0.0.0:8081")] {
        let settings = read_with_rules(flags, &env, None);
        assert_eq!((listen(&settings, "grpc"), settings.notes.len()), (&at(want), 0));
    }
}

#[test]
fn only_an_environment_of_envoyproxy_ratelimit_opens_ports_to_other_machines() {
    let surfaces = ["grpc", "http", "resp", "debug-pages", "metrics"];
    let addresses = |settings: &Settings| surfaces.map(|surface| listen(settings, surface).clone());
    let [loopback, open] = [
        ["127.0.0.1:8081", "127.0.0.1:8080", "127.0.0.1:6390", "off", "off"],
        ["0.0.0.0:8081", "0.0.0.0:8080", "127.0.0.1:6390", "0.0.0.0:6070", "off"],
    ]
    .map(|all| all.map(|text| if text == "off" { Listen::Off } else { at(text) }));
    let proof = [("RUNTIME_IGNOREDOTFILES", "true")];
    assert_eq!(addresses(&read_with_rules(&[], &[], None)), loopback);
    assert_eq!(addresses(&read_with_rules(&[("compat", "off")], &proof, None)), loopback);
    for (flags, env) in [(&[][..], &proof[..]), (&[ALWAYS], &[])] {
        let settings = read_with_rules(flags, env, None);
        assert_eq!(addresses(&settings), open, "{flags:?} {env:?}");
        assert!(settings.notes.is_empty(), "{:?}", settings.notes);
        // A file counts before these defaults, and so does whatever else is set.
        let file = Some("grpc: 127.0.0.1:1\ndebug_pages: off\n");
        let settings = read_with_rules(flags, env, file);
        assert_eq!(listen(&settings, "grpc"), &at("127.0.0.1:1"));
        assert_eq!(listen(&settings, "debug-pages"), &Listen::Off);
    }
    let why = |flags, env| read_with_rules(flags, env, None).envoy_compat;
    assert_eq!(why(&[], &proof), Some("RUNTIME_IGNOREDOTFILES".to_owned()));
    assert_eq!(why(&[ALWAYS], &[]), Some("--compat ratelimit".to_owned()));
    assert_eq!(why(&[], &[("GRPC_PORT", "1")]), None);
}

#[test]
fn rules_are_where_envoyproxy_ratelimit_looks_for_them_unless_they_are_given() {
    let there = "/srv/runtime_data/current/config";
    for (flags, env, file, want) in [
        (&[ALWAYS][..], &[][..], None, there),
        (&[], &[("REDIS_SOCKET_TYPE", "tcp")], None, there),
        (&[], &[("RUNTIME_ROOT", "/data")], None, "/data/config"),
        (&[ALWAYS], &[("TOLLGATE_DEFAULT_RULES", "/etc/tollgate/rules")], None, there),
        (&[ALWAYS], &[], Some("rules: /etc/rules\n"), "/etc/rules"),
        (&[ALWAYS, ("rules", "here")], &[], None, "here"),
        (&[], &[("TOLLGATE_DEFAULT_RULES", "/etc/tollgate/rules")], None, "/etc/tollgate/rules"),
    ] {
        let settings = read(flags, env, file).expect("no fault");
        assert_eq!(settings.rules.paths, [PathBuf::from(want)], "{flags:?} {env:?}");
    }
    let with_control = read(&[ALWAYS, ("control", "http://127.0.0.1:8070")], &[], None);
    if let Ok(settings) = with_control {
        assert!(settings.rules.paths.is_empty(), "a control plane sends them: {:?}", settings.rules.paths);
    }
}

#[test]
fn names_that_other_programs_have_too_count_only_beside_one_that_they_do_not_have() {
    let stray = [
        ("HOST", "0.0.0.0"),
        ("PORT", "80"),
        ("GRPC_HOST", "10.0.0.7"),
        ("GRPC_PORT", "50051"),
        ("REDIS_URL", "redis:6379"),
        ("REDIS_AUTH", "s3cret"),
        ("SHADOW_MODE", "true"),
        ("LOG_LEVEL", "verbose"),
        ("CONFIG_TYPE", "yaml"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"), // no effect by itself
    ];
    let plain = read_with_rules(&[], &[], None);
    let ignored = read_with_rules(&[], &stray, None);
    let names = "CONFIG_TYPE, GRPC_HOST, GRPC_PORT, HOST, LOG_LEVEL, PORT, REDIS_AUTH, REDIS_URL, SHADOW_MODE: ignored, ";
    let [note] = &ignored.notes[..] else { panic!("{:?}", ignored.notes) };
    assert!(note.starts_with(names) && note.contains("--compat ratelimit"), "{note}");
    assert_eq!(Settings { notes: Vec::new(), ..ignored }, plain);
    assert_eq!(read_with_rules(&[("compat", "off")], &stray, None), plain);
    // Settings by Tollgate's own names need no note.
    let own = [("TOLLGATE_HTTP", "127.0.0.1:1"), ("PORT", "80")];
    assert_eq!(read_with_rules(&[], &own, None).notes, Vec::<String>::new());

    let effective = [("PORT", "80"), ("REDIS_URL", "redis:6379")];
    for distinctive in [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("NEAR_LIMIT_RATIO", "0.8"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "false"),
    ] {
        let env: Vec<_> = effective.into_iter().chain([distinctive]).collect();
        let settings = read_with_rules(&[], &env, None);
        assert_eq!(listen(&settings, "http"), &at("0.0.0.0:80"), "{distinctive:?}");
        assert_eq!(redis(&settings), "redis:6379, -:-, tollgate:", "{distinctive:?}");
        // The rules are given by a flag.
        let overridden = format!("{}: no effect: --rules overrides it", distinctive.0);
        let noted = Some(overridden).filter(|_| distinctive.0 == "RUNTIME_ROOT");
        assert_eq!(settings.notes, Vec::from_iter(noted));
        let off = read_with_rules(&[("compat", "off")], &env, None);
        assert_eq!(off, plain, "{distinctive:?}");
    }
    let by_env = [("TOLLGATE_COMPAT", "ratelimit"), ("PORT", "80")];
    for settings in [
        read_with_rules(&[ALWAYS], &effective, None),
        read_with_rules(&[], &by_env, None),
        read_with_rules(&[], &effective, Some("compat: ratelimit")),
    ] {
        assert_eq!(listen(&settings, "http"), &at("0.0.0.0:80"));
    }
    assert_eq!(
        faults(read(&[("rules", "rules"), ("compat", "envoy")], &[], None)),
        ["command line: --compat: unknown mode \"envoy\": expected auto, ratelimit or off"]
    );
}

/// The settings of a shared store as a test compares them: servers, login, encryption.
fn redis(settings: &Settings) -> String {
    let StoreKind::Redis(config) = &settings.store.kind else { return format!("{:?}", settings.store.kind) };
    let tls = if config.link.tls.is_some() { ", TLS" } else { "" };
    let user = config.link.login.username.as_deref().unwrap_or("-");
    let password = if config.link.login.password.is_some() { "***" } else { "-" };
    format!("{}, {user}:{password}{tls}, {}", config.link.servers, config.prefix)
}

#[test]
fn the_store_of_envoyproxy_ratelimit_is_the_store() {
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
        let settings = read_with_rules(&[ALWAYS], env, None);
        assert_eq!(redis(&settings), want, "{env:?}");
        assert!(!format!("{settings:?}").contains("s3cret"), "{env:?}");
    }
    assert_eq!(
        faults(read(&[ALWAYS, ("rules", "rules")], &[("BACKEND_TYPE", "redis")], None)),
        ["environment: BACKEND_TYPE: needs REDIS_URL, such as 10.0.0.5:6379 or /run/redis.sock"]
    );
}

#[test]
fn a_password_on_the_command_line_gives_a_warning_and_one_beside_the_url_counts() {
    let settings = read_with_rules(&[("store", "redis://:s3cret@r:1")], &[], None);
    assert!(settings.notes[0].starts_with("store: the password is on the command line"), "{settings:?}");
    let env = [("TOLLGATE_STORE", "redis://old:secret@r:1"), ("TOLLGATE_STORE_PASSWORD", "s3cret")];
    let settings = read_with_rules(&[("store-username", "new")], &env, None);
    assert_eq!(redis(&settings), "r:1, new:***, tollgate:");
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}

#[test]
fn names_without_an_effect_are_reported() {
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
             connection per worker",
        ]
    );
    let unsafe_to_ignore = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "cert.pem"),
        ("GRPC_SERVER_TLS_KEY", "key.pem"),
        ("GRPC_CLIENT_TLS_SAN", "envoy.internal"), // without GRPC_CLIENT_TLS_CACERT
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("RUNTIME_ROOT", "/data"),
    ];
    assert_eq!(
        faults(read(&[("rules", "rules")], &unsafe_to_ignore, None)),
        [
            "environment: CONFIG_TYPE: rules are read from files only; set FILE",
            "environment: GRPC_CLIENT_TLS_SAN: needs an authority that signs clients' certificates; give \
             --grpc-client-ca",
        ]
    );
}

#[test]
fn a_socket_of_envoyproxy_ratelimit_counts_before_its_host_and_port() {
    let socket = ("GRPC_UDS", "/run/ratelimit.sock");
    let env = [socket, ("GRPC_HOST", "0.0.0.0"), ("GRPC_PORT", "81")];
    let settings = read_with_rules(&[ALWAYS], &env, None);
    assert_eq!(listen(&settings, "grpc"), &at("unix:/run/ratelimit.sock"));
    assert_eq!(settings.notes, ["GRPC_HOST, GRPC_PORT: no effect: GRPC_UDS counts before them"]);
    let settings = read_with_rules(&[ALWAYS, ("grpc", "127.0.0.1:9")], &[socket], None);
    assert_eq!(listen(&settings, "grpc"), &at("127.0.0.1:9"));
}

#[test]
fn names_that_something_overrides_are_not_said_to_be_in_effect() {
    let env = [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("GRPC_PORT", "8090"),
        ("PORT", "8091"),
        ("REDIS_URL", "redis:6379"),
        ("TOLLGATE_HTTP", "127.0.0.1:1"),
    ];
    let flags = [("rules", "/etc/tollgate/rules"), ("grpc", "0.0.0.0:8081")];
    let settings = read(&flags, &env, Some("store: memory\n")).expect("no fault");
    assert_eq!(settings.envoy_compat_names, ["REDIS_URL"]);
    let mut notes = settings.notes.clone();
    notes.sort();
    assert_eq!(
        notes,
        [
            "GRPC_PORT: no effect: --grpc overrides it",
            "PORT: no effect: TOLLGATE_HTTP overrides it",
            "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY: no effect: --rules overrides it",
        ]
    );
    assert_eq!(redis(&settings), "redis:6379, -:-, tollgate:");
}

#[test]
fn defaults_of_an_image_yield_to_all_other_settings() {
    let image = [
        ("TOLLGATE_DEFAULT_RULES", "/etc/tollgate/rules"),
        ("TOLLGATE_DEFAULT_GRPC", "0.0.0.0:8081"),
        ("TOLLGATE_DEFAULT_RESP", "off"),
    ];
    let with = |more: &[(&'static str, &'static str)]| [&image[..], more].concat();
    for (flags, more, file, grpc, rules) in [
        (&[][..], &[][..], None, "0.0.0.0:8081", "/etc/tollgate/rules"),
        (&[("grpc", "127.0.0.1:1")], &[], None, "127.0.0.1:1", "/etc/tollgate/rules"),
        (&[], &[("TOLLGATE_GRPC", "127.0.0.1:2")], None, "127.0.0.1:2", "/etc/tollgate/rules"),
        (&[], &[("RUNTIME_ROOT", "/data"), ("GRPC_PORT", "3")], None, "0.0.0.0:3", "/data/config"),
        (&[], &[], Some("grpc: 127.0.0.1:4\nrules: /there\n"), "127.0.0.1:4", "/there"),
        (&[], &[("RUNTIME_ROOT", "/data")], Some("grpc: 127.0.0.1:4\n"), "127.0.0.1:4", "/data/config"),
    ] {
        let settings = read(flags, &with(more), file).expect("no fault");
        assert_eq!(listen(&settings, "grpc"), &at(grpc), "{flags:?} {more:?}");
        assert_eq!(settings.rules.paths, [PathBuf::from(rules)], "{flags:?} {more:?}");
        assert_eq!(listen(&settings, "resp"), &Listen::Off);
    }
    let wrong = with(&[("TOLLGATE_DEFAULT_GRCP", "127.0.0.1:1"), ("TOLLGATE_DEFAULT_WORKERS", "none")]);
    assert_eq!(
        faults(read(&[], &wrong, None)),
        [
            "environment: TOLLGATE_DEFAULT_GRCP: unknown setting; did you mean TOLLGATE_DEFAULT_GRPC?",
            "environment: TOLLGATE_DEFAULT_WORKERS: invalid number \"none\": expected a whole number from 1 to 1024",
        ]
    );
}

#[test]
fn stop_increment_of_envoyproxy_ratelimit_charges_the_limits_of_a_request_together() {
    let name = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    for (flags, env, want) in [
        (&[][..], &[][..], Charge::Each),
        (&[], &[(name, "false")], Charge::Each),
        (&[], &[(name, "true")], Charge::SpareOthers),
        (&[("charge", "each")], &[(name, "true")], Charge::Each),
        (&[("charge", "together")], &[], Charge::Together),
    ] {
        let settings = read_with_rules(flags, env, None);
        assert_eq!(settings.rules.charge, want, "{flags:?} {env:?}");
        let overridden = format!("{name}: no effect: --charge overrides it");
        let noted = Some(overridden).filter(|_| !flags.is_empty() && !env.is_empty());
        assert_eq!(settings.notes, Vec::from_iter(noted));
    }
}

#[test]
fn tls_of_envoyproxy_ratelimit_is_for_grpc_only_and_only_when_its_switch_is_on() {
    let files = [
        ("GRPC_SERVER_TLS_CERT", "cert.pem"),
        ("GRPC_SERVER_TLS_KEY", "key.pem"),
        ("GRPC_CLIENT_TLS_CACERT", "ca.pem"),
        ("GRPC_CLIENT_TLS_SAN", "envoy.internal"),
    ];
    let settings = read_with_rules(&[ALWAYS], &files, None);
    assert_eq!(settings.tls, TlsSettings::default());
    let without = "GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT, GRPC_CLIENT_TLS_SAN: no effect \
                   without GRPC_SERVER_USE_TLS=true";
    assert_eq!(settings.notes, [without]);
    let on = [("GRPC_SERVER_USE_TLS", "true")];
    let settings = read_with_rules(&[ALWAYS], &files.into_iter().chain(on).collect::<Vec<_>>(), None);
    let files = Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() });
    assert_eq!(settings.tls, TlsSettings { files, surfaces: vec!["grpc"] });
    let GrpcSettings { client_ca, client_name, .. } = of(&settings, "grpc");
    assert_eq!((client_ca, client_name), (&Some("ca.pem".into()), &Some("envoy.internal".to_owned())));
}

#[test]
fn traces_of_envoyproxy_ratelimit_go_to_a_collector_over_grpc() {
    let on = ("TRACING_ENABLED", "true");
    let grpc = ("TRACING_EXPORTER_PROTOCOL", "grpc");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    for (env, want) in [
        (&[endpoint][..], None),
        (&[on, endpoint], None), // over HTTP, which is noted
        (&[on, grpc], Some("http://localhost:4317")),
        (&[on, grpc, endpoint], Some("http://collector:4317")),
    ] {
        let settings = read_with_rules(&[ALWAYS], env, None);
        assert_eq!(settings.telemetry.otlp.as_deref(), want, "{env:?}");
        assert_eq!(settings.notes.len(), usize::from(env == [on, endpoint]), "{:?}", settings.notes);
    }
    let settings = read_with_rules(&[ALWAYS], &[on, grpc, ("TRACING_SAMPLING_RATE", "0.25")], None);
    assert!((settings.decisions.limiter.observe.trace_ratio - 0.25).abs() < 1e-9);
}
