//! A console with a few rules and three nodes that are not real, to look at.
//!
//! `cargo run -p tollgate-console --example demo`, then open the link that it prints. An address may follow.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that fails says where")]

use std::sync::Arc;

use tokio::sync::watch;
use tollgate_console::{Console, ConsoleSettings};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Actor, Control, KnownNodes, NodeApp, NodeState, Nodes, Usage, rules};
use tollgate_db::TimeSource;
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};

/// Key, burst, rate, description, state, tokens, last use.
const RULES: [(&str, &str, &str, &str, &str, i64, i64); 4] = [
    ("addHotelInfo", "10", "5", "新增酒店信息", "on", 8, 1_524_494_484_445),
    ("alterHotelInfo", "10", "5", "修改酒店信息", "on", 10, 1_524_494_484_445),
    ("deleteHotel", "10", "5", "删除酒店", "shadow", 0, 1_524_494_484_445),
    ("TEST", "2", "1", "测试", "off", 0, 0),
];

#[derive(Default)]
struct DemoNodes(KnownNodes);

impl Nodes for DemoNodes {
    fn nodes(&self) -> Vec<NodeState> {
        self.0.nodes()
    }

    fn usage(&self, _: &str, key: &str) -> Option<Usage> {
        let rule = RULES.iter().find(|it| it.0 == key && it.6 > 0)?;
        Some(Usage { tokens: rule.5, last_used_ms: rule.6 })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = std::env::temp_dir().join(format!("tollgate-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let nodes = Arc::new(DemoNodes::default());
    let shown = Arc::<DemoNodes>::clone(&nodes);
    let control = Arc::new(Control::open(&folder, TimeSource::Database, shown).await.expect("a database"));
    for (key, max_permits, rate, description, state, ..) in RULES {
        let [key, max_permits, rate, description, state] =
            [key, max_permits, rate, description, state].map(str::to_owned);
        let input =
            TableRuleInput { key, max_permits, rate, description, state, ..TableRuleInput::default() };
        let create = control.commit(move |tx| rules::create(tx, &Actor::system(), "HOTEL_SIP", &input));
        create.await.expect("a rule");
    }
    for number in 1..=3 {
        let wanted = 4;
        let node = NodeState {
            id: format!("n{number}"),
            name: format!("node-{number}"),
            address: format!("10.0.0.{number}:41992"),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            is_connected: true,
            last_seen_ms: i64::MAX,
            apps: vec![NodeApp { app: "HOTEL_SIP".to_owned(), wanted, acked: wanted, ..NodeApp::default() }],
            ..NodeState::default()
        };
        nodes.0.report(node);
    }
    let code = control.setup_code().await.expect("a code").expect("no user yet");
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8070".to_owned());
    let listener = tokio::net::TcpListener::bind(&*address).await.expect("a free address");
    println!("http://{address}/setup?code={code}");
    let console = Console::new(control, ConsoleSettings::default());
    let surface = Arc::new(HttpSurface::new(console, SurfaceSettings::default()));
    let (_running, drain) = watch::channel(false);
    let limits = Arc::new(AcceptLimits::default());
    let stats = Arc::new(ConnectionStats::default());
    accept(listener, surface, None, limits, stats, drain).await;
}
