//! The commands of the image run as they are written in `deploy/Dockerfile`, on other ports.

use std::path::PathBuf;

use clap::Parser;
use tollgate_server::cli::Cli;

use super::*;

fn dockerfile() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/Dockerfile");
    std::fs::read_to_string(path).expect("the Dockerfile")
}

/// The words of the last instruction that begins so and has a list.
fn words(text: &str, instruction: &str) -> Vec<String> {
    let line = text.lines().rfind(|line| line.starts_with(instruction)).expect(instruction);
    let list = &line[line.find('[').expect("a list")..];
    serde_json::from_str(list).expect("words")
}

/// The variables that the image sets.
fn variables(text: &str) -> Vec<(String, String)> {
    let (_, last_stage) = text.rsplit_once("\nFROM ").expect("a stage");
    let lines = last_stage.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The image as a process: its variables, with `rules` in place of its folder and ports of the system's
/// choice, and `more`; started as `program`.
fn container(program: &std::path::Path, args: &[String], rules: &str, more: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear();
    for (name, value) in variables(&dockerfile()) {
        let value = value.replace("/etc/tollgate/rules", rules);
        let value = value.rsplit_once(':').map_or(value.clone(), |(host, _)| format!("{host}:0"));
        command.env(name, value);
    }
    command.envs(more.iter().copied());
    command
}

fn address_of(server: &ServerProcess, surface: &str) -> SocketAddr {
    server.says(surface).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {surface}"))
}

/// Ends `server`, and returns all that it has logged.
fn log_of(server: ServerProcess) -> String {
    server.signal("TERM");
    server.ended().1
}

#[test]
fn the_image_serves_every_port_that_it_exposes_and_is_healthy_while_it_is_ready() {
    let text = dockerfile();
    assert!(text.contains("CARGO_PROFILE_DIST_STRIP=symbols"));
    assert_eq!(words(&text, "ENTRYPOINT"), ["tollgate"]);
    let exposed = text.lines().find_map(|line| line.strip_prefix("EXPOSE ")).expect("ports");
    let variables = variables(&text);
    for port in exposed.split(' ') {
        let serves = |(name, value): &(String, String)| {
            name.starts_with("TOLLGATE_DEFAULT_") && *value == format!("0.0.0.0:{port}")
        };
        assert!(variables.iter().any(serves), "{port}");
    }
    // The image's environment sets defaults of the program, not flags.
    assert_eq!(words(&text, "CMD"), ["serve"]);
    let folder = rules(RULES);
    let here = folder.path().display().to_string();
    let args: Vec<String> = ["serve", "--drain-delay", "30s"].map(str::to_owned).into();
    let tollgate = std::path::Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let mut command = container(tollgate, &args, &here, &[("TOLLGATE_RESP", "127.0.0.1:0")]);
    command.env("TOLLGATE_LOG_FORMAT", "json");
    let server = ServerProcess::of(command);
    for surface in ["grpc", "http"] {
        assert!(address_of(&server, surface).ip().is_unspecified(), "{surface}");
    }

    let check = words(&text, "HEALTHCHECK");
    assert!(Cli::try_parse_from(&check).is_ok(), "{check:?}");
    let port = address_of(&server, "http").port();
    let healthy = |env: (&str, &str)| {
        let mut command = Command::new(tollgate);
        let ran = command.args(&check[1..]).env_clear().envs([env]).output().expect("it ends");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    // It asks where the server of the same environment listens.
    let target = format!("http://127.0.0.1:{port}");
    let env = format!("0.0.0.0:{port}");
    let env = ("TOLLGATE_DEFAULT_HTTP", env.as_str());
    assert_eq!(healthy(env), (Some(0), String::new()));
    // While it drains, it still answers, and is not ready.
    server.signal("TERM");
    let said = loop {
        match healthy(env) {
            (Some(0), _) => {}
            (code, said) => break (code, said),
        }
    };
    assert_eq!(said, (Some(1), format!("not ready: {target}/readyz returned status 503\n")));
    drop(server);
    let (code, said) = healthy(env);
    assert_eq!(code, Some(1), "Docker reserves other numbers");
    assert!(said.starts_with(&format!("not ready: no response from {target}: ")), "{said}");
}

#[test]
fn a_health_check_without_a_target_asks_where_a_server_with_its_environment_listens() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let port = free().port().to_string();
    for (env, target) in [
        (&[][..], "http://127.0.0.1:8080"),
        (&[("PORT", "1"), ("REDIS_URL", "app:6379")], "http://127.0.0.1:8080"), // of another program
        (&[("RUNTIME_ROOT", "/data"), ("PORT", port.as_str())], &format!("http://127.0.0.1:{port}")),
        (&[("RUNTIME_ROOT", "/data"), ("HOST", "::"), ("PORT", &port)], &format!("http://[::1]:{port}")),
        (&[("TOLLGATE_HTTP", "unix:/nowhere/http")], "unix:/nowhere/http"),
        (&[("TOLLGATE_HTTP", "garbage"), ("TOLLGATE_WORKERS", "none")], "http://127.0.0.1:8080"),
    ] {
        let mut command = tollgate();
        let ran = command.arg("healthcheck").env_clear().envs(env.iter().copied()).output().expect("it ends");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        // Something else may listen on 8080 of this machine.
        if !target.ends_with(":8080") || ran.status.code() == Some(1) {
            assert!(said.contains(target), "{env:?}: {said}");
        }
    }
}

#[test]
fn the_image_started_as_ratelimit_reads_its_variables_and_says_which_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("ratelimit");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tollgate"), &bin).expect("a link");
    let config = folder.path().join("data/ratelimit/config");
    std::fs::create_dir_all(&config).expect("a folder");
    std::fs::write(config.join("rules.yaml"), RULES).expect("written");
    let root = folder.path().join("data").display().to_string();
    let env = [
        ("USE_STATSD", "false"),
        ("RUNTIME_ROOT", root.as_str()),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("GRPC_PORT", "0"),
        ("PORT", "0"),
        ("DEBUG_PORT", "0"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":0"),
        ("LOCAL_CACHE_SIZE_IN_BYTES", "4096"),
        ("TOLLGATE_RESP", "off"),
        ("TOLLGATE_DRAIN_DELAY", "0"),
    ];
    // Compose gives the entry point the name as an argument.
    let tollgate = std::path::Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let by_argument =
        ServerProcess::of(container(tollgate, &["/bin/ratelimit".to_owned()], "/nowhere/rules", &env));
    assert!(address_of(&by_argument, "debug-pages").ip().is_unspecified());
    drop(by_argument);
    // The folder of the image's own default is not there.
    let server = ServerProcess::of(container(&bin, &[], "/nowhere/rules", &env));
    for surface in ["grpc", "http", "debug-pages", "metrics"] {
        assert!(address_of(&server, surface).ip().is_unspecified(), "{surface}");
    }
    let log = log_of(server);
    let in_effect = "names=\"DEBUG_PORT, GRPC_PORT, PORT, PROMETHEUS_ADDR, RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, \
                     USE_PROMETHEUS\"";
    assert!(log.contains(in_effect), "{log}");
    assert_eq!(log.matches("LOCAL_CACHE_SIZE_IN_BYTES").count(), 1, "no effect, and why: {log}");

    // With a flag for the rules the variables do not count, and the log does not say that they do.
    let flag = format!("--rules={}", config.display());
    let server = ServerProcess::of(container(&bin, &[flag], "/nowhere/rules", &env));
    let log = log_of(server);
    assert!(log.contains("RUNTIME_ROOT, RUNTIME_SUBDIRECTORY: no effect: --rules overrides it"), "{log}");
    assert!(log.contains("names=\"DEBUG_PORT, GRPC_PORT, PORT, PROMETHEUS_ADDR, USE_PROMETHEUS\""), "{log}");
}

#[test]
fn a_health_check_reaches_unix_sockets_and_tls() {
    let folder = rules(RULES);
    let sockets = tempfile::tempdir().expect("a folder");
    let (cert, key) =
        tollgate_testkit::certificates::Authority::new().issue("server", 2060).write(sockets.path());
    let address = format!("unix:{}", sockets.path().join("http").display());
    let over_socket = ServerProcess::start(folder.path(), &["--http", &address]);
    let [cert, key] = [cert, key].map(|path| path.display().to_string());
    let over_tls = ServerProcess::start(folder.path(), &["--tls-cert", &cert, "--tls-key", &key]);
    let https = format!("https://{}", over_tls.http());
    for (args, want) in [
        (&[address.as_str()][..], Some(0)),
        (&[&https, "--insecure"], Some(0)),
        (&[&https], Some(1)),
        (&[&format!("{address}-other")], Some(1)),
        (&["ftp://127.0.0.1:8080"], Some(2)),
        (&["127.0.0.1:8080"], Some(2)),
        (&[&https, "--ca", "no-such-file"], Some(2)),
    ] {
        let ran = tollgate().args(["healthcheck", "--target"]).args(args).output().expect("it ends");
        assert_eq!(ran.status.code(), want, "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.stderr.is_empty(), want == Some(0), "{args:?}");
        if args[0].ends_with(":8080") {
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(said.contains("; did you mean http://127.0.0.1:8080?\n"), "{said}");
            assert!(!said.contains("not ready"), "{said}");
        }
    }
    drop(over_socket);
}
