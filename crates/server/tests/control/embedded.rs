//! Control plane and node in one process.

use tollgate_harness::processes::*;

#[test]
fn from_an_empty_folder_to_a_first_denied_request_in_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = tollgate();
    command.current_dir(folder.path()).args([
        "serve",
        "--control",
        "embedded",
        "--control-listen",
        "127.0.0.1:0",
    ]);
    command.args(["--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--control-wait", "0"]);
    command.args(["--drain-delay", "0"]);
    let node = NodeProcess { process: Process::start(command), state: folder.path().join("tollgate-state") };
    let console = node.process.says("console").expect("an address");
    let address = console.strip_prefix("http://").and_then(|it| it.parse().ok()).expect("an address");
    let cookie = set_up(address, node.process.says("setup").expect("a link"));
    let fields = format!(
        "Cookie: tollgate={cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n"
    );
    let form = "app=shop&key=push&max_permits=1&rate=1&description=&terms=yes&action=save";
    let (status, _, said) = send(address, "POST", "/rules/new", &fields, form).expect("an answer");
    assert_eq!(status, 303, "{said}");
    node.wait_denied("shop", "push");
    assert!(node.state.join("rules").exists() && folder.path().join("tollgate-data/control.db").exists());
    node.process.signal("TERM");
    let (code, said) = node.process.ended();
    assert_eq!(code, Some(0), "{said}");
}
