//! Addresses of servers: host and port, and their written form. Not here: URLs, whose form each store
//! chooses.

/// Host and port of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
}

impl HostPort {
    /// A host and a port.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Reads `host`, `host:port`, `[::1]` or `[::1]:port`.
    ///
    /// # Errors
    /// [`AddressError`] names the fault and does not repeat the address: it may be the rest of a password.
    ///
    /// # Example
    /// ```
    /// # use tollgate_store::remote::{HostPort, AddressError};
    /// assert_eq!(HostPort::read("[::1]:7", 6379)?, HostPort::new("::1", 7));
    /// assert_eq!(HostPort::read("redis.internal", 6379)?.port, 6379);
    /// assert_eq!(HostPort::read("::1", 6379), Err(AddressError::Port));
    /// # Ok::<(), AddressError>(())
    /// ```
    pub fn read(text: &str, default_port: u16) -> Result<Self, AddressError> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(AddressError::Brackets)?)),
                None => return Err(AddressError::Brackets),
            },
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port.map(str::parse) {
            None => default_port,
            Some(Ok(port)) if port != 0 => port,
            Some(_) => return Err(AddressError::Port),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(AddressError::Missing);
        }
        Ok(Self::new(host, port))
    }
}

/// The reason why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Brackets that do not enclose an address.
    #[error("after `[` there must be `]`, and then only `:port`")]
    Brackets,
    /// No host, or one with spaces in it.
    #[error("a host is missing")]
    Missing,
    /// An invalid port.
    #[error("invalid port after a host's `:`; write 1 to 65535 (an IPv6 address goes in brackets)")]
    Port,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
