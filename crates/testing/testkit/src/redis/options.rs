//! Options of a server: each is a line of its configuration.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::certificates::Authority;

/// Configuration of a [`Redis`](super::Redis). Without any option: no password, no limit of memory, nothing
/// kept on disk.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) lines: String,
    pub(super) password: Option<String>,
    pub(super) tls: Option<bool>,
    pub(super) append_only: bool,
    /// The authority of its certificates; with TLS and `None`, it has its own.
    pub(super) authority: Option<Arc<Authority>>,
}

impl Options {
    /// A server that keeps nothing and asks for no password.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Any line of a configuration file.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        writeln!(self.lines, "{name} {value}").ok();
        self
    }

    /// At most so much memory, `3mb`, and what happens then: `noeviction`, `allkeys-lru`, ….
    #[must_use]
    pub fn memory(self, max: &str, policy: &str) -> Self {
        self.set("maxmemory", max).set("maxmemory-policy", policy)
    }

    /// The password of the default user; replicas of such a server send it too.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password).set("masterauth", password)
    }

    /// A user by its ACL rules: `tollgate on >secret ~tollgate:* +evalsha`.
    #[must_use]
    pub fn user(self, name_and_rules: &str) -> Self {
        self.set("user", name_and_rules)
    }

    /// Only TLS on the port, with a certificate for `localhost` and `127.0.0.1` of an authority of the test.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = Some(self.tls.unwrap_or(false));
        self
    }

    /// TLS, and only clients that show a certificate of the same authority.
    #[must_use]
    pub fn client_certificates(mut self) -> Self {
        self.tls = Some(true);
        self
    }

    /// The same for several servers that are to believe each other: one authority for all.
    pub(super) fn for_several(&self) -> Self {
        Self { authority: Some(self.authority.clone().unwrap_or_default()), ..self.clone() }
    }

    /// Scheme of its URLs.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "rediss" } else { "redis" }
    }

    /// Every write is on disk before its answer, so that a killed server comes back with all of it.
    #[must_use]
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// A copy of another server.
    #[must_use]
    pub fn replica_of(self, master: SocketAddr) -> Self {
        let to = format!("{} {}", master.ip(), master.port());
        self.set("replicaof", &to)
    }
}
