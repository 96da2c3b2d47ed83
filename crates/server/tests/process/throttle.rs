//! One counter for a key and its limit, over every protocol.

use super::*;

#[test]
fn a_key_that_brings_its_limit_has_one_counter_over_http_and_the_redis_protocol() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &[]);
    let resp = server.says("resp").and_then(|text| text.parse().ok()).expect("an address");
    let throttle = |key: &str| {
        let body = format!(r#"{{"key":"{key}","limit":2,"period_ms":86400000,"burst":4}}"#);
        let (status, body) = server.post("/v1/throttle", &body);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<serde_json::Value>(&body).expect("JSON")
    };
    let cl_throttle = |key: &str| {
        let mut client = connect(resp);
        client.write_all(format!("CL.THROTTLE {key} 3 2 86400\r\nQUIT\r\n").as_bytes()).expect("sent");
        let mut said = String::new();
        client.read_to_string(&mut said).expect("an answer");
        said.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse::<i64>().ok()).collect::<Vec<_>>()
    };
    assert_eq!(throttle("ann")["remaining"], 3);
    assert_eq!(cl_throttle("ann")[..3], [0, 4, 2]);
    assert_eq!(throttle("ann")["remaining"], 1);
    assert_eq!(cl_throttle("ann")[..3], [0, 4, 0]);
    assert_eq!(throttle("ann")["outcome"], "deny");
    assert_eq!(cl_throttle("ann")[0], 1);
    assert_eq!(throttle("bob")["remaining"], 3);
    // Another limit keeps the instant at which the key is full: twelve hours from now.
    let (_, body) = server.post("/v1/throttle", r#"{"key":"bob","limit":1,"period_ms":43200000,"hits":0}"#);
    assert!(body.contains(r#""remaining":0,"#), "{body}");
}
