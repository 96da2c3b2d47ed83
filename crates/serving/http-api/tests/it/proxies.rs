//! The URLs of docs/proxies.md for the proxies that no test runs, with the fields that these proxies send.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use crate::common::Server;
use tollgate_http_api::HttpSettings;

const PAGE: &str = include_str!("../../../../../docs/proxies.md");
const RULES: &str = "domain: edge
descriptors:
  - {key: remote_address, rate_limit: {name: per_address, unit: minute, requests_per_unit: 3}}
";

/// The path and query of the URL in the first block of the page in this language.
fn target(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n```{language}\n")).expect("it is there");
    let url = rest.split('"').find(|text| text.starts_with("http://")).expect("the URL");
    url.split_once(":8080").expect("the port").1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_urls_of_ingress_nginx_and_traefik_check_the_clients_address() {
    for (language, field, denial) in
        [("yaml ingress", "x-real-ip", 403), ("yaml traefik", "x-forwarded-for", 429)]
    {
        let server = Server::start(RULES, HttpSettings::default()).await;
        let mut client = server.client().await;
        for (address, status) in [
            ("192.0.2.7", 200),
            ("192.0.2.7", 200),
            ("192.0.2.7", 200),
            ("192.0.2.7", denial),
            ("192.0.2.8", 200),
        ] {
            let fields = format!("{field}: {address}\r\nx-forwarded-uri: /?&hits=0&domain=other\r\n");
            let reply = client.ask("GET", target(language), &fields, "").await;
            let has_wait = reply.header("retry-after").is_some();
            assert_eq!((reply.status, has_wait), (status, status == denial), "{language}: {reply:?}");
        }
    }
}
