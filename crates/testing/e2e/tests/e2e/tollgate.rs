//! The process under test: the binary on ports it chooses itself, ended by its id when dropped.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
pub(crate) use tollgate_harness::processes::binary;

/// Longer than any start takes on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server.
pub(crate) struct Tollgate {
    child: Child,
    printed: Arc<Mutex<String>>,
    /// The threads that read its output, until its end.
    readers: Vec<JoinHandle<()>>,
    /// Where the gRPC service listens.
    pub(crate) grpc: SocketAddr,
    /// Where the HTTP API listens.
    pub(crate) http: SocketAddr,
    /// Where the Redis protocol is spoken.
    pub(crate) resp: SocketAddr,
}

/// Exit status and output of a server that ended before it listened.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) printed: String,
}

/// A server to start: `Start::new(rules)`, more flags and environment, then `go`.
pub(crate) struct Start {
    command: Command,
    grpc: String,
    http: String,
}

impl Start {
    /// A server with the rules of one folder or file.
    pub(crate) fn new(rules: &Path) -> Self {
        Self::command(["serve".as_ref(), "--rules".as_ref(), rules.as_os_str()])
    }

    /// A server with these arguments and no more; those that say where it listens are added.
    pub(crate) fn command(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut command = Command::new(binary());
        command.env_clear().args(args);
        Start { command, grpc: "127.0.0.1:0".to_owned(), http: "127.0.0.1:0".to_owned() }
    }

    /// Appends more flags.
    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    /// A variable of its environment, which is empty otherwise.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The folder in which it is started.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The gRPC port of a server that went before.
    pub(crate) fn grpc(mut self, at: SocketAddr) -> Self {
        self.grpc = at.to_string();
        self
    }

    /// The HTTP port of a server that went before.
    pub(crate) fn http(mut self, at: SocketAddr) -> Self {
        self.http = at.to_string();
        self
    }

    /// Starts and waits until it says that it is ready.
    pub(crate) fn go(self) -> Tollgate {
        self.try_go().unwrap_or_else(|ended| panic!("the server did not start: {ended:?}"))
    }

    /// Starts and waits until it says that it is ready, or the process has ended.
    pub(crate) fn try_go(mut self) -> Result<Tollgate, Ended> {
        self.command
            .args(["--grpc", &self.grpc, "--http", &self.http, "--resp", "127.0.0.1:0"])
            .args(["--debug-pages", "off"]) // a port of its own only in a network of its own
            .stdin(Stdio::null());
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let printed = Arc::new(Mutex::new(String::new()));
        let (say, seen) = mpsc::channel();
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        let read = |pipe| {
            let printed = printed.clone();
            let say = say.clone();
            thread::spawn(move || keep_reading(pipe, &printed, &say))
        };
        let readers = pipes.into_iter().map(read).collect();
        drop(say);

        let mut grpc = None;
        let mut http = None;
        let mut resp = None;
        let mut ready = false;
        while !ready {
            match seen.recv_timeout(PATIENCE) {
                Ok(Said::Grpc(at)) => grpc = Some(at),
                Ok(Said::Http(at)) => http = Some(at),
                Ok(Said::Resp(at)) => resp = Some(at),
                Ok(Said::Ready) => ready = true,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = child.wait().expect("it was started");
                    return Err(Ended { status, printed: text(&printed) });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    child.kill().ok();
                    panic!("neither ready nor an end; it printed:\n{}", text(&printed));
                }
            }
        }
        let grpc = grpc.expect("printed");
        let http = http.expect("printed");
        Ok(Tollgate { child, printed, readers, grpc, http, resp: resp.expect("printed") })
    }
}

impl Tollgate {
    /// A server with these rules and no more settings.
    pub(crate) fn start(rules: &Path) -> Self {
        Start::new(rules).go()
    }

    /// All that it has printed so far, to stdout and stderr.
    pub(crate) fn printed(&self) -> String {
        text(&self.printed)
    }

    /// Sends a signal, `"TERM"` or `"HUP"`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), pid.as_str()]).status().expect("kill");
        assert!(sent.success(), "kill -{name} {pid}");
    }

    /// Whether none of its threads runs since `signal("STOP")`.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in brackets and may hold any text.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        tasks.flatten().all(is_stopped)
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end, and until all that it printed was read, without holding up the other tasks of a
    /// multi-threaded runtime.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        tokio::task::block_in_place(|| {
            let status = self.child.wait().expect("it was started");
            self.readers.drain(..).for_each(|it| it.join().expect("no reader panics"));
            status
        })
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it was started").is_none()
    }

    /// Number of its threads whose name begins with `prefix`.
    pub(crate) fn threads(&self, prefix: &str) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let name =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().map(name).filter(|name| name.starts_with(prefix)).count()
    }

    /// Bytes of memory resident now.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS").trim();
        kib.trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// A value of `/metrics`, the sum of the series of that name whose labels hold `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        let text = crate::http::get(self.http, "/metrics", &[]).await.ok()?.body;
        let series = text.lines().filter(|l| l.starts_with(name) && l.contains(labels));
        series.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).reduce(|a, b| a + b)
    }
}

impl Drop for Tollgate {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            println!("the server printed:\n{}", self.printed());
        }
    }
}

/// Runs the binary to its end; for commands that do not serve.
pub(crate) fn run(args: &[&str]) -> (ExitStatus, String, String) {
    let ended = Command::new(binary())
        .env_clear()
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("it can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status, text(&ended.stdout), text(&ended.stderr))
}

/// Facts in lines of the start screen that the harness needs.
#[derive(Debug, Clone, Copy)]
enum Said {
    Grpc(SocketAddr),
    Http(SocketAddr),
    Resp(SocketAddr),
    Ready,
}

fn text(printed: &Mutex<String>) -> String {
    printed.lock().clone()
}

fn keep_reading(pipe: impl Read, printed: &Mutex<String>, said: &Sender<Said>) {
    for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        {
            let mut printed = printed.lock();
            printed.push_str(&line);
            printed.push('\n');
        }
        if let Some(what) = what_is_said(&line) {
            said.send(what).ok(); // after the last line that it waits for, nobody listens
        }
    }
}

fn what_is_said(line: &str) -> Option<Said> {
    let mut words = line.split_whitespace();
    match (words.next()?, words.next()) {
        ("grpc", Some(address)) => address.parse().ok().map(Said::Grpc),
        ("http", Some(address)) => address.parse().ok().map(Said::Http),
        ("resp", Some(address)) => address.parse().ok().map(Said::Resp),
        ("ready", None) => Some(Said::Ready),
        _ => None,
    }
}
