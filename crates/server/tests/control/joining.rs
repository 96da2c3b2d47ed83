//! A token for joining, as real processes use it.

use serde_json::{Value, json};
use tollgate_harness::processes::*;

#[test]
fn a_node_that_joined_in_time_goes_on_after_the_end_of_its_token_and_a_late_one_is_told_why_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut control = ControlProcess::start(&data);
    let body = json!({"name": "rack 7", "kind": "join"}).to_string();
    let fields = "Content-Type: application/json\r\n";
    let (status, said) = control.try_send("POST", "/api/v1/tokens", fields, &body).expect("an answer");
    assert_eq!(status, 201, "{said}");
    let made: Value = serde_json::from_str(&said).expect("JSON");
    std::fs::write(control.token_file(), made["secret"].as_str().expect("a token")).expect("written");
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    let open = || rusqlite::Connection::open(data.join("control.db")).expect("a database");
    wait("the node has reported, and its id is stored", || {
        let count = open().query_row("SELECT COUNT(*) FROM node_secrets", [], |row| row.get::<_, i64>(0));
        (count == Ok(1)).then_some(())
    });

    // A day later, and the control plane has been restarted meanwhile: its knowledge of the node is in its
    // database.
    control.kill();
    let ended = open().execute("UPDATE tokens SET expires_at = 1 WHERE kind = 'join'", []);
    assert_eq!(ended.expect("changed"), 1);
    control.start_again();
    let late = NodeProcess::start(&control, &folder.path().join("b"), &["--control-wait", "0"]);
    late.wait_ready("rejected", |_, body| {
        body["control"]["why"].as_str().is_some_and(|why| why.contains("the time for joining"))
    });
    node.wait_ready("connected again", |_, body| body["control"]["connected"] == true);
    control.create_rule("shop", "push", 1);
    node.wait_denied("shop", "push");
    assert_eq!(late.metric("tollgate_control_connected"), Some(0));
}
