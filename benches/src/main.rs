//! `tollgate-bench`: our numbers beside the peers', one command.
//!
//! Every comparison runs peer and ours in turns within one run, because figures of two runs, let alone of two machines,
//! do not compare. Not here: benches of single functions, which stand beside the crates they belong to.

mod accuracy;
mod contender;
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
#[cfg(feature = "shared")]
#[cfg_attr(not(feature = "peers"), allow(dead_code, reason = "servers other than Redis are the peers'"))]
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

use std::io::Write as _;

use clap::{Parser, Subcommand};

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
    /// Nanoseconds a decision, in this process.
    InProcess,
    /// Bytes a key, and the slowest decision while the table grows.
    Memory,
    /// Instructions a decision, counted by valgrind.
    Instructions,
    /// gRPC servers under h2load: rate, latency, CPU a request.
    Grpc,
    /// Servers of the Redis protocol under our own load: rate, latency, CPU a request, admitted and denied.
    Resp,
    /// HTTP servers under our own load, likewise.
    Http,
    /// What we add to an echo of the same protocol, one request at a time.
    Echo,
    /// Counters in a local Redis, beside redis-benchmark; leases; outages; bytes a key.
    #[cfg(feature = "shared")]
    Shared(shared::Shared),
    #[cfg(not(feature = "shared"))]
    Shared {
        /// As with the peers.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<String>,
    },
    /// What watching costs.
    Observed,
    /// Memory of a server with all surfaces open that tracks 100 keys.
    Footprint,
    /// How far each algorithm is from exact, and the bytes of a key.
    Accuracy(accuracy::Accuracy),
    /// The machine and the versions.
    Machine,
    /// All of them.
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
    let settings = &bench.settings;
    match bench.what {
        What::Grow(grow) => grow.run(&mut std::io::stdout()),
        What::Decide(decide) => decide.run(&mut std::io::stdout()),
        What::Accuracy(accuracy) => show(&accuracy.run(settings)?, settings),
        #[cfg(feature = "shared")]
        What::Shared(shared) => shared.run(settings, |table| show(table, settings)),
        _ if !cfg!(feature = "peers") => with_peers(),
        What::InProcess => in_process::run(settings)?.iter().try_for_each(|table| show(table, settings)),
        What::Memory => show(&memory::run(settings)?, settings),
        What::Instructions => show(&instructions::run(settings)?, settings),
        #[cfg(feature = "peers")]
        What::Serve(serve) => serve.run(&mut std::io::stdout()),
        #[cfg(feature = "peers")]
        What::Grpc => grpc::run(settings)?.iter().try_for_each(|table| show(table, settings)),
        #[cfg(feature = "peers")]
        What::Respond(respond) => respond.run(),
        #[cfg(feature = "peers")]
        What::Resp => resp::run(settings)?.iter().try_for_each(|table| show(table, settings)),
        #[cfg(feature = "peers")]
        What::Http => show(&http::run(settings)?, settings),
        #[cfg(feature = "peers")]
        What::Echo => show(&echo::run(settings)?, settings),
        #[cfg(feature = "peers")]
        What::Observed => show(&observed::run(settings)?, settings),
        #[cfg(feature = "peers")]
        What::Footprint => show(&footprint::run(settings)?, settings),
        #[cfg(not(feature = "shared"))]
        What::Shared { rest: _ } => Ok(()),
        #[cfg(not(feature = "peers"))]
        What::Grpc | What::Resp | What::Http | What::Echo | What::Observed | What::Footprint => Ok(()),
        What::Machine => show(&machine::table(), settings),
        What::All => {
            show(&machine::table(), settings)?;
            show(&instructions::run(settings)?, settings)?;
            in_process::run(settings)?.iter().try_for_each(|table| show(table, settings))?;
            show(&memory::run(settings)?, settings)?;
            #[cfg(feature = "peers")]
            {
                grpc::run(settings)?.iter().try_for_each(|table| show(table, settings))?;
                resp::run(settings)?.iter().try_for_each(|table| show(table, settings))?;
                show(&http::run(settings)?, settings)?;
                show(&echo::run(settings)?, settings)?;
                shared::Shared::ALL.run(settings, |table| show(table, settings))?;
                show(&observed::run(settings)?, settings)?;
                show(&footprint::run(settings)?, settings)?;
            }
            Ok(())
        }
    }
}

fn show(table: &Table, settings: &Settings) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", table.text())?;
    if let Some(page) = &settings.markdown {
        table.write_into(page)?;
    }
    Ok(())
}

/// The peers are behind a feature, so that whoever builds the workspace does not build them: build them now, and go on.
fn with_peers() -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = std::process::Command::new(cargo)
        .args(["run", "--release", "--package", "tollgate-bench", "--features", "peers", "--"])
        .args(std::env::args_os().skip(1))
        .status()?;
    std::process::exit(status.code().unwrap_or(2));
}
