//! What `serve` says when it is up: one screen on stdout, each line a word and what belongs to it.
//!
//! Programs may rely on the lines `grpc ADDRESS`, `http ADDRESS`, `resp ADDRESS` (or `off`), `tls SURFACES` (or `off`) and
//! `try COMMAND`, and on `ready` being the last one.

use std::io::Write;
use std::net::SocketAddr;

use serde_json::json;
use tollgate_http_api::StoreView;
use tollgate_policy::Policy;

use crate::command::{count, summary};
use crate::example;
use crate::settings::{Settings, StoreSettings, Surface, units};

/// What there is to say.
pub struct Screen<'a> {
    /// The rules in force.
    pub policy: &'a Policy,
    /// Where each surface listens.
    pub listening: [(Surface, Option<SocketAddr>); 3],
    /// What was set.
    pub settings: &'a Settings,
    /// How the store is.
    pub store: &'a StoreView,
}

impl Screen<'_> {
    /// Writes the screen, at once.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut screen = Vec::new();
        self.lines(&mut screen)?;
        out.write_all(&screen)?;
        out.flush()
    }

    fn lines(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        const MOST: usize = 8;
        let paths: Vec<String> = self.settings.rules.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "tollgate {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "  rules   {} from {}", summary(self.policy), paths.join(", "))?;
        for domain in self.policy.domains().iter().take(MOST) {
            writeln!(out, "            {}: {}", domain.name(), count(domain.rules().len(), "rule"))?;
        }
        if let Some(more) = self.policy.domains().len().checked_sub(MOST).filter(|more| *more > 0) {
            writeln!(out, "            and {} more", count(more, "domain"))?;
        }
        writeln!(out, "  version {}", self.policy.version())?;
        let Settings { memory_max, workers, tls, .. } = self.settings;
        match self.settings.store {
            StoreSettings::Memory => {
                writeln!(out, "  store   memory, at most {}", units::in_bytes(*memory_max))?
            }
            _ => writeln!(out, "  store   {}, {}", self.store.name, shown(self.store))?,
        }
        for (surface, address) in self.listening {
            let address = address.map_or_else(|| "off".to_owned(), |address| address.to_string());
            writeln!(out, "  {:<7} {address}", surface.name())?;
        }
        let tls = match tls.surfaces.as_slice() {
            [] => "off".to_owned(),
            surfaces => surfaces.iter().map(|surface| surface.name()).collect::<Vec<_>>().join(", "),
        };
        writeln!(out, "  tls     {tls}")?;
        writeln!(out, "  workers {workers}")?;
        writeln!(out, "  try     {}", self.try_this())?;
        writeln!(out, "  ready")
    }

    /// How HTTP is asked from this machine, up to the path.
    fn curl(&self) -> Option<String> {
        let (_, http) = self.listening.into_iter().find(|(surface, _)| *surface == Surface::Http)?;
        let http = reachable(http?);
        // The certificate names a host, not this address.
        let encrypted = self.settings.tls.of(Surface::Http).map(|_| format!("curl -sk https://{http}"));
        Some(encrypted.unwrap_or_else(|| format!("curl -s http://{http}")))
    }

    /// A command that works as it stands.
    fn try_this(&self) -> String {
        let Some(curl) = self.curl() else {
            let path = self
                .settings
                .rules
                .first()
                .map_or_else(String::new, |path| quote(&path.display().to_string()));
            // Not everybody has it on the PATH.
            let program =
                std::env::current_exe().map_or_else(|_| "tollgate".into(), |path| path.display().to_string());
            let tollgate = quote(&program);
            return match example::of(self.policy) {
                Some((domain, descriptor)) => {
                    let entries: Vec<String> =
                        descriptor.iter().map(|(key, value)| quote(&format!("{key}={value}"))).collect();
                    let (domain, entries) = (quote(domain.name()), entries.join(" "));
                    format!("{tollgate} explain --rules {path} --domain {domain} {entries}")
                }
                None => format!("{tollgate} check {path}"),
            };
        };
        match example::of(self.policy) {
            Some((domain, descriptor)) => {
                let entries: Vec<_> =
                    descriptor.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
                // By hand, so that the domain stands first, where people look for it.
                let body =
                    format!(r#"{{"domain":{},"descriptors":{}}}"#, json!(domain.name()), json!([entries]));
                format!("{curl}/v1/check -d {}", quote(&body))
            }
            None => format!("{curl}/readyz"),
        }
    }
}

/// How a store is, in words.
fn shown(store: &StoreView) -> String {
    match (store.state, &store.why) {
        ("up", _) => "answers".to_owned(),
        ("down", Some(why)) => format!("down: {why}"),
        _ => "not heard from yet; it is tried again and again".to_owned(),
    }
}

/// Every interface is no address to send to; this machine is.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// As one word of a POSIX shell.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for (text, want) in [
            ("plain/path-1.yaml", "plain/path-1.yaml"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot)", "'$(reboot)'"),
        ] {
            assert_eq!(quote(text), want);
        }
    }

    #[test]
    fn a_command_to_try_names_an_address_that_can_be_reached() {
        for (listening, want) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            let listening: SocketAddr = listening.parse().expect("an address");
            assert_eq!(reachable(listening).to_string(), want);
        }
    }
}
