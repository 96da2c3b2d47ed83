//! TLS on the one port, and nodes that prove themselves by a certificate.

use std::path::Path;
use std::process::Command;

use tollgate_harness::processes::*;
use tollgate_testkit::certificates::Authority;

fn control(folder: &Path, address: &str, flags: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(["control", "--listen", address, "--data-dir"]).arg(folder).args(flags);
    command
}

#[test]
fn over_tls_only_nodes_with_a_certificate_are_admitted_where_one_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().expect("text").to_owned();
    let authority = Authority::new();
    std::fs::write(path("ca.pem"), authority.pem()).expect("written");
    for name in ["server", "node"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let (cert, key) = authority.issue("server", 2099).write(&path("server"));
    let (node_cert, node_key) = authority.issue("node", 2099).write(&path("node"));
    let shown = |path: &Path| path.to_str().expect("text").to_owned();
    let address = format!("127.0.0.1:{}", free_port());
    let flags = ["--tls-cert", &shown(&cert), "--tls-key", &shown(&key), "--node-client-ca", &text("ca.pem")];
    let process = Process::start(control(&path("data"), &address, &flags));
    assert!(process.says("console").is_some_and(|it| it.starts_with("https://")), "{}", process.screen);

    if Command::new("curl").arg("--version").output().is_ok() {
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "--cacert",
            &text("ca.pem"),
            "-o",
            "/dev/null",
            "-w",
            "%{http_version} %{http_code}",
        ]);
        let ran = curl.arg(format!("https://{address}/setup")).output().expect("curl");
        assert_eq!(
            String::from_utf8_lossy(&ran.stdout),
            "1.1 200",
            "pages, to a client that offers HTTP/2 too"
        );
    } else {
        println!("SKIPPED the page over TLS: there is no curl on this machine");
    }
    let token = text("data/node-token");
    let node = |name: &str, token: &str, certificate: &[&str]| {
        let mut command = tollgate();
        command.args([
            "serve",
            "--grpc",
            "off",
            "--resp",
            "off",
            "--http",
            "127.0.0.1:0",
            "--control-wait",
            "0",
        ]);
        command.args(["--control", &format!("https://{address}"), "--control-ca", &text("ca.pem")]);
        command.args(["--control-token-file", token, "--state-dir", &text(name)]).args(certificate);
        NodeProcess { process: Process::start(command), state: path(name) }
    };
    let flags = |cert: &Path, key: &Path| {
        ["--control-cert".into(), shown(cert), "--control-key".into(), shown(key)].map(|it: String| it)
    };
    let good = flags(&node_cert, &node_key);
    let certified = node("a", &token, &good.each_ref().map(|it| &**it));
    certified.wait_ready("connected", |_, body| body["control"]["connected"] == true);
    // As docs/control.md says: token and certificate are both needed, and the certificate must be in force.
    std::fs::write(path("wrong"), "tgl_wrong").expect("written");
    let certificate = good.each_ref().map(|it| &**it);
    let mut rejected = vec![node("b", &token, &[]), node("c", &text("wrong"), &certificate)];
    for (name, authority, until) in [("stranger", &Authority::new(), 2099), ("expired", &authority, 2001)] {
        std::fs::create_dir(path(name)).expect("a folder");
        let (cert, key) = authority.issue(name, until).write(&path(name));
        let state = format!("state of {name}");
        rejected.push(node(&state, &token, &flags(&cert, &key).each_ref().map(|it| &**it)));
    }
    for node in &rejected {
        node.wait_ready("rejected", |_, body| body["control"]["why"].is_string());
        assert_eq!(node.metric("tollgate_control_connected"), Some(0));
    }
    assert_eq!(certified.metric("tollgate_control_connected"), Some(1));
}
