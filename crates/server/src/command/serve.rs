//! `tollgate serve`: reads the settings, starts the server, and runs until a signal ends it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};

use tollgate_human_text::{counted, with_causes};
use tollgate_rule_files::{Options, RuleSet};
use tollgate_telemetry::{FlushOnDrop, LogQueue, Reported, Traces};

use super::flags::Flags;
use crate::banner::Banner;
use crate::embedded::Embedded;
use crate::ending::Ending;
use crate::node::ServerNode;
use crate::node_control::Controlled;
use crate::server::{BindError, Server};
use crate::settings::{Fault, SETTINGS, Settings, Sources};
use crate::start::{self, RulesError, StartError};
use crate::worker::small_runtime;

/// Run the rate limit server: gRPC, HTTP and the Redis protocol.
///
/// Its flags are the rows of [`SETTINGS`]; values are parsed there, so that flag, environment and file agree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serve {
    flags: BTreeMap<String, Vec<String>>,
    config: Option<PathBuf>,
}

/// Maximum time to send the last traces.
const FLUSH: Duration = Duration::from_secs(2);

const ABOUT: &str = "Run the rate limit server: gRPC, HTTP and the Redis protocol";
const LONG_ABOUT: &str = "\
Run the rate limit server: gRPC, HTTP and the Redis protocol.

Every setting is a flag, an environment variable and a line in the file of --config: --memory-max is TOLLGATE_MEMORY_MAX \
and memory_max. A flag overrides the environment, which overrides the file. The environment names of envoyproxy/ratelimit \
are read too, after Tollgate's own, if one is set that only it has, or with --compat ratelimit.

SIGHUP reloads rules and certificates. SIGTERM and SIGINT: /readyz fails, requests are accepted for --drain-delay, in-flight \
requests finish, exit 0; a second signal skips the delay, and so does Ctrl-C at a terminal.";
/// The settings that `-h` shows.
const SUMMARY: [&str; 22] = [
    "rules",
    "control",
    "control-token-file",
    "start-anyway",
    "grpc",
    "http",
    "resp",
    "workers",
    "max-connections",
    "tls-cert",
    "tls-key",
    "grpc-client-ca",
    "admin-token-file",
    "resp-password-file",
    "headers",
    "shadow-mode",
    "memory-max",
    "store",
    "store-password-file",
    "otlp",
    "drain-delay",
    "log-format",
];

fn flags() -> Flags<'static> {
    Flags { rows: &SETTINGS, prefix: "", summary: &SUMMARY }
}

const EXAMPLES: &str = "\
Examples:
  tollgate serve --rules examples/rules
  tollgate serve --rules examples/rules --grpc 127.0.0.1:0 --http off
  tollgate serve --control embedded
  TOLLGATE_GRPC=0.0.0.0:8081 tollgate serve --config tollgate.yaml --log-format json";

impl clap::Args for Serve {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("File of settings, one `name: value` per line [env: TOLLGATE_CONFIG]")
            .value_parser(value_parser!(PathBuf));
        let more = format!(
            "{EXAMPLES}\n\n`tollgate serve --help` describes all {} settings; a `[env: NAME]` there sets the same.",
            SETTINGS.len()
        );
        let command = command.about(ABOUT).long_about(LONG_ABOUT).arg(config);
        let command = command.after_help(more).after_long_help(EXAMPLES);
        flags().add_to(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { flags: flags().given(matches), config: matches.get_one::<PathBuf>("config").cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Why nothing was started, or why the server ended.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{}\n{} in the settings; nothing was started", lines(.0), counted(.0.len(), "error"))]
    Settings(Vec<Fault>),
    #[error("settings: otlp: {0}")]
    Traces(io::Error),
    #[error(
        "{}\n{} in the rules; nothing was started (--start-anyway waits for valid ones)",
        with_causes(.0),
        counted(.0.count(), "error")
    )]
    Rules(RulesError),
    #[error("{0}")]
    Store(String),
    #[error("{0}")]
    Control(String),
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Not a message for `talk`: the command itself failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<StartError> for ServeError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(message) => Self::Store(message),
            StartError::Control(message) => Self::Control(message),
            StartError::Io(error) => Self::Io(error),
        }
    }
}

impl Serve {
    /// Serves until a signal ends it. The banner goes to `out`, errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to, or the system gives no thread or signal handler.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        match self.serve(out) {
            Ok(()) => Ok(Ending::Yes),
            Err(ServeError::Io(error)) => Err(error),
            Err(error) => {
                writeln!(talk, "{}", with_causes(&error))?;
                Ok(if matches!(error, ServeError::Rules(_)) { Ending::No } else { Ending::CouldNotTell })
            }
        }
    }

    fn serve(self, out: &mut dyn Write) -> Result<(), ServeError> {
        let mut settings = self.read_settings()?;
        let (traces, reported, _flush) = start_telemetry(&settings)?;
        let embedded = Embedded::start(&mut settings).map_err(ServeError::Control)?;
        let (rules, options) = load_rules(&settings)?;
        let node = start::node(rules, options, &settings)?;
        let server = Server::bind(settings, Arc::clone(&node))?;
        // The ports are open by now. A client that connects waits until a reachable store has been checked.
        check_store(&node)?;
        serve(server, &node, traces, reported, (&embedded.lines(), out))?;
        embedded.stop();
        Ok(())
    }

    fn read_settings(self) -> Result<Settings, ServeError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let env = std::env::vars_os().collect();
        Settings::read(&Sources { flags: self.flags, prefix: "", env, config: self.config, cores })
            .map_err(ServeError::Settings)
    }
}

/// Starts logs and traces, and logs the notes of the settings. The last lines are written when the last value
/// is dropped.
fn start_telemetry(settings: &Settings) -> Result<(Option<Traces>, Reported, FlushOnDrop), ServeError> {
    let telemetry = &settings.telemetry;
    let traces = telemetry.otlp.as_deref().map(Traces::start).transpose().map_err(ServeError::Traces)?;
    let (lines, flush) = LogQueue::start(io::stderr())?;
    let layer = traces.as_ref().map(Traces::layer);
    tollgate_telemetry::start(telemetry.log_level, telemetry.log_format, lines.clone(), layer);
    for note in &settings.notes {
        tracing::warn!("{note}");
    }
    if let Some(by) = &settings.envoy_compat {
        let names = settings.envoy_compat_names.join(", ");
        tracing::info!(by, names, "settings of envoyproxy/ratelimit in effect; listening where it does");
    }
    if settings.decisions.limiter.shadow_mode {
        tracing::warn!("shadow mode: every request is admitted");
    }
    let reported = Reported { lines, spans: traces.as_ref().map(Traces::counts) };
    Ok((traces, reported, flush))
}

/// The rules, `None` if the server starts without, and how they are to be loaded again.
fn load_rules(settings: &Settings) -> Result<(Option<RuleSet>, Options), ServeError> {
    let rules = &settings.rules;
    let options = Options {
        merge_domains: rules.merge_domains,
        charge: rules.charge,
        countable: settings.store.kind.countable(),
        dot_files: rules.dot_files,
    };
    if rules.paths.is_empty() {
        return Ok((None, options)); // they come from a control plane
    }
    let rules = match start::load(&rules.paths, &options) {
        Ok(rules) => Some(rules),
        Err(error) if rules.start_anyway => {
            tracing::warn!(
                "starting without rules: not ready, and requests fail, until the files are valid:\n{}",
                with_causes(&error)
            );
            None
        }
        Err(error) => return Err(ServeError::Rules(error)),
    };
    for warning in rules.iter().flat_map(|rules| &rules.warnings) {
        tracing::warn!("{warning}");
    }
    Ok((rules, options))
}

/// Fails if the store can be reached and must not be used.
fn check_store(node: &ServerNode) -> Result<(), ServeError> {
    let reasons = small_runtime()?.block_on(node.limiter.store().unusable_because());
    if reasons.is_empty() { Ok(()) } else { Err(ServeError::Store(lines(&reasons))) }
}

/// Serves until a signal, and prints the banner once every surface accepts connections.
fn serve(
    server: Server,
    node: &ServerNode,
    traces: Option<Traces>,
    reported: Reported,
    (lines, out): (&[(&'static str, String)], &mut dyn Write),
) -> Result<(), ServeError> {
    let ended = server.run(reported, |settings, surfaces| {
        let rules = node.limiter.rules();
        let policy = rules.policy();
        let listening: Vec<String> = surfaces.iter().map(ToString::to_string).collect();
        let listening = listening.join(", ");
        match policy.domains().is_empty() {
            true => tracing::warn!(listening, "started without rules: not ready"),
            false => tracing::info!(listening, version = policy.version(), "started"),
        }
        let control = node.rules.control().map(Controlled::banner);
        let more =
            control.into_iter().map(|control| ("control", control)).chain(lines.iter().cloned()).collect();
        Banner { policy, surfaces, settings, store: node.limiter.store(), more }.write(out)
    });
    if let Some(traces) = traces {
        traces.stop(FLUSH);
    }
    Ok(ended?)
}

fn lines(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
