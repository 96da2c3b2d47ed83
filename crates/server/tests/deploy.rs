//! What `deploy/` and the workflows have for other programs, checked without them: Kubernetes' resources by a
//! schema of what they use, and all of them by what they refer to. The container's own commands run in
//! `process/container.rs`, dashboard and alerts are compared with the metrics in `process/monitoring.rs`.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

#[path = "deploy/kubernetes.rs"]
mod kubernetes;
#[path = "deploy/shape.rs"]
mod shape;

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

#[test]
fn the_debian_package_has_files_that_there_are() {
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
    let metadata: Value = serde_json::from_slice(&ran.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let server = packages.iter().find(|package| package["name"] == "tollgate-server").expect("the server");
    let deb = &server["metadata"]["deb"];
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut installed = Vec::new();
    for asset in deb["assets"].as_array().expect("assets") {
        let [from, to, mode] = [0, 1, 2].map(|at| asset[at].as_str().expect("text"));
        let is_made = from.starts_with("target/release/") || from.starts_with("../../target/package/");
        assert!(is_made || manifest.join(from).is_file(), "{from} is not there");
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
    let made = Command::new(root().join("deploy/package"))
        .args([Path::new(env!("CARGO_BIN_EXE_tollgate")), folder.path()])
        .output()
        .expect("bash");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for page in ["tollgate.1", "tollgate-serve.1", "tollgate-bench.1", "tollgate-healthcheck.1"] {
        let text = std::fs::read_to_string(folder.path().join("man").join(page)).expect(page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    for script in ["tollgate", "_tollgate", "tollgate.fish"] {
        let text = std::fs::read_to_string(folder.path().join("completions").join(script)).expect(script);
        assert!(text.contains("max-connections"), "{script}");
    }
}

#[test]
fn the_workflows_run_the_same_test_as_people_and_files_that_there_are() {
    for (file, runs) in [
        ("ci.yml", &["./test"][..]),
        (
            "release.yml",
            &[
                "cargo build --release --locked",
                "deploy/package target/release/tollgate",
                "cargo deb --no-build",
            ],
        ),
    ] {
        let path = root().join(".github/workflows").join(file);
        let workflow = yaml::read(&path);
        assert!(workflow["on"].is_object() && workflow["permissions"].is_object(), "{file}");
        let jobs = workflow["jobs"].as_object().expect("jobs");
        let steps: Vec<&Value> =
            jobs.values().flat_map(|job| job["steps"].as_array().expect("steps")).collect();
        for job in jobs.values() {
            assert!(job["runs-on"].is_string(), "{file}: {job}");
        }
        for step in &steps {
            let is_one = step["run"].is_string() != step["uses"].is_string();
            assert!(is_one, "{file}: {step}");
            let uses = step["uses"].as_str().unwrap_or("actions/x@v1");
            let pinned = uses
                .split_once('@')
                .is_some_and(|(name, version)| name.starts_with("actions/") && version.starts_with('v'));
            assert!(pinned, "{file}: {uses}");
        }
        let commands: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
        for run in runs {
            assert!(commands.iter().any(|command| command.starts_with(run)), "{file} does not run {run}");
        }
        for command in commands.iter().flat_map(|command| command.split_whitespace()) {
            let is_ours = command.starts_with("./") || command.starts_with("deploy/");
            assert!(!is_ours || root().join(command).is_file(), "{file}: {command} is not there");
        }
    }
}
