//! The commands of the image run as they are written in `deploy/Dockerfile`, on other ports.

use std::path::PathBuf;

use clap::Parser;
use tollgate_server::cli::Cli;

use super::*;

fn dockerfile() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/Dockerfile");
    std::fs::read_to_string(path).expect("the Dockerfile")
}

/// The words of the last instruction that begins so and has a list.
fn words(text: &str, instruction: &str) -> Vec<String> {
    let line = text.lines().rfind(|line| line.starts_with(instruction)).expect(instruction);
    let list = &line[line.find('[').expect("a list")..];
    serde_json::from_str(list).expect("words")
}

#[test]
fn the_image_serves_every_port_that_it_exposes_and_is_healthy_while_it_is_ready() {
    let text = dockerfile();
    assert!(text.contains("CARGO_PROFILE_RELEASE_STRIP=symbols"));
    assert_eq!(words(&text, "ENTRYPOINT"), ["tollgate"]);
    let serve = words(&text, "CMD");
    let exposed = text.lines().find_map(|line| line.strip_prefix("EXPOSE ")).expect("ports");
    for port in exposed.split(' ') {
        assert!(serve.iter().any(|word| word.ends_with(&format!("=0.0.0.0:{port}"))), "{port}");
    }
    let folder = rules(RULES);
    let here = |word: &String| {
        let word = word.replace("/etc/tollgate/rules", &folder.path().display().to_string());
        exposed.split(' ').fold(word, |word, port| word.replace(&format!(":{port}"), ":0"))
    };
    let mut command = tollgate();
    command.args(serve.iter().map(here)).args(["--drain-delay", "30s"]);
    let server = Server::of(command);
    let port_of = |surface: &str| {
        let address: SocketAddr =
            server.says(surface).and_then(|text| text.parse().ok()).expect("an address");
        address.port()
    };
    let mut resp = connect(([127, 0, 0, 1], port_of("resp")).into());
    resp.write_all(b"CL.THROTTLE user 1 10 60\r\n").expect("sent");
    let mut reply = [0; 8];
    resp.read_exact(&mut reply).expect("an answer");
    assert_eq!(&reply, b"*5\r\n:0\r\n", "admitted");

    let check = words(&text, "HEALTHCHECK");
    assert!(Cli::try_parse_from(&check).is_ok(), "{check:?}");
    let healthy = |target: &str| {
        let ran = tollgate().args(&check[1..]).args(["--target", target]).output().expect("it ends");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let target = format!("http://127.0.0.1:{}", port_of("http"));
    assert_eq!(healthy(&target), (Some(0), String::new()));
    // While it drains, it still answers, and is not ready.
    server.signal("TERM");
    let said = loop {
        match healthy(&target) {
            (Some(0), _) => {}
            (code, said) => break (code, said),
        }
    };
    assert_eq!(said, (Some(1), format!("not ready: {target}/readyz returned status 503\n")));
    drop(server);
    let (code, said) = healthy(&target);
    assert_eq!(code, Some(1), "Docker reserves other numbers");
    assert!(said.starts_with(&format!("not ready: no response from {target}: ")), "{said}");
}

#[test]
fn a_health_check_reaches_unix_sockets_and_tls() {
    let folder = rules(RULES);
    let sockets = tempfile::tempdir().expect("a folder");
    let (cert, key) =
        tollgate_testkit::certificates::Authority::new().issue("server", 2060).write(sockets.path());
    let address = format!("unix:{}", sockets.path().join("http").display());
    let over_socket = Server::start(folder.path(), &["--http", &address]);
    let [cert, key] = [cert, key].map(|path| path.display().to_string());
    let over_tls = Server::start(folder.path(), &["--tls-cert", &cert, "--tls-key", &key]);
    let https = format!("https://{}", over_tls.http());
    for (args, want) in [
        (&[address.as_str()][..], Some(0)),
        (&[&https, "--insecure"], Some(0)),
        (&[&https], Some(1)),
        (&[&format!("{address}-other")], Some(1)),
        (&["ftp://127.0.0.1:8080"], Some(2)),
        (&["127.0.0.1:8080"], Some(2)),
        (&[&https, "--ca", "no-such-file"], Some(2)),
    ] {
        let ran = tollgate().args(["healthcheck", "--target"]).args(args).output().expect("it ends");
        assert_eq!(ran.status.code(), want, "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.stderr.is_empty(), want == Some(0), "{args:?}");
        if args[0].ends_with(":8080") {
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(said.contains("; did you mean http://127.0.0.1:8080?\n"), "{said}");
            assert!(!said.contains("not ready"), "{said}");
        }
    }
    drop(over_socket);
}
