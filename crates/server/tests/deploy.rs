//! What `deploy/` and the workflows have for other programs, checked without them: Kubernetes' resources by a
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

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// What is wrong with the words of a command line of `tollgate`.
fn fault(words: &[&str]) -> Option<String> {
    let words = std::iter::once("tollgate").chain(words.iter().copied());
    Cli::try_parse_from(words).err().map(|error| error.to_string())
}

#[test]
fn the_systemd_unit_is_valid_hardened_and_runs_commands_that_there_are() {
    let unit = read("deploy/systemd/tollgate.service");
    for line in unit.lines().filter_map(|line| line.split_once("=/usr/bin/tollgate ")) {
        let words: Vec<&str> = line.1.split(' ').collect();
        assert_eq!(fault(&words), None, "{line:?}");
    }
    let seconds = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")?.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 5 + 30), "longer than the drain: {seconds:?}");

    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().join("tollgate.service");
    // The program need not be installed here.
    std::fs::write(&here, unit.replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate")))
        .expect("written");
    let analyze = |args: &[&str]| {
        let ran = Command::new("systemd-analyze").args(args).arg(&here).output();
        ran.map(|ran| {
            (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
        })
    };
    match analyze(&["verify", "--man=no"]) {
        Ok((true, said)) => assert!(!said.contains("tollgate.service:"), "{said}"),
        Ok((false, said)) => panic!("{said}"),
        Err(_) => return println!("SKIPPED the systemd unit: there is no systemd-analyze on this machine"),
    }
    // Exposure in tenths: 0 is nothing, 100 everything. `10 MEDIUM` begins at 50.
    let (is_hardened, said) =
        analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]).expect("it is here");
    assert!(is_hardened, "{said}");
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

/// Makes what packages have besides the binary, in `folder`.
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
            // What cargo builds, in its place.
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
    let unit = deb["systemd-units"]["unit-name"].as_str().expect("a name");
    assert!(units.join(format!("{unit}.service")).is_file());
    assert!(manifest.join(deb["license-file"][0].as_str().expect("a file")).is_file());
    // The unit starts with what the package brings.
    let rules = root().join("deploy/rules").display().to_string();
    let settings = root().join("examples/tollgate.yaml").display().to_string();
    assert_eq!(fault(&["serve", "--config", &settings, "--rules", &rules]), None);
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
