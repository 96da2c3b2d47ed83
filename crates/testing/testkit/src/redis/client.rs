//! Just enough of a client: one command, one answer, on a connection of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Timeout of an answer; a stopped server gives none.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// An error with its code in front, such as `WRONGTYPE …`.
    Error(String),
    /// An integer reply.
    Int(i64),
    /// A bulk string: any bytes.
    Bulk(Vec<u8>),
    /// An array of replies.
    Array(Vec<Reply>),
    /// A null reply: there is no value.
    Nil,
}

impl Reply {
    /// The text of the answer.
    ///
    /// # Panics
    /// When it is an error or an array.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Reply::Status(text) => text.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Int(number) => number.to_string(),
            Reply::Nil => String::new(),
            Reply::Error(_) | Reply::Array(_) => panic!("no text: {self:?}"),
        }
    }

    /// The number that it is, or that its text is.
    ///
    /// # Panics
    /// When it is something else.
    #[must_use]
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            other => other.text().parse().unwrap_or_else(|_| panic!("no number: {self:?}")),
        }
    }

    /// The answers that it holds.
    ///
    /// # Panics
    /// When it is no array.
    #[must_use]
    pub fn array(&self) -> &[Reply] {
        let Reply::Array(items) = self else { panic!("no array: {self:?}") };
        items
    }

    /// The error's text, code first.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Reply::Error(text) => Some(text),
            _ => None,
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a Redis: commands go one at a time.
pub struct Client(BufReader<Box<dyn Stream>>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// To a port, without TLS.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// To a unix socket.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Sends a command and waits for its answer; an error of the server is a [`Reply::Error`].
    ///
    /// # Errors
    /// When the connection ends or nothing comes for 10 s.
    pub fn command<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let Some((kind, rest)) = line.split_at_checked(1) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let number = || rest.parse::<i64>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()?),
            "$" | "*" if number()? < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}
