//! A proxy as a process of its own, on ports that were free a moment ago.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio::net::TcpListener;

use super::app::App;
use crate::http;

/// A running proxy, ended by its id when dropped.
pub(crate) struct Proxy {
    child: Child,
    folder: tempfile::TempDir,
    /// Where clients ask, with the configuration under test.
    pub(crate) public: SocketAddr,
    /// Another listener of the same proxy, which forwards to the application without asking anyone.
    pub(crate) open: SocketAddr,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Asked to end, it ends its workers; killed, it would leave them behind.
        Command::new("kill").arg(self.child.id().to_string()).status().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            println!("the proxy printed:\n{}", self.log());
        }
    }
}

impl Proxy {
    /// Starts what `command` prepares in a folder for ports of its own: the public one, the open one, and one
    /// more. Waits until the open one forwards to `app`.
    pub(crate) async fn start(app: &App, command: impl Fn(&Path, [SocketAddr; 3]) -> Command) -> Self {
        for _ in 0..20 {
            let folder = tempfile::tempdir().expect("a folder");
            let ports = free().await;
            let mut command = command(folder.path(), ports);
            let output = File::create(folder.path().join("output")).expect("it can be written");
            let error = output.try_clone().expect("a second handle");
            let child = command.stdin(Stdio::null()).stdout(output).stderr(error).spawn();
            let child = child.expect("the proxy can be started");
            let mut proxy = Self { child, folder, public: ports[0], open: ports[1] };
            if proxy.is_ready(app).await {
                return proxy;
            }
        }
        panic!("no free ports");
    }

    /// False if it has ended since another process has one of its ports.
    async fn is_ready(&mut self, app: &App) -> bool {
        loop {
            if let Some(ended) = self.child.try_wait().expect("it was started") {
                let log = self.log().to_ascii_lowercase();
                assert!(log.contains("address already in use"), "it ended with {ended}: {}", self.log());
                return false;
            }
            let answer = http::get(self.open, "/alive", &[]).await;
            if answer.is_ok_and(|answer| answer.body == app.body()) {
                return true;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Its output, and its own log of errors.
    pub(crate) fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        read("output") + &read("log")
    }
}

async fn free() -> [SocketAddr; 3] {
    let listen = async || TcpListener::bind("127.0.0.1:0").await;
    let held: io::Result<_> = async { Ok([listen().await?, listen().await?, listen().await?]) }.await;
    held.expect("free ports").map(|listener| listener.local_addr().expect("bound"))
}

/// The first of the names that is a program here. Users other than root often lack `sbin` in their path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    let more = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"].map(PathBuf::from);
    folders.into_iter().chain(more).map(|folder| folder.join(name)).find(|path| path.is_file())
}
