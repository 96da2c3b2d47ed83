//! The log of a server whose clients and rules try to forge it.

use super::*;

/// Ends lines, moves the cursor, reverses text, hides in it, and looks like another field.
const HOSTILE: &str =
    "x\n\r\t\u{1b}[2J\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{2028}\u{2029}\u{202e}\u{feff}\" level=\"INFO";

/// Log output in this format for a denial with a hostile key, value and rule.
fn log(format: &str) -> String {
    let key: String = HOSTILE.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let folder = rules(&format!(
        "domain: shop\ndescriptors:\n  - {{key: \"{key}\", rate_limit: {{unit: year, requests_per_unit: 1}}}}\n"
    ));
    let server = ServerProcess::start(folder.path(), &["--log-format", format]);
    let body = serde_json::json!({"domain": "shop", "descriptors": [[{"key": HOSTILE, "value": HOSTILE}]]});
    for outcome in ["admit", "deny"] {
        let (status, reply) = server.post("/v1/check", &body.to_string());
        assert!(status == 200 && reply.contains(&format!("\"outcome\":\"{outcome}\"")), "{reply}");
    }
    server.signal("TERM");
    server.ended().1
}

/// Whether a log viewer would not show this character as it is.
fn is_hidden(c: char) -> bool {
    c.is_control() || HOSTILE.contains(c) && !c.is_ascii()
}

#[test]
fn a_hostile_key_value_and_rule_make_one_line_of_text() {
    let log = log("text");
    assert_eq!(log.chars().find(|&c| c != '\n' && is_hidden(c)), None, "{log}");
    let denials: Vec<&str> = log.lines().filter(|line| line.contains(" denied ")).collect();
    let [denial] = denials[..] else { panic!("one line: {log}") };
    let value = "x\\n\\r\\t\\u{1b}[2J\\u{7f}\\u{85}\\u{9b}\\u{61c}\\u{200b}\\u{2028}\\u{2029}\\u{202e}\\u{feff}\\\" level=\\\"INFO";
    for field in [
        "domain=\"shop\" ",
        "limit=\"1 per year, fixed_window\" ",
        &format!("descriptor=\"{value}={value}\" "),
        "hits=1 ",
        "retry_after_ms=",
    ] {
        assert!(denial.contains(field), "{field} in {denial}");
    }
}

#[test]
fn a_hostile_key_value_and_rule_make_one_object_of_json() {
    let log = log("json");
    assert_eq!(log.chars().find(|&c| c != '\n' && is_hidden(c)), None, "{log}");
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let denial = lines.iter().find(|line| line["message"] == "denied").expect("one");
    assert!(denial["rule"].is_string(), "{denial}");
    assert_eq!(denial["descriptor"], format!("{HOSTILE}={HOSTILE}"));
    assert_eq!(denial["hits"], 1);
    assert!(denial["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{denial}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()));
}
