//! A task a connection on tokio's current-thread runtime.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{REPLY, REQUEST};

pub(super) async fn serve(port: u16) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A connection that breaks is over.
        tokio::task::spawn_local(async move {
            let _ = answer(stream).await;
        });
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let replies = REPLY.repeat(1_024);
    let mut input = vec![0; REQUEST * 1_000];
    let mut begun = 0;
    loop {
        let count = stream.read(&mut input).await?;
        if count == 0 {
            return Ok(());
        }
        let all = begun + count;
        begun = all % REQUEST;
        stream.write_all(&replies[..all / REQUEST * REPLY.len()]).await?;
    }
}
