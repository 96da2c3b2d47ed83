//! `docs/tls.md`: its certificates are made as it says, used, and shown to a client of other people's.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::sync::Arc;

use crate::common::TestServer;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tollgate_net::{AcceptLimits, Tls, TlsFiles};

const PAGE: &str = include_str!("../../../../../docs/tls.md");

fn start(program: &str, words: &[&str], folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).kill_on_drop(true);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped()).spawn()
}

#[tokio::test]
async fn certificates_made_as_the_page_says_serve_openssls_client() {
    let (_, commands) = PAGE.split_once("```sh certificates\n").expect("a block");
    let (commands, _) = commands.split_once("```").expect("its end");
    let folder = TempDir::new().expect("a folder");
    match start("openssl", &["version"], folder.path()) {
        Ok(version) => {
            let said = version.wait_with_output().await.expect("said").stdout;
            if !said.starts_with(b"OpenSSL 3") {
                return println!("SKIPPED the page is for OpenSSL 3: {}", String::from_utf8_lossy(&said));
            }
        }
        Err(error) => return println!("SKIPPED openssl cannot be run: {error}"),
    }
    let made = start("sh", &["-ec", commands], folder.path()).expect("a shell");
    let made = made.wait_with_output().await.expect("ended");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let [cert, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|name| folder.path().join(name));
    let tls = Tls::load(
        TlsFiles { cert, key, client_ca: Some(ca), client_name: None, is_client_optional: false },
        &["h2"],
    )
    .expect("files without fault");
    let server = TestServer::start(Some(Arc::new(tls)), AcceptLimits::default()).await;
    let address = server.address.to_string();
    let client = ["s_client", "-quiet", "-verify_return_error", "-verify_hostname", "localhost"];
    let trusting = [&client[..], &["-CAfile", "ca.crt", "-alpn", "h2", "-connect", &address]].concat();
    let own = ["-cert", "client.crt", "-key", "client.key"];
    for (more, heard) in [
        (&[&own[..], &["-tls1_2"]].concat()[..], "hello"),
        (&[&own[..], &["-tls1_3"]].concat(), "hello"),
        (&["-tls1_3"], ""),
        (&["-tls1_2"], ""),
        (&[&own[..], &["-alpn", "http/1.1"]].concat(), ""),
    ] {
        let mut client =
            start("openssl", &[&trusting[..], more].concat(), folder.path()).expect("openssl runs");
        let mut stdin = client.stdin.take().expect("piped");
        let mut stdout = client.stdout.take().expect("piped");
        let _ = stdin.write_all(b"hello").await;
        let mut said = vec![0; heard.len().max(1)];
        let read = tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut said).await;
        assert_eq!(read.is_ok(), !heard.is_empty(), "{more:?}");
        assert_eq!(said.strip_suffix(b"\0").unwrap_or(&said), heard.as_bytes(), "{more:?}");
        drop(stdin);
        client.kill().await.expect("ours");
    }
}
