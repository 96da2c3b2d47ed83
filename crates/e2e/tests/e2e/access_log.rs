//! Real input: the requests of an access log, asked over many connections, one limit a client.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use crate::rls::{self, Client};
use crate::skip;
use crate::start::rules;
use crate::tollgate::Tollgate;

const CONNECTIONS: usize = 16;
const LIMIT: u64 = 20;
/// The first thousand lines, for a clone that has nothing beside it.
const EXCERPT: &[u8] = include_bytes!("../../data/access-excerpt.log.gz");

/// The client of every request, in the order of the log.
fn clients() -> Vec<String> {
    let zipped = match skip::shared("data/apache-combined-2015.log.gz") {
        Some(whole) => std::fs::read(whole).expect("readable"),
        None => {
            skip::skip("9,000 of the 10,000 requests", "the whole log is not beside the project");
            EXCERPT.to_vec()
        }
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(&zipped[..]).read_to_string(&mut text).expect("a log in UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Sends request `i` of the log over connection `i % 16`, all connections at once; what each client was admitted.
async fn replay(
    server: &Tollgate,
    domain: &'static str,
    requests: Arc<Vec<String>>,
) -> BTreeMap<String, u64> {
    let mut sending = tokio::task::JoinSet::new();
    for first in 0..CONNECTIONS {
        let mut connection = Client::connect(server.grpc).await.expect("it listens");
        let requests = requests.clone();
        sending.spawn(async move {
            let mut admitted = Vec::new();
            for client in requests.iter().skip(first).step_by(CONNECTIONS) {
                if connection.admits(rls::hit(domain, "remote_address", client)).await {
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
    let rules = rules(&format!(
        "domain: window\ndescriptors:\n  - {{key: remote_address, rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}}}\n"
    ));
    // A bucket that gets a permit back every eighteen days.
    let bucket = format!(
        "domain: bucket\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      {{algorithm: token_bucket, unit: year, requests_per_unit: {LIMIT}, burst: {LIMIT}}}\n"
    );
    std::fs::write(rules.path().join("bucket.yaml"), bucket).expect("it can be written");
    let server = Tollgate::start(rules.path());
    let requests = Arc::new(clients());
    let mut want = BTreeMap::<String, u64>::new();
    for client in requests.iter() {
        let of_client = want.entry(client.clone()).or_default();
        *of_client = (*of_client + 1).min(LIMIT);
    }
    for domain in ["window", "bucket"] {
        let admitted = replay(&server, domain, requests.clone()).await;
        assert_eq!(admitted, want, "{domain}");
        println!(
            "{domain}: {} requests of {} clients, {} admitted",
            requests.len(),
            want.len(),
            admitted.values().sum::<u64>()
        );
    }
}
