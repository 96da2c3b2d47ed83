//! Unix sockets: every surface on one, its file's permissions, its start beside another server and its end.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use super::*;

/// Connects, and sends `bytes`.
fn send(path: &Path, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(bytes).expect("sent");
    stream
}

fn permissions(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn every_surface_listens_on_a_unix_socket_and_removes_its_file_at_the_end() {
    let folder = rules(RULES);
    let sockets = tempfile::tempdir().expect("a folder");
    let paths = ["grpc", "http", "resp"].map(|name| sockets.path().join(name));
    let addresses = paths.each_ref().map(|path| format!("unix:{}", path.display()));
    let [grpc, http, resp] = addresses.each_ref().map(String::as_str);
    let flags = ["--grpc", grpc, "--http", http, "--resp", resp, "--workers", "2", "--socket-mode", "600"];
    let server = ServerProcess::start(folder.path(), &flags);
    for (name, (path, address)) in ["grpc", "http", "resp"].iter().zip(paths.iter().zip(&addresses)) {
        assert_eq!(server.says(name), Some(address.as_str()));
        assert_eq!(permissions(path), 0o600);
    }

    // HTTP/2: the client's preface, and the SETTINGS frame of the server.
    let mut grpc = send(&paths[0], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut frame = [0; 9];
    grpc.read_exact(&mut frame).expect("a frame");
    assert_eq!(frame[3], 4, "{frame:?}");
    drop(grpc);

    let mut body = String::new();
    let request = b"GET /v1/rules HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    send(&paths[1], request).read_to_string(&mut body).expect("an answer");
    assert!(body.starts_with("HTTP/1.1 200 "), "an operator of this machine may ask: {body}");

    let mut pong = [0; 7];
    send(&paths[2], b"PING\r\n").read_exact(&mut pong).expect("an answer");
    assert_eq!(&pong, b"+PONG\r\n");

    let try_this = server.says("try").expect("a command").to_owned();
    assert!(try_this.contains(&format!("--unix-socket {}", paths[1].display())), "{try_this}");
    if Command::new("curl").arg("--version").output().is_ok() {
        let ran = Command::new("sh").args(["-c", &try_this]).output().expect("sh");
        let said: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        assert_eq!(said["outcome"], "admit", "{said}");
    }

    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("non-loopback"), "{said}");
    for path in &paths {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn a_socket_in_use_is_an_error_and_one_of_a_killed_server_is_replaced() {
    let folder = rules(RULES);
    let sockets = tempfile::tempdir().expect("a folder");
    let path = sockets.path().join("http");
    let address = format!("unix:{}", path.display());
    let first = ServerProcess::start(folder.path(), &["--http", &address]);
    let mut second = tollgate();
    second.args(["serve", "--grpc", "off", "--resp", "off", "--http", &address, "--rules"]);
    let ran = second.arg(folder.path()).output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    for part in
        [&format!("http cannot listen on {address}: "), "`ss -lxp` shows it", "another path: --http unix:/"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("127.0.0.1:0"), "a socket is not taken for a port: {said}");
    assert!(path.exists(), "the first one serves");

    first.signal("KILL");
    first.ended();
    assert!(path.exists(), "left behind");
    let third = ServerProcess::start(folder.path(), &["--http", &address]);
    assert_eq!((third.says("http"), permissions(&path)), (Some(address.as_str()), 0o660));
    let mut body = String::new();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    send(&path, request).read_to_string(&mut body).expect("an answer");
    assert!(body.starts_with("HTTP/1.1 200 "), "{body}");
}

#[test]
fn every_command_that_asks_a_server_reaches_its_unix_sockets() {
    let folder = rules(RULES);
    let sockets = tempfile::tempdir().expect("a folder");
    let address = |name: &str| format!("unix:{}", sockets.path().join(name).display());
    let [grpc, http, resp] = ["grpc", "http", "resp"].map(address);
    let server = ServerProcess::start(folder.path(), &["--grpc", &grpc, "--http", &http, "--resp", &resp]);
    let requests = "requests   20 in ";
    let user = ["--domain", "shop", "--entry", "api_key={key}", "-n", "20"];
    let [over_grpc, over_http, over_resp] =
        [format!("grpc://{grpc}"), format!("http://{http}:/v1/check"), format!("resp://{resp}")];
    for (args, want) in [
        ([&["bench", "--target", &over_grpc][..], &user].concat(), requests),
        ([&["bench", "--target", &over_http][..], &user].concat(), requests),
        ([&["bench", "--target", &over_resp][..], &user].concat(), requests),
        (vec!["top", "--once", "--every-ms", "100", "--target", &http], "shop: api_key"),
    ] {
        let ran = tollgate().args(&args).output().expect("it ends");
        let said = String::from_utf8_lossy(&ran.stderr);
        let shown = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(0), "{args:?}: {said}{shown}");
        assert!(shown.contains(want), "{args:?}: {shown}");
    }
    drop(server);
    let ran = tollgate().args(["bench", "--target", &grpc]).output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("no protocol") && said.contains("grpc://unix:/path"), "{said}");
}
