//! Rules that a live node cannot read: what pages and API say, and how they are published all the same. And
//! rules that share a bucket, in the form.

use tollgate_control::NodeState;
use tollgate_harness::console::{ConsoleClient, ConsoleServer};

const COSTLY: &str = "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&need_permits=20&terms=yes&action=save";

#[tokio::test]
async fn a_page_names_the_nodes_that_cannot_read_a_rule_and_publishes_it_with_one_more_click() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let node = |name: &str, language| NodeState {
        id: name.to_owned(),
        name: name.to_owned(),
        language,
        last_seen_ms: server.now_ms(),
        ..NodeState::default()
    };
    assert!(server.nodes.report(node("edge-1", 1)) && server.nodes.report(node("edge-2", 2)));
    let page = ann.post("/rules/new", COSTLY).await;
    assert_eq!(page.status, 409);
    assert!(page.body.contains("edge-1") && !page.body.contains("edge-2"), "{}", page.body);
    // The page has the whole form again, with the choice.
    for field in [
        "name=\"key\" value=\"pushGeo\"",
        "name=\"need_permits\" value=\"20\"",
        "name=\"old_nodes\" value=\"leave\"",
    ] {
        assert!(page.body.contains(field), "{field}: {}", page.body);
    }
    assert!(server.control.published().borrow().apps.is_empty(), "nothing was published");
    let again = ann.post("/rules/new", &format!("{COSTLY}&old_nodes=leave")).await;
    assert_eq!((again.status, again.place()), (303, "/rules?saved=SIP_HOTEL&version=1"));

    let rule = r#"{"key": "other", "max_permits": 10, "bucket": "backend"}"#;
    let problem = ann.json("POST", "/api/v1/apps/SIP_HOTEL/rules", None, rule).await;
    assert_eq!(problem.status, 409);
    assert!(
        problem.body.contains("/problems/old-nodes") && problem.body.contains("edge-1"),
        "{}",
        problem.body
    );
    let made = ann.json("POST", "/api/v1/apps/SIP_HOTEL/rules?old_nodes=leave", None, rule).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(made.body.contains(r#""bucket":"backend""#), "{}", made.body);
}

#[tokio::test]
async fn the_form_names_the_other_rule_of_a_bucket_beside_the_field_that_differs() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let row = |key: &str, rate: u32| {
        format!("app=SIP_HOTEL&key={key}&max_permits=100&rate={rate}&bucket=backend&terms=yes&action=save")
    };
    assert_eq!(ann.post("/rules/new", &row("search", 5)).await.status, 303);
    let page = ann.post("/rules/new", &row("book", 6)).await;
    assert_eq!(page.status, 422);
    let faults = page.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("search") && faults[0].contains("backend"), "{faults:?}");
    assert!(
        page.body.contains("name=\"bucket\"") && page.body.contains("value=\"backend\""),
        "what was typed"
    );
    assert_eq!(ann.post("/rules/new", &row("book", 5)).await.status, 303);
    let shown = ann.get("/apps/SIP_HOTEL/rules/book").await.body;
    assert!(
        shown.contains("bucket: &quot;backend&quot;") || shown.contains("bucket: &#34;backend&#34;"),
        "{shown}"
    );
}
