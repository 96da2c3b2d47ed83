//! Servers that only answer: the cost of a protocol without decisions.

mod epoll;
mod hyper;
mod hyper_json;
mod hyper_ok;
mod tokio_echo;

use std::process::Command;

use crate::grpc;
use crate::process::{Process, pinned};

/// Bytes of the one request that the responders of the Redis protocol know.
const REQUEST: usize = 79;
/// Their reply to every request: admitted.
const REPLY: &[u8] = b"*5\r\n:0\r\n:1001\r\n:1000\r\n:-1\r\n:4\r\n";

/// The protocol and the runtime of a responder.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ResponderKind {
    /// The Redis protocol on epoll without a runtime.
    Epoll,
    /// The same on tokio's current-thread runtime.
    Tokio,
    /// HTTP/1.1 by hyper on tokio's current-thread runtime.
    Hyper,
    /// The same, reading the JSON of a check and replying as much as one.
    HyperJson,
    /// gRPC by tonic on tokio's current-thread runtime.
    #[value(skip)]
    Tonic,
}

/// Answers on a port of the loopback interface until it is killed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Respond {
    #[arg(value_enum)]
    kind: ResponderKind,
    port: u16,
}

impl ResponderKind {
    /// As tables call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "raw epoll responder",
            Self::Tokio => "tokio echo",
            Self::Hyper => "hyper `ok`",
            Self::HyperJson => "hyper, a check's JSON read, its reply constant",
            Self::Tonic => "tonic echo, current-thread runtime",
        }
    }

    /// This program, answering on a free port of core 0.
    pub(crate) fn start(self) -> anyhow::Result<Process> {
        let itself = std::env::current_exe()?;
        Process::start(|port| {
            Ok(match clap::ValueEnum::to_possible_value(&self) {
                Some(word) => {
                    let mut command: Command = pinned(0, &itself);
                    command.args(["respond", word.get_name(), &port.to_string()]);
                    command
                }
                None => {
                    let behind = grpc::Behind::Echo;
                    let runtime = grpc::Runtime::Current;
                    grpc::Serve { behind, runtime, port }.command(&itself)
                }
            })
        })
    }
}

impl Respond {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.kind {
            ResponderKind::Epoll => epoll::serve(self.port),
            ResponderKind::Tokio => on_tokio(tokio_echo::serve(self.port)),
            ResponderKind::Hyper => on_tokio(hyper::serve(self.port, hyper_ok::answer)),
            ResponderKind::HyperJson => on_tokio(hyper::serve(self.port, hyper_json::answer)),
            ResponderKind::Tonic => anyhow::bail!("tonic echoes by `serve`"),
        }
    }
}

fn on_tokio(server: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, server)
}
