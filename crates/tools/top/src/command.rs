//! The command line of `tollgate top`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_human_text::with_causes;

use crate::address::Address;
use crate::client::HttpClient;
use crate::ending::Ending;
use crate::live;
use crate::screen;
use crate::view::{Sort, View};

/// Watch a running server: rates per rule, the denied share, the top limited keys, latency, rules and store.
///
/// Reads the server's HTTP API at an interval and changes nothing. Keys: ↑ ↓ select a rule, whose most
/// limited keys are shown below; s sorts by the next column; p pauses; q quits. The number of a limited key
/// is how often it was denied lately: every five minutes all of them are halved. Two numbers are the fewest
/// and the most that it may be. Exit 0: ended by the user. 2: the server cannot be reached, or stdout is not
/// a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate top
  tollgate top --target http://limits.internal:8080 --token-file /run/secrets/tollgate
  tollgate top --target unix:/run/tollgate/http.sock
  tollgate top --once            one reading as text, for scripts and tickets")]
pub struct Top {
    /// Where the server's HTTP surface listens: http://HOST:PORT, https://HOST:PORT or unix:/path.
    #[arg(long, alias = "http", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    target: Address,
    /// Time between two readings, in milliseconds; 100 to 60,000.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
    /// File with the server's admin token [default: the environment variable TOLLGATE_ADMIN_TOKEN].
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Certificate (PEM) to trust for https.
    #[arg(long, value_name = "PATH")]
    ca: Option<PathBuf>,
    /// Print the rates between two readings as text, and exit.
    #[arg(long)]
    once: bool,
    /// Keys of each rule that --once prints.
    #[arg(long, value_name = "N", default_value_t = 10, hide_short_help = true)]
    keys: usize,
    /// Column to sort by.
    #[arg(long, value_name = "COLUMN", default_value = "denied")]
    sort: Sort,
}

impl Top {
    /// Runs until the user quits; with `--once`, writes text to `out`. Errors go to `talk`.
    ///
    /// # Errors
    /// When `out`, `talk` or the terminal cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let client = match HttpClient::new(self.target, self.token_file.as_deref(), self.ca.as_deref()) {
            Ok(client) => client,
            Err(error) => {
                writeln!(talk, "error: {}", with_causes(&error))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let every = Duration::from_millis(self.every_ms);
        if self.once {
            return match live::two_readings(&client, every) {
                Ok((before, now)) => {
                    let mut view = View::new(&client.shown(), self.sort);
                    view.read(before);
                    view.read(now);
                    write!(out, "{}", screen::text(&view, self.keys))?;
                    Ok(Ending::Done)
                }
                Err(error) => {
                    writeln!(talk, "error: {}", with_causes(&error))?;
                    Ok(Ending::CouldNotTell)
                }
            };
        }
        if !std::io::stdout().is_terminal() {
            writeln!(talk, "error: stdout is not a terminal; add --once for one reading as text")?;
            return Ok(Ending::CouldNotTell);
        }
        // The first reading comes before the screen is drawn, so that a wrong address is reported as plain
        // text.
        match client.read() {
            Ok(first) => live::watch(client, first, every, self.sort).map(|()| Ending::Done),
            Err(error) => {
                writeln!(talk, "error: {}", with_causes(&error))?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}
