//! Real input: the requests of an access log, asked over many connections of each surface, one limit a
//! client.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::rls;
use crate::start::rules;
use crate::tollgate::Tollgate;
use crate::{http, resp};

const CONNECTIONS: usize = 16;
const LIMIT: u64 = 20;
/// For each surface a domain with a window and one with a bucket.
const DOMAINS: [(&str, [&str; 2]); 3] = [
    ("grpc", ["window-grpc", "bucket-grpc"]),
    ("http", ["window-http", "bucket-http"]),
    ("resp", ["window-resp", "bucket-resp"]),
];
const EXCERPT: &[u8] = include_bytes!("../../data/access-excerpt.log.gz");

/// The client of every request, in the order of the log.
fn clients() -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(EXCERPT).read_to_string(&mut text).expect("a log in UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// A connection that checks one client after another.
enum Connection {
    Grpc(rls::Client),
    Http(http::Kept),
    Resp(resp::Client),
}

impl Connection {
    async fn open(surface: &str, server: &Tollgate) -> Self {
        match surface {
            "grpc" => Self::Grpc(rls::Client::connect(server.grpc).await.expect("it listens")),
            "http" => Self::Http(http::Kept::connect(server.http).await.expect("it listens")),
            _ => Self::Resp(resp::Client::connect(server.resp).await.expect("it listens")),
        }
    }

    async fn admits(&mut self, domain: &str, client: &str) -> bool {
        match self {
            Self::Grpc(connection) => connection.admits(rls::hit(domain, "remote_address", client)).await,
            Self::Http(connection) => {
                let entry = json!({"key": "remote_address", "value": client});
                let body = json!({"domain": domain, "descriptors": [[entry]]}).to_string();
                let answer = connection.post("/v1/check", &body).await.expect("an answer");
                let said: Value = serde_json::from_str(&answer.body).expect("JSON");
                said["outcome"] == "admit"
            }
            Self::Resp(connection) => {
                let reply = connection.ask(&["TOLLGATE.CHECK", domain, "remote_address", client]).await;
                reply.integers()[0] == 0
            }
        }
    }
}

/// Sends request `i` of the log over connection `i % 16`, all connections at once. Returns the admitted
/// requests of each client.
async fn replay(
    server: &Tollgate,
    surface: &'static str,
    domain: &'static str,
    requests: Arc<Vec<String>>,
) -> BTreeMap<String, u64> {
    let mut sending = tokio::task::JoinSet::new();
    for first in 0..CONNECTIONS {
        let mut connection = Connection::open(surface, server).await;
        let requests = requests.clone();
        sending.spawn(async move {
            let mut admitted = Vec::new();
            for client in requests.iter().skip(first).step_by(CONNECTIONS) {
                if connection.admits(domain, client).await {
                    admitted.push(client.clone());
                }
            }
            admitted
        });
    }
    let mut admitted = BTreeMap::new();
    for client in sending.join_all().await.into_iter().flatten() {
        *admitted.entry(client).or_default() += 1;
    }
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_of_an_access_log_is_admitted_its_limit_and_no_request_more_or_less() {
    // A window of a year, and a bucket that gets a permit back every eighteen days; for each surface counters
    // of its own.
    let window = format!("{{unit: year, requests_per_unit: {LIMIT}}}");
    let bucket =
        format!("{{algorithm: token_bucket, unit: year, requests_per_unit: {LIMIT}, burst: {LIMIT}}}");
    let rules = rules("domain: other\ndescriptors: []\n");
    for (surface, domains) in DOMAINS {
        for (domain, limit) in domains.iter().zip([&window, &bucket]) {
            let text =
                format!("domain: {domain}\ndescriptors:\n  - {{key: remote_address, rate_limit: {limit}}}\n");
            std::fs::write(rules.path().join(format!("{domain}.yaml")), text).expect("it can be written");
        }
        assert!(domains[0].ends_with(surface));
    }
    let server = Tollgate::start(rules.path());
    let requests = Arc::new(clients());
    let mut want = BTreeMap::<String, u64>::new();
    for client in requests.iter() {
        let of_client = want.entry(client.clone()).or_default();
        *of_client = (*of_client + 1).min(LIMIT);
    }
    for (surface, domains) in DOMAINS {
        for domain in domains {
            let admitted = replay(&server, surface, domain, requests.clone()).await;
            assert_eq!(admitted, want, "{domain}");
            let total = admitted.values().sum::<u64>();
            println!("{domain}: {} requests of {} clients, {total} admitted", requests.len(), want.len());
        }
    }
}
