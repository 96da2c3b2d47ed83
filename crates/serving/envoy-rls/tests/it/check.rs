//! `tollgate.check.v1.CheckService`: exact answers, and leases.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_envoy_rls::proto::check::{
    CheckRequest, CheckResponse, LeaseRequest, LeaseResponse, Offer, ReturnRequest, ReturnResponse,
};
use tollgate_envoy_rls::proto::rls::{Duration, Entry};

use crate::common::{GrpcClient, Server};

const CHECK: &str = "/tollgate.check.v1.CheckService/Check";
const LEASE: &str = "/tollgate.check.v1.CheckService/Lease";
const RETURN: &str = "/tollgate.check.v1.CheckService/Return";

fn entries(key: &str) -> Vec<Entry> {
    vec![Entry { key: key.into(), value: "ann".into() }]
}

fn about(key: &str) -> CheckRequest {
    CheckRequest { domain: "shop".into(), entries: entries(key), ..CheckRequest::default() }
}

async fn check(client: &mut GrpcClient, key: &str, hits: u64) -> CheckResponse {
    let request = CheckRequest { hits: Some(hits), ..about(key) };
    client.unary(CHECK, request).await.expect("an answer")
}

async fn lease(client: &mut GrpcClient, key: &str, permits: u64) -> LeaseResponse {
    let request = LeaseRequest { domain: "shop".into(), entries: entries(key), permits };
    client.unary(LEASE, request).await.expect("an answer")
}

fn ms(ms: i32) -> Option<Duration> {
    Some(Duration { seconds: 0, nanos: ms * 1_000_000 })
}

#[tokio::test]
async fn an_answer_has_exact_times_and_the_rule() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let first = check(&mut client, "leased", 500).await;
    assert_eq!((first.admitted, first.limit, first.remaining), (true, Some(1_000), Some(500)));
    assert_eq!((first.rule.as_str(), first.retry_after), ("leased", ms(0)));
    let denied = check(&mut client, "leased", 507).await;
    assert_eq!((denied.admitted, denied.retry_after, denied.delay), (false, ms(7), ms(0)));
    let never = check(&mut client, "leased", 1_001).await;
    assert_eq!((never.admitted, never.retry_after), (false, None));
    let free = check(&mut client, "unknown", 1).await;
    assert_eq!((free.admitted, free.limit, free.rule.as_str()), (true, None, ""));
    for max_wait in [Duration { seconds: -1, nanos: 0 }, Duration { seconds: 0, nanos: 1_000_000_000 }] {
        let request = CheckRequest { max_wait: Some(max_wait), ..about("leased") };
        let status = client.unary::<_, CheckResponse>(CHECK, request).await.expect_err("no time");
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    }
}

#[tokio::test]
async fn a_sixteenth_of_a_leased_bucket_is_leased_while_half_of_it_is_left() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let offer = check(&mut client, "leased", 4).await.offer;
    assert_eq!(offer, Some(Offer { permits: 62, refill: ms(62) }));
    let LeaseResponse { id, refill } = lease(&mut client, "leased", 62).await;
    assert_eq!((id.len(), refill), (32, ms(62)));
    for _ in 0..2 {
        let back = ReturnRequest { id: id.clone(), used: 10 };
        let back: ReturnResponse = client.unary(RETURN, back).await.expect("an answer");
        assert_eq!(back.returned, 52, "once, whatever is repeated");
    }
    assert_eq!(check(&mut client, "leased", 0).await.remaining, Some(986));

    assert_eq!(lease(&mut client, "leased", 63).await, LeaseResponse::default(), "more than a sixteenth");
    let left = check(&mut client, "leased", 480).await;
    assert_eq!((left.remaining, left.offer), (Some(506), None), "little above half");
    assert!(!lease(&mut client, "leased", 6).await.id.is_empty());
    assert_eq!(lease(&mut client, "leased", 1).await, LeaseResponse::default(), "below half");
    for key in ["api_key", "unknown", "shadowed"] {
        assert_eq!(check(&mut client, key, 0).await.offer, None);
        assert_eq!(lease(&mut client, key, 1).await, LeaseResponse::default(), "{key} is not leased");
    }
    for (key, remaining) in [("leased", Some(500)), ("api_key", Some(3))] {
        assert_eq!(check(&mut client, key, 0).await.remaining, remaining, "{key}: no trace of the others");
    }
    let gone = ReturnRequest { id: "0".repeat(31) + "2", used: 0 };
    let gone: ReturnResponse = client.unary(RETURN, gone).await.expect("an answer");
    assert_eq!(gone.returned, 0);
    let bad = ReturnRequest { id: "x".into(), used: 0 };
    let status = client.unary::<_, ReturnResponse>(RETURN, bad).await.expect_err("not an id");
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
}

#[tokio::test]
async fn consumed_permits_are_counted_in_full_and_an_answer_says_what_is_owed() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (consumed, left, owed) in [(400, 600, 0), (900, 0, 300), (0, 0, 300)] {
        let request = CheckRequest { consumed: Some(consumed), ..about("leased") };
        let answer: CheckResponse = client.unary(CHECK, request).await.expect("an answer");
        assert_eq!((answer.admitted, answer.remaining, answer.owed), (true, Some(left), owed), "{consumed}");
        assert_eq!(answer.retry_after, ms(0));
    }
    let denied = check(&mut client, "leased", 1).await;
    assert_eq!((denied.admitted, denied.retry_after), (false, ms(301)));
    for request in [
        CheckRequest { consumed: Some(1), hits: Some(1), ..about("leased") },
        CheckRequest { consumed: Some(1), max_wait: ms(1), ..about("leased") },
    ] {
        let status = client.unary::<_, CheckResponse>(CHECK, request).await.expect_err("not both");
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    }
    assert_eq!(check(&mut client, "leased", 0).await.remaining, Some(0));
}
