//! Output of `serve` when it is up: one screen on stdout, each line a word and its value.
//!
//! Programs may rely on the lines `grpc ADDRESS`, `http ADDRESS`, `resp ADDRESS` (or `off`), `tls SURFACES`
//! (or `off`) and `try COMMAND`, and on `ready` being the last one. Ports for pages alone are listed only if
//! they are open.

use std::io::Write;

use tollgate_human_text::counted;
use tollgate_policy::Policy;
use tollgate_store::remote::StoreState;

use crate::any_store::AnyStore;
use crate::counted::summary;
use crate::example;
use crate::server::Listening;
use crate::settings::{Settings, StoreKind, parse};
use crate::shell::quote;

/// Domains that are listed.
const MAX_DOMAINS: usize = 8;

/// Contents of the start screen.
#[derive(Debug)]
pub(crate) struct Banner<'a> {
    /// The rules in effect.
    pub(crate) policy: &'a Policy,
    pub(crate) surfaces: &'a [Listening<'a>],
    pub(crate) settings: &'a Settings,
    pub(crate) store: &'a AnyStore,
    /// Words and their values, before `tls`.
    pub(crate) more: Vec<(&'static str, String)>,
}

impl Banner<'_> {
    /// Writes it at once.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub(crate) fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut banner = Vec::new();
        self.lines(&mut banner)?;
        out.write_all(&banner)?;
        out.flush()
    }

    fn lines(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let Settings { rules, store, serving, tls, .. } = self.settings;
        let paths: Vec<String> = rules.paths.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "tollgate {}", env!("CARGO_PKG_VERSION"))?;
        let paths = paths.join(", ");
        // Without rules the line says what ends that state, otherwise where the rules come from.
        if self.policy.domains().is_empty() {
            let until = match paths.is_empty() {
                true => "none yet: not ready until the control plane sends some".to_owned(),
                false => {
                    format!("none from {paths}: not ready, and requests fail, until the files are valid")
                }
            };
            writeln!(out, "  rules   {until}")?;
        } else {
            let from = match (paths.is_empty(), self.settings.control.is_some()) {
                (false, false) => paths,
                (false, true) => format!("{paths} and the control plane"),
                (true, _) => "the control plane".to_owned(),
            };
            writeln!(out, "  rules   {} from {from}", summary(self.policy))?;
        }
        for domain in self.policy.domains().iter().take(MAX_DOMAINS) {
            writeln!(out, "            {}: {}", domain.name(), counted(domain.rules().len(), "rule"))?;
        }
        if let Some(more) = self.policy.domains().len().checked_sub(MAX_DOMAINS).filter(|more| *more > 0) {
            writeln!(out, "            and {} more", counted(more, "domain"))?;
        }
        if !self.policy.version().is_empty() {
            writeln!(out, "  version {}", self.policy.version())?;
        }
        match store.kind {
            StoreKind::Memory => {
                writeln!(out, "  store   memory, at most {}", parse::in_bytes(store.memory_max))?;
            }
            _ => writeln!(out, "  store   {}", self.store_state())?,
        }
        // Ports for pages alone are listed only if they are open.
        let shown = || self.surfaces.iter().filter(|it| it.surface.decides() || it.address.is_some());
        for listening in shown() {
            let address = listening.address.map_or_else(|| "off".to_owned(), |address| address.to_string());
            writeln!(out, "  {:<7} {address}", listening.surface.name())?;
        }
        for (word, value) in &self.more {
            writeln!(out, "  {word:<7} {value}")?;
        }
        let speaks_tls = |name: &&str| tls.of(name).is_some();
        let tls: Vec<&str> = shown().map(|it| it.surface.name()).filter(speaks_tls).collect();
        writeln!(out, "  tls     {}", if tls.is_empty() { "off".to_owned() } else { tls.join(", ") })?;
        writeln!(out, "  workers {}", serving.workers)?;
        writeln!(out, "  try     {}", self.try_command())?;
        writeln!(out, "  ready")
    }

    fn store_state(&self) -> String {
        let name = tollgate_store::Store::name(self.store);
        match self.store.state() {
            StoreState::Up => format!("{name}, up"),
            StoreState::Down { why, .. } => {
                format!("{name}, down: {why}; each rule decides by its on_store_failure until it is up")
            }
            _ => format!("{name}, no reply yet; retrying"),
        }
    }

    /// A command that works without changes.
    fn try_command(&self) -> String {
        let from_surface = self.surfaces.iter().find_map(|listening| {
            let has_tls = self.settings.tls.of(listening.surface.name()).is_some();
            listening.surface.mount().try_command(listening.address?, has_tls, self.policy)
        });
        from_surface.unwrap_or_else(|| self.try_without_server())
    }

    fn try_without_server(&self) -> String {
        let path = self.settings.rules.paths.first();
        let path = path.map_or_else(String::new, |path| quote(&path.display().to_string()));
        // It need not be on the PATH.
        let program = std::env::current_exe();
        let tollgate = quote(&program.map_or_else(|_| "tollgate".into(), |path| path.display().to_string()));
        match example::of(self.policy) {
            Some((domain, descriptor)) => {
                let entries: Vec<String> =
                    descriptor.iter().map(|(key, value)| quote(&format!("{key}={value}"))).collect();
                let domain = quote(domain.name());
                let entries = entries.join(" ");
                format!("{tollgate} explain --rules {path} --domain {domain} {entries}")
            }
            None => format!("{tollgate} check {path}"),
        }
    }
}
