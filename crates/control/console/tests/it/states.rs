//! The display of a node in each situation, as in `docs/internal/console-states.md`: its table is the table
//! of this test.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_control::{NodeState, Nodes as _};
use tollgate_fleet_proto::{Report, RuleCounts, Store};
use tollgate_harness::console::{ConsoleClient, ConsoleServer};
use tollgate_harness::{held, live_node};

const PAGE: &str = include_str!("../../../../../docs/internal/console-states.md");
const DAY_MS: i64 = 24 * 3_600_000;

/// The rows of the table below a heading, by the first cell; a cell without its marks of code.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, below) = PAGE.split_once(&format!("## {heading}\n")).expect("the heading");
    let section = below.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', ""));
        cells.collect::<Vec<_>>()
    };
    rows.map(cells).collect()
}

fn node(id: &str, last_seen_ms: i64, acked: u64, wanted: u64) -> NodeState {
    let apps = vec![held("SIP_HOTEL", wanted, acked)];
    NodeState { language: 9, apps, ..live_node(id, last_seen_ms) }
}

/// A control plane whose version 1 of an app is on the nodes `other` and `it`.
struct TwoNodes {
    server: ConsoleServer,
    ann: ConsoleClient,
}

impl TwoNodes {
    async fn new() -> Self {
        let server = ConsoleServer::start().await;
        let mut ann = ConsoleClient::admin(&server).await;
        assert_eq!(ann.post("/rules/new", crate::GOOD).await.status, 303);
        let world = Self { server, ann };
        world.at("it", 0, 1, 1);
        world
    }

    /// A node said something `ago_ms` ago.
    fn at(&self, id: &str, ago_ms: i64, acked: u64, wanted: u64) {
        assert!(self.server.nodes.report(node(id, self.server.now_ms() - ago_ms, acked, wanted)));
    }

    /// `it` reports its store and so many decisions.
    async fn report(&self, available: bool, admitted: u64) {
        let domain = "SIP_HOTEL".to_owned();
        let rule = "key=pushGeo".to_owned();
        let counts = RuleCounts { domain, rule, admitted, ..RuleCounts::default() };
        let rules = if admitted > 0 { vec![counts] } else { Vec::new() };
        let store = Some(Store { name: "redis".to_owned(), available });
        let wall_ms = self.server.now_ms().unsigned_abs();
        self.server.report("it", Report { span_ms: 5_000, rules, store, wall_ms, ..Report::default() }).await;
    }

    /// Makes the situation of a row; `false` if there is none of this name.
    async fn make(&mut self, situation: &str) -> bool {
        if !situation.starts_with("known from before") {
            self.report(true, 5).await;
        }
        match situation {
            "live" => {}
            "idle" => self.report(true, 0).await,
            "idle, and its store is down" => self.report(false, 0).await,
            "idle, and its store is back" => {
                self.report(false, 0).await;
                self.report(true, 0).await;
            }
            "behind for 30 s" => {
                self.server.pass(30_000);
                self.at("it", 0, 0, 1);
            }
            "behind for 31 s" => {
                self.server.pass(31_000);
                self.at("it", 0, 0, 1);
            }
            "silent for 14 s" => self.server.pass(14_999),
            "down, silent for 15 s" => self.server.pass(15_000),
            "down, silent for 60 s" => self.server.pass(60_000),
            "down, silent for more than a day" => self.server.pass(DAY_MS + 1),
            "back after a restart of its own" => {
                self.server.pass(60_000);
                self.at("it", 0, 1, 1);
            }
            "known from before a restart of the control plane, for 14 s" => self.known_for(14_999),
            "known from before a restart of the control plane, for 15 s" => self.known_for(15_000),
            "removed" => self.remove().await,
            "removed, and attaches again" => {
                self.remove().await;
                self.at("it", 0, 1, 1);
            }
            _ => return false,
        }
        // Logins do not last for a day.
        self.ann = ConsoleClient::again(&self.server).await;
        // The other node reports all the time.
        self.at("other", 0, 1, 1);
        true
    }

    /// As after a restart of the control plane: what the database has of a node, and no report.
    fn known_for(&self, ms: i64) {
        let known =
            NodeState { is_connected: false, apps: Vec::new(), ..node("it", self.server.now_ms(), 0, 0) };
        assert!(self.server.nodes.report(known));
        self.server.pass(ms);
    }

    async fn remove(&mut self) {
        self.server.pass(60_000);
        assert_eq!(self.ann.send("DELETE", "/api/v1/nodes/it", &[], "").await.status, 200);
    }

    /// The cells of the row after the situation, as the API and the pages in English show them.
    async fn shown(&mut self) -> Vec<String> {
        let api = self.ann.get("/api/v1/nodes").await.value();
        let it = api["nodes"].as_array().and_then(|all| all.iter().find(|it| it["id"] == "it")).cloned();
        let page = self.ann.get("/nodes").await.body;
        let row = page.split("<tr>").find(|row| row.contains("title=\"it\"")).map(str::to_owned);
        assert_eq!(row.is_some(), it.is_some(), "page and API name the same nodes");
        let problems = self.ann.get("/api/v1/problems").await.value();
        let problems = problems["problems"].as_array().cloned().unwrap_or_default();
        let of_it = problems.iter().filter(|problem| problem["node"] == "it");
        let kinds: Vec<&str> = of_it.filter_map(|problem| problem["kind"].as_str()).collect();
        let problems = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        let counts = live(&self.ann.get("/rules").await.body, "live on ");
        let Some((it, row)) = it.zip(row) else {
            return vec!["–".into(), "–".into(), counts, "–".into(), "–".into(), problems];
        };
        let state = it["state"].as_str().unwrap_or_default().to_owned();
        assert!(row.contains(&format!(">{state}</span>")), "{row}");
        let apps = row.split("<td class=\"n\">").nth(1).and_then(|cell| cell.split(['<']).next());
        let store = match (&it["store"], &it["store_available"]) {
            (Value::String(name), Value::Bool(true)) => name.clone(),
            (Value::String(name), Value::Bool(false)) => format!("{name} unavailable"),
            _ => "unknown".to_owned(),
        };
        for word in store.split(' ') {
            assert!(row.contains(word), "{word}: {row}");
        }
        let connected = if it["connected"] == true { "yes" } else { "no" };
        vec![state, connected.to_owned(), counts, apps.unwrap_or_default().trim().to_owned(), store, problems]
    }
}

/// The text of a page that begins so, up to its tag's end.
fn live(page: &str, begins: &str) -> String {
    let at = page.find(begins).unwrap_or_else(|| panic!("{begins} is missing: {page}"));
    page[at..].split('<').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_node_is_shown_in_every_situation_as_the_page_of_states_says() {
    let rows = table("Nodes");
    assert!(rows.len() >= 15, "{rows:?}");
    for row in rows {
        let mut world = TwoNodes::new().await;
        let (situation, cells) = row.split_first().expect("cells");
        assert!(world.make(situation).await, "no test makes the situation {situation:?}");
        // A stream that has ended is what a node that is down leaves.
        let now_ms = world.server.now_ms();
        for node in world.server.nodes.nodes().into_iter().filter(|it| !it.is_live(now_ms)) {
            world.server.nodes.report(NodeState { is_connected: false, ..node });
        }
        assert_eq!(world.shown().await, cells, "{situation}");
        // The same numbers in Chinese, on every page that has them.
        let english = cells[2].as_str();
        let numbers: Vec<&str> =
            english.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty()).collect();
        let offline = numbers.get(2).map_or_else(String::new, |it| format!("，{it} 个不在线"));
        let chinese = format!("已在 {}/{} 节点生效{offline}", numbers[0], numbers[1]);
        for path in
            ["/", "/rules", "/nodes", "/rules?saved=SIP_HOTEL&version=1", "/apps/SIP_HOTEL/rules/pushGeo"]
        {
            assert!(world.ann.get(path).await.body.contains(english), "{situation} {path}: {english}");
            let page = world.ann.send("GET", path, &["Accept-Language: zh-CN"], "").await.body;
            assert!(page.contains(&chinese), "{situation} {path}: {chinese}");
        }
    }
}

#[tokio::test]
async fn a_node_that_is_silent_for_thirty_days_is_not_kept() {
    let world = TwoNodes::new().await;
    world.server.control.write_nodes_once().await.expect("written");
    world.server.pass(30 * DAY_MS + 1);
    world.server.nodes.forget("it");
    world.server.control.write_nodes_once().await.expect("written");
    let known = world.server.control.known_nodes().await.expect("nodes");
    assert!(known.is_empty(), "{known:?}");
}

/// An app on pages and in the API, by the state of the app and of its rule.
#[tokio::test]
async fn a_rule_of_a_disabled_app_is_in_force_nowhere_and_each_page_says_so() {
    let texts = BTreeMap::from([("en", "app disabled"), ("zh-CN", "应用已停用")]);
    for (state, is_disabled) in [("active", false), ("disabled", true)] {
        let mut world = TwoNodes::new().await;
        world.at("other", 0, 1, 1);
        let app = "/api/v1/apps/SIP_HOTEL";
        let etag = world.ann.get(app).await.field("etag").expect("an etag").to_owned();
        let body = format!(r#"{{"state": "{state}"}}"#);
        assert_eq!(world.ann.json("PUT", app, Some(&etag), &body).await.status, 200);
        for (lang, text) in &texts {
            for path in
                ["/rules", "/apps/SIP_HOTEL/rules/pushGeo", "/apps/SIP_HOTEL/versions", "/versions", "/"]
            {
                let page = world.ann.send("GET", path, &[&format!("Accept-Language: {lang}")], "").await.body;
                assert_eq!(page.contains(text), is_disabled, "{path} in {lang}");
            }
        }
        let asked = "domain=SIP_HOTEL&entry=key%3DpushGeo";
        for path in [
            "/api/v1/apps/SIP_HOTEL/rules/pushGeo".to_owned(),
            format!("/api/v1/keys?{asked}"),
            format!("/api/v1/explain?app=SIP_HOTEL&{asked}"),
        ] {
            let found = world.ann.get(&path).await.value();
            assert_eq!(found["app_disabled"], is_disabled, "{path}: {found}");
        }
        let page = world.ann.get(&format!("/keys?{asked}")).await.body;
        assert_eq!(
            page.contains("the app is disabled, so none of its rules is in force"),
            is_disabled,
            "{page}"
        );
    }
}
