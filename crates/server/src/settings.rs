//! Settings of `serve`, from four layers into types: flag over environment over file over default.
//!
//! Every setting is one row, declared where its value is used: those of a surface in its file, the others in
//! the files of this folder. Between a `TOLLGATE_*` name and the file are the names that envoyproxy/ratelimit
//! reads, so that its container can be replaced in place; `--compat` is about when they count, and then its
//! defaults count before ours. A `TOLLGATE_DEFAULT_*` name replaces a default, for images. All faults of all
//! layers are reported at once, each with its place. Not here: what the settings do.

#[cfg_attr(not(feature = "control"), path = "settings/no_control.rs")]
pub(crate) mod control;
#[cfg(feature = "control")]
pub(crate) mod control_process;
pub(crate) mod decisions;
mod envoy_compat;
mod fault;
mod file;
mod gather;
mod kubernetes;
mod layer;
pub(crate) mod layers;
pub(crate) mod parse;
pub(crate) mod row;
mod rules;
pub(crate) mod secret;
pub(crate) mod serving;
pub(crate) mod store;
mod table;
mod telemetry;
mod tls;

use std::ffi::OsString;

use tollgate_limiter::Unmatched;
use tollgate_rule_files::Options;

use self::gather::gather;
use self::layers::Layers;
use crate::surface::SurfaceKind;
use crate::surfaces;

pub use self::control::NodeControl;
#[cfg(feature = "control")]
pub use self::control::{ControlAt, ControlSettings};
pub use self::decisions::Decisions;
pub use self::fault::Fault;
pub use self::gather::Sources;
pub use self::parse::Listen;
pub use self::row::{Heading, Setting, SettingKind};
pub use self::rules::RuleSettings;
pub use self::secret::Secret;
pub use self::serving::Serving;
pub use self::store::{ReadyNeeds, StoreKind, StoreSettings};
pub use self::table::SETTINGS;
pub use self::telemetry::Telemetry;
pub use self::tls::{TlsFiles, TlsSettings};
pub use crate::surface::Surface;
pub use crate::surfaces::*;

/// Everything that `serve` can be configured with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which rules are loaded.
    pub rules: RuleSettings,
    /// The control plane that sends rules, if there is one.
    pub control: Option<NodeControl>,
    /// Every surface, in the order in which they are listed to people.
    pub surfaces: Vec<Surface>,
    /// Which surfaces use TLS, and with what.
    pub tls: TlsSettings,
    /// Settings of all surfaces together.
    pub serving: Serving,
    /// Settings of every decision.
    pub decisions: Decisions,
    /// Where counters are kept.
    pub store: StoreSettings,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// Notes for the operator, to be logged once logging has started.
    pub notes: Vec<String>,
    /// Why the environment is that of envoyproxy/ratelimit, if it is: the names that show it.
    pub envoy_compat: Option<String>,
    /// Names of envoyproxy/ratelimit that are set and have an effect.
    pub envoy_compat_names: Vec<String>,
}

impl Settings {
    /// Reads every layer of `sources`.
    ///
    /// # Example
    /// ```
    /// # use tollgate_server::settings::{Listen, Settings, Sources};
    /// let mut sources = Sources { cores: 2, ..Sources::default() };
    /// sources.flags.insert("rules".into(), vec!["examples/rules".into()]);
    /// sources.env = vec![("TOLLGATE_HTTP".into(), "off".into())];
    /// let settings = Settings::read(&sources).expect("valid settings");
    /// assert_eq!(settings.surface("http").map(|http| http.listen()), Some(&Listen::Off));
    /// assert_eq!(settings.serving.workers, 2);
    /// ```
    ///
    /// # Errors
    /// Every fault of every layer.
    pub fn read(sources: &Sources) -> Result<Self, Vec<Fault>> {
        Self::read_with(sources, &surfaces::ALL)
    }

    /// As [`read`](Self::read), for a server with these surfaces.
    pub(crate) fn read_with(
        sources: &Sources,
        surfaces: &[&'static SurfaceKind],
    ) -> Result<Self, Vec<Fault>> {
        let mut layers = gather(sources, &table::table(surfaces));
        let rules = RuleSettings::read(&mut layers);
        let surfaces: Vec<_> = surfaces.iter().map(|kind| Surface::read(kind, &mut layers)).collect();
        let tls = TlsSettings::read(&mut layers, &surfaces);
        let deciding = || surfaces.iter().filter(|surface| surface.decides());
        if deciding().all(|surface| *surface.listen() == Listen::Off) {
            let names: Vec<_> = deciding().map(Surface::name).collect();
            layers.conflict(format!("every surface is off; turn one of {} on", names.join(", ")));
        }
        let telemetry = Telemetry::read(&mut layers);
        let control = NodeControl::read(&mut layers);
        let settings = Self {
            rules,
            control,
            surfaces,
            tls,
            serving: Serving::read(&mut layers, sources.cores),
            decisions: Decisions::read(&mut layers, telemetry.trace_ratio),
            store: StoreSettings::read(&mut layers),
            telemetry,
            notes: std::mem::take(&mut layers.notes),
            envoy_compat: layers.compat.take(),
            envoy_compat_names: std::mem::take(&mut layers.compat_names),
        };
        layers.finish(settings)
    }

    /// Options of reading rule files for a command other than `serve`: by its flag, if several files may
    /// contain rules of one domain, and by the environment as [`read`](Self::read) reads it.
    pub(crate) fn rule_options(
        merge_domains: bool,
        env: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Options, Vec<Fault>> {
        let merge = merge_domains.then(|| ("merge-domains", "true".to_owned()));
        let rows = [&rules::MERGE_DOMAINS.setting, &rules::CHARGE.setting, &rules::DOT_FILES.setting];
        let mut layers = some_rows(&rows, merge, env);
        let merge_domains = layers.one(&rules::MERGE_DOMAINS);
        let charge = layers.one(&rules::CHARGE);
        let dot_files = layers.one(&rules::DOT_FILES);
        layers.finish(Options { merge_domains, charge, dot_files, ..Options::default() })
    }

    /// Treatment of requests that no rule matches, for a command other than `serve`: by its flag, or by the
    /// environment.
    pub(crate) fn unmatched(
        flag: Option<String>,
        env: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Unmatched, Vec<Fault>> {
        let flag = flag.map(|answer| ("unmatched", answer));
        let mut layers = some_rows(&[&decisions::UNMATCHED.setting], flag, env);
        let unmatched = layers.one(&decisions::UNMATCHED);
        layers.finish(unmatched)
    }

    /// The surface called `name`.
    #[must_use]
    pub fn surface(&self, name: &str) -> Option<&Surface> {
        self.surfaces.iter().find(|surface| surface.name() == name)
    }
}

/// The URL by which a server with this environment is asked over HTTP on the same machine. Whatever is wrong
/// in the environment, the server itself reports it.
pub(crate) fn http_url(env: impl Iterator<Item = (OsString, OsString)>) -> String {
    let mut layers = gather(&Sources { env: env.collect(), ..Sources::default() }, &SETTINGS);
    match layers.one(&surfaces::http::LISTEN) {
        Listen::At(address) if address.starts_with("unix:") => address,
        Listen::At(address) => match address.parse() {
            Ok(address) => format!("http://{}", surfaces::http::reachable(address)),
            Err(_) => format!("http://{address}"),
        },
        Listen::Off => format!("http://{}", surfaces::http::LISTEN.setting.default),
    }
}

/// The layers of these settings alone, from a flag and from the environment.
fn some_rows(
    table: &[&'static Setting],
    flag: Option<(&str, String)>,
    env: impl Iterator<Item = (OsString, OsString)>,
) -> Layers {
    let is_read = |name: &OsString| {
        let is_of = |setting: &&Setting| {
            *name == *setting.env() || setting.envoy_compat.iter().any(|it| *name == **it)
        };
        table.iter().any(is_of)
    };
    let env = env.filter(|(name, _)| is_read(name)).collect();
    let flags = flag.into_iter().map(|(name, value)| (name.to_owned(), vec![value])).collect();
    gather(&Sources { flags, env, ..Sources::default() }, table)
}
