//! Files in `deploy/` and workflows for other programs, checked without them: Kubernetes' resources by a
//! schema of what they use, and all of them by what they refer to. The container's own commands run in
//! `process/container.rs`; how the image is built, and what the workflows run, is checked here step by step
//! without Docker or GitHub. Dashboard and alerts are compared with the metrics in `process/monitoring.rs`.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/image.rs"]
mod image;
#[path = "deploy/kubernetes.rs"]
mod kubernetes;
#[path = "deploy/shape.rs"]
mod shape;
#[path = "deploy/workflows.rs"]
mod workflows;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Parser;
use serde_json::Value;
use tollgate_server::cli::Cli;
use tollgate_testkit::yaml;

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The error in the words of a command line of `tollgate`, if there is one.
fn fault(words: &[&str]) -> Option<String> {
    let words = std::iter::once("tollgate").chain(words.iter().copied());
    Cli::try_parse_from(words).err().map(|error| error.to_string())
}

/// The units, by their names, with the longest drain of each.
const UNITS: [(&str, u64); 2] = [("tollgate", 5 + 30), ("tollgate-control", 30)];

#[test]
fn the_systemd_units_are_valid_hardened_and_run_commands_that_there_are() {
    for (name, drain) in UNITS {
        let unit = read(&format!("deploy/systemd/{name}.service"));
        for line in unit.lines().filter_map(|line| line.split_once("=/usr/bin/tollgate ")) {
            let words: Vec<&str> = line.1.split(' ').collect();
            assert_eq!(fault(&words), None, "{line:?}");
        }
        let seconds = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")?.parse::<u64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds > drain), "longer than the drain: {seconds:?}");
        // Its output goes to a folder that systemd makes for it, since all others are read-only.
        for line in [format!("StateDirectory={name}"), format!("WorkingDirectory=%S/{name}")] {
            assert!(unit.lines().any(|it| it == line), "{name}: {line}");
        }

        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().join(format!("{name}.service"));
        // The program need not be installed here.
        std::fs::write(&here, unit.replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate")))
            .expect("written");
        let analyze = |args: &[&str]| {
            let ran = Command::new("systemd-analyze").args(args).arg(&here).output();
            ran.map(|ran| {
                (
                    ran.status.success(),
                    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
                )
            })
        };
        match analyze(&["verify", "--man=no"]) {
            Ok((true, said)) => assert!(!said.contains(&format!("{name}.service:")), "{said}"),
            Ok((false, said)) => panic!("{said}"),
            Err(_) => {
                return println!("SKIPPED the systemd units: there is no systemd-analyze on this machine");
            }
        }
        // Exposure in tenths: 0 is nothing, 100 everything. `10 MEDIUM` begins at 50.
        let (is_hardened, said) =
            analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]).expect("it is here");
        assert!(is_hardened, "{said}");
    }
}

/// A process that has printed that it is ready. Killed when dropped.
struct ReadyProcess {
    child: Child,
    screen: String,
}

impl ReadyProcess {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut screen = String::new();
        while !screen.ends_with("  ready\n") {
            if out.read_line(&mut screen).expect("text") == 0 {
                let mut said = String::new();
                child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
                panic!("it ended: {screen}{said}");
            }
        }
        Self { child, screen }
    }

    /// Status and body of a reply over HTTP.
    fn get(&self, path: &str) -> (u16, String) {
        let address = self.screen.lines().find_map(|line| line.trim().strip_prefix("http "));
        let mut stream = TcpStream::connect(address.expect("an address").trim()).expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
    }
}

impl Drop for ReadyProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs the command of a unit, with `/etc` in `root` and a state folder there, on free ports.
fn unit_starts(name: &str, root: &Path) {
    let unit = read(&format!("deploy/systemd/{name}.service"));
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tollgate "));
    let state = root.join("var/lib").join(name);
    std::fs::create_dir_all(&state).expect("a folder");
    let etc = format!("{}/etc/", root.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().args(start.expect("a command").split(' ').map(|word| word.replace("/etc/", &etc)));
    let ports =
        ["GRPC", "HTTP", "RESP", "CONTROL_LISTEN"].map(|it| (format!("TOLLGATE_{it}"), "127.0.0.1:0"));
    drop(ReadyProcess::start(command.envs(ports).current_dir(&state)));
}

/// The workspace, as cargo describes it.
fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args([
        "metadata",
        "--locked",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let ran = cargo.output().expect("cargo");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("metadata")
}

/// Makes the parts of packages besides the binary, in `folder`.
fn packaged(folder: &Path) {
    let made = Command::new(root().join("deploy/package"))
        .args([Path::new(env!("CARGO_BIN_EXE_tollgate")), folder])
        .output()
        .expect("bash");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn the_debian_package_has_files_that_there_are() {
    let made = tempfile::tempdir().expect("a folder");
    packaged(made.path());
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let server = packages.iter().find(|package| package["name"] == "tollgate-server").expect("the server");
    let deb = &server["metadata"]["deb"];
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut installed = Vec::new();
    for asset in deb["assets"].as_array().expect("assets") {
        let [from, to, mode] = [0, 1, 2].map(|at| asset[at].as_str().expect("text"));
        let is_there = match (from.strip_prefix("../../target/package/"), from.split_once('*')) {
            (Some(made_file), None) => made.path().join(made_file).is_file(),
            (Some(_), Some((folder, ending))) => {
                let folder = made.path().join(folder.trim_start_matches("../../target/package/"));
                let mut files = std::fs::read_dir(folder).expect("a folder").map(|it| it.expect("a file"));
                files.any(|file| file.file_name().to_string_lossy().ends_with(ending))
            }
            // A file that cargo builds, in its place.
            (None, _) if from.starts_with("target/release/") => from == "target/release/tollgate",
            (None, _) => manifest.join(from).is_file(),
        };
        assert!(is_there, "{from} is not there");
        assert!(matches!(mode, "644" | "755") && (mode == "755") == (to == "usr/bin/"), "{to}: {mode}");
        installed.push(format!("/{to}"));
    }
    for file in deb["conf-files"].as_array().expect("a list") {
        assert!(installed.iter().any(|path| *file == **path), "{file} is not installed");
    }
    let units = manifest.join(deb["maintainer-scripts"].as_str().expect("a folder"));
    let listed: Vec<_> =
        deb["systemd-units"].as_array().expect("units").iter().map(|it| &it["unit-name"]).collect();
    assert_eq!(listed, UNITS.map(|(name, _)| name));
    assert!(UNITS.iter().all(|(name, _)| units.join(format!("{name}.service")).is_file()));
    assert!(manifest.join(deb["license-file"][0].as_str().expect("a file")).is_file());
    // The units start with the package's files alone.
    let installed = tempfile::tempdir().expect("a folder");
    for asset in deb["assets"].as_array().expect("assets") {
        let [from, to] = [0, 1].map(|at| asset[at].as_str().expect("text"));
        if to.starts_with("etc/") {
            let to = installed.path().join(to);
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            std::fs::copy(manifest.join(from), to).expect("copied");
        }
    }
    UNITS.iter().for_each(|(name, _)| unit_starts(name, installed.path()));
    let state = installed.path().join("var/lib/tollgate-control/tollgate-data/node-token");
    assert!(state.is_file(), "the control plane keeps its data in its folder");
}

#[test]
fn a_package_gets_a_manual_page_for_each_command_and_completions() {
    let folder = tempfile::tempdir().expect("a folder");
    packaged(folder.path());
    for page in ["tollgate.1", "tollgate-serve.1", "tollgate-bench.1", "tollgate-healthcheck.1"] {
        let text = std::fs::read_to_string(folder.path().join("man").join(page)).expect(page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    for script in ["tollgate", "_tollgate", "tollgate.fish"] {
        let text = std::fs::read_to_string(folder.path().join("completions").join(script)).expect(script);
        assert!(text.contains("max-connections"), "{script}");
    }
}
