//! One Redis server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::process::{Process, free_port, have, poll};
use super::{Options, RedisConnection, RedisReply};
use crate::certificates::Issued;

/// The user by whom the test itself speaks to the server, over a unix socket, whatever passwords it asks of
/// others.
const TESTKIT: &str = "testkit";

/// The file with the authority's certificate.
const AUTHORITY: &str = "authority.crt";

/// The server to start: `redis-server`, or what the variable `TOLLGATE_TEST_REDIS_SERVER` names: a program on
/// the `PATH`, `valkey-server` for one, or the whole path of one.
#[must_use]
pub fn program() -> String {
    std::env::var("TOLLGATE_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Whether there is the server's [`program`]; prints `SKIPPED` with the reason where not.
#[must_use]
pub fn installed() -> bool {
    have(&program())
}

/// A Redis server on a port of 127.0.0.1. The port stays the same through all its lives.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    options: Options,
    certificates: Option<Certificates>,
}

/// Certificates that a client needs.
#[derive(Debug)]
pub(super) struct Certificates {
    authority: String,
    client: Issued,
}

impl Redis {
    /// Starts one and waits until it answers. `None` where there is no `redis-server`; a line `SKIPPED …` is
    /// printed then.
    ///
    /// # Panics
    /// When it does not answer: an option it does not know, mostly. The panic shows its log.
    #[must_use]
    pub fn start(options: &Options) -> Option<Self> {
        installed().then(|| Self::run(options, ""))
    }

    /// Starts one with more lines of configuration, in which `{port2}` becomes another free port.
    pub(super) fn run(options: &Options, more: &str) -> Self {
        for _ in 0..10 {
            let mut redis = Self {
                process: Process::new(),
                port: free_port(),
                options: options.clone(),
                certificates: None,
            };
            redis.configure(&more.replace("{port2}", &free_port().to_string()));
            redis.process.spawn(&program(), &["redis.conf"]);
            if redis.wait() {
                return redis;
            }
            let log = redis.process.log();
            assert!(log.contains("Address already in use"), "the server ended: {log}");
        }
        panic!("no free port in ten tries");
    }

    fn configure(&mut self, more: &str) {
        let port = self.port;
        let mut text = format!(
            "bind 127.0.0.1\nprotected-mode no\nsave \"\"\ndatabases 16\nrepl-diskless-sync-delay 0\n{}{}\n{more}\n",
            own_socket(&self.socket()),
            self.options.lines,
        );
        if self.options.append_only {
            text += "appendonly yes\nappendfsync always\n";
        }
        let (lines, certificates) = listen(&self.options, port, self.process.folder());
        text += &lines;
        self.certificates = certificates;
        std::fs::write(self.process.folder().join("redis.conf"), text).expect("written");
    }

    /// Waits until it answers; false when it ended instead.
    fn wait(&mut self) -> bool {
        poll("the server to answer", || {
            if !self.process.runs() {
                return Some(false);
            }
            let pong = self.ask(&["PING"]).ok()?;
            (pong == RedisReply::Status("PONG".to_owned())).then_some(true)
        })
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Where it listens on 127.0.0.1; TLS where it was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// `redis://` or `rediss://` with the password of the default user, for a client that may do everything.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as(&self.options.password.as_ref().map(|it| format!(":{it}")).unwrap_or_default())
    }

    /// The same as `user:password`.
    #[must_use]
    pub fn url_as(&self, who: &str) -> String {
        let scheme = self.options.scheme();
        let at = if who.is_empty() { "" } else { "@" };
        format!("{scheme}://{who}{at}{}", self.address())
    }

    /// Its unix socket, which is always there.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.process.folder().join("redis.sock")
    }

    /// The folder that it writes in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    /// The file with the certificate of the authority to trust; it is there with TLS.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.process.folder().join(AUTHORITY)
    }

    /// The certificate of the authority to trust, as PEM.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.certificates.as_ref().map(|it| it.authority.as_str())
    }

    /// A certificate that its authority gave to a client.
    #[must_use]
    pub fn client_certificate(&self) -> Option<&Issued> {
        self.certificates.as_ref().map(|it| &it.client)
    }

    /// A connection of the test itself, which may do everything.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn client(&self) -> std::io::Result<RedisConnection> {
        own_client(&self.socket())
    }

    /// Sends one command and returns the answer, which may be an error.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn command<T: AsRef<[u8]>>(&self, words: &[T]) -> RedisReply {
        self.ask(words).expect("it answers")
    }

    /// The same where the server may be down, or about to end the connection.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn ask<T: AsRef<[u8]>>(&self, words: &[T]) -> std::io::Result<RedisReply> {
        self.client()?.command(words)
    }

    /// A line of `INFO`, `used_memory` for one. `None` also when the server does not answer: a Sentinel that
    /// changes its role ends all its connections, so callers that wait for that ask again.
    #[must_use]
    pub fn info(&self, field: &str) -> Option<String> {
        let text = self.ask(&["INFO", "all"]).ok()?.text();
        text.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned()))
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// SIGKILL: data that was not on disk is lost. Returns when it has ended.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM: it ends as it is meant to. Returns when it has.
    pub fn terminate(&mut self) {
        self.process.terminate();
    }

    /// SIGSTOP: it answers nothing, its port stays open.
    ///
    /// # Panics
    /// When it does not run.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// SIGCONT: it continues, with all that has arrived meanwhile.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts it anew on the same port after an end, with the data on its disk: all with
    /// [`Options::append_only`], else nothing.
    ///
    /// # Panics
    /// When it does not answer again.
    pub fn start_again(&mut self) {
        self.process.kill();
        self.process.spawn(&program(), &["redis.conf"]);
        assert!(self.wait(), "the server ended: {}", self.process.log());
    }

    /// Kills it, removes the data on its disk, and starts it anew on the same port.
    ///
    /// # Panics
    /// When it does not answer again.
    pub fn restart_empty(&mut self) {
        self.process.kill();
        std::fs::remove_dir_all(self.process.folder().join("appendonlydir")).ok();
        std::fs::remove_file(self.process.folder().join("dump.rdb")).ok();
        self.start_again();
    }
}

/// The port's lines of a configuration, and with TLS the certificates, which are written into `folder`.
/// Servers use TLS among themselves too.
pub(super) fn listen(options: &Options, port: u16, folder: &Path) -> (String, Option<Certificates>) {
    let Some(clients) = options.tls else { return (format!("port {port}\n"), None) };
    let authority = options.authority.clone().unwrap_or_default();
    let (cert, key) = authority.issue("redis", 2100).write(folder);
    let root = folder.join(AUTHORITY);
    std::fs::write(&root, authority.pem()).expect("written");
    let lines = format!(
        "port 0\ntls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients {}\n\
         tls-replication yes\ntls-cluster yes\n",
        cert.display(),
        key.display(),
        root.display(),
        if clients { "yes" } else { "no" },
    );
    let client = authority.issue("a client", 2100);
    (lines, Some(Certificates { authority: authority.pem(), client }))
}

/// A connection of the test itself, over a unix socket, which may do everything whatever is asked of others.
pub(super) fn own_client(socket: &Path) -> std::io::Result<RedisConnection> {
    let mut client = RedisConnection::unix(socket)?;
    client.command(&["AUTH", TESTKIT, "any"])?;
    Ok(client)
}

/// The lines of a configuration for [`own_client`].
pub(super) fn own_socket(socket: &Path) -> String {
    format!("unixsocket {}\nuser {TESTKIT} on nopass ~* &* +@all\n", socket.display())
}
