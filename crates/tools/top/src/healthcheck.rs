//! The command `tollgate healthcheck`: one question, answered by an exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Address;
use crate::client::{Trust, agent};
use crate::ending::Ending;

/// Ask a server whether it is ready, for the health check of a container.
///
/// Asks /readyz once. Exit 0: it is ready. 1: it is not (no rules, draining, no response); the reason is on
/// stderr. 2: the flags are wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate healthcheck
  tollgate healthcheck --target https://127.0.0.1:8443 --insecure
  tollgate healthcheck --target unix:/run/tollgate/http.sock")]
pub struct Healthcheck {
    /// Where the server's HTTP surface listens: http://HOST:PORT, https://HOST:PORT or unix:/path [default:
    /// where `tollgate serve` listens with the same environment, http://127.0.0.1:8080 if that says nothing].
    #[arg(long, alias = "http", value_name = "URL")]
    target: Option<Address>,
    /// Certificate (PEM) to trust for https.
    #[arg(long, value_name = "PATH")]
    ca: Option<PathBuf>,
    /// Accept any certificate, such as one for another name than this address.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// How long to wait for the response, in milliseconds; 1 to 60,000.
    #[arg(long, value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout_ms: u64,
}

impl Healthcheck {
    /// Asks the server at the address that was given, else at `usual`, and writes to `talk` why it is not
    /// ready.
    ///
    /// # Errors
    /// When `talk` cannot be written to.
    pub fn run(self, usual: &str, talk: &mut dyn Write) -> io::Result<Ending> {
        let trust = Trust { ca: self.ca.as_deref(), insecure: self.insecure };
        let target = match self.target.map_or_else(|| usual.parse(), Ok) {
            Ok(target) => target,
            Err(error) => {
                writeln!(talk, "error: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let agent = match agent(&target, trust, Duration::from_millis(self.timeout_ms)) {
            Ok(agent) => agent,
            Err(error) => {
                writeln!(talk, "error: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        match agent.get(target.url("/readyz")).call().map(|response| response.status().as_u16()) {
            Ok(200) => Ok(Ending::Done),
            Ok(status) => {
                writeln!(talk, "not ready: {} returned status {status}", target.shown("/readyz"))?;
                Ok(Ending::No)
            }
            Err(what) => {
                writeln!(talk, "not ready: no response from {target}: {what}")?;
                Ok(Ending::No)
            }
        }
    }
}
