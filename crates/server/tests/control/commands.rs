//! Output of the commands, also about errors.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use tollgate_harness::processes::*;

/// Exit code, stdout and stderr.
fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tollgate().args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn errors_of_the_start_say_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("text");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let file = file.to_str().expect("text");
    for (arguments, parts) in [
        (
            &["control", "--data-dir", data, "--listen", "0.0.0.0:0"][..],
            &["0.0.0.0:", "--tls-cert", "127.0.0.1"][..],
        ),
        (&["control", "--data-dir", data, "--listen", "unix:/tmp/x"], &["invalid address", "127.0.0.1:8070"]),
        (&["control", "--data-dir", file], &["cannot be used", "--data-dir"]),
        (&["control", "--data-dir", data, "--node-client-ca", file], &["node-client-ca needs TLS"]),
        (&["control", "--data-dir", data, "--public-url", "limits.example"], &["invalid URL", "https://"]),
        (&["serve", "--control", "http://127.0.0.1:1"], &["node-token", "--control-token-file"]),
        (&["serve", "--control", "127.0.0.1:8070"], &["invalid control plane", "http://host:port"]),
        (&["serve", "--control", "embedded", "--control-token-file", file], &["embedded"]),
        (&["serve"], &["--rules FOLDER", "--control URL"]),
        (
            &["serve", "--control", "http://127.0.0.1:1", "--control-token-file", file, "--state-dir", file],
            &["state-dir", "cannot be used"],
        ),
        (&["control", "--data-dir", data, "user", "add", "ann"], &["no database", "tollgate control"]),
    ] {
        let (code, out, said) = ran(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {out}{said}");
        for part in parts {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}

#[test]
fn one_process_has_the_folder_and_secrets_are_for_their_owner_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let control = ControlProcess::start(&data);
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&control.token_file())), (0o700, 0o600));
    let (code, _, said) =
        ran(&["control", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().expect("text")]);
    assert_eq!(code, Some(2));
    assert!(said.contains("in use by another tollgate"), "{said}");
    let state = folder.path().join("a");
    let _node = NodeProcess::start(&control, &state, &["--control-wait", "0"]);
    let said = Process::try_start(NodeProcess::command(&control, &state, &[])).expect_err("the same folder");
    assert!(said.contains("in use by another node") && said.contains("--state-dir"), "{said}");
    let token = std::fs::read_to_string(control.token_file()).expect("a token");
    control.process.signal("TERM");
    let screen = control.process.screen.clone();
    let ControlProcess { process, .. } = control;
    let (code, said) = process.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        !said.contains(token.trim()) && !screen.contains(token.trim()),
        "the token is nowhere but in its file"
    );
}

#[test]
fn users_are_added_beside_a_running_control_plane_and_the_audit_is_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let control = ControlProcess::start(&data);
    let data = data.to_str().expect("text");
    let (code, out, said) =
        ran(&["control", "--data-dir", data, "user", "add", "bob", "--role", "editor", "--app", "shop"]);
    assert_eq!(code, Some(0), "{said}");
    let again = ran(&["control", "--data-dir", data, "user", "reset-password", "bob"]);
    assert_eq!(again.0, Some(0), "{again:?}");
    let code = |out: &str| out.split_once("/link?code=").map(|(_, code)| code.trim().to_owned());
    let first = code(&out).expect("a link");
    let second = code(&again.1).expect("a link");
    for (code, want) in [(first, false), (second, true)] {
        let form = format!("code={code}&password=correct+horse+stapler&again=correct+horse+stapler");
        let fields = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
        let (status, _, said) = send(control.address, "POST", "/link", fields, &form).expect("an answer");
        assert_eq!(status == 303, want, "only the last link works: {status} {said}");
    }
    let (code, out, _) = ran(&["control", "--data-dir", data, "audit", "verify"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("whole: "), "{out}");
    let (code, _, said) = ran(&["control", "--data-dir", data, "user", "add", "bob"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_role_that_another_program_has_given_is_named_until_it_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let control = ControlProcess::start(&data);
    control.create_rule("shop", "a", 1);
    let file = rusqlite::Connection::open(data.join("control.db")).expect("opened");
    let data = data.to_str().expect("text");
    let audit = |what: &str| ran(&["control", "--data-dir", data, "audit", what]);
    let (code, out, said) = audit("compare");
    assert_eq!(code, Some(0), "{out} {said}");
    assert!(out.starts_with("whole: "), "{out}");
    let grant = "INSERT INTO role_bindings SELECT id, 'bank', 'admin' FROM users LIMIT 1";
    assert_eq!(file.execute(grant, []).expect("written"), 1);
    let (code, out, _) = audit("compare");
    assert_eq!(code, Some(1));
    assert!(out.starts_with("added: role_bindings '") && out.contains("'bank'"), "{out}");
    assert_eq!(audit("verify").0, Some(0), "the audit itself is whole");
    let (code, out, said) = audit("accept");
    assert_eq!((code, &*out), (Some(0), "accepted: rows that another program has edited: 1\n"), "{said}");
    let (code, out, said) = audit("accept");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(out, "nothing to accept: no entry is missing, and no row was edited\n");
    control.create_rule("shop", "b", 1);
    assert_eq!(audit("compare").0, Some(0));
}

#[test]
fn metrics_are_for_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let (status, _, _) = send(control.address, "GET", "/metrics", "", "").expect("an answer");
    assert_eq!(status, 200);
    // A page of another site that has its own name lead here must not read them.
    let request = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let mut stream = std::net::TcpStream::connect(control.address).expect("connected");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stream, &mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
}

#[test]
fn the_database_is_for_its_owner_only_also_in_a_folder_that_all_may_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("made");
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("set");
    let mut control = ControlProcess::start(&data);
    let modes = || {
        let names = ["control.db", "control.db-wal", "control.db-shm"];
        names.map(|name| std::fs::metadata(data.join(name)).expect("a file").permissions().mode() & 0o777)
    };
    assert_eq!(modes(), [0o600; 3]);
    // As a version before made them.
    control.kill();
    for name in ["control.db", "control.db-wal"] {
        std::fs::set_permissions(data.join(name), Permissions::from_mode(0o644)).expect("set");
    }
    control.start_again();
    assert_eq!(modes(), [0o600; 3]);
}
