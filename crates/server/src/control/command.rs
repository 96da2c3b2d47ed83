//! `tollgate control`: runs the control plane, and commands that work on its database.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use tollgate_human_text::{counted, with_causes};
use tollgate_telemetry::LogQueue;

use super::running::{RunningControl, StartError, start};
use super::users::{AuditCommand, UserCommand};
use crate::command::flags::Flags;
use crate::ending::Ending;
use crate::settings::control_process::ControlProcess;
use crate::settings::{Fault, Sources};
use crate::signals::Signals;
use crate::worker::small_runtime;

const EXAMPLES: &str = "\
Examples:
  tollgate control
  tollgate control --listen [::]:443 --tls-cert c.pem --tls-key k.pem --public-url https://a.example
  tollgate serve --control http://127.0.0.1:8070 --control-token-file tollgate-data/node-token
  tollgate control user add ann --role editor --app shop
  tollgate control audit verify";

/// Run the control plane: rules in a database, a console, an API, and a stream to every node.
///
/// The first start makes the folder of the data, prints the link by which the first administrator is made,
/// and writes the token of the nodes to `node-token` in that folder.
///
/// SIGHUP reloads the certificate. SIGTERM and SIGINT: requests in flight finish, exit 0; a second signal
/// skips that. Nodes keep their rules while the control plane is away.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ControlCommand {
    #[command(flatten)]
    flags: ControlFlags,
    #[command(subcommand)]
    on_database: Option<OnDatabase>,
}

/// Commands on the database, which also work while the control plane runs.
#[derive(Debug, clap::Subcommand)]
enum OnDatabase {
    User(UserCommand),
    Audit(AuditCommand),
}

/// The rows of settings, as flags.
#[derive(Clone, Debug, Default)]
struct ControlFlags {
    flags: BTreeMap<String, Vec<String>>,
    config: Option<PathBuf>,
}

/// Prefix of setting names that its flags leave out.
const PREFIX: &str = "control-";

fn flags() -> Flags<'static> {
    static SUMMARY: [&str; 6] = [
        "control-listen",
        "control-data-dir",
        "control-public-url",
        "tls-cert",
        "tls-key",
        "control-node-client-ca",
    ];
    static ROWS: [&crate::settings::Setting; 12] = ControlProcess::ROWS;
    Flags { rows: &ROWS, prefix: PREFIX, summary: &SUMMARY }
}

impl clap::Args for ControlFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("File of settings, the same as for `serve` [env: TOLLGATE_CONFIG]")
            .value_parser(value_parser!(PathBuf));
        flags().add_to(command.arg(config))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ControlFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let config = matches.get_one::<PathBuf>("config").cloned();
        Ok(Self { flags: flags().given(matches), config })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
enum ControlCommandError {
    #[error("{}\n{} in the settings; nothing was started", lines(.0), counted(.0.len(), "error"))]
    Settings(Vec<Fault>),
    #[error(transparent)]
    Start(StartError),
    /// Not a message for `talk`: the command itself failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ControlCommand {
    /// Runs until a signal ends it. The banner goes to `out`, errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to, or the system gives no thread or signal handler.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let Self { flags, on_database } = self;
        let process = match flags.read() {
            Ok(process) => process,
            Err(faults) => {
                writeln!(talk, "{}", ControlCommandError::Settings(faults))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let ended = match on_database {
            Some(OnDatabase::User(command)) => return command.run(&process.control, out, talk),
            Some(OnDatabase::Audit(command)) => return command.run(&process.control.data_dir, out, talk),
            None => serve(&process, out),
        };
        match ended {
            Ok(()) => Ok(Ending::Yes),
            Err(ControlCommandError::Io(error)) => Err(error),
            Err(error) => {
                writeln!(talk, "{}", with_causes(&error))?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}

impl ControlFlags {
    fn read(self) -> Result<ControlProcess, Vec<Fault>> {
        let env = std::env::vars_os().collect();
        let Self { flags, config } = self;
        ControlProcess::read(&Sources { flags, env, config, prefix: PREFIX, cores: 1 })
    }
}

fn serve(process: &ControlProcess, out: &mut dyn Write) -> Result<(), ControlCommandError> {
    let (queue, _flush) = LogQueue::start(io::stderr())?;
    let level = process.telemetry.log_level;
    let format = process.telemetry.log_format;
    tollgate_telemetry::start(level, format, queue, None::<tracing_subscriber::layer::Identity>);
    for note in &process.notes {
        tracing::warn!("{note}");
    }
    let mut running = start(&process.control, false).map_err(|error| match error {
        StartError::Io(error) => ControlCommandError::Io(error),
        error => ControlCommandError::Start(error),
    })?;
    small_runtime()?.block_on(until_a_signal(&mut running, process.drain_timeout, out))?;
    Ok(())
}

async fn until_a_signal(
    running: &mut RunningControl,
    drain: Duration,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut signals = Signals::new()?;
    banner(running, out)?;
    let reload = running.reloader();
    tokio::select! {
        _ = signals.end(&reload) => {}
        () = running.ended() => return Err(io::Error::other("the control plane ended by itself")),
    }
    tracing::info!(timeout = ?drain, "waiting for in-flight requests");
    let is_finished = tokio::select! {
        is_finished = running.drain(drain) => is_finished,
        _ = signals.end(&reload) => false,
    };
    match is_finished {
        true => tracing::info!("stopped"),
        false => tracing::warn!("stopped; in-flight requests were cut off"),
    }
    Ok(())
}

fn banner(running: &RunningControl, out: &mut dyn Write) -> io::Result<()> {
    let banner = &running.banner;
    let mut text = format!("tollgate {} control plane\n", env!("CARGO_PKG_VERSION"));
    for (word, value) in banner.lines() {
        text += &format!("  {word:<7} {value}\n");
    }
    text += &format!("  node    {}\n  ready\n", banner.join());
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn lines(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
