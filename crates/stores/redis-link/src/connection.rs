//! One connection to one server: opened, logged in, and ready for commands in pipelines. One task uses it,
//! and closes it when anything is out of order. Not here: the commands, the match of replies to commands
//! (`pipelined`), and new attempts.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::command::{array, bulk};
use crate::reply::{self, Reply};
use crate::server_error::{Cause, ServerError};

/// A byte stream to a server.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection that is logged in.
pub struct Connection {
    wire: Box<dyn Wire>,
    /// Name of the server in messages.
    name: Arc<str>,
    input: Vec<u8>,
    /// Number of bytes of `input` that have been read.
    read: usize,
    encrypted: bool,
    /// Duration of the probe when it was opened.
    pub(crate) round_trip: Duration,
}

/// Most of the input buffer that is kept between flights.
const KEPT: usize = 256 << 10;

impl Connection {
    pub(crate) fn new(wire: Box<dyn Wire>, name: Arc<str>, encrypted: bool) -> Self {
        Self { wire, name, input: Vec::new(), read: 0, encrypted, round_trip: Duration::ZERO }
    }

    /// The name of the server in messages.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Sends some of `bytes`; returns their number. Nothing is lost when it is dropped before it is ready.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<usize, ServerError> {
        match self.wire.write(bytes).await {
            Ok(0) => Err(self.closed()),
            Ok(sent) => Ok(sent),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Sends bytes that an encrypted connection still holds back.
    pub(crate) async fn flush(&mut self) -> Result<(), ServerError> {
        if self.encrypted {
            self.wire.flush().await.map_err(|error| self.broken(&error))?;
        }
        Ok(())
    }

    /// Waits for more bytes. Nothing is lost when it is dropped before it is ready.
    pub(crate) async fn fill(&mut self) -> Result<(), ServerError> {
        if self.read == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEPT);
            self.read = 0;
        }
        self.input.reserve(16 << 10);
        match self.wire.read_buf(&mut self.input).await {
            Ok(0) => Err(self.closed()),
            Ok(_) => Ok(()),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// The next reply, if all of it has arrived.
    pub(crate) fn next_reply(&mut self) -> Result<Option<Reply>, ServerError> {
        match reply::parse(&self.input[self.read..]) {
            Ok(None) => Ok(None),
            Ok(Some((reply, length))) => {
                self.read += length;
                Ok(Some(reply))
            }
            Err(other) => Err(self.not_redis(&other.begins)),
        }
    }

    /// True when no unread bytes have arrived.
    pub(crate) fn is_quiet(&self) -> bool {
        self.read == self.input.len()
    }

    /// Sends commands and waits for as many replies. A caller that stops waiting must drop the connection.
    ///
    /// # Errors
    /// [`ServerError`] when the connection broke, or the server does not speak the protocol; drop it then.
    pub async fn ask(&mut self, commands: &[&[&[u8]]]) -> Result<Vec<Reply>, ServerError> {
        let mut bytes = Vec::new();
        for command in commands {
            array(&mut bytes, command.len());
            command.iter().for_each(|word| bulk(&mut bytes, word));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.write(&bytes[sent..]).await?;
        }
        self.flush().await?;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.next_reply()? {
                Some(reply) => replies.push(reply),
                None => self.fill().await?,
            }
        }
        Ok(replies)
    }

    /// As [`Connection::ask`], for one command.
    ///
    /// # Errors
    /// The errors of [`Connection::ask`].
    pub async fn ask_one(&mut self, command: &[&[u8]]) -> Result<Reply, ServerError> {
        let mut replies = self.ask(&[command]).await?;
        replies.pop().ok_or_else(|| self.closed())
    }

    /// The error for bytes that arrived though no reply was due.
    pub(crate) fn unasked(&self) -> ServerError {
        ServerError::new(Cause::Network, format!("{}: sends without being asked", self.name))
    }

    fn closed(&self) -> ServerError {
        ServerError::new(Cause::Network, format!("{}: closed the connection", self.name))
    }

    fn broken(&self, error: &std::io::Error) -> ServerError {
        ServerError::new(Cause::Network, format!("{}: {error}", self.name))
    }

    fn not_redis(&self, begins: &str) -> ServerError {
        let hint = if begins.starts_with("\\u{15}\\u{3}") {
            "it speaks TLS, so the URL must begin with rediss"
        } else {
            "is that the right port?"
        };
        ServerError::new(
            Cause::Misconfigured,
            format!(
                "{}: does not speak the Redis protocol (its reply begins with `{begins}`); {hint}",
                self.name
            ),
        )
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("name", &self.name).finish_non_exhaustive()
    }
}
