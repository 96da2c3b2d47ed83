//! A small client of the Redis protocol that shares no code with the server.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rls::PATIENCE;

/// An answer in version 2 of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Option<String>),
    Array(Vec<Reply>),
}

impl Reply {
    /// The integers of an array, up to the first item that is not an integer.
    pub(crate) fn integers(&self) -> Vec<i64> {
        let Reply::Array(items) = self else { panic!("no array: {self:?}") };
        items.iter().map_while(|item| if let Reply::Integer(n) = item { Some(*n) } else { None }).collect()
    }
}

/// One connection, used for one command after another.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> std::io::Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(to).await?)))
    }

    /// Sends one command and reads its answer.
    pub(crate) async fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&command).await.expect("it is taken");
        timeout(PATIENCE, self.read()).await.expect("an answer in time")
    }

    async fn read(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("text");
        let line = line.strip_suffix("\r\n").expect("a whole line");
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()),
            "$" if number() < 0 => Reply::Bulk(None),
            "$" => {
                let mut text = vec![0; number() as usize + 2];
                self.0.read_exact(&mut text).await.expect("the whole text");
                text.truncate(text.len() - 2);
                Reply::Bulk(Some(String::from_utf8(text).expect("UTF-8")))
            }
            "*" => {
                let mut items = Vec::new();
                for _ in 0..number() {
                    items.push(Box::pin(self.read()).await);
                }
                Reply::Array(items)
            }
            _ => panic!("no reply of version 2: {line:?}"),
        }
    }
}
