//! `tollgate serve`: reads the settings, starts the server, and stays until it is told to go.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use tollgate_clock::SystemClock;
use tollgate_core::Clock;
use tollgate_limiter::Limiter;
use tollgate_limiter::observe::StoreFigures;
use tollgate_limiter::reload::{ReloadSettings, Reloader};
use tollgate_policy::{Options, Policy};
use tollgate_store_memcache::MemcacheStore;
use tollgate_store_memory::{MemoryConfig, MemoryStore};
use tollgate_store_redis::RedisStore;
use tollgate_store_routed::RoutedStore;

use super::count;
use crate::cli::Ending;
use crate::counters::{Counters, NodeLimiter};
use crate::node::Node;
use crate::screen::Screen;
use crate::server::Server;
use crate::settings::{Kind, Listen, SETTINGS, Settings, Sources, StoreSettings, Surface};
use crate::telemetry::otlp::Traces;
use crate::worker::small_runtime;

/// Answer whether a request may pass, over gRPC, HTTP and the Redis protocol.
///
/// Its flags are the rows of [`SETTINGS`]; what they mean is read there, so that flag, environment and file agree.
#[derive(Clone, Debug, Default)]
pub struct Serve {
    flags: BTreeMap<String, Vec<String>>,
    config: Option<PathBuf>,
}

/// How long the end may take to send the last traces.
const FLUSH: Duration = Duration::from_secs(2);

const ABOUT: &str = "Answer whether a request may pass, over gRPC, HTTP and the Redis protocol";
const LONG_ABOUT: &str = "\
Answer whether a request may pass, over gRPC, HTTP and the Redis protocol.

Every setting is a flag, a name in the environment and a line in the file of --config: --memory-max is \
TOLLGATE_MEMORY_MAX and memory_max. A flag counts before the environment, that before the file. The environment names \
of envoyproxy/ratelimit are read too, after our own.

SIGHUP reads rules and certificates again. SIGTERM and SIGINT: /readyz says no, calls are taken for --drain-delay more, those under \
way finish, exit 0; a second signal skips the delay.";
const EXAMPLES: &str = "\
Examples:
  tollgate serve --rules examples/rules
  tollgate serve --rules examples/rules --grpc 127.0.0.1:0 --http off
  TOLLGATE_GRPC=0.0.0.0:8081 tollgate serve --config tollgate.yaml --log-format json";

impl clap::Args for Serve {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("File of settings, one `name: value` a line [env: TOLLGATE_CONFIG]")
            .value_parser(value_parser!(PathBuf));
        let command = command.about(ABOUT).long_about(LONG_ABOUT).after_help(EXAMPLES).arg(config);
        SETTINGS.iter().fold(command, |command, setting| {
            let names: Vec<String> =
                std::iter::once(setting.env()).chain(setting.peer.iter().map(ToString::to_string)).collect();
            let mut help = format!("{} [env: {}]", setting.help, names.join(", "));
            if !setting.default.is_empty() && setting.kind == Kind::One {
                help += &format!(" [default: {}]", setting.default);
            }
            let arg = Arg::new(setting.name)
                .long(setting.name)
                .value_name(setting.value)
                .help(help)
                .help_heading(setting.heading);
            command.arg(match setting.kind {
                // Understood only to say why not; see `Settings::read`.
                Kind::Secret => arg.hide(true),
                // Given twice, the last one counts: so that a script can add to another's flags.
                Kind::One => arg.action(ArgAction::Set).overrides_with(setting.name),
                Kind::Many => arg.action(ArgAction::Append),
                Kind::Switch => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
                    .overrides_with(setting.name),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| matches.get_many::<String>(name).map(|values| values.cloned().collect());
        let flags =
            SETTINGS.iter().filter_map(|setting| Some((setting.name.to_owned(), given(setting.name)?)));
        Ok(Self { flags: flags.collect(), config: matches.get_one::<PathBuf>("config").cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Serve {
    /// Serves until a signal ends it. The start screen goes to `out`, faults to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let sources =
            Sources { flags: self.flags, env: std::env::vars_os().collect(), config: self.config, cores };
        let settings = match Settings::read(&sources) {
            Ok(settings) => settings,
            Err(faults) => {
                for fault in &faults {
                    writeln!(talk, "{fault}")?;
                }
                writeln!(talk, "{} in the settings; nothing was started", count(faults.len(), "fault"))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let traces = match settings.otlp.as_deref().map(Traces::start).transpose() {
            Ok(traces) => traces,
            Err(error) => {
                writeln!(talk, "settings: otlp: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        crate::telemetry::start(settings.log_level, settings.log_format, traces.as_ref().map(Traces::layer));
        for note in &settings.notes {
            tracing::warn!("{note}");
        }
        if !settings.peer_names.is_empty() {
            tracing::info!(names = settings.peer_names.join(", "), "set by names of envoyproxy/ratelimit");
        }
        if settings.limiter.shadow_mode {
            tracing::warn!("shadow mode: every request passes, whatever the rules say");
        }
        let options =
            Options { merge_domains: settings.merge_domains, countable: settings.store.countable() };
        let policy = match load(&settings.rules, &options) {
            Ok(policy) => policy,
            Err(_) if settings.start_anyway => {
                tracing::warn!("starting without rules: not ready, and calls fail until the files are right");
                Policy::empty()
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                let faults = count(error.lines().count(), "fault");
                writeln!(
                    talk,
                    "{faults} in the rules; nothing was started (--start-anyway waits for right ones)"
                )?;
                return Ok(Ending::No);
            }
        };
        for warning in policy.warnings() {
            tracing::warn!("{warning}");
        }
        if matches!(settings.store, StoreSettings::Memcache(_)) && settings.resp != Listen::Off {
            tracing::warn!(
                "memcached cannot count CL.THROTTLE, THROTTLE and TOLLGATE.THROTTLE: this node counts them in its memory, by its \
                 share among --store-nodes"
            );
        }
        let limiter = match limiter(policy, &settings) {
            Ok(limiter) => Arc::new(limiter),
            Err(error) => {
                writeln!(talk, "{error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let counters = Arc::downgrade(&limiter);
        limiter.metrics().watch_store("memory", move || {
            let stats =
                counters.upgrade().map(|limiter| limiter.store().memory().stats()).unwrap_or_default();
            StoreFigures::new(stats.tracked_keys, stats.bytes, stats.max_bytes, stats.evictions)
        });
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let watched = ReloadSettings::new(settings.rules.clone(), options);
        let reloader = Reloader::start(Arc::clone(&limiter), Arc::clone(&clock), watched)?;
        let node = Arc::new(Node::new(limiter, clock, reloader, settings.ready_needs_store));
        let server = match Server::bind(settings.clone(), Arc::clone(&node)) {
            Ok(server) => server,
            Err(error) => {
                writeln!(talk, "{error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        // The ports are open by now; whoever connects waits for the answer of a store that can be reached, and for no other.
        let refusals = small_runtime()?.block_on(node.limiter.store().refusals());
        if !refusals.is_empty() {
            for refusal in &refusals {
                writeln!(talk, "{refusal}")?;
            }
            return Ok(Ending::CouldNotTell);
        }
        let listening = Surface::ALL.map(|surface| (surface, server.address(surface)));
        let counts = traces.as_ref().map(Traces::counts);
        let ended = server.run(counts, || {
            let rules = node.limiter.rules();
            let [grpc, http, resp] =
                listening.map(|(_, address)| address.map_or("off".to_owned(), |it| it.to_string()));
            tracing::info!(grpc, http, resp, version = rules.policy().version(), "started");
            let store = node.limiter.store().view();
            Screen { policy: rules.policy(), listening, settings: &settings, store: &store }.write(out)
        });
        if let Some(traces) = traces {
            traces.stop(FLUSH);
        }
        ended.map(|()| Ending::Yes)
    }
}

/// A limiter with its counters where the settings say; beside a shared store with memory of its own.
fn limiter(policy: Policy, settings: &Settings) -> Result<NodeLimiter, String> {
    let memory = MemoryStore::new(MemoryConfig { max_bytes: settings.memory_max, ..MemoryConfig::default() });
    let of = |store| Limiter::new(policy, store, settings.limiter.clone());
    Ok(match &settings.store {
        StoreSettings::Memory => of(Counters::Memory(memory)),
        StoreSettings::Redis(config) => {
            let store = RedisStore::new((**config).clone()).map_err(|error| error.to_string())?;
            of(Counters::Redis(RoutedStore::new(store, memory)))
        }
        StoreSettings::Memcache(config) => {
            let store = MemcacheStore::new((**config).clone()).map_err(|error| error.to_string())?;
            let store = RoutedStore::new(store, memory);
            of(Counters::Memcache { store, nodes: settings.store_nodes })
        }
    })
}

/// Rules that limit something, or what is wrong, one fault a line.
fn load(paths: &[PathBuf], options: &Options) -> Result<Policy, String> {
    let policy = Policy::load(paths, options).map_err(|error| error.to_string())?;
    if policy.domains().is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(format!(
            "{}: holds no rule file; only *.yaml, *.yml and *.json are read",
            paths.join(", ")
        ));
    }
    Ok(policy)
}
