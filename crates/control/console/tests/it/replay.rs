//! Rules on a recorded trace: the tab of a rule, and the preview of the API.

use std::fmt::Write as _;

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

const RULE: &str = "app=SIP_HOTEL&key=pushGeo&max_permits=10&rate=2&terms=yes&action=save";
const PAGE: &str = "/apps/SIP_HOTEL/rules/pushGeo/replay";

/// A server with a rule, and with traces of `ann`, four requests a second for 50 seconds, among other files.
async fn server() -> (ConsoleServer, ConsoleClient) {
    let server = ConsoleServer::start().await;
    let mut admin = ConsoleClient::admin(&server).await;
    assert_eq!(admin.post("/rules/new", RULE).await.status, 303);
    assert!(admin.get(PAGE).await.body.contains("No traces yet"), "and where to put them");
    let traces = server.folder().join("traces");
    assert!(admin.get(PAGE).await.body.contains(&traces.display().to_string()));
    std::fs::create_dir(&traces).expect("a folder");
    let mut trace = String::from("t_ms,client\n");
    for request in 0..200 {
        let _ = writeln!(trace, "{},ann", request * 250);
    }
    for (name, text) in
        [("day.csv", trace.as_str()), (".hidden", "x"), ("empty.csv", ""), ("noise", "\u{0}\n\u{1}\n")]
    {
        std::fs::write(traces.join(name), text).expect("written");
    }
    std::fs::create_dir(traces.join("folder")).expect("a folder");
    std::os::unix::fs::symlink("/etc/passwd", traces.join("link")).expect("a link");
    (server, admin)
}

/// The cells of the row that begins with this text.
fn row<'p>(page: &'p str, text: &str) -> Vec<&'p str> {
    let row = page.split(&format!(">{text}</th>")).nth(1).and_then(|rest| rest.split("</tr>").next());
    let cells = row.expect("a row").split("<td class=\"n\">").skip(1);
    cells.map(|cell| cell.split('<').next().unwrap_or_default()).collect()
}

#[tokio::test]
async fn the_tab_of_a_rule_shows_what_other_numbers_would_have_done_to_a_trace() {
    let (_server, mut ann) = server().await;
    let form = ann.get(PAGE).await.body;
    for trace in ["day.csv", "empty.csv", "noise"] {
        assert!(form.contains(&format!("value=\"{trace}\"")), "{trace}: {form}");
    }
    for other in [".hidden", "folder", "link"] {
        assert!(!form.contains(&format!("value=\"{other}\"")), "{other} is not a trace");
    }
    // Now: a burst of 10 and 2 per second, of 4 per second for 49.75 s: 10 and 99 pass.
    let same = ann.post(PAGE, "trace=day.csv&max_permits=10&rate=2").await;
    assert_eq!(same.status, 200);
    assert_eq!(row(&same.body, "Admitted"), ["109 (54.5 %)"], "{}", same.body);
    assert!(!same.body.contains("Fill in the form"), "nothing differs");
    // With 4 per second all pass.
    let more = ann.post(PAGE, "trace=day.csv&max_permits=10&rate=4").await.body;
    assert_eq!(row(&more, "Admitted"), ["109 (54.5 %)", "200 (100.0 %)"], "{more}");
    assert_eq!(row(&more, "Denied"), ["91 (45.5 %)", "0 (0.0 %)"]);
    assert_eq!(row(&more, "Newly admitted"), ["", "91 (45.5 %)"], "{more}");
    assert_eq!(row(&more, "Burst enough for 99 % of the keys"), ["101", "1"]);
    assert!(more.contains("/apps/SIP_HOTEL/rules/pushGeo?rate=4&#38;max_permits=10"), "to fill in the form");
    assert!(more.contains("<svg") && more.contains("Denied with these numbers"), "a chart");
    // Nothing was changed by that.
    assert!(ann.get("/rules").await.body.contains("2 / s"));

    // In Chinese as well.
    ann.cookie = ann.cookie.map(|cookie| format!("{cookie}; lang=zh"));
    let zh = ann.post(PAGE, "trace=day.csv&max_permits=10&rate=4").await.body;
    assert_eq!(row(&zh, "放行"), ["109 (54.5 %)", "200 (100.0 %)"], "{zh}");
}

#[tokio::test]
async fn what_cannot_be_replayed_says_why_and_no_path_leads_out_of_the_folder() {
    let (_server, mut ann) = server().await;
    for trace in ["none", ".hidden", "folder", "link", "../control.db", "%2Fetc%2Fpasswd", ""] {
        let reply = ann.post(PAGE, &format!("trace={trace}&max_permits=10&rate=2")).await;
        assert_eq!(reply.status, 422, "{trace}");
        assert!(reply.body.contains("There is no such trace"), "{trace}: {}", reply.body);
    }
    for (form, want) in [
        ("trace=empty.csv&max_permits=10&rate=2", "the trace is empty"),
        ("trace=noise&max_permits=10&rate=2", "no line can be replayed"),
        ("trace=day.csv&max_permits=10&rate=2&map=colour%3Dred", "unknown key colour"),
        ("trace=day.csv&max_permits=0&rate=2", "aria-invalid"),
    ] {
        let reply = ann.post(PAGE, form).await;
        assert_eq!(reply.status, 422, "{form}");
        assert!(reply.body.contains(want), "{form}: {}", reply.body);
    }
    // The mapping says which part of a log is the rule's.
    let mapped = ann.post(PAGE, "trace=day.csv&max_permits=10&rate=2&map=admitted%3Dclient%21%3Dann").await;
    assert!(mapped.body.contains("no line can be replayed"), "{}", mapped.body);
}

#[tokio::test]
async fn a_preview_of_the_api_has_the_effect_on_a_trace() {
    let (server, mut ann) = server().await;
    let traces = ann.get("/api/v1/traces").await.body;
    assert!(traces.contains(r#"{"bytes":"#) && traces.contains(r#""name":"day.csv""#), "{traces}");
    let body = |ops: &str, trace: &str| {
        format!(
            r#"{{"app":"SIP_HOTEL","ops":{ops},"trace":"{trace}","map":["descriptors=key=\"pushGeo\""]}}"#
        )
    };
    let ops = r#"[{"op":"put","key":"pushGeo","base":1,"rule":{"max_permits":10,"rate":4}}]"#;
    let reply = ann.json("POST", "/api/v1/preview", None, &body(ops, "day.csv")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    for want in
        [r#""newly_admitted":91"#, r#""newly_denied":0"#, r#""is_partial":false"#, r#""requests":200"#]
    {
        assert!(reply.body.contains(want), "{want}: {}", reply.body);
    }
    let now = ann.json("POST", "/api/v1/preview", None, &body("[]", "day.csv")).await;
    assert!(now.body.contains(r#""difference":null"#) && now.body.contains(r#""denied":91"#), "{}", now.body);
    let none = ann.json("POST", "/api/v1/preview", None, &body(ops, "../control.db")).await;
    assert_eq!(none.status, 404, "{}", none.body);
    let noise = ann.json("POST", "/api/v1/preview", None, &body(ops, "noise")).await;
    assert!(noise.status == 400 && noise.body.contains("no line can be replayed"), "{}", noise.body);

    // A trace has every app's clients in it: a viewer may see the documents, and not what a trace says.
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    assert_eq!(vic.json("POST", "/api/v1/preview", None, &body(ops, "day.csv")).await.status, 403);
    assert_eq!(vic.get(PAGE).await.status, 403);
    assert!(!vic.get("/apps/SIP_HOTEL/rules/pushGeo").await.body.contains("/replay"), "no tab either");
    let mut bob = ConsoleClient::user(&server, "bob", "editor", "SIP_HOTEL").await;
    assert_eq!(bob.json("POST", "/api/v1/preview", None, &body(ops, "day.csv")).await.status, 200);
}
