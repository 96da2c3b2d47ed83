//! Rollouts over pages and API: the plan of an app, what a rollout shows, who may move it on.

use tollgate_control::{NodeApp, NodeState, Roller};
use tollgate_harness::console::{ConsoleClient, ConsoleReply, ConsoleServer};
use tollgate_harness::{held, live_node};

use crate::schema::fault;

const APP: &str = "/api/v1/apps/SIP_HOTEL";
const API: &str = "/api/v1/apps/SIP_HOTEL/rollout";
const PAGE: &str = "/apps/SIP_HOTEL/rollout";

/// As a form has it.
fn etag(reply: &ConsoleReply) -> String {
    reply.etag().trim_matches('"').to_owned()
}

fn report(server: &ConsoleServer, id: &str, acked: u64, fault: Option<&str>) {
    let fault = fault.map(str::to_owned);
    let app = NodeApp { fault, fault_version: 2, ..held("SIP_HOTEL", 2, acked) };
    let node = live_node(id, server.now_ms());
    server.nodes.report(NodeState { language: u32::MAX, apps: vec![app], ..node });
}

/// Version 2 of the app is on its way to one of three nodes.
async fn rolling(server: &ConsoleServer, ann: &mut ConsoleClient) -> Roller {
    let rule = r#"{"key": "pushGeo", "max_permits": 100, "rate": 5}"#;
    assert_eq!(ann.json("POST", &format!("{APP}/rules"), None, rule).await.status, 201);
    let now = ann.get(APP).await;
    let plan = r#"{"rollout": {"steps": ["1 node", "50 %", "all"], "soak_s": 30}}"#;
    let set = ann.json("PUT", APP, now.field("etag"), plan).await;
    assert_eq!(set.status, 200, "{}", set.body);
    for id in ["n1", "n2", "n3"] {
        report(server, id, 1, None);
    }
    let rule = r#"{"key": "second", "max_permits": 100, "rate": 5}"#;
    assert_eq!(ann.json("POST", &format!("{APP}/rules"), None, rule).await.status, 201);
    let mut roller = Roller::take_over(&server.control).await.expect("taken over");
    roller.look(&server.control).await.expect("looked");
    roller
}

#[tokio::test]
async fn the_plan_of_an_app_is_one_step_per_line_and_its_faults_are_beside_the_fields() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.json("POST", "/api/v1/apps", None, r#"{"app": "SIP_HOTEL"}"#).await;
    let shown = ann.get("/apps/SIP_HOTEL/settings").await.body;
    assert!(shown.contains("id=\"steps\"") && shown.contains("name=\"soak_s\" value=\"60\""), "{shown}");
    for (steps, soak_s, faults) in [
        ("1+node%0A10+%25", "60", vec!["the last step, and only the last one, must be all"]),
        ("50+%25%0A10+%25%0Aall", "60", vec!["each step must reach more nodes than the one before"]),
        (
            "%3Cscript%3E%0Aall",
            "60",
            vec!["expected one step per line, such as 1 node, 10 %, zone in (a, b) or all"],
        ),
        ("all", "-1", vec!["expected a whole number from 0 to 86400"]),
    ] {
        let form = format!("steps={steps}&soak_s={soak_s}&auto_rollback=yes&etag=1");
        let rejected = ann.post("/apps/SIP_HOTEL/settings", &form).await;
        let shown: Vec<String> = rejected.faults().iter().map(|it| it.to_lowercase()).collect();
        assert_eq!(
            (rejected.status, shown),
            (422, faults.iter().map(|it| it.to_lowercase()).collect()),
            "{steps}"
        );
        assert!(!rejected.body.contains("<script>"));
    }
    let form = "steps=1+node%0Azone+%3D+a%0Aall&soak_s=5&auto_rollback=no&etag=1&description=hotels";
    assert_eq!(ann.post("/apps/SIP_HOTEL/settings", form).await.status, 303);
    let plan = ann.get(APP).await.value()["rollout"].clone();
    assert_eq!(
        plan,
        serde_json::json!({"steps": ["1 node", "zone in (a)", "all"], "soak_s": 5, "auto_rollback": false})
    );
    // What a reply has can be sent back, and a form without the fields leaves the plan alone.
    let now = ann.get(APP).await;
    assert_eq!(ann.json("PUT", APP, now.field("etag"), &now.body).await.status, 200);
    assert_eq!(ann.post("/apps/SIP_HOTEL/settings", "description=x&etag=3").await.status, 303);
    assert_eq!(ann.get(APP).await.value()["rollout"], plan);
    for (body, status) in [
        (r#"{"rollout": {"steps": ["some"]}}"#, 400),
        (r#"{"rollout": {"steps": ["10 %"]}}"#, 422),
        (r#"{"rollout": {"steps": ["all"], "soak_s": 86401}}"#, 422),
        (r#"{"rollout": {"steps": ["all"], "more": 1}}"#, 400),
        (r#"{"rollout": {"steps": []}}"#, 200),
    ] {
        let now = ann.get(APP).await;
        assert_eq!(ann.json("PUT", APP, now.field("etag"), body).await.status, status, "{body}");
    }
}

#[tokio::test]
async fn a_rollout_is_shown_with_its_steps_gates_figures_and_nodes_as_described() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    assert_eq!(ann.get(API).await.status, 404);
    assert!(ann.get("/rollouts").await.body.contains("No rollouts yet"));
    let mut roller = rolling(&server, &mut ann).await;
    let document = ann.get("/openapi.json").await.value();
    let schema = document["components"]["schemas"]["Rollout"].clone();
    let one = ann.get(API).await.value();
    assert_eq!(fault(&document, &schema, &one, "rollout"), None, "{one}");
    assert_eq!((&one["state"], &one["version"], &one["step"]), (&"running".into(), &2.into(), &1.into()));
    let waiting = |one: &serde_json::Value| -> Vec<String> {
        let nodes = one["nodes"].as_array().expect("nodes").clone();
        let waiting = nodes.into_iter().filter(|it| it["stage"] == "waiting");
        waiting.map(|it| it["id"].as_str().expect("an id").to_owned()).collect()
    };
    let chosen = waiting(&one);
    assert_eq!(chosen.len(), 1, "{one}");
    let page = ann.get(PAGE).await.body;
    for text in ["SIP_HOTEL · Version 2", "running", "0 / 1", "30 s", "fewer than 500 decisions", "waiting"]
    {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    assert!(ann.get("/rollouts").await.body.contains("1 / 3 · 1 node"));
    report(&server, &chosen[0], 1, Some("<b>is bad</b>"));
    roller.look(&server.control).await.expect("looked");
    let page = ann.get(PAGE).await.body;
    assert!(page.contains(&format!("rejected by {}", chosen[0])) && !page.contains("<b>is bad"), "{page}");
    assert!(page.contains("&#60;b&#62;is bad") && page.contains("The rollout has ended"), "{page}");
    let one = ann.get(API).await.value();
    assert_eq!(fault(&document, &schema, &one, "rollout"), None, "{one}");
    assert_eq!((&one["state"], &one["withdrawn_version"]), (&"withdrawn".into(), &3.into()));
    let list = ann.get("/api/v1/rollouts?app=SIP_HOTEL").await.value();
    let described = &document["paths"]["/api/v1/rollouts"]["get"]["responses"]["200"]["content"];
    assert_eq!(fault(&document, &described["application/json"]["schema"], &list, "list"), None);
    let overview = ann.get("/").await.body;
    assert!(overview.contains(PAGE), "the problem leads to the rollout: {overview}");
    assert!(ann.get("/apps/SIP_HOTEL/versions").await.body.contains("withdrawal"));
    // The same in Chinese.
    ann.post("/preferences", "lang=zh&back=/rollouts").await;
    let page = ann.get(PAGE).await.body;
    assert!(page.contains("节点拒绝了新版本") && page.contains("已撤回"), "{page}");
}

#[tokio::test]
async fn approvers_move_a_rollout_on_and_others_see_it() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let mut roller = rolling(&server, &mut ann).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    let mut eve = ConsoleClient::user(&server, "eve", "editor", "SIP_HOTEL").await;
    let mut bob = ConsoleClient::user(&server, "bob", "approver", "SIP_HOTEL").await;
    let mut out = ConsoleClient::user(&server, "out", "admin", "OTHER").await;
    assert_eq!((out.get(PAGE).await.status, out.get(API).await.status), (403, 403));
    assert!(out.get("/rollouts").await.body.contains("No rollouts yet"));
    let pause = |etag: &str| format!("action=pause&etag={etag}");
    let now = etag(&bob.get(API).await);
    for other in [&mut vic, &mut eve] {
        let page = other.get(PAGE).await;
        assert!(page.status == 200 && !page.body.contains("value=\"pause\""), "no button");
        assert!(page.body.contains("need the role approver"));
        assert_eq!(other.post(PAGE, &pause(&now)).await.status, 403);
    }
    assert!(bob.get(PAGE).await.body.contains("value=\"pause\""));
    assert_eq!(bob.json("POST", &format!("{API}/pause"), None, "").await.status, 428);
    assert_eq!(bob.post(PAGE, &pause(&now)).await.place(), PAGE);
    let stale = bob.post(PAGE, &pause(&now)).await;
    assert!(stale.status == 412 && stale.body.contains("moved meanwhile"), "{}", stale.body);
    let now = etag(&bob.get(API).await);
    let twice = bob.post(PAGE, &pause(&now)).await;
    assert!(twice.status == 409 && twice.body.contains("not possible"), "{}", twice.body);
    let twice = bob.json("POST", &format!("{API}/pause"), Some(&format!("\"{now}\"")), "").await;
    assert!(twice.status == 409 && twice.body.contains("/problems/wrong-state"), "{}", twice.body);
    let resumed = bob.json("POST", &format!("{API}/resume"), Some(&format!("\"{now}\"")), "").await;
    assert_eq!(resumed.value()["state"], "running", "{}", resumed.body);
    let old = bob.json("POST", &format!("{API}/advance"), Some(&format!("\"{now}\"")), "").await;
    assert_eq!((old.status, old.value()["state"].as_str()), (412, Some("running")), "the newer object");
    let now = etag(&old);
    let advanced = bob.post(PAGE, &format!("action=advance&etag={now}")).await;
    assert_eq!(advanced.place(), PAGE);
    roller.look(&server.control).await.expect("looked");
    let now = etag(&bob.get(API).await);
    let wordless = bob.post(PAGE, &format!("action=withdraw&etag={now}&reason=")).await;
    assert_eq!((wordless.status, wordless.faults()), (422, vec!["Required"]));
    let withdrawn = bob.post(PAGE, &format!("action=withdraw&etag={now}&reason=%3Ci%3Eslow%3C%2Fi%3E")).await;
    assert_eq!(withdrawn.status, 303);
    let page = bob.get(PAGE).await.body;
    assert!(page.contains("&#60;i&#62;slow") && !page.contains("value=\"pause\""), "{page}");
    let audit = ann.get("/api/v1/audit?action=rollout.withdraw").await.body;
    assert!(audit.contains("<i>slow</i>") && audit.contains("\"actor\":\"bob\""), "{audit}");
}

#[tokio::test]
async fn publishing_a_change_set_offers_the_plan_and_waits_for_an_open_rollout() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let rule = r#"{"key": "pushGeo", "max_permits": 100, "rate": 5}"#;
    ann.json("POST", &format!("{APP}/rules"), None, rule).await;
    report(&server, "n1", 1, None);
    let draft = |key: &str| {
        format!(
            r#"{{"app": "SIP_HOTEL", "ops": [{{"op": "put", "key": "{key}", "rule": {{"max_permits": 5}}}}]}}"#
        )
    };
    let made = ann.json("POST", "/api/v1/changes", None, &draft("one")).await;
    let place = format!("/changes/{}", made.value()["id"].as_str().expect("an id"));
    let page = ann.get(&place).await.body;
    assert!(page.contains("all nodes at once") && page.contains("id=\"steps\""), "{page}");
    let mut eve = ConsoleClient::user(&server, "eve", "editor", "SIP_HOTEL").await;
    assert!(eve.get(&place).await.body.contains("<fieldset disabled>"));
    let form = |steps: &str| format!("action=publish&etag=1&steps={steps}&soak_s=60&auto_rollback=yes");
    assert_eq!(eve.post(&place, &form("1+node%0Aall")).await.status, 403, "not the plan of the app");
    let wrong = ann.post(&place, &form("1+node")).await;
    assert_eq!((wrong.status, wrong.faults().len()), (422, 1));
    assert!(wrong.body.contains("<details open>"), "the fault is seen");
    assert_eq!(ann.post(&place, &form("1+node%0Aall")).await.place(), PAGE, "to what is worth watching");
    assert!(ann.get(&place).await.body.contains(&format!("href=\"{PAGE}\"")));

    let second = ann.json("POST", "/api/v1/changes", None, &draft("two")).await;
    let place = format!("/changes/{}", second.value()["id"].as_str().expect("an id"));
    assert!(ann.get(&place).await.body.contains("A version of this app is being rolled out"));
    assert_eq!(ann.post(&place, "action=publish&etag=1").await.status, 409);
    let publish = format!("/api/v1{place}/publish");
    let waits = ann.json("POST", &publish, Some("\"1\""), "").await;
    assert!(waits.status == 409 && waits.body.contains("/problems/rollout-open"), "{}", waits.body);
    let form = "app=SIP_HOTEL&key=three&max_permits=10&rate=1&terms=yes&action=save";
    let waits = ann.post("/rules/new", form).await;
    assert!(waits.status == 409 && waits.body.contains(PAGE), "it leads to the rollout: {}", waits.body);
    let mut now = ann.get(API).await;
    now = ann.json("POST", &format!("{API}/withdraw"), now.field("etag"), r#"{"reason": "x"}"#).await;
    assert_eq!(now.status, 200, "{}", now.body);
    let own = r#"{"rollout": {"steps": ["all"], "soak_s": 1}}"#;
    assert_eq!(ann.json("POST", &publish, Some("\"1\""), own).await.status, 200);
    assert_eq!(ann.get(API).await.value()["plan"]["soak_s"], 1);
}
