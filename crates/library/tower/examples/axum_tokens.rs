//! A web service of axum with quotas for what requests turn out to use: the tokens of a model's answers, and
//! the bytes of downloads.
//!
//! ```sh
//! cargo run -p tollgate-tower --example axum_tokens
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use axum::routing::get;
use axum::{Extension, Router};
use http::HeaderName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_tower::{Key, Limit, PostPaidLayer, Quota, Used};

/// The answer of a model, with a report of the tokens that it took.
async fn answer(Extension(used): Extension<Used>) -> &'static str {
    used.add(900); // in a stream: again and again, as its parts are made
    "an answer of 900 tokens"
}

fn routes() -> Result<Router, Box<dyn Error + Send + Sync>> {
    let team = || Key::header(HeaderName::from_static("x-team"));
    let tokens = Limit::new(Quota::per_day(1_000))?.named("tokens").by(team());
    let bytes = Limit::new(Quota::per_day(1_500))?.named("bytes").by(team());
    Ok(Router::new()
        .route("/answer", get(answer).layer(PostPaidLayer::new(tokens)))
        .route("/file", get(async || "x".repeat(1_000)).layer(PostPaidLayer::new(bytes).bytes())))
}

/// The first line of the response.
async fn ask(path: &str, at: std::net::SocketAddr) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-team: search\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let line = response.lines().next().unwrap_or_default().to_owned();
    println!("GET {path}: {line}");
    Ok(line)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, routes()?).into_future());
    // The second may start, since something is left; what it lacks is owed.
    for path in ["/answer", "/file"] {
        for want in ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"] {
            assert_eq!(ask(path, at).await?, want);
        }
    }
    server.abort();
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error + Send + Sync>> {
    main()
}
