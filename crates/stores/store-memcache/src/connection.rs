//! A connection: commands out, replies in, all within a time.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use tollgate_store::remote::HostPort;

use crate::protocol::{self, CommandReply};

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    /// A connection that has answered.
    pub(crate) async fn to(server: &HostPort, connect: Duration, answer: Duration) -> io::Result<Self> {
        let stream = timeout(connect, TcpStream::connect((server.host.as_str(), server.port)));
        let stream = stream.await.map_err(|_| late("no connection", connect))??;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, bytes: Vec::new() };
        match connection.exchange(b"version\r\n", 1, answer).await?.as_slice() {
            [CommandReply::Version] => Ok(connection),
            other => Err(io::Error::other(format!("is it a memcached? It replies {other:?}"))),
        }
    }

    /// Sends `commands` and reads `expected` replies, all within `limit`. After an error the connection is of
    /// no use any more.
    pub(crate) async fn exchange(
        &mut self,
        commands: &[u8],
        expected: usize,
        limit: Duration,
    ) -> io::Result<Vec<CommandReply>> {
        let (mut reader, mut writer) = self.stream.split();
        let bytes = &mut self.bytes;
        let read = async {
            let mut replies = Vec::with_capacity(expected);
            loop {
                let mut used = 0;
                while replies.len() < expected {
                    match protocol::parse(&bytes[used..]) {
                        Ok(Some((reply, length))) => {
                            used += length;
                            replies.push(reply);
                        }
                        Ok(None) => break,
                        Err(protocol::Garbled) => {
                            return Err(io::Error::new(
                                io::ErrorKind::InvalidData,
                                "its reply is not the memcached protocol",
                            ));
                        }
                    }
                }
                bytes.drain(..used);
                if replies.len() == expected {
                    return Ok(replies);
                }
                if reader.read_buf(bytes).await? == 0 {
                    return Err(closed());
                }
            }
        };
        let both = async { tokio::try_join!(writer.write_all(commands), read) };
        let ((), replies) = timeout(limit, both).await.map_err(|_| late("no answer", limit))??;
        Ok(replies)
    }

    /// Waits until the server closes it, or sends without being asked.
    pub(crate) async fn closed(&mut self) -> io::Error {
        match self.stream.read_buf(&mut self.bytes).await {
            Ok(0) => closed(),
            Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "it sends without being asked"),
            Err(error) => error,
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "it closed the connection")
}

fn late(what: &str, limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {limit:?}"))
}
