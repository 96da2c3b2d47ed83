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
pub enum RedisReply {
    /// A status such as `OK`.
    Status(String),
    /// An error with its code in front, such as `WRONGTYPE …`.
    Error(String),
    /// An integer reply.
    Int(i64),
    /// A bulk string: any bytes.
    Bulk(Vec<u8>),
    /// An array of replies.
    Array(Vec<RedisReply>),
    /// A null reply: there is no value.
    Nil,
}

impl RedisReply {
    /// The text of the answer.
    ///
    /// # Panics
    /// When it is an error or an array.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            RedisReply::Status(text) => text.clone(),
            RedisReply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            RedisReply::Int(number) => number.to_string(),
            RedisReply::Nil => String::new(),
            RedisReply::Error(_) | RedisReply::Array(_) => panic!("no text: {self:?}"),
        }
    }

    /// The number that it is, or that its text is.
    ///
    /// # Panics
    /// When it is something else.
    #[must_use]
    pub fn int(&self) -> i64 {
        match self {
            RedisReply::Int(number) => *number,
            other => other.text().parse().unwrap_or_else(|_| panic!("no number: {self:?}")),
        }
    }

    /// The answers that it holds.
    ///
    /// # Panics
    /// When it is no array.
    #[must_use]
    pub fn array(&self) -> &[RedisReply] {
        let RedisReply::Array(items) = self else { panic!("no array: {self:?}") };
        items
    }

    /// The error's text, code first.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            RedisReply::Error(text) => Some(text),
            _ => None,
        }
    }
}

trait ByteStream: Read + Write + Send {}
impl<T: Read + Write + Send> ByteStream for T {}

/// A connection to a Redis: commands go one at a time.
pub struct RedisConnection(BufReader<Box<dyn ByteStream>>);

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl RedisConnection {
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

    /// Sends a command and waits for its answer; an error of the server is a [`RedisReply::Error`].
    ///
    /// # Errors
    /// When the connection ends or nothing comes for 10 s.
    pub fn command<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<RedisReply> {
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

    fn read(&mut self) -> io::Result<RedisReply> {
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
            "+" => RedisReply::Status(rest.to_owned()),
            "-" => RedisReply::Error(rest.to_owned()),
            ":" => RedisReply::Int(number()?),
            "$" | "*" if number()? < 0 => RedisReply::Nil,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                RedisReply::Bulk(bytes)
            }
            "*" => RedisReply::Array((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}
