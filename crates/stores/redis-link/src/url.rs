//! URLs of servers, read once into [`LinkSettings`]. Not here: names of settings or environment variables.

use percent_encoding::percent_decode_str;
use tollgate_store::remote::{AddressError, ConfigError, HostPort};
use tollgate_tls::TlsClientFiles;

use crate::settings::{LinkSettings, Login, Secret, Servers};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const FORMS: &str = "write redis://[user:password@]host:port/database, rediss://…, redis+sentinel://h1:26379,h2:26379/master, \
                     redis+cluster://h1:7000,h2:7000 or unix:///path";

impl LinkSettings {
    /// Reads `redis://[user:password@]host[:port][/database]`, `rediss://…` (TLS),
    /// `redis+sentinel://h1:26379,h2:26379/master[/database]`, `redis+cluster://h1:7000,h2:7000`,
    /// `unix:///path`; the two with several hosts also as `rediss+…`. User and password are percent-decoded.
    ///
    /// # Errors
    /// [`ConfigError`] when it has none of these forms; it never shows the password.
    pub fn parse_url(url: &str) -> Result<Self, ConfigError> {
        parse(url)
    }
}

fn parse(url: &str) -> Result<LinkSettings, ConfigError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong(format!("the scheme is missing; {FORMS}"));
    };
    if let Some(at) = rest.find(['?', '#']) {
        // The rest of the URL may be anything, so it is not repeated here.
        return wrong(format!("`{}` and what follows cannot be read; {FORMS}", &rest[at..=at]));
    }
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "unix" || scheme == "redis+unix" {
        let (login, path) = match rest.rsplit_once('@') {
            Some((login, path)) => (read_login(login)?, path),
            None => (Login::default(), rest),
        };
        if !path.starts_with('/') {
            return wrong("a unix socket needs a whole path: unix:///run/redis.sock".to_owned());
        }
        let mut settings = LinkSettings::new(Servers::Unix(path.into()));
        settings.login = login;
        return Ok(settings);
    }
    let (tls, kind) = match scheme.as_str() {
        "redis" => (false, Deployment::Single),
        "rediss" => (true, Deployment::Single),
        "redis+sentinel" => (false, Deployment::Sentinel),
        "rediss+sentinel" => (true, Deployment::Sentinel),
        "redis+cluster" => (false, Deployment::Cluster),
        "rediss+cluster" => (true, Deployment::Cluster),
        _ => return wrong(format!("unknown scheme `{}`; {FORMS}", scheme.escape_debug())),
    };
    // The password may hold any of the other delimiters, so the last `@` is the one that counts.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (read_login(login)?, rest),
        None => (Login::default(), rest),
    };
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.strip_suffix('/').unwrap_or(path);
    let default_port = if kind == Deployment::Sentinel { SENTINEL_PORT } else { PORT };
    let mut hosts =
        hosts.split(',').map(|host| read_host(host, default_port)).collect::<Result<Vec<_>, _>>()?;
    let (servers, database) = match kind {
        Deployment::Single if hosts.len() > 1 => {
            return wrong("several hosts: write redis+cluster:// or redis+sentinel://".to_owned());
        }
        Deployment::Single => (Servers::Single(hosts.swap_remove(0)), path),
        Deployment::Cluster => (Servers::Cluster(hosts), path),
        Deployment::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return wrong(
                    "the master's name is missing: redis+sentinel://h1:26379,h2:26379/master".to_owned(),
                );
            }
            (Servers::Sentinel { sentinels: hosts, master: decode(master)? }, database)
        }
    };
    let mut settings = LinkSettings::new(servers);
    if !database.is_empty() {
        settings.database = match database.parse() {
            Ok(number) => number,
            Err(_) => {
                return wrong(format!("`/{}` is not a database number", database.escape_debug()));
            }
        };
    }
    settings.login = login;
    settings.tls = tls.then(TlsClientFiles::default);
    settings.validate()?;
    Ok(settings)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deployment {
    Single,
    Sentinel,
    Cluster,
}

fn wrong<T>(what: String) -> Result<T, ConfigError> {
    Err(ConfigError::Url { what })
}

fn read_login(text: &str) -> Result<Login, ConfigError> {
    let (username, password) = match text.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (text, None),
    };
    Ok(Login {
        username: if username.is_empty() { None } else { Some(decode(username)?) },
        password: match password {
            Some(password) if !password.is_empty() => Some(Secret::new(decode(password)?)),
            _ => None,
        },
        ..Login::default()
    })
}

fn read_host(text: &str, default_port: u16) -> Result<HostPort, ConfigError> {
    HostPort::read(text, default_port).or_else(|fault| {
        wrong(match fault {
            AddressError::Missing => format!("{fault}; {FORMS}"),
            // It may be the rest of a password.
            AddressError::Port => {
                format!("{fault}; `@`, `:` and `/` in a password are written %40, %3A and %2F")
            }
            _ => fault.to_string(),
        })
    })
}

/// Percent-decodes; an invalid `%` code is more likely a mistake than meant.
fn decode(text: &str) -> Result<String, ConfigError> {
    let is_code =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return wrong("a `%` must be followed by two hex digits; `%` itself is %25".to_owned());
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => wrong("user, password and names must be UTF-8 once decoded".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(host: &str, port: u16) -> Servers {
        Servers::Single(HostPort::new(host, port))
    }

    #[test]
    fn every_form_of_url_is_read() {
        let hosts =
            |list: &[(&str, u16)]| list.iter().map(|(host, port)| HostPort::new(host, *port)).collect();
        for (url, servers, database, tls) in [
            ("redis://h", single("h", 6379), 0, false),
            ("redis://h:1/", single("h", 1), 0, false),
            ("REDIS://h:1/3", single("h", 1), 3, false),
            ("rediss://u:p@[::1]:7/3", single("::1", 7), 3, true),
            ("redis://[::1]", single("::1", 6379), 0, false),
            ("unix:///run/r.sock", Servers::Unix("/run/r.sock".into()), 0, false),
            ("redis+cluster://a,b:7001", Servers::Cluster(hosts(&[("a", 6379), ("b", 7001)])), 0, false),
            (
                "rediss+sentinel://a,b:1/the%20master/2",
                Servers::Sentinel {
                    sentinels: hosts(&[("a", 26379), ("b", 1)]),
                    master: "the master".to_owned(),
                },
                2,
                true,
            ),
        ] {
            let settings = parse(url).expect(url);
            assert_eq!(settings.servers, servers, "{url}");
            assert_eq!((settings.database, settings.tls.is_some()), (database, tls), "{url}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        for (url, username, password) in [
            ("redis://h", None, None),
            ("redis://ann@h", Some("ann"), None),
            ("redis://:p%40ss@h", None, Some("p@ss")),
            ("redis://ann:p:a/b@c@h:1/2", Some("ann"), Some("p:a/b@c")),
            ("unix://ann:x@/run/r.sock", Some("ann"), Some("x")),
        ] {
            let settings = parse(url).expect(url);
            assert_eq!(settings.login.username.as_deref(), username, "{url}");
            assert_eq!(settings.login.password.as_ref().map(Secret::reveal), password, "{url}");
            assert!(password.is_none_or(|password| {
                let shown = format!("{settings:?}{}", settings.servers);
                password.len() < 2 || !shown.contains(password)
            }));
        }
    }

    #[test]
    fn errors_never_show_the_password() {
        for (url, words) in [
            ("localhost:6379", "scheme is missing"),
            ("http://h", "unknown scheme `http`"),
            ("redis://", "host is missing"),
            ("redis://h:port", "invalid port"),
            ("redis://h:0", "invalid port"),
            ("redis://h:70000", "invalid port"),
            ("redis://::1", "invalid port"),
            ("redis://[::1", "must be `]`"),
            ("redis://[::1]x", "only `:port`"),
            ("redis://a,b", "several hosts"),
            ("redis://u:hunter2@", "host is missing"),
            ("redis://u:hunter2/x", "invalid port"),
            ("redis://u:hunter2%zz@h", "two hex digits"),
            ("redis://h/hunter", "not a database number"),
            ("redis://u:hunter2@h?db=1", "`?`"),
            ("redis+cluster://a/1", "only database 0"),
            ("redis+sentinel://a", "master's name is missing"),
            ("unix://run/r.sock", "whole path"),
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }
}
