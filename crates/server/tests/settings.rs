//! Which layer counts, what each name means, and how faults are told.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_server::settings::{
    Fault, Kind, Listen, SETTINGS, Secret, Setting, Settings, Sources, StoreSettings, Surface, TlsFiles,
    TlsSettings,
};

/// Flags, environment and file text, as a test writes them.
fn read(flags: &[(&str, &str)], env: &[(&str, &str)], file: Option<&str>) -> Result<Settings, Vec<Fault>> {
    let mut sources = Sources { cores: 3, ..Sources::default() };
    for (name, value) in flags {
        sources.flags.entry((*name).to_owned()).or_default().push((*value).to_owned());
    }
    sources.env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let kept = file.map(|text| {
        let mut kept = tempfile::NamedTempFile::new().expect("a temporary file");
        kept.write_all(text.as_bytes()).expect("written");
        kept
    });
    sources.config = kept.as_ref().map(|kept| kept.path().to_owned());
    Settings::read(&sources).map_err(|mut faults| {
        if let Some(kept) = &kept {
            let path = kept.path().display().to_string();
            faults.iter_mut().for_each(|fault| fault.place = fault.place.replace(&path, "tollgate.yaml"));
        }
        faults
    })
}

/// With rules, so that nothing else is missing.
fn read_with_rules(flags: &[(&str, &str)], env: &[(&str, &str)], file: Option<&str>) -> Settings {
    let flags: Vec<_> = flags.iter().copied().chain([("rules", "rules")]).collect();
    read(&flags, env, file).expect("no fault")
}

fn told(faults: Result<Settings, Vec<Fault>>) -> Vec<String> {
    faults.expect_err("faults").iter().map(ToString::to_string).collect()
}

fn at(address: &str) -> Listen {
    Listen::At(address.to_owned())
}

#[test]
fn a_flag_beats_the_environment_beats_the_peers_names_beat_the_file_beat_the_default() {
    let file = Some("grpc: 10.0.0.4:4\n");
    for (flag, own, peer, file, want) in [
        (Some("10.0.0.1:1"), Some("10.0.0.2:2"), Some("3"), file, "10.0.0.1:1"),
        (None, Some("10.0.0.2:2"), Some("3"), file, "10.0.0.2:2"),
        (None, None, Some("3"), file, "0.0.0.0:3"),
        (None, None, None, file, "10.0.0.4:4"),
        (None, None, None, None, "127.0.0.1:8081"),
    ] {
        let flags: Vec<_> = flag.map(|value| ("grpc", value)).into_iter().collect();
        let own = own.map(|value| ("TOLLGATE_GRPC", value));
        let env: Vec<_> = own.into_iter().chain(peer.map(|value| ("GRPC_PORT", value))).collect();
        assert_eq!(read_with_rules(&flags, &env, file).grpc, at(want));
    }
}

#[test]
fn every_setting_can_be_given_by_flag_by_environment_and_by_file_but_no_secret_by_flag() {
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "s3cret\n").expect("written");
    let file = secret.path().display().to_string();
    for Setting { name, kind, default, .. } in SETTINGS {
        let value = match (*name, kind) {
            ("rules", _) => "elsewhere",
            ("workers", _) => "7",
            ("http" | "grpc" | "resp", _) => "127.0.0.1:9",
            ("tls-cert" | "tls-key" | "grpc-client-ca", _) => "some.pem",
            ("tls", _) => "grpc",
            ("admin-token" | "resp-password", _) => "s3cret",
            ("admin-token-file" | "resp-password-file", _) => file.as_str(),
            ("headers", _) => "legacy,draft-11",
            ("backlog" | "max-reservations" | "denial-log-rate" | "top-keys", _) => "77",
            ("denial-log-level", _) => "off",
            ("throttle-on-store-failure", _) => "deny",
            ("otlp", _) => "http://collector:4317",
            ("trace-ratio", _) => "0.5",
            ("store", _) => "redis://10.0.0.5",
            ("store-hash-tag", _) => "domain",
            ("store-time", _) => "node",
            ("store-max-queued" | "store-max-leased-keys" | "store-nodes", _) => "77",
            (name, _) if name.starts_with("store-tls-") && *kind == Kind::One => file.as_str(),
            ("store-password" | "store-sentinel-password", _) => "s3cret",
            ("store-password-file" | "store-sentinel-password-file", _) => file.as_str(),
            ("store-deadline" | "store-connect-timeout", _) => "77ms",
            ("log-level", _) => "debug",
            ("log-format", _) => "json",
            ("near-limit-ratio", _) => "0.5",
            ("memory-max" | "max-body", _) => "3MiB",
            ("max-connections" | "max-batch", _) => "12",
            (name, _) if name.ends_with("header") => "X-Other",
            (_, Kind::Switch) => "true",
            _ => "77s",
        };
        assert!(value != *default, "{name}: the row must show a change");
        let row = SETTINGS.iter().find(|row| row.name == *name).expect("a row");
        let base = [
            ("TOLLGATE_RESPONSE_HEADERS", "true"),
            ("TOLLGATE_RULES", "rules"),
            ("TOLLGATE_OTLP", "http://localhost:4317"),
            ("TOLLGATE_STORE", "rediss://10.0.0.6"),
        ];
        let certificate = [("TOLLGATE_TLS_CERT", "a.pem"), ("TOLLGATE_TLS_KEY", "b.pem")];
        let certificate = certificate.into_iter().filter(|_| name.contains("tls") || name.ends_with("-ca"));
        let base: Vec<_> = base
            .into_iter()
            .chain(certificate)
            .filter(|(key, _)| *key != row.env() || name.starts_with("tls-"))
            .collect();
        let by_flag = read(&[(name, value)], &base, None);
        let by_flag = match kind {
            Kind::Secret => {
                let said = told(by_flag);
                assert!(said[0].contains("would be shown by `ps`") && !said[0].contains(value), "{said:?}");
                read(&[(&format!("{name}-file"), &file)], &base, None).expect("the file")
            }
            _ => by_flag.expect("flag"),
        };
        let env = row.env();
        let with: Vec<_> = base.iter().copied().chain([(env.as_str(), value)]).collect();
        let by_env = read(&[], &with, None).expect("environment");
        let by_file = read(&[], &base, Some(&format!("{}: {value}\n", row.key())));
        assert!(!format!("{by_env:?}").contains("s3cret"), "{name}");
        // The store's passwords stay in their files, which are read at each connection.
        let by_flag = if matches!(*name, "store-password" | "store-sentinel-password") {
            assert_ne!(by_flag, by_env, "{name}");
            by_env.clone()
        } else {
            by_flag
        };
        assert_eq!(by_flag, by_env, "{name}");
        // What the environment of this test says goes before the file.
        if !matches!(*name, "rules" | "response-headers" | "otlp" | "store" | "tls-cert" | "tls-key") {
            assert_eq!(by_flag, by_file.expect("file"), "{name}");
            assert_ne!(by_flag, read(&[], &base, None).expect("defaults"), "{name} changes nothing");
        }
    }
}

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
    let tls = if config.tls.is_some() { ", TLS" } else { "" };
    let user = config.login.username.as_deref().unwrap_or("-");
    let password = if config.login.password.is_some() { "***" } else { "-" };
    format!("{}, {user}:{password}{tls}, {}", config.servers, config.prefix)
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
fn every_fault_of_every_layer_is_told_at_once_with_its_place() {
    let flags = [("http", "8080"), ("store", "disk"), ("drain-delay", "5 fortnights")];
    let env = [("TOLLGATE_GRCP", "127.0.0.1:1"), ("TOLLGATE_WORKERS", "0"), ("SHADOW_MODE", "perhaps")];
    let file = "max_conections: 5\nmemory_max: lots\nlog_level:\n  - info\n  - debug\n";
    assert_eq!(
        told(read(&flags, &env, Some(file))),
        [
            "environment: TOLLGATE_GRCP: is no setting; did you mean TOLLGATE_GRPC?",
            "tollgate.yaml:1:1: max_conections: is no setting; did you mean max_connections?",
            "tollgate.yaml:3:1: log_level: takes one value; write it without a list",
            "command line: --http: \"8080\" is no address; write host:port, such as 127.0.0.1:8081, or off",
            "environment: TOLLGATE_WORKERS: \"0\" is out of bounds; write a whole number from 1 to 1024",
            "environment: SHADOW_MODE: \"perhaps\" is neither yes nor no; write true or false",
            "command line: --store: \"disk\" is no store; write memory, or a URL such as redis://127.0.0.1:6379",
            "tollgate.yaml:2:13: memory_max: \"lots\" is no size; write such as 512MiB or 2GiB",
            "command line: --drain-delay: \"5 fortnights\" is no span; write such as 500ms, 5s or 1h30m",
            "settings: no rules are named; add --rules FOLDER",
        ]
    );
}

#[test]
fn a_store_that_is_nearly_right_is_told_how_it_is_written() {
    for (url, want) in [
        ("memcached://h:11211", "the scheme `memcached` is not known; write memcache://h1:11211,h2:11211"),
        (
            "127.0.0.1:6379",
            "\"127.0.0.1:6379\" is no store; write memory, or a URL such as redis://127.0.0.1:6379",
        ),
    ] {
        let faults = told(read(&[("store", url), ("rules", "examples/rules")], &[], None));
        assert_eq!(faults, [format!("command line: --store: {want}")]);
    }
}

#[test]
fn certificates_for_a_store_in_cleartext_are_told_to_have_no_effect() {
    for (url, notes) in [("redis://h", 1), ("rediss://h", 0), ("memory", 1)] {
        let flags = [("store", url), ("store-tls-ca", "ca.crt"), ("rules", "examples/rules")];
        let settings = read(&flags, &[], None).expect("no fault");
        assert_eq!(
            settings.notes.iter().filter(|it| it.contains("rediss")).count(),
            notes,
            "{url}: {:?}",
            settings.notes
        );
    }
}

#[test]
fn lists_come_from_repeated_flags_from_colons_and_from_yaml_lists() {
    let two = [PathBuf::from("a"), PathBuf::from("b")];
    for (flags, env, file) in [
        (&[("rules", "a"), ("rules", "b")][..], &[][..], None),
        (&[], &[("TOLLGATE_RULES", "a:b")], None),
        (&[], &[], Some("rules: [a, b]")),
        (&[], &[], Some("rules:\n- a\n- b")),
    ] {
        assert_eq!(read(flags, env, file).expect("no fault").rules, two);
    }
}

#[test]
fn a_settings_file_that_is_missing_or_no_yaml_is_a_fault() {
    let sources = Sources { config: Some("/nowhere/tollgate.yaml".into()), ..Sources::default() };
    let faults = Settings::read(&sources).expect_err("faults");
    assert!(faults[0].to_string().starts_with("/nowhere/tollgate.yaml: cannot be read: "), "{}", faults[0]);
    let faults = told(read(&[("rules", "r")], &[], Some("a: [b\n")));
    assert!(faults[0].starts_with("tollgate.yaml:"), "{faults:?}");
}

#[test]
fn with_every_surface_off_nothing_is_started() {
    let flags = [("rules", "r"), ("grpc", "off"), ("http", "off"), ("resp", "off")];
    assert_eq!(
        told(read(&flags, &[], None)),
        ["settings: grpc, http and resp are all off, so nobody could ask; turn one on"]
    );
}

#[test]
fn tls_is_for_every_surface_unless_said_otherwise_and_needs_all_its_files() {
    use Surface::{Grpc, Http, Resp};
    let files = [("tls-cert", "cert.pem"), ("tls-key", "key.pem")];
    for (more, want) in [
        (None, &[Grpc, Http, Resp][..]),
        (Some(("tls", "grpc, resp")), &[Grpc, Resp]),
        (Some(("tls", "")), &[]),
    ] {
        let flags: Vec<_> = files.into_iter().chain(more).collect();
        let tls = read_with_rules(&flags, &[], None).tls;
        let speak: Vec<_> = Surface::ALL.into_iter().filter(|surface| tls.of(*surface).is_some()).collect();
        assert_eq!(speak, want, "{more:?}");
    }
    for (flags, want) in [
        (&[("tls-cert", "c")][..], "settings: tls-cert and tls-key go together; give both"),
        (&[("tls", "grpc")], "settings: tls needs a certificate; give tls-cert and tls-key"),
        (&[("tls", "grcp")], "command line: --tls: \"grcp\" is no surface; write some of grpc,http,resp"),
        (
            &[("grpc-client-ca", "ca.pem")],
            "settings: grpc-client-ca needs TLS on gRPC; give tls-cert and tls-key",
        ),
    ] {
        let flags: Vec<_> = flags.iter().copied().chain([("rules", "rules")]).collect();
        assert_eq!(told(read(&flags, &[], None)), [want]);
    }
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
fn a_secret_has_one_place_and_faults_do_not_repeat_it() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "from-a-file\n").expect("written");
    let path = file.path().display().to_string();
    let settings =
        read_with_rules(&[("admin-token-file", &path)], &[], Some("resp_password: from-settings\n"));
    assert_eq!(settings.admin_token.as_ref().map(Secret::reveal), Some("from-a-file"));
    assert_eq!(settings.resp_password.as_ref().map(Secret::reveal), Some("from-settings"));
    let flags = [("rules", "r"), ("admin-token-file", path.as_str())];
    assert_eq!(
        told(read(&flags, &[("TOLLGATE_ADMIN_TOKEN", "another")], None)),
        ["settings: admin-token and admin-token-file are both given; keep one"]
    );
    let said = told(read(&[("rules", "r")], &[("TOLLGATE_ADMIN_TOKEN", "no secret\t")], None));
    assert!(
        said[0].starts_with("environment: TOLLGATE_ADMIN_TOKEN: a secret is ")
            && !said[0].contains("no secret")
    );
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

#[test]
fn no_two_settings_share_a_name() {
    let mut seen = BTreeMap::new();
    for row in SETTINGS {
        for name in std::iter::once(row.env()).chain(row.peer.iter().map(ToString::to_string)) {
            assert_eq!(seen.insert(name.clone(), row.name), None, "{name}");
        }
    }
}

/// The page as the table says it.
fn page() -> String {
    let mut page = String::from(
        "# Settings of `tollgate serve`

Each setting is a flag, a name in the environment and a line in the file of `--config` (or `TOLLGATE_CONFIG`). What
counts is the first of: the flag, the `TOLLGATE_` name, the name of envoyproxy/ratelimit, the file, the default. Every
fault is told at once with its place, and nothing is started then. Spans are written as `500ms`, `5s` or `1h30m`, sizes
as `512MiB`, switches as `true` or `false`; in the environment several rule paths have `:` between them. Secrets have no
flag, since everyone on a machine can see command lines. `examples/tollgate.yaml` says every key with its default.

```yaml
rules: [/etc/tollgate/rules]
grpc: 0.0.0.0:8081
memory_max: 2GiB
response_headers: true
```

This page is made of the table in `crates/server/src/settings/table.rs`; a test holds the two together.
",
    );
    let mut heading = "";
    for row in SETTINGS {
        if row.heading != heading {
            heading = row.heading;
            page += &format!(
                "\n## {heading}\n\n| flag | environment | file | default | |\n|---|---|---|---|---|\n"
            );
        }
        let value = if row.kind == Kind::Switch { String::new() } else { format!(" {}", row.value) };
        let names: Vec<String> =
            std::iter::once(row.env()).chain(row.peer.iter().map(ToString::to_string)).collect();
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let (flag, env, key) = (row.name, names.join("`, `"), row.key());
        let flag = if row.kind == Kind::Secret { String::new() } else { format!("`--{flag}{value}`") };
        page += &format!("| {flag} | `{env}` | `{key}` | {default} | {} |\n", row.help);
    }
    page + &fixed()
}

/// What a shared store is asked by and no setting changes, as the code has it.
fn fixed() -> String {
    let timing = tollgate_store_redis::lease::Timing::default();
    let servers = tollgate_store_redis::Servers::Unix(PathBuf::new());
    let config = tollgate_store_redis::RedisConfig::new(servers);
    let breaker = &config.breaker;
    let rows = [
        (
            "breaker",
            format!("{} failures", breaker.failures),
            "in a row open it: answers that did not come in time, and broken connections. Then calls are refused at once, and only probes are sent",
        ),
        (
            "breaker: longest pause",
            format!("{:?}", breaker.longest_pause),
            "between two probes. The first pauses are shorter, and each is shortened by chance",
        ),
        (
            "flight",
            config.max_flight.to_string(),
            "calls at most that one round trip of a connection carries",
        ),
        (
            "node",
            format!("{:?}", config.node_timeout),
            "for so long after it was last heard of a node counts as alive; it tells that it lives three times as often (Redis; memcached has `--store-nodes`)",
        ),
        (
            "lease: tau",
            format!("{:?}", timing.tau),
            "for so long after it was asked for a lease may be spent. What is not heard of for one to two of these is written off",
        ),
        (
            "lease: horizon",
            format!("{:?}", timing.horizon),
            "of demand, and of the refill, are covered by one lease; so far ahead permits are promised",
        ),
        (
            "lease: end of a window",
            format!("{:?}", timing.skew),
            "before its fixed window a lease ends, for clocks that differ",
        ),
        (
            "lease: drift",
            format!("{} ppm", timing.drift_ppm),
            "is the most by which the speeds of two clocks may differ",
        ),
    ];
    let mut text = String::from(
        "
## Shared store: what is fixed

No setting changes these: the nodes of a fleet must agree on some, and [guarantees.md](guarantees.md) is derived from them.

| what | is | |
|---|---|---|
",
    );
    for (what, is, means) in rows {
        text += &format!("| {what} | {is} | {means} |\n");
    }
    text
}

/// The example of a settings file as the table says it: every key, with its default.
fn example() -> String {
    let mut file = String::from(
        "# Every setting of `tollgate serve`, with its default; a key without a value is not set.
# Use it as it is, or keep the lines that you change:  tollgate serve --config examples/tollgate.yaml
# Each is also a flag (--memory-max) and a name in the environment (TOLLGATE_MEMORY_MAX), which both count before
# this file. An unknown key, a wrong value or two keys that do not go together are told with their line and column,
# and nothing is started then.
",
    );
    let mut heading = "";
    for row in SETTINGS {
        if row.heading != heading {
            heading = row.heading;
            file += &format!("\n# --- {heading} ---\n");
        }
        file += "\n";
        let mut line = String::from("#");
        for word in row.help.replace('`', "").split(' ') {
            if line.len() + 1 + word.len() > 118 {
                file += &format!("{line}\n");
                line = String::from("#");
            }
            line += &format!(" {word}");
        }
        file += &format!("{line}\n");
        let value = if row.name == "rules" { "examples/rules" } else { row.default };
        let quote = if value.ends_with(':') { "'" } else { "" };
        file += format!("{}: {quote}{value}{quote}", row.key()).trim_end();
        file += "\n";
    }
    file
}

/// The page at `path` of the project is `made`; `TOLLGATE_WRITE_DOCS` writes it.
fn is_kept(path: &str, made: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, made).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == made, "{path} is out of date: TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-server");
}

#[test]
fn the_page_of_settings_is_the_table() {
    is_kept("docs/settings.md", &page());
}

#[test]
fn the_example_of_a_settings_file_says_every_key_and_is_the_defaults() {
    is_kept("examples/tollgate.yaml", &example());
    let as_it_is = read(&[], &[], Some(&example())).expect("no fault");
    assert_eq!(as_it_is, read(&[("rules", "examples/rules")], &[], None).expect("no fault"));
}
