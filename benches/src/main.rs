//! `tollgate-bench`: our numbers beside the peers', one command.
//!
//! Every comparison runs peer and ours in turns within one run, because figures of two runs, let alone of two
//! machines, do not compare. Not here: benches of single functions, which are in their crates.

mod accuracy;
mod contender;
#[cfg(feature = "peers")]
mod control;
mod count;
#[cfg(feature = "peers")]
mod echo;
#[cfg(feature = "peers")]
mod footprint;
#[cfg(feature = "peers")]
mod grpc;
#[cfg(feature = "peers")]
mod http;
mod in_process;
mod instructions;
mod machine;
mod memory;
#[cfg(feature = "peers")]
mod observed;
mod pictures;
#[cfg_attr(not(feature = "peers"), allow(dead_code, reason = "servers other than ours are the peers'"))]
mod process;
mod report;
mod requests;
#[cfg(feature = "peers")]
mod resp;
#[cfg(feature = "peers")]
mod responder;
mod settings;
#[cfg(feature = "shared")]
mod shared;
mod stopwatch;
#[cfg(feature = "peers")]
mod surfaces;
mod surge;

use std::io::Write as _;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::report::Table;
use crate::settings::Settings;

/// Our numbers beside the peers', in one command.
#[derive(Parser)]
struct Bench {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum What {
    /// The machine and the versions.
    Machine,
    /// Instructions a decision, counted by valgrind.
    Instructions,
    /// Instructions of the hot paths beside their baselines; fails where they differ. Not part of `all`.
    Count(count::Count),
    /// Nanoseconds a decision, in this process.
    InProcess,
    /// Bytes a key, and the slowest decision while the table grows.
    Memory,
    /// The error of each algorithm against an exact count, and the bytes per key.
    Accuracy(accuracy::Accuracy),
    /// gRPC servers under h2load: rate, latency, CPU a request.
    Grpc,
    /// Servers of the Redis protocol under our own load: rate, latency, CPU a request, admitted and denied.
    Resp,
    /// HTTP servers under our own load, likewise.
    Http,
    /// Our overhead over an echo of the same protocol, one request at a time.
    Echo,
    /// Twenty times the usual load on one key: what its limit admits, what the others get.
    Surge,
    /// Cost of the top-key sketch and of the log of denials.
    Observed,
    /// The control plane: from a change to 1,000 nodes and to three real ones, pages of 10,000 rules,
    /// reports.
    Control,
    /// Memory of a server with all surfaces open that tracks 100 keys.
    Footprint,
    /// Counters in a local Redis, beside redis-benchmark; leases; outages; bytes a key.
    #[cfg(feature = "shared")]
    Shared(shared::Shared),
    /// Counters in a local Redis, beside redis-benchmark; leases; outages; bytes a key.
    #[cfg(not(feature = "shared"))]
    Shared {
        /// Options of this comparison; see `shared --help` of a build with `--features peers`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<String>,
    },
    /// All of them, also when one has failed.
    All,
    /// One contender growing, in a process of its own.
    #[command(hide = true)]
    Grow(memory::Grow),
    /// One contender deciding, to be counted.
    #[command(hide = true)]
    Decide(instructions::Decide),
    /// A server that only answers, for the comparison.
    #[cfg(feature = "peers")]
    #[command(hide = true)]
    Serve(grpc::Serve),
    /// A server that only answers, without gRPC.
    #[cfg(feature = "peers")]
    #[command(hide = true)]
    Respond(responder::Respond),
}

fn main() -> anyhow::Result<()> {
    let bench = Bench::parse();
    bench.what.run(&bench.settings.fixed())
}

impl What {
    fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let show_each = |tables: &[Table]| tables.iter().try_for_each(|table| show(table, settings));
        match self {
            Self::Grow(grow) => grow.run(&mut std::io::stdout()),
            Self::Decide(decide) => decide.run(&mut std::io::stdout()),
            Self::Accuracy(accuracy) => show(&accuracy.run(settings)?, settings),
            #[cfg(feature = "shared")]
            Self::Shared(shared) => shared.run(settings, |table| show(table, settings)),
            Self::Machine => show(&machine::table(), settings),
            Self::Count(count) => count.run(settings),
            Self::Surge => show_each(&surge::run(settings)?),
            _ if !cfg!(feature = "peers") => with_peers(),
            Self::InProcess => show_each(&in_process::run(settings)?),
            Self::Memory => show(&memory::run(settings)?, settings),
            Self::Instructions => show_each(&instructions::run(settings)?),
            #[cfg(feature = "peers")]
            Self::Serve(serve) => serve.run(&mut std::io::stdout()),
            #[cfg(feature = "peers")]
            Self::Grpc => show_each(&grpc::run(settings)?),
            #[cfg(feature = "peers")]
            Self::Respond(respond) => respond.run(),
            #[cfg(feature = "peers")]
            Self::Resp => show_each(&resp::run(settings)?),
            #[cfg(feature = "peers")]
            Self::Http => show(&http::run(settings)?, settings),
            #[cfg(feature = "peers")]
            Self::Echo => show(&echo::run(settings)?, settings),
            #[cfg(feature = "peers")]
            Self::Observed => show(&observed::run(settings)?, settings),
            #[cfg(feature = "peers")]
            Self::Control => show(&control::run(settings)?, settings),
            #[cfg(feature = "peers")]
            Self::Footprint => show(&footprint::run(settings)?, settings),
            #[cfg(not(feature = "shared"))]
            Self::Shared { rest: _ } => Ok(()),
            #[cfg(not(feature = "peers"))]
            Self::Grpc
            | Self::Resp
            | Self::Http
            | Self::Echo
            | Self::Observed
            | Self::Control
            | Self::Footprint => Ok(()),
            Self::All => all(settings),
        }
    }
}

/// Runs every comparison that help lists, so that none is forgotten; those of `shared` part by part.
fn all(settings: &Settings) -> anyhow::Result<()> {
    let mut passed = 0;
    let mut failed = 0;
    for words in every_command() {
        let name = words.join(" ");
        let bench =
            Bench::try_parse_from(["tollgate-bench"].into_iter().chain(words.iter().map(String::as_str)));
        match bench.map_err(Into::into).and_then(|bench| bench.what.run(settings)) {
            Ok(()) => passed += 1,
            Err(error) => {
                failed += 1;
                settings.say(&format!("{name}: FAILED, {error:#}"));
            }
        }
    }
    writeln!(std::io::stdout(), "{passed} passed, {failed} failed, 0 skipped")?;
    anyhow::ensure!(failed == 0, "{failed} benches failed");
    Ok(())
}

fn every_command() -> Vec<Vec<String>> {
    let mut every = Vec::new();
    for command in Bench::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name().to_owned();
        let part = command.get_arguments().find(|argument| argument.get_id() == "part");
        match part.map(clap::Arg::get_possible_values) {
            _ if name == "all" || name == "count" => {}
            Some(parts) => every.extend(
                parts.iter().map(|part| vec![name.clone(), "--part".to_owned(), part.get_name().to_owned()]),
            ),
            None => every.push(vec![name]),
        }
    }
    every
}

fn show(table: &Table, settings: &Settings) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", table.text())?;
    if let Some(page) = &settings.markdown {
        table.write_into(page)?;
    }
    if let Some(file) = &settings.json {
        pictures::add_json(table, file)?;
    }
    if let Some(folder) = &settings.svg {
        pictures::draw(table, folder)?;
    }
    Ok(())
}

/// The peers are behind a feature, so that building the workspace does not build them: builds them now, and
/// runs the result.
fn with_peers() -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = std::process::Command::new(cargo)
        .args(["run", "--profile", "dist", "--package", "tollgate-bench", "--features", "peers", "--"])
        .args(std::env::args_os().skip(1))
        .status()?;
    std::process::exit(status.code().unwrap_or(2));
}
