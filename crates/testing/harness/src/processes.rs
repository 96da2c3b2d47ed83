//! The binary as processes, and clients that speak to them. Every wait is for the thing itself, with a
//! deadline that only a hang reaches.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
pub use tollgate_testkit::redis::{free_port, poll as wait};

/// Only a hang takes so long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The binary, with an empty environment.
#[must_use]
pub fn tollgate() -> Command {
    let mut command = Command::new(binary());
    command.env_clear().stdin(Stdio::null());
    command
}

/// The binary under test: `TOLLGATE_BIN`, or the one that cargo built beside this test, made first where it
/// is missing.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("TOLLGATE_BIN") {
            return given.into();
        }
        let test = std::env::current_exe().expect("a test has a path");
        let built = test.ancestors().nth(2).expect("PROFILE/deps/TEST").join("tollgate");
        if !built.exists() {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            let cargo = cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
            let built = cargo.args(["build", "--package", "tollgate-server"]).status();
            assert!(built.expect("cargo").success(), "the build failed");
        }
        built
    })
}

/// A process that has printed that it is ready. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    pub child: Child,
    pub screen: String,
}

impl Process {
    /// Starts it; `Err` is its output if it ended instead.
    pub fn try_start(mut command: Command) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut screen = String::new();
        while !screen.ends_with("  ready\n") {
            if out.read_line(&mut screen).expect("text") == 0 {
                let mut said = String::new();
                child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
                child.wait().expect("it ended");
                return Err(format!("{screen}{said}"));
            }
        }
        Ok(Self { child, screen })
    }

    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|said| panic!("it ended: {said}"))
    }

    /// The value after `word` on the start screen.
    pub fn says(&self, word: &str) -> Option<&str> {
        let of_word = |line: &'_ str| line.trim_start().strip_prefix(word)?.strip_prefix(' ').map(str::len);
        let line = self.screen.lines().find(|line| of_word(line).is_some())?;
        line.trim_start().strip_prefix(word).map(str::trim)
    }

    pub fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().expect("sh").success());
    }

    /// Its exit code, and everything that it said on stderr.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A control plane with a logged-in administrator.
#[derive(Debug)]
pub struct ControlProcess {
    pub process: Process,
    pub address: SocketAddr,
    pub cookie: String,
    folder: PathBuf,
}

impl ControlProcess {
    /// Starts on an empty folder and makes the first administrator by the link that it prints.
    pub fn start(folder: &Path) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Self::started(Self::command(folder, address), folder, address)
    }

    /// As [`ControlProcess::start`], by a command with other flags.
    pub fn started(command: Command, folder: &Path, address: SocketAddr) -> Self {
        let process = Process::start(command);
        let cookie = set_up(address, process.says("setup").expect("a link"));
        Self { process, address, cookie, folder: folder.to_owned() }
    }

    pub fn command(folder: &Path, address: SocketAddr) -> Command {
        let mut command = tollgate();
        command.args(["control", "--listen", &address.to_string(), "--data-dir"]).arg(folder);
        command
    }

    pub fn kill(&mut self) {
        self.process.child.kill().expect("killed");
        self.process.child.wait().expect("ended");
    }

    /// As after a kill: on the same folder and the same port.
    pub fn start_again(&mut self) {
        let start = || Process::try_start(Self::command(&self.folder, self.address)).ok();
        self.process = wait("the port is free again", start);
    }

    pub fn token_file(&self) -> PathBuf {
        self.folder.join("node-token")
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.try_send("GET", path, "", "").expect("an answer")
    }

    /// Sends a request; `Err` if the connection broke.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        fields: &str,
        body: &str,
    ) -> std::io::Result<(u16, String)> {
        let fields = format!("Cookie: tollgate={}\r\n{fields}", self.cookie);
        send(self.address, method, path, &fields, body).map(|(status, _, body)| (status, body))
    }

    /// Makes a rule by the API: `burst` requests, one more a second.
    pub fn create_rule(&self, app: &str, key: &str, burst: u32) {
        let (status, said) = self.try_create_rule(app, key, burst).expect("an answer");
        assert_eq!(status, 201, "{said}");
    }

    /// Sends JSON, or nothing for `null`. A reply that is no JSON is `null`.
    pub fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let json = "Content-Type: application/json\r\n";
        let (status, said) = self.try_send(method, path, json, &text).expect("an answer");
        (status, serde_json::from_str(&said).unwrap_or(Value::Null))
    }

    /// Blocks or allows for an hour. Returns the id.
    pub fn make_override(&self, action: &str, domain: &str, entries: &[&str]) -> String {
        let body = json!({"domain": domain, "entries": entries, "action": action, "minutes": 60, "reason": "test",
                "whole_domain": entries.is_empty()});
        let (status, made) = self.json("POST", "/api/v1/overrides", &body);
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    pub fn end_override(&self, id: &str) {
        let (status, said) = self.json("DELETE", &format!("/api/v1/overrides/{id}"), &Value::Null);
        assert!(status < 300, "{status} {said}");
    }

    pub fn try_create_rule(&self, app: &str, key: &str, burst: u32) -> std::io::Result<(u16, String)> {
        let body = json!({"key": key, "max_permits": burst, "rate": 1}).to_string();
        let json = "Content-Type: application/json\r\n";
        self.try_send("POST", &format!("/api/v1/apps/{app}/rules"), json, &body)
    }
}

/// Makes the first administrator by a printed link. Returns the cookie of the login.
pub fn set_up(address: SocketAddr, link: &str) -> String {
    let code = link.split_once("/setup?code=").expect("a link to the setup").1;
    let form = format!("code={code}&name=ann&password=correct+horse+battery&again=correct+horse+battery");
    let fields = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
    let (status, head, said) = send(address, "POST", "/setup", fields, &form).expect("an answer");
    assert_eq!(status, 303, "{said}");
    let cookie = head.lines().find_map(|line| line.split_once("tollgate=")?.1.split(';').next());
    cookie.expect("a cookie").to_owned()
}

/// Status, head and body of the answer.
pub fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    fields: &str,
    body: &str,
) -> std::io::Result<(u16, String, String)> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status in {text:?}")))?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Ok((status, head.to_owned(), body.to_owned()))
}

/// A node with a folder for its state.
#[derive(Debug)]
pub struct NodeProcess {
    pub process: Process,
    pub state: PathBuf,
}

impl NodeProcess {
    pub fn start(control: &ControlProcess, state: &Path, flags: &[&str]) -> Self {
        let process = Process::start(Self::command(control, state, flags));
        Self { process, state: state.to_owned() }
    }

    pub fn command(control: &ControlProcess, state: &Path, flags: &[&str]) -> Command {
        let mut command = tollgate();
        command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--drain-delay", "0", "--control", &format!("http://{}", control.address)]);
        command.arg("--control-token-file").arg(control.token_file());
        command.arg("--state-dir").arg(state).args(flags);
        command
    }

    pub fn http(&self) -> SocketAddr {
        self.process.says("http").and_then(|text| text.parse().ok()).expect("an address")
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = send(self.http(), "GET", path, "", "").expect("an answer");
        (status, body)
    }

    /// Outcome of a request of this domain and key: `admit`, `limited` (admitted by a rule), `deny`, or
    /// `undecided`.
    pub fn check(&self, domain: &str, key: &str) -> &'static str {
        let (_, body) = self.get(&format!("/v1/check?domain={domain}&entry=key={key}"));
        let body: Value = serde_json::from_str(&body).expect("JSON");
        match (body["outcome"].as_str(), body["rule"].is_string()) {
            (Some("admit"), false) => "admit",
            (Some("admit"), true) => "limited",
            (Some("deny"), _) => "deny",
            _ => "undecided",
        }
    }

    /// Waits until a rule of this domain and key is in force, and its permits are used up.
    pub fn wait_denied(&self, domain: &str, key: &str) {
        wait(&format!("{domain}/{key} is denied"), || (self.check(domain, key) == "deny").then_some(()));
    }

    pub fn ready(&self) -> (u16, Value) {
        let (status, body) = self.get("/readyz");
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    pub fn wait_ready(&self, what: &str, done: impl Fn(u16, &Value) -> bool) -> Value {
        wait(what, || {
            let (status, body) = self.ready();
            done(status, &body).then_some(body)
        })
    }

    pub fn metric(&self, name: &str) -> Option<u64> {
        metric(&self.get("/metrics").1, name)
    }
}

/// The value of a metric, by its name with its labels.
pub fn metric(metrics: &str, name: &str) -> Option<u64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Three nodes with folders in `folder`.
pub fn three(control: &ControlProcess, folder: &Path) -> Vec<NodeProcess> {
    let start = |name: &str| NodeProcess::start(control, &folder.join(name), &["--node-name", name]);
    ["a", "b", "c"].map(start).into()
}
