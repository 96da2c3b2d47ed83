//! The command line: which command, and how it ends.
//!
//! Results go to stdout, everything else to stderr. Exit 0 is yes, 1 is no, 2 is "could not decide".

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::{CommandFactory as _, Parser, Subcommand};

use tollgate_load::Bench;
use tollgate_replay::{Bound, Replay};
use tollgate_simulate::Simulate;
use tollgate_top::{Healthcheck, Top};

use crate::command::{Check, Completions, Explain, Import, Man, Serve};
#[cfg(feature = "control")]
use crate::control::command::ControlCommand;
pub use crate::ending::Ending;
use crate::settings;

/// A distributed rate limiter: one set of rules for Envoy (gRPC), HTTP and the Redis protocol.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tollgate serve --rules examples/rules
  tollgate control
  tollgate check examples/rules
  tollgate explain --rules examples/rules --domain messaging message_type=marketing
  tollgate import nginx /etc/nginx/nginx.conf
  tollgate bound access.log.gz --limit 100 --window 1m
  tollgate replay access.log.gz --rules examples/rules --map domain=shop
  tollgate simulate edge
  tollgate top
  tollgate bench --target resp://127.0.0.1:6390";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    #[cfg(feature = "control")]
    Control(Box<ControlCommand>),
    Check(Check),
    Explain(Explain),
    Import(Import),
    Bound(Box<Bound>),
    Replay(Box<Replay>),
    Simulate(Box<Simulate>),
    Bench(Box<Bench>),
    Top(Top),
    Healthcheck(Healthcheck),
    Completions(Completions),
    Man(Man),
}

/// The arguments as this program has them, where it may have been started by the name of
/// envoyproxy/ratelimit's program: `/bin/ratelimit` serves, with that environment, unless `has_compat` says
/// that the setting is given. In an image whose entry point is this program, as with Compose, that name is
/// the first argument.
pub fn arguments(args: impl Iterator<Item = OsString>, has_compat: bool) -> Vec<OsString> {
    let mut args = args.peekable();
    let name = args.next().unwrap_or_default();
    let is_its_name = |name: &OsString| Path::new(name).file_name().is_some_and(|name| name == "ratelimit");
    let is_ratelimit = is_its_name(&name) || args.next_if(is_its_name).is_some();
    let serve: &[&str] = match (is_ratelimit, has_compat) {
        (true, true) => &["serve"],
        (true, false) => &["serve", "--compat=ratelimit"],
        (false, _) => &[],
    };
    std::iter::once(name).chain(serve.iter().map(Into::into)).chain(args).collect()
}

impl Cli {
    /// Runs the command, and writes results to `out`, everything else to `talk`.
    ///
    /// # Errors
    /// When `out` or `talk` cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        match self.command {
            Command::Serve(serve) => serve.run(out, talk),
            #[cfg(feature = "control")]
            Command::Control(control) => control.run(out, talk),
            Command::Check(check) => check.run(out, talk),
            Command::Explain(explain) => explain.run(out, talk),
            Command::Import(import) => import.run(out, talk),
            Command::Bound(bound) => bound.run(out, talk).map(Into::into),
            Command::Replay(replay) => replay.run(out, talk).map(Into::into),
            Command::Simulate(simulate) => simulate.run(out, talk).map(Into::into),
            Command::Bench(bench) => bench.run(out, talk).map(Into::into),
            Command::Top(top) => top.run(out, talk).map(Into::into),
            Command::Healthcheck(healthcheck) => {
                healthcheck.run(&settings::http_url(std::env::vars_os()), talk).map(Into::into)
            }
            Command::Completions(completions) => completions.run(Self::command(), out),
            Command::Man(man) => man.run(Self::command(), out, talk),
        }
    }
}
