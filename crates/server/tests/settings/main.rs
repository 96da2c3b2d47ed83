//! Precedence of layers, meaning of names, and reports of faults.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

mod environment;
mod envoy_compat;
mod envoy_names;
mod pages;
mod paths;
mod stores;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::Charge;

use tollgate_server::settings::{
    Fault, GrpcSettings, HttpSettings, Listen, MetricsSettings, RespSettings, SETTINGS, Secret, Setting,
    SettingKind, Settings, Sources, StoreKind, TlsFiles, TlsSettings,
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

/// Where a surface listens.
fn listen<'a>(settings: &'a Settings, surface: &str) -> &'a Listen {
    settings.surface(surface).expect("a surface").listen()
}

/// The settings of a surface.
fn of<'a, T: 'static>(settings: &'a Settings, surface: &str) -> &'a T {
    settings.surface(surface).and_then(|surface| surface.settings()).expect("a surface with such settings")
}

fn faults(faults: Result<Settings, Vec<Fault>>) -> Vec<String> {
    faults.expect_err("faults").iter().map(ToString::to_string).collect()
}

fn at(address: &str) -> Listen {
    Listen::At(address.to_owned())
}

#[test]
fn a_flag_overrides_the_environment_then_envoy_names_then_the_file_then_the_default() {
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
        let peer = peer.into_iter().flat_map(|value| [("GRPC_PORT", value), ("RUNTIME_ROOT", "/data")]);
        let env: Vec<_> = own.into_iter().chain(peer).collect();
        assert_eq!(listen(&read_with_rules(&flags, &env, file), "grpc"), &at(want));
    }
}

/// A row that cannot do without a value, so that the others are read beside one.
fn is_kept(name: &str) -> bool {
    name.starts_with("tls-") || ["control-token-file", "control-cert", "control-key"].contains(&name)
}

#[test]
fn every_setting_can_be_given_by_flag_by_environment_and_by_file_but_no_secret_by_flag() {
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "s3cret\n").expect("written");
    let file = secret.path().display().to_string();
    for Setting { name, kind, default, .. } in SETTINGS.iter().copied() {
        let value = match (*name, kind) {
            ("rules", _) => "elsewhere",
            ("workers", _) => "7",
            ("max-rules-dropped", _) => "50",
            ("http" | "grpc" | "resp" | "debug-pages" | "metrics", _) => "127.0.0.1:9",
            ("metrics-path", _) => "/numbers",
            ("metrics-detail", _) => "all",
            ("tls-cert" | "tls-key" | "grpc-client-ca", _) => "/some.pem",
            ("grpc-client-name", _) => "envoy.internal",
            ("socket-mode", _) => "600",
            ("charge", _) => "together",
            ("tls", _) => "grpc",
            ("admin-token" | "resp-password", _) => "s3cret",
            ("admin-token-file" | "resp-password-file", _) => file.as_str(),
            ("headers", _) => "legacy,draft-11",
            ("backlog" | "grpc-max-waiting" | "max-reservations" | "max-queued", _) => "77",
            ("denial-log-rate" | "top-keys" | "metrics-max-rules", _) => "77",
            ("denial-log-level", _) => "off",
            ("compat", _) => "ratelimit",
            ("throttle-on-store-failure" | "unmatched", _) => "deny",
            ("undecided", _) => "error",
            ("max-header", _) => "1MiB",
            ("retry-after-headers", _) => "false",
            ("otlp", _) => "http://collector:4317",
            ("trace-ratio", _) => "0.5",
            ("store", _) => "redis://10.0.0.5",
            ("control", _) => "embedded",
            ("control-public-url", _) => "https://limits.example.com",
            ("control-listen", _) => "127.0.0.1:9",
            ("node-label", _) => "zone=a",
            ("store-hash-tag", _) => "domain",
            ("store-time", _) => "node",
            ("store-max-queued" | "store-max-leased-keys" | "store-nodes", _) => "77",
            (name, _) if name.starts_with("store-tls-") && *kind == SettingKind::One => file.as_str(),
            ("store-password" | "store-sentinel-password", _) => "s3cret",
            ("store-password-file" | "store-sentinel-password-file", _) => file.as_str(),
            ("store-deadline" | "store-connect-timeout", _) => "77ms",
            ("log-level", _) => "debug",
            ("log-format", _) => "json",
            ("near-limit-ratio" | "memory-request-share", _) => "0.5",
            ("memory-max" | "max-body" | "max-buffered" | "control-disk-reserve", _) => "3MiB",
            ("max-connections" | "max-batch" | "control-proxy-hops", _) => "12",
            (name, _) if name.ends_with("header") => "X-Other",
            (_, SettingKind::Switch) => "true",
            // A relative one means something else in a file.
            (name, _) if SETTINGS.iter().any(|row| row.name == name && row.is_path()) => "/77s",
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
        let certificate =
            certificate.into_iter().filter(|_| name.contains("tls") || name.starts_with("grpc-client"));
        let ca = [("TOLLGATE_GRPC_CLIENT_CA", "ca.pem")].into_iter().filter(|_| *name == "grpc-client-name");
        let compat = [("HOST", "127.0.0.2")].into_iter().filter(|_| *name == "compat");
        let elsewhere = ["control-token-file", "control-ca", "control-cert", "control-key"].contains(name);
        let place = if elsewhere { "https://c" } else { "embedded" };
        let control = [
            ("TOLLGATE_CONTROL", place),
            ("TOLLGATE_CONTROL_TOKEN_FILE", "token"),
            ("TOLLGATE_CONTROL_CERT", "c.pem"),
            ("TOLLGATE_CONTROL_KEY", "d.pem"),
            ("TOLLGATE_TLS_CERT", "a.pem"),
            ("TOLLGATE_TLS_KEY", "b.pem"),
        ];
        let of_control = match (elsewhere, *name) {
            (true, "control-cert" | "control-key") => &control[..4],
            (true, _) => &control[..2],
            (false, "control-node-client-ca") => &[control[0], control[4], control[5]],
            (false, _) => &control[..1],
        };
        let is_of_control = name.starts_with("control-") || name.starts_with("node-") || *name == "state-dir";
        let of_control = of_control.iter().copied().filter(|_| is_of_control);
        let base: Vec<_> = base
            .into_iter()
            .chain(of_control)
            .chain(certificate)
            .chain(ca)
            .chain(compat)
            .filter(|(key, _)| *key != row.env() || is_kept(name))
            .collect();
        let by_flag = read(&[(name, value)], &base, None);
        let by_flag = match kind {
            SettingKind::Secret => {
                let said = faults(by_flag);
                assert!(said[0].contains("would be visible in `ps`") && !said[0].contains(value), "{said:?}");
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
        // The environment of this test overrides the file.
        if !matches!(*name, "rules" | "response-headers" | "otlp" | "store") && !is_kept(name) {
            assert_eq!(by_flag, by_file.expect("file"), "{name}");
            assert_ne!(by_flag, read(&[], &base, None).expect("defaults"), "{name} changes nothing");
        }
    }
}

#[test]
fn every_fault_of_every_layer_is_reported_at_once_with_its_place() {
    let flags = [("http", "8080"), ("store", "disk"), ("drain-delay", "5 fortnights")];
    let env =
        [("TOLLGATE_GRCP", "127.0.0.1:1"), ("TOLLGATE_WORKERS", "0"), ("MERGE_DOMAIN_CONFIG", "perhaps")];
    let file = "max_conections: 5\nmemory_max: lots\nlog_level:\n  - info\n  - debug\n";
    assert_eq!(
        faults(read(&flags, &env, Some(file))),
        [
            "environment: TOLLGATE_GRCP: unknown setting; did you mean TOLLGATE_GRPC?",
            "tollgate.yaml:1:1: max_conections: unknown setting; did you mean max_connections?",
            "tollgate.yaml:3:1: log_level: takes one value; write it without a list",
            "environment: MERGE_DOMAIN_CONFIG: invalid switch \"perhaps\": expected true or false",
            "command line: --http: invalid address \"8080\": expected host:port, such as 127.0.0.1:8081, unix:/path or off",
            "environment: TOLLGATE_WORKERS: invalid number \"0\": expected a whole number from 1 to 1024",
            "command line: --drain-delay: invalid duration \"5 fortnights\": expected something like 500ms, 5s or 1h30m",
            "command line: --store: unknown store \"disk\": expected memory, or a URL such as redis://127.0.0.1:6379",
            "tollgate.yaml:2:13: memory_max: invalid size \"lots\": expected something like 512MiB or 2GiB",
        ]
    );
}

#[test]
fn without_rules_nothing_is_started() {
    assert_eq!(
        faults(read(&[], &[], None)),
        ["settings: no rules given; add --rules FOLDER, or --control URL for those of a control plane"]
    );
}

#[test]
fn a_store_that_is_nearly_valid_is_reported_with_what_was_expected() {
    for (url, want) in [
        ("memcached://h:11211", "unknown scheme `memcached`: expected memcache://h1:11211,h2:11211"),
        (
            "127.0.0.1:6379",
            "unknown store \"127.0.0.1:6379\": expected memory, or a URL such as redis://127.0.0.1:6379",
        ),
    ] {
        let faults = faults(read(&[("store", url), ("rules", "examples/rules")], &[], None));
        assert_eq!(faults, [format!("command line: --store: {want}")]);
    }
}

#[test]
fn certificates_for_a_store_without_tls_are_reported_to_have_no_effect() {
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
    let two = [PathBuf::from("/a"), PathBuf::from("/b")];
    for (flags, env, file) in [
        (&[("rules", "/a"), ("rules", "/b")][..], &[][..], None),
        (&[], &[("TOLLGATE_RULES", "/a:/b")], None),
        (&[], &[], Some("rules: [/a, /b]")),
        (&[], &[], Some("rules:\n- /a\n- /b")),
    ] {
        assert_eq!(read(flags, env, file).expect("no fault").rules.paths, two);
    }
}

#[test]
fn a_settings_file_that_is_missing_or_not_yaml_is_a_fault() {
    let sources = Sources { config: Some("/nowhere/tollgate.yaml".into()), ..Sources::default() };
    let missing = Settings::read(&sources).expect_err("faults");
    assert!(missing[0].to_string().starts_with("/nowhere/tollgate.yaml: cannot be read: "), "{}", missing[0]);
    let faults = faults(read(&[("rules", "r")], &[], Some("a: [b\n")));
    assert!(faults[0].starts_with("tollgate.yaml:"), "{faults:?}");
}

#[test]
fn with_every_surface_off_nothing_is_started() {
    let flags = [("rules", "r"), ("grpc", "off"), ("http", "off"), ("resp", "off")];
    assert_eq!(
        faults(read(&flags, &[], None)),
        ["settings: every surface is off; turn one of grpc, http, resp on"]
    );
}

#[test]
fn tls_is_for_every_surface_unless_set_otherwise_and_needs_all_its_files() {
    let files = [("tls-cert", "cert.pem"), ("tls-key", "key.pem")];
    for (more, want) in [
        (None, &["grpc", "http", "resp", "debug-pages", "metrics"][..]),
        (Some(("tls", "grpc, resp")), &["grpc", "resp"]),
        (Some(("tls", "")), &[]),
    ] {
        let flags: Vec<_> = files.into_iter().chain(more).collect();
        let Settings { tls, surfaces, .. } = read_with_rules(&flags, &[], None);
        let names = surfaces.iter().map(|surface| surface.name());
        let with_tls: Vec<_> = names.filter(|name| tls.of(name).is_some()).collect();
        assert_eq!(with_tls, want, "{more:?}");
    }
    for (flags, want) in [
        (&[("tls-cert", "c")][..], "settings: tls-cert and tls-key go together; give both"),
        (&[("tls", "grpc")], "settings: tls needs a certificate; give tls-cert and tls-key"),
        (
            &[("tls", "grcp")],
            "command line: --tls: unknown surface \"grcp\": expected some of grpc,http,resp,debug-pages,metrics",
        ),
        (
            &[("grpc-client-ca", "ca.pem")],
            "settings: grpc-client-ca needs TLS on grpc; give tls-cert and tls-key",
        ),
    ] {
        let flags: Vec<_> = flags.iter().copied().chain([("rules", "rules")]).collect();
        assert_eq!(faults(read(&flags, &[], None)), [want]);
    }
}

#[test]
fn a_secret_has_one_place_and_faults_do_not_repeat_it() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "from-a-file\n").expect("written");
    let path = file.path().display().to_string();
    let settings =
        read_with_rules(&[("admin-token-file", &path)], &[], Some("resp_password: from-settings\n"));
    assert_eq!(
        of::<HttpSettings>(&settings, "http").admin_token.as_ref().map(Secret::reveal),
        Some("from-a-file")
    );
    assert_eq!(
        of::<RespSettings>(&settings, "resp").password.as_ref().map(Secret::reveal),
        Some("from-settings")
    );
    let flags = [("rules", "r"), ("admin-token-file", path.as_str())];
    assert_eq!(
        faults(read(&flags, &[("TOLLGATE_ADMIN_TOKEN", "another")], None)),
        ["settings: admin-token and admin-token-file are both given; keep one"]
    );
    let said = faults(read(&[("rules", "r")], &[("TOLLGATE_ADMIN_TOKEN", "no secret\t")], None));
    assert!(
        said[0].starts_with("environment: TOLLGATE_ADMIN_TOKEN: invalid secret: expected ")
            && !said[0].contains("no secret")
    );
}

#[test]
fn no_two_settings_share_a_name() {
    let mut seen = BTreeMap::new();
    for row in SETTINGS.iter() {
        for name in std::iter::once(row.env()).chain(row.envoy_compat.iter().map(ToString::to_string)) {
            assert_eq!(seen.insert(name.clone(), row.name), None, "{name}");
        }
    }
}

#[test]
fn each_value_that_shells_complete_is_one_of_its_setting() {
    let with_values: Vec<&&Setting> = SETTINGS.iter().filter(|setting| !setting.values.is_empty()).collect();
    assert!(with_values.len() >= 10, "{}", with_values.len());
    for setting in with_values {
        assert!(setting.values.contains(&setting.default), "{}: {}", setting.name, setting.default);
        for value in setting.values {
            read_with_rules(&[(setting.name, value)], &[], None);
        }
    }
}
