//! The command `tollgate healthcheck`: one question, answered by an exit code.

use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::{Trust, agent};
use crate::ending::Ending;

/// Bytes of a response that are read: the status line is all that is needed.
const MAX_BYTES: usize = 4096;

/// Ask a server whether it is ready, for the health check of a container.
///
/// Asks /readyz once. Exit 0: it is ready. 1: it is not (no rules, draining, no response), or the flags are
/// wrong; the reason is on stderr. There is no exit 2, which Docker reserves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate healthcheck
  tollgate healthcheck --target https://127.0.0.1:8443 --insecure
  tollgate healthcheck --target unix:/run/tollgate/http.sock")]
pub struct Healthcheck {
    /// Where the server's HTTP surface listens: http://HOST:PORT, https://HOST:PORT or unix:/path.
    #[arg(long, alias = "http", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    target: String,
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
    /// Asks, and writes to `talk` why the server is not ready.
    ///
    /// # Errors
    /// When `talk` cannot be written to.
    pub fn run(self, talk: &mut dyn Write) -> io::Result<Ending> {
        match self.status() {
            Ok(200) => Ok(Ending::Done),
            Ok(status) => {
                writeln!(talk, "not ready: {}/readyz returned status {status}", self.base())?;
                Ok(Ending::No)
            }
            Err(what) => {
                writeln!(talk, "not ready: no response from {}: {what}", self.base())?;
                Ok(Ending::No)
            }
        }
    }

    fn base(&self) -> &str {
        self.target.trim_end_matches('/')
    }

    fn status(&self) -> Result<u16, String> {
        let timeout = Duration::from_millis(self.timeout_ms);
        if let Some(path) = self.base().strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return over_socket(Path::new(path), timeout).map_err(|error| error.to_string());
        }
        let trust = Trust { ca: self.ca.as_deref(), insecure: self.insecure };
        let agent = agent(self.base(), trust, timeout).map_err(|error| error.to_string())?;
        let response = agent.get(format!("{}/readyz", self.base())).call();
        Ok(response.map_err(|error| error.to_string())?.status().as_u16())
    }
}

/// The status over a Unix socket, which the client of `top` does not reach.
fn over_socket(path: &Path, timeout: Duration) -> io::Result<u16> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = [0; MAX_BYTES];
    let mut length = 0;
    while !text[..length].contains(&b'\n') {
        match stream.read(&mut text[length..])? {
            0 => break,
            read => length += read,
        }
    }
    let line = std::str::from_utf8(&text[..length]).ok();
    let status = line.and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP/1.1"))
}
