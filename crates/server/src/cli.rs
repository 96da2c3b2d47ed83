//! The command line: which command, and how it ends.
//!
//! Results go to stdout, everything else to stderr. Exit 0 is yes, 1 is no, 2 is "could not decide".

use std::io::Write;

use clap::{CommandFactory as _, Parser, Subcommand};

use tollgate_load::Bench;
use tollgate_replay::{Bound, Replay};
use tollgate_simulate::Simulate;
use tollgate_top::{Healthcheck, Top};

use crate::command::{Check, Completions, Explain, Import, Man, Serve};
#[cfg(feature = "control")]
use crate::control::command::ControlCommand;
pub use crate::ending::Ending;

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
            Command::Healthcheck(healthcheck) => healthcheck.run(talk).map(Into::into),
            Command::Completions(completions) => completions.run(Self::command(), out),
            Command::Man(man) => man.run(Self::command(), out, talk),
        }
    }
}
