//! The settings of a store of counters in memcached: addresses of the servers, and waits.
//!
//! Not here: which server keeps a counter (`rendezvous`).

use std::time::Duration;

use tollgate_store::remote::{BreakerSettings, ConfigError, HostPort};

const PORT: u16 = 11211;
const FORM: &str = "write memcache://host:11211 or memcache://host1:11211,host2:11211";

/// Settings of a [`MemcacheStore`](crate::MemcacheStore). Made by [`MemcacheConfig::parse_url`], then changed
/// by field.
///
/// # Example
/// ```
/// use tollgate_store_memcache::MemcacheConfig;
///
/// let config = MemcacheConfig::parse_url("memcache://10.0.0.7,10.0.0.8:11212")?;
/// assert_eq!(config.servers[0].to_string(), "10.0.0.7:11211");
/// assert_eq!(config.servers[1].port, 11212);
/// # Ok::<(), tollgate_store_memcache::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemcacheConfig {
    /// The servers. Each counter is on one of them, chosen by its name and theirs: nodes that share counters
    /// list the same servers, in the same spelling; the order does not matter.
    pub servers: Vec<HostPort>,
    /// Prefix of every item's name. Nodes that share counters have the same.
    pub prefix: String,
    /// Longest wait of a call, from the moment it is made.
    pub deadline: Duration,
    /// Longest time to connect, for one attempt.
    pub connect_timeout: Duration,
    /// Most calls that wait to be sent, per connection; one more fails at once.
    pub max_queued: usize,
    /// Most keys in one round trip, per connection.
    pub max_flight: usize,
    /// The failures after which a server is not asked for a while.
    pub breaker: BreakerSettings,
    /// Additional lifetime of an item: as much as the nodes' clocks may step back or differ without a count
    /// being lost.
    pub keep: Duration,
}

impl MemcacheConfig {
    /// Settings for `servers`, everything else as by default: prefix `tollgate:`, 10 ms a call, 500 ms to
    /// connect, 8,192 calls queued, 1,024 keys in a flight, items kept for one more minute.
    #[must_use]
    pub fn new(servers: Vec<HostPort>) -> Self {
        Self {
            servers,
            prefix: "tollgate:".to_owned(),
            deadline: Duration::from_millis(10),
            connect_timeout: Duration::from_millis(500),
            max_queued: 8192,
            max_flight: 1024,
            breaker: BreakerSettings::default(),
            keep: Duration::from_secs(60),
        }
    }

    /// Reads `memcache://h1:11211,h2:11211`; the default port is 11211.
    ///
    /// # Errors
    /// [`ConfigError`] when it is not of that form; it never shows a password.
    pub fn parse_url(url: &str) -> Result<Self, ConfigError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong(format!("the scheme is missing; {FORM}"));
        };
        if !scheme.eq_ignore_ascii_case("memcache") {
            return wrong(format!("the scheme `{}` is not memcache; {FORM}", scheme.escape_debug()));
        }
        if rest.contains('@') {
            return wrong(format!("memcached's text protocol has no login; {FORM}"));
        }
        let hosts = rest.strip_suffix('/').unwrap_or(rest);
        if hosts.contains(['/', '?', '#']) {
            return wrong(format!("nothing may follow the servers; {FORM}"));
        }
        let config = Self::new(hosts.split(',').map(read_host).collect::<Result<_, _>>()?);
        config.validate()?;
        Ok(config)
    }

    /// Looks for settings that cannot work.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |what: String| Err(ConfigError::setting(what));
        let mut sorted: Vec<_> = self.servers.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(format!("{} is listed twice", pair[0]));
        }
        let second = Duration::from_secs(1);
        for (is_wrong, what) in [
            (self.servers.is_empty(), "at least one server is needed"),
            (
                self.deadline < second / 1000 || self.deadline > second * 60,
                "the deadline of a call must be from 1 ms to 60 s",
            ),
            (
                self.connect_timeout < second / 1000 || self.connect_timeout > second * 60,
                "the time to connect must be from 1 ms to 60 s",
            ),
            (
                self.max_queued == 0 || self.max_flight == 0,
                "the queue and the flights must hold at least one call",
            ),
            (self.breaker.fault().is_some(), self.breaker.fault().unwrap_or_default()),
            (self.keep > second * 86_400, "items may be kept for one more day at most"),
            (
                self.prefix.len() > 128 || !self.prefix.bytes().all(|byte| byte.is_ascii_graphic()),
                "the prefix may have 128 bytes, all printable ASCII and no space",
            ),
        ] {
            if is_wrong {
                return wrong(what.to_owned());
            }
        }
        Ok(())
    }
}

fn wrong<T>(what: String) -> Result<T, ConfigError> {
    Err(ConfigError::url(what))
}

fn read_host(text: &str) -> Result<HostPort, ConfigError> {
    HostPort::read(text, PORT).or_else(|fault| wrong(format!("{fault}; {FORM}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_servers_are_read() {
        for (url, servers) in [
            ("memcache://h", "h:11211"),
            ("memcache://h:1/", "h:1"),
            ("MEMCACHE://a,b:7", "a:11211 b:7"),
            ("memcache://[::1]:3,[fe80::2]", "[::1]:3 [fe80::2]:11211"),
        ] {
            let config = MemcacheConfig::parse_url(url).expect(url);
            let got: Vec<_> = config.servers.iter().map(ToString::to_string).collect();
            assert_eq!(got.join(" "), servers, "{url}");
        }
    }

    #[test]
    fn errors_never_show_the_password() {
        for (url, words) in [
            ("h:11211", "scheme is missing"),
            ("redis://h", "not memcache"),
            ("memcache://", "host is missing"),
            ("memcache://a,,b", "host is missing"),
            ("memcache://a:0", "invalid port"),
            ("memcache://a:http", "invalid port"),
            ("memcache://::1", "invalid port"),
            ("memcache://fe80::1", "invalid port"),
            ("memcache://[::1", "after `[`"),
            ("memcache://u:hunter2@h", "no login"),
            ("memcache://h/0", "nothing may follow"),
            ("memcache://h?x", "nothing may follow"),
            ("memcache://h,h:11211", "h:11211 is listed twice"),
        ] {
            let error = MemcacheConfig::parse_url(url).expect_err(url).to_string();
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }
}
