//! `.github/workflows`: the programs that they run exist, and the steps of a release do their work.

use super::*;

/// The workflow of this file, with its steps.
fn workflow(file: &str) -> (Value, Vec<Value>) {
    let workflow = yaml::read(&root().join(".github/workflows").join(file));
    let jobs = workflow["jobs"].as_object().expect("jobs");
    let steps = jobs.values().flat_map(|job| job["steps"].as_array().expect("steps")).cloned().collect();
    (workflow, steps)
}

#[test]
fn the_workflows_run_the_same_test_as_people_and_files_that_there_are() {
    for (file, runs) in [
        ("ci.yml", &["./test"][..]),
        (
            "release.yml",
            &[
                "cargo build --profile dist --locked",
                "./test release",
                "deploy/package target/dist/tollgate",
                "cargo deb --no-build",
            ],
        ),
    ] {
        let (workflow, steps) = workflow(file);
        assert!(workflow["on"].is_object() && workflow["permissions"].is_object(), "{file}");
        let jobs = workflow["jobs"].as_object().expect("jobs");
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

/// Programs of GitHub's machines that need not be here, and programs that a workflow installs itself.
const THEIRS: &[&str] = &["rustup", "gh"];

#[test]
fn every_command_of_a_workflow_is_one_that_there_is() {
    for file in ["ci.yml", "release.yml"] {
        let (_, steps) = workflow(file);
        let scripts: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
        for script in &scripts {
            let ran = Command::new("bash").args(["-n", "-c", script]).output().expect("bash");
            assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        let lines = scripts.iter().flat_map(|script| script.lines());
        for words in lines.map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let name = words[0];
            // An assignment, or a loop, which the syntax check has read.
            if name.contains('=') || name == "for" {
                continue;
            }
            if name.contains('/') {
                assert!(root().join(name).is_file(), "{file}: {name}");
                continue;
            }
            let known = Command::new("bash").args(["-c", &format!("type {name}")]).output().expect("bash");
            assert!(THEIRS.contains(&name) || known.status.success(), "{file}: {name}");
            let is_installed = |command: &str| {
                let package = format!("cargo-{command}");
                scripts.iter().any(|it| it.starts_with("cargo install") && it.ends_with(&package))
            };
            if let ["cargo", command, ..] = words[..] {
                assert!(
                    matches!(command, "build" | "install") || is_installed(command),
                    "{file}: cargo {command}"
                );
            }
            if let Some(at) = words.iter().position(|word| *word == "--package") {
                let metadata = metadata();
                let mut packages = metadata["packages"].as_array().expect("packages").iter();
                assert!(packages.any(|package| package["name"] == words[at + 1]), "{file}: {words:?}");
            }
        }
    }
}

#[test]
fn the_steps_of_a_release_make_an_archive_with_its_checksum_for_the_tag_of_this_version() {
    let (_, steps) = workflow("release.yml");
    let step = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step {name}"));
        step["run"].as_str().expect("a script").replace("${{ matrix.machine }}", "x86_64")
    };
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    let run = |script: &str, folder: &Path, tag: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-e", "-c", script]).current_dir(folder).env("GITHUB_REF_NAME", tag);
        let ran = bash.output().expect("bash");
        (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    let is_version = step("The tag is the version of the workspace");
    assert!(run(&is_version, &root(), tag).0);
    assert!(!run(&is_version, &root(), "v0.0.0").0);

    // A checkout in which the steps before have built the binary and what belongs to it.
    let checkout = tempfile::tempdir().expect("a folder");
    let here = root().canonicalize().expect("a folder");
    for entry in std::fs::read_dir(&here).expect("a folder").map(|entry| entry.expect("an entry")) {
        if entry.file_name() != "target" {
            std::os::unix::fs::symlink(entry.path(), checkout.path().join(entry.file_name()))
                .expect("a link");
        }
    }
    std::fs::create_dir_all(checkout.path().join("target/dist")).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tollgate"), checkout.path().join("target/dist/tollgate"))
        .expect("a link");
    packaged(&checkout.path().join("target/package"));
    std::fs::write(checkout.path().join("target/package/tollgate.deb"), "a package").expect("written");
    assert_eq!(run(&step("Archive"), checkout.path(), tag), (true, String::new()));
    let package = checkout.path().join("target/package");
    assert_eq!(run(&step("Checksums"), &package, tag), (true, String::new()));
    let name = format!("tollgate-{tag}-x86_64-linux");
    let (_, listed) = run(&format!("tar -tzf {name}.tar.gz"), &package, tag);
    for file in
        ["tollgate", "man/tollgate-serve.1", "completions/_tollgate", "examples", "LICENSE-MIT", "README.md"]
    {
        assert!(
            listed.lines().any(|line| line.trim_end_matches('/') == format!("{name}/{file}")),
            "{file}: {listed}"
        );
    }
    let checked = run(&format!("sha256sum --check {name}.tar.gz.sha256 tollgate.deb.sha256"), &package, tag);
    assert!(checked.0, "{}", checked.1);
}
