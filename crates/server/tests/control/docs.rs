//! The commands of docs/control.md and of the READMEs, each run without changes, in order, except for
//! addresses and the path of the binary.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tollgate_harness::processes::*;
use tollgate_testkit::certificates::Authority;

/// The lines of the blocks of commands that follow `heading`, up to the heading after them.
fn commands(page: &str, from: &str, to: Option<&str>) -> Vec<String> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page));
    let page = page.expect("a page");
    let (_, part) = page.split_once(from).expect("a heading");
    let part = to.map_or(part, |to| part.split_once(to).expect("a heading").0);
    let blocks = part.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// Runs commands one after another. Those that do not end stay until all have run.
struct Runner<'f> {
    folder: &'f Path,
    control: SocketAddr,
    http: SocketAddr,
    running: Vec<Process>,
}

impl<'f> Runner<'f> {
    fn new(folder: &'f Path) -> Self {
        let [control, http] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        Self { folder, control, http, running: Vec::new() }
    }

    /// A server, once it is ready; `None` for a command that has ended well.
    fn run(&mut self, line: &str) -> Option<&Process> {
        let binary = env!("CARGO_BIN_EXE_tollgate");
        let line = line.replace("cargo run --release --", "tollgate");
        let line = line.replace("127.0.0.1:8070", &self.control.to_string());
        let line = line.replace("0.0.0.0:8070", &format!("0.0.0.0:{}", free_port()));
        let line = line.replace("127.0.0.1:8080", &self.http.to_string());
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_server = match words[..] {
            ["tollgate", "control", ..] => !words.iter().any(|word| ["user", "audit"].contains(word)),
            ["tollgate", "serve", ..] => true,
            _ => false,
        };
        if !is_server {
            let line = line.replacen("tollgate ", &format!("{binary} "), 1);
            let ran = Command::new("sh").current_dir(self.folder).args(["-c", &line]).output().expect("sh");
            assert!(ran.status.success(), "{line}: {ran:?}");
            return None;
        }
        let mut command = tollgate();
        command.current_dir(self.folder).args(&words[1..]);
        let has_address = words.contains(&"--listen") || words.contains(&"embedded");
        match (words[1], has_address) {
            ("control", false) => {
                let is_behind = words.contains(&"--proxy-hops");
                let address = if is_behind { "127.0.0.1:0".to_owned() } else { self.control.to_string() };
                command.args(["--listen", &address]);
            }
            ("control", true) => {}
            _ => {
                command.args(["--grpc", "off", "--resp", "off", "--http", &self.http.to_string()]);
            }
        }
        if words.contains(&"embedded") {
            command.args([
                "--control-listen",
                "127.0.0.1:0",
                "--state-dir",
                "other",
                "--control-data-dir",
                "alone",
            ]);
        }
        if words.contains(&"--tls-cert") {
            command.args(["--data-dir", "secure"]);
        }
        if words.contains(&"--proxy-hops") {
            command.args(["--data-dir", "behind"]);
        }
        self.running.push(Process::start(command));
        self.running.last()
    }
}

fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED the commands with curl: there is none on this machine");
    }
    found
}

#[test]
fn every_command_of_the_page_on_the_control_plane_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = Authority::new().issue("server", 2099).write(folder.path());
    for (made, name) in [(cert, "cert.pem"), (key, "key.pem")] {
        let wanted = folder.path().join(name);
        if made != wanted {
            std::fs::rename(made, wanted).expect("renamed");
        }
    }
    let has_curl = has_curl();
    let mut runner = Runner::new(folder.path());
    let mut ran = 0;
    for line in commands("docs/control.md", "## Run it", Some("## Rules\n")) {
        if line.contains("curl") && !has_curl {
            continue;
        }
        runner.run(&line);
        // Ports are free again for the next.
        if ["tollgate serve", "--tls-cert", "--proxy-hops"].iter().any(|it| line.contains(it)) {
            runner.running.pop();
        }
        ran += 1;
    }
    assert!(ran >= 6, "{ran} commands");
}

#[test]
fn a_rule_of_the_console_limits_a_request_as_the_readmes_say() {
    if !has_curl() {
        return;
    }
    for (page, from, to) in [
        ("README.md", "## Console\n", "## More\n"),
        ("README.zh-CN.md", "## <a id=\"console\"></a>", "## <a id=\"more\"></a>"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runner = Runner::new(folder.path());
        let lines = commands(page, from, Some(to));
        let [control, serve, curl] = &lines[..] else { panic!("three commands, not {lines:?}") };
        let process = runner.run(control).expect("a server");
        let cookie = set_up(runner_address(process), process.says("setup").expect("a link"));
        runner.run(serve);
        let fields = format!(
            "Cookie: tollgate={cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n"
        );
        let form = "app=shop&key=push&max_permits=2&rate=1&description=&terms=yes&action=save";
        let (status, _, said) = send(runner.control, "POST", "/rules/new", &fields, form).expect("an answer");
        assert_eq!(status, 303, "{said}");
        let curl = curl.replace("127.0.0.1:8080", &runner.http.to_string());
        wait("a reply with 429", || {
            let ran = Command::new("sh").args(["-c", &curl]).output().expect("sh");
            String::from_utf8_lossy(&ran.stdout).starts_with("HTTP/1.1 429 ").then_some(())
        });
    }
}

fn runner_address(process: &Process) -> SocketAddr {
    let console = process.says("console").and_then(|it| it.strip_prefix("http://"));
    console.and_then(|it| it.parse().ok()).expect("an address")
}
